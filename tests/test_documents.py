"""The Python in the documents runs: the blocks of a page are one program.

- A block ```` ```output ```` is what the block of Python before it prints; ``...``
  stands for any text, as in a doctest.
- ```` ```python raises=ShapeError ```` has to raise that; its message ends the output.
- ```` ```python gpu ```` takes a GPU. Such blocks, those that import a library that is
  not installed, and those that need what they define are skipped, and reported so.
"""

from __future__ import annotations

import ast
import doctest
import io
import re
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import nbfused as nf

ROOT = Path(nf.__file__).parents[1]
DOCUMENTS = [path for path in (*ROOT.glob("README.md"),
                               *sorted((ROOT / "docs").rglob("*.md")))
             if "```python" in path.read_text()]
#: Libraries that a reader of a page may have and a machine that tests it may lack.
OPTIONAL = {"cloudpickle", "cupy", "dask", "jax", "matplotlib", "mpi4py", "numba_cuda",
            "scipy", "sklearn", "torch", "triton", "warp"}
#: Pages whose kernels take long: left to the variants.
LONG = {f"docs/{name}.md" for name in (
    "kernels", "how_to/backend_plugin", "how_to/training_step", "how_to/transforms",
    "coming_from/slang", "coming_from/warp", "reference/array_api")}
FENCE = re.compile(r" *(?:[-*] +|\d+\. +)?(`{3,}|~{3,})(.*)")


