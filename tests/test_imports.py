"""Who may import whom: the table of the design, read from the sources.

Arrows never point back: an op knows no backend, a backend knows no op and no tape, the
scalar language knows no array.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import nbfused
from tests.variants import sampled

ROOT = Path(nbfused.__file__).parent

ANYTHING = {"__main__", "demo", "examples", "nbfused", "public", "registry.report",
            "testing"}

#: What every part may import.
EVERYONE = {"errors", "support"}
#: For each part of the package, the parts that it may import.  A part is a package
#: directly below `nbfused`, or one of its modules that is named here.
MAY_IMPORT = {
    "errors": "",
    "version": "",
    "config": "",
    "support": "",
    "cache": "config version",
    "scalar": "",
    "specs": "scalar",
    "backend": "scalar specs version",
    "registry": "backend config registry.operations version",
    "registry.operations": "",
    "arrays": "backend config registry registry.operations",
    "dispatch": "arrays backend config registry scalar specs",
    "autograd": "arrays cache config dispatch registry.operations scalar specs",
    "op": "arrays autograd dispatch registry.operations scalar specs",
    "numpy_functions": "arrays autograd dispatch op registry.operations scalar specs",
    "array_api": "arrays autograd numpy_functions registry registry.operations",
    "ops": "arrays autograd config numpy_functions op scalar specs",
    "gpu": "arrays backend config scalar specs cache version",
    "cpu": "arrays backend config scalar specs cache",
    "cuda": "arrays backend config cuda.isa gpu scalar specs cache version",
    "cuda.isa": "scalar",
    "rocm": "arrays backend config gpu scalar specs cache",
    "kernels": "arrays autograd backend config dispatch op ops registry "
               "registry.operations scalar specs cache",
    "distributed": "arrays autograd config dispatch distributed.engines kernels op ops "
                   "scalar specs",
    "distributed.engines": "arrays",
}
PARTS = {*ANYTHING, *MAY_IMPORT}

#: What is imported together with each part; everything else when it is needed.
AT_ONCE = {"numpy", "ml_dtypes"}
COMPILERS = {"support": {"numba", "llvmlite"}, "cpu": {"numba", "llvmlite"},
             "cuda": {"numba", "llvmlite", "cuda"},
             "cuda.isa": {"numba", "llvmlite"}}
#: An engine's module is imported for a communicator of its library.
ENGINES = {"distributed.engines": {"torch", "mpi4py", "cupy"}}
#: Where other libraries are named at all.
FOREIGN = {
    "torch": {"autograd", "distributed.engines"},
    "cupy": {"arrays", "distributed.engines"}, "mpi4py": {"distributed.engines"},
    "cuda": {"arrays", "cuda"},
    "numba": {"support", "cpu", "cuda", "cuda.isa"}, "platformdirs": {"cache"},
    "llvmlite": {"support", "cpu", "cuda", "cuda.isa"},
}


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(ROOT.rglob("*.py")):
        parts = ("nbfused", *path.relative_to(ROOT).with_suffix("").parts)
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def part(module: str) -> str:
    """``nbfused.ops.math`` → ``ops``: the longest part that it is in."""
    name = module.removeprefix("nbfused.")
    while "." in name and name not in PARTS:
        name = name.rpartition(".")[0]
    return name


MODULES = dict(modules())


@cache
def imports(module: str, path: Path) -> tuple[tuple[str, bool, int], ...]:
    """Full names of what a module imports, whether at once, and the line."""
    found: list[tuple[str, bool, int]] = []
    package = module if path.stem == "__init__" else module.rpartition(".")[0]

    def visit(node: ast.AST, at_once: bool) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.Import):
            found.extend((a.name, at_once, node.lineno) for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(above if node.level else []),
                             *([node.module] if node.module else [])])
            for full in (f"{base}.{a.name}" for a in node.names):
                name = base if node.module and full not in MODULES else full
                found.append((name, at_once, node.lineno))
        inside = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.expr):  # most of a tree
                visit(child, at_once and not inside)

    visit(ast.parse(path.read_text()), True)
    return tuple(found)




def test_every_part_is_in_the_table():
    assert {part(m) for m in MODULES} <= PARTS


@pytest.mark.parametrize("module", MODULES)
def test_who_imports_whom(module):
    mine = part(module)
    if mine in ANYTHING:
        return
    allowed = {mine, *EVERYONE, *MAY_IMPORT[mine].split()}
    for name, _, line in imports(module, MODULES[module]):
        if name.split(".")[0] == "nbfused":
            assert part(name) in allowed, f"{module}:{line} imports {name}"


def test_the_table_has_no_cycle():
    order = TopologicalSorter({k: v.split() for k, v in MAY_IMPORT.items()})
    assert list(order.static_order())


def edges(late: bool) -> dict[str, set[str]]:
    """The modules that each imports; those that it imports when needed if `late`."""
    graph = {}
    for module, path in MODULES.items():
        named = {name for name, at_once, _ in imports(module, path) if at_once or late}
        inside = {name for name in named if name in MODULES and name != module}
        # A package is imported with what it holds, but not by what it holds.
        graph[module] = {n for n in inside if not module.startswith(f"{n}.")}
    return graph


def test_modules_have_no_cycle():
    """Nor within a part, but for what is imported when it is needed."""
    assert list(TopologicalSorter(edges(late=False)).static_order())


#: Modules that import one another, some of them when needed only, and why.  A cycle is
#: allowed between a spec and its derivative, between a decorator and what it makes, and
#: between the tape and its bridge to another library's.
CYCLES = {
    "specs.map specs.reduce specs.view specs.vjp.elements specs.vjp.fold specs.vjp.map "
    "specs.vjp.reduce specs.batching.layout specs.batching.map specs.batching.reduce "
    "specs.batching.view":
        "a spec, its derivative and its rule for samples, which are made of specs",
    "specs.row specs.vjp.row specs.vjp.row_stages specs.batching.row":
        "a spec, its derivative and its rule for samples",
    "specs.contract specs.vjp.contract specs.batching.contract":
        "a spec, its derivative and its rule for samples",
    "dispatch.execute dispatch.dask_arrays dispatch.dask_arrays.blocks "
    "dispatch.dask_arrays.elements dispatch.dask_arrays.products "
    "dispatch.dask_arrays.reductions dispatch.dask_arrays.rows "
    "dispatch.dask_arrays.views dispatch.dask_arrays.windows":
        "a spec on Dask arrays is run on each chunk as on any array",
    "op.derivative op.elementwise op.func":
        "a decorator that checks rules, and the derivative that it makes",
    "autograd.tape autograd.torch_bridge autograd.calls.samples "
    "autograd.compilers.torch_calls autograd.compilers.torch_gradient "
    "autograd.compilers.torch_names autograd.compilers.torch_ops "
    "autograd.compilers.jax.calls "
    "autograd.compilers.pulling":
        "an operation on tensors of PyTorch, or on what JAX traces, is one of theirs, "
        "with a derivative and a rule for samples that are made of operations",
}


def cycles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """The sets of modules of which each leads to each."""
    def reached(module: str) -> set[str]:
        found: set[str] = set()
        new = [module]
        while new:
            more = graph[new.pop()] - found
            found |= more
            new += more
        return found

    reach = {module: reached(module) for module in graph}
    return {frozenset(n for n in reach[m] if m in reach[n])
            for m in graph if m in reach[m]}


def test_cycles_of_late_imports_are_those_allowed():
    """A new one, or one that grows, fails; so does a row that is no cycle any more."""
    found = [{m.removeprefix("nbfused.") for m in c} for c in cycles(edges(late=True))]
    allowed = [set(row.split()) for row in CYCLES]
    assert [c for c in found if not any(c <= row for row in allowed)] == []
    assert [row for row in allowed if not any(c <= row for c in found)] == []


@pytest.mark.parametrize("module", MODULES)
def test_other_libraries(module):
    mine = part(module)
    for name, at_once, line in imports(module, MODULES[module]):
        root = name.split(".")[0]
        if root in ("nbfused", "__future__") or root in sys.stdlib_module_names:
            continue
        where = f"{module}:{line} imports {name}"
        assert root not in FOREIGN or mine in FOREIGN[root] | ANYTHING, where
        if at_once and mine != "demo":
            late = COMPILERS.get(mine, set()) | ENGINES.get(mine, set())
            assert root in AT_ONCE | late, where


def python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
        check=False, env={**os.environ, **environment, "PYTHONPATH": str(ROOT.parent)})
    assert done.returncode == 0, done.stderr
    return done.stdout


HEAVY = {"numpy", "ml_dtypes", "numba", "llvmlite", "torch", "jax", "cupy", "cuda",
         "mpi4py", "scipy", "sklearn", "matplotlib", "platformdirs", "logging"}
LOADED = "import sys; print(*{name.partition('.')[0] for name in sys.modules})"


@pytest.mark.parametrize("backend", ["auto", "cpu"])
def test_importing_nbfused_imports_nothing_heavy(backend):
    loaded = python(f"import nbfused; {LOADED}", NBFUSED_BACKEND=backend).split()
    heavy = HEAVY if backend == "auto" else HEAVY - {"numpy", "ml_dtypes"}
    assert not heavy & set(loaded)
    assert "nbfused" in loaded


def test_importing_nbfused_imports_what_starts_a_device():
    """The rest comes when it is used: a GPU starts meanwhile."""
    parts = python("import nbfused as nf, sys; nf.array, nf.backends;"
                   "print(*{name.split('.')[1] for name in sys.modules"
                   " if name.startswith('nbfused.')})").split()
    assert set(parts) <= {"arrays", "config", "errors", "registry", "support",
                          "version"}


def test_importing_ops_parses_none():
    """Nor the ways to combine: each is parsed when it is first used."""
    parsed = python("import ast; parse = ast.parse; seen = [];"
                    "ast.parse = lambda *a, **k: seen.append(a) or parse(*a, **k);"
                    "import nbfused as nf; nf.ops; before = len(seen);"
                    "nf.ops.prod.combine; print(before, len(seen) > before)")
    assert parsed.split() == ["0", "True"]


def test_a_first_call_imports_no_derivatives():
    """Nor what prints them; a call that is differentiated imports them."""
    late = {f"nbfused.{name}" for name in (
        "scalar.autodiff.differentiate", "scalar.autodiff.replay", "specs.vjp.map",
        "specs.vjp.reduce", "specs.vjp.row", "specs.vjp.contract", "op.source",
        "registry.info")}
    code = ("import numpy as np, nbfused as nf, sys;"
            "x = nf.Variable(np.ones((3, 4), 'f4'), requires_grad=True);"
            "y = nf.ops.swish(x.data); {more}; print(*sys.modules)")
    assert not late & set(python(code.format(more="y.sum()")).split())
    loaded = set(python(code.format(more="nf.ops.swish(x).sum().backward()")).split())
    assert late & loaded == {
        "nbfused.scalar.autodiff.differentiate", "nbfused.scalar.autodiff.replay",
        "nbfused.specs.vjp.map", "nbfused.specs.vjp.reduce"}


@pytest.mark.parametrize("first", sampled(
    ["x = nf.Variable([2.0])", "from nbfused import *",
     "from nbfused.registry.operations import OPS; OPS['sum']", "nf.ops; nf.sigmoid"],
    "x = nf.Variable([2.0])", "from nbfused import *"))
def test_every_name_is_there_whatever_is_used_first(first):
    out = python(f"import nbfused as nf; {first};"
                 "import nbfused.autograd; x = nbfused.autograd.Variable([2.0]);"
                 "print((x * x).sum().item(), set(nf.__all__) <= set(dir(nf)),"
                 "all(hasattr(nf, n) for n in nf.__all__), hasattr(nf, 'nothing'))")
    assert out.split() == ["4.0", "True", "True", "False"]


def test_dir_shows_what_is_public():
    """And no module, function or type that the package imports for itself."""
    out = set(python("import nbfused as nf; print(*dir(nf))").split())
    assert {"fuse", "sigmoid", "grid", "ops", "errors", "__version__", "__doc__"} <= out
    hidden = {"Any", "TYPE_CHECKING", "annotations", "import_module", "public",
              "kernels", "support", "registry", "version"}
    assert not hidden & out
    assert not {n for n in out if n.startswith("_") and not n.startswith("__")}
    assert not python("import nbfused as nf;"
                      "print(*(n for n in dir(nf) if not hasattr(nf, n)))").split()


@pytest.mark.parametrize("then", ["dir(nf)", "nf.Variable", "from nbfused import *"])
def test_what_a_program_puts_in_a_names_place_stays(then):
    names = ("vjp", "grad", "fuse", "rawkernel", "exp")
    out = python("import nbfused as nf;" + "".join(
        f"nf.{name} = 'mine';" for name in names) + f"{then}; dir(nf);"
        f"print(*[getattr(nf, name) for name in {names}])")
    assert out.split() == ["mine"] * len(names)


def test_the_star_of_ops_hides_no_module():
    names = {"math": "Python's"}
    exec("from nbfused.ops import *", names)
    assert names["math"] == "Python's"
    assert {"sum", "swish", "zeros_like"} <= set(names)


def test_a_warm_process_compiles_nothing(tmp_path):
    """The second process finds its kernels on disk, and imports no Numba."""
    code = ("import numpy as np, nbfused as nf;"
            "x = nf.Variable(np.ones((3, 4), 'f4'), requires_grad=True);"
            "nf.ops.softmax(nf.ops.swish(x)).sum().backward();" + LOADED)
    settings = {"NBFUSED_BACKEND": "cpu", "NBFUSED_CACHE_DIR": str(tmp_path)}
    first, second = (python(code, **settings).split() for _ in range(2))
    assert "numba" in first
    assert "numba" not in second


WORKFLOWS = [path for path in (ROOT.parent / ".github" / "workflows").glob("*.yml")
             if "cp -r tests" in path.read_text()]


@pytest.mark.skipif(not WORKFLOWS, reason="there is no checkout around the package")
@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.name)
def test_a_workflow_takes_along_what_tests_import(path):
    """It runs them outside the checkout, so that the installed package is tested."""
    tests = ROOT.parent / "tests"
    named = {name.split(".")[0] for test in tests.rglob("*.py")
             for name, _, _ in imports(f"tests.{test.stem}", test)}
    needed = {name for name in named if (ROOT.parent / name / "__init__.py").exists()}
    (line,) = [x for x in path.read_text().splitlines() if "cp -r tests" in x]
    assert needed - {"nbfused"} <= set(line.split())