@dataclass
class Block:
    """A block of Python, and what it prints."""

    line: int
    source: str
    words: tuple[str, ...]
    output: str | None = None

    @property
    def raises(self) -> str | None:
        """The name of the exception that it has to raise."""
        return next((w.removeprefix("raises=") for w in self.words
                     if w.startswith("raises=")), None)

    @property
    def tree(self) -> ast.Module:
        """Its syntax, on the lines of the page."""
        return ast.parse("\n" * self.line + self.source)

    def imports(self) -> set[str]:
        """The packages that it imports."""
        found = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.partition(".")[0])
        return found

    def defines(self) -> set[str]:
        """The names that it binds."""
        found = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.alias):
                found.add((node.asname or node.name).partition(".")[0])
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
        return found

    def uses(self) -> set[str]:
        """The names that it reads."""
        return {node.id for node in ast.walk(self.tree)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def blocks(text: str) -> list[Block]:
    """The blocks of Python of a page, each with the output that follows it."""
    found: list[Block] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        opened = FENCE.fullmatch(lines[at])
        at += 1
        if opened is None:
            continue
        start = at
        while lines[at].strip() != opened[1]:
            at += 1
        language, *words = opened[2].split() or [""]
        inside = textwrap.dedent("\n".join(lines[start:at]) + "\n")
        at += 1
        if language == "python":
            found.append(Block(start, inside, tuple(words)))
        elif language == "output":
            assert found, f"line {start}: an output without a block of Python before it"
            assert found[-1].output is None, f"line {start}: a second output of a block"
            found[-1].output = inside
    return found


@cache
def has_gpu() -> bool:
    """Whether a GPU's backend can be used here."""
    return any(nf.backends()[kind].available for kind in ("cuda", "rocm"))


def missing(block: Block) -> str | None:
    """What a block needs and this machine lacks."""
    assert all(w == "gpu" or w.startswith("raises=") for w in block.words), block.words
    if "gpu" in block.words and not has_gpu():
        return "gpu"
    return next((name for name in sorted(block.imports() & OPTIONAL)
                 if find_spec(name) is None), None)


@dataclass
class Plan:
    """The blocks of a page that run here, and those that do not, by what they need."""

    run: list[Block] = field(default_factory=list)
    skipped: dict[str, list[Block]] = field(default_factory=dict)


def plan(found: list[Block]) -> Plan:
    """Divide the blocks of a page by what they need, themselves or through others."""
    made, lost = Plan(), dict[str, str]()
    for block in found:
        needs = missing(block) or next(
            (lost[name] for name in sorted(block.uses() - block.defines())
             if name in lost), None)
        if needs is None:
            made.run.append(block)
            for name in block.defines():
                lost.pop(name, None)
            continue
        made.skipped.setdefault(needs, []).append(block)
        kept = {name for ran in made.run for name in ran.defines()}
        lost |= dict.fromkeys(block.defines() - kept, needs)
    return made


def run_block(block: Block, module: ModuleType, program: Path) -> None:
    """Run a block, and compare what it prints."""
    printed = io.StringIO()
    place = f"line {block.line}"
    with ExitStack() as stack:
        if "gpu" not in block.words:
            stack.enter_context(nf.use_backend("cpu"))
        stack.enter_context(redirect_stdout(printed))
        try:
            code = compile(block.tree, str(program), "exec", dont_inherit=True)
            exec(code, vars(module))
        except Exception as error:
            if type(error).__name__ != block.raises:
                raise
            printed.write(f"{block.raises}: {error}\n")
        else:
            assert block.raises is None, f"{place} does not raise {block.raises}"
    if block.output is not None:
        wanted, got = (f"{text.rstrip()}\n" for text in (
            block.output, printed.getvalue()))
        same = doctest.OutputChecker().check_output(wanted, got, doctest.ELLIPSIS)
        assert same, (f"{place} prints\n{printed.getvalue()}"
                      f"where the page has\n{block.output}")


def run_page(text: str, program: Path) -> None:
    """Run the blocks of a page, in order and in one namespace.

    Kernels are parsed from a file, whose lines are those of the page.
    """
    made = plan(blocks(text))
    lines = [""] * len(text.splitlines())
    for block in made.run:
        inside = block.source.splitlines()
        lines[block.line:block.line + len(inside)] = inside
    program.write_text("\n".join(lines))
    module = ModuleType("__main__")
    for block in made.run:
        run_block(block, module, program)


def cases() -> Iterator[Any]:
    """Each page, and what it has blocks for that this machine lacks.

    One with blocks for a GPU is there again, for runs of the tests that take one.
    """
    for path in DOCUMENTS:
        name = str(path.relative_to(ROOT))
        yield pytest.param(path, None, id=name,
                           marks=pytest.mark.variants if name in LONG else ())
        found = blocks(path.read_text())
        for needs in plan(found).skipped.keys() - {"gpu"}:
            yield pytest.param(path, needs, id=f"{name}-{needs}")
        if any("gpu" in block.words for block in found):
            yield pytest.param(path, None, id=f"{name}-gpu", marks=pytest.mark.gpu)


@pytest.mark.skipif(not DOCUMENTS, reason="the documents are not installed")
@pytest.mark.parametrize(("path", "needs"), [*cases()])
def test_the_program_in_a_document_runs(path, needs, tmp_path):
    if needs is not None:
        left = plan(blocks(path.read_text())).skipped[needs]
        pytest.skip(f"{len(left)} blocks need {needs}: lines "
                    f"{', '.join(str(block.line) for block in left)}")
    run_page(path.read_text(), tmp_path / f"{path.stem}.py")


PAGE = """
```python
import nbfused as nf

@nf.elementwise
def twice(x):
    return 2.0 * x

print(twice(1.5))
```

It prints

```output
3.0
```

```python raises=KernelTypeError
twice([1.0])
```

```output
KernelTypeError: twice: ...
```

````markdown
```python
1 / 0
```
````

- ```python
  three = twice(1.5)
  ```
"""


def test_a_page_runs(tmp_path):
    run_page(PAGE, tmp_path / "page.py")


@pytest.mark.parametrize(("old", "new", "message"), [
    ("3.0\n", "4.0\n", "line 2 prints"),
    ("twice([1.0])", "twice(1.0)", "line 18 does not raise KernelTypeError"),
    ("KernelTypeError: twice: ...", "KernelTypeError: none", "line 18 prints"),
    ("python raises", "python norun raises", "norun"),
    ("```python\nimport", "```text\nimport", "an output without a block of Python"),
])
def test_a_wrong_page_is_found(old, new, message, tmp_path):
    with pytest.raises(AssertionError, match=re.escape(message)):
        run_page(PAGE.replace(old, new, 1), tmp_path / "page.py")


def test_an_error_in_a_page_is_found(tmp_path):
    with pytest.raises(ZeroDivisionError):
        run_page(PAGE.replace("twice(1.5)\n  ", "1 / 0\n  "), tmp_path / "page.py")


def test_blocks_that_need_what_is_missing_are_left_out(monkeypatch):
    monkeypatch.setattr("tests.test_documents.OPTIONAL", {"not_installed"})
    made = plan(blocks("""
```python
import math
x = 1
```
```python
import not_installed
y = not_installed.array(x)
```
```python
z = y + math.pi
```
```python
z = x
```
```python
print(z)
```
"""))
    assert [block.line for block in made.skipped["not_installed"]] == [6, 10]
    assert [block.line for block in made.run] == [2, 13, 16]
