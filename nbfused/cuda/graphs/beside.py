"""Small kernels that need not wait for one another as one: each has some of the blocks.

The optimiser's step of a tree of parameters, or the squares of all gradients summed,
are one node of a graph then, whatever their shapes.  Texts become branches of one text,
with names of their own; kernels of one text share it, and differ in their arguments.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

from ...support.records import record
from ..runtime.compile import DESCRIPTOR, Kernel
from ..runtime.launch import Program
from ..runtime.notes import Launched

__all__ = ["MOST_BLOCKS", "beside", "is_small"]

#: Blocks of a kernel for each multiprocessor, up to which it is small; lines of a text
#: that is made, which take some time to compile.  Not measured.
MOST_BLOCKS, _LINES = 4, 800
#: What a branch calls the number of its block; no kernel's own name.
_BLOCK = "block__"
#: Parameters of a kernel take 4 KiB at most.
_PARAMETERS = 480


def is_small(launched: Launched, processors: int) -> bool:
    """Whether a launch is a row of few blocks without demands of their own."""
    kernel, (blocks, *others) = launched.program.kernel, launched.grid
    return (others == [1, 1] and blocks <= MOST_BLOCKS*processors
            and launched.block == (kernel.threads, 1, 1) and not launched.shared
            and kernel.cluster == 1 and not kernel.feature
            and DESCRIPTOR not in kernel.parameters and _branch(kernel.text, "") is not
            None)


def beside(launches: Sequence[Launched]) -> Launched | None:
    """One launch for all; None if it would be too long.

    Parameters
    ----------
    launches
        Small ones of the same number of threads.
    """
    texts: dict[Kernel, list[Launched]] = {}
    for launched in launches:
        texts.setdefault(launched.program.kernel, []).append(launched)
    program = _program(tuple([(kernel, len(same)) for kernel, same in texts.items()]))
    if program is None:
        return None
    order = [launched for same in texts.values() for launched in same]
    ends = list(accumulate(launched.grid[0] for launched in order))
    values = (*[v for launched in order for v in launched.values], *ends[:-1])
    return Launched(program, (ends[-1], 1, 1), launches[0].block, values, 0)


@lru_cache(maxsize=64)
def _program(kernels: tuple[tuple[Kernel, int], ...]) -> Program | None:
    """The program for so many launches of each kernel, one after the other."""
    first = kernels[0][0]
    count = sum(many for _, many in kernels)
    parameters = [p for kernel, many in kernels for _ in range(many)
                  for p in kernel.parameters] + ["int64"]*(count - 1)
    name = f"{first.name}_beside_{count - 1}"
    text = _text(name, kernels, count)
    if len(parameters) > _PARAMETERS or text.count("\n") > _LINES:
        return None
    return Program(Kernel(name, text, tuple(parameters), first.threads,
                          min(kernel.blocks for kernel, _ in kernels)))


def _text(name: str, kernels: Sequence[tuple[Kernel, int]], count: int) -> str:
    params: list[str] = []
    branches: list[list[str]] = []
    launches = iter(range(count))
    ends = [f"end{k}" for k in range(count - 1)]
    bounds: list[str] = []  # of the branches
    functions: list[str] = []
    for number, (kernel, many) in enumerate(kernels):
        prefix = f"k{number}_"
        found = _branch(kernel.text, prefix)
        assert found is not None
        own = found.parameters
        functions += found.functions
        mine = [next(launches) for _ in range(many)]
        chosen = [[f"{prefix}{_BLOCK} = block - {ends[k - 1] if k else 'i64(0)'}",
                   *(f"{prefix}{p} = l{k}_{p}" for p in own)] for k in mine]
        params += [f"l{k}_{p}" for k in mine for p in own]
        branches.append([*_by_block(chosen, [ends[k] for k in mine[:-1]]),
                         *found.lines])
        bounds += [ends[k] for k in mine[-1:] if k < count - 1]
    return "\n".join([*functions, f"def {name}({', '.join((*params, *ends))}):",
                      "    block = i64(cuda.blockIdx.x)",
                      *(f"    {line}" for line in _by_block(branches, bounds))]) + "\n"


def _by_block(branches: Sequence[Sequence[str]], ends: Sequence[str]) -> list[str]:
    """Lines of which those of one branch run, by where its blocks end."""
    if len(branches) == 1:
        return list(branches[0])
    heads = [f"if block < {ends[0]}:", *(f"elif block < {end}:" for end in ends[1:]),
             "else:"]
    return [line for head, branch in zip(heads, branches, strict=True)
            for line in (head, *(f"    {inner}" for inner in branch))]


@record(frozen=True)
class _Branch:
    """The parameters of a kernel; its lines, and its functions', with other names."""

    parameters: list[str]
    lines: list[str]
    functions: list[str]


@lru_cache(maxsize=256)
def _branch(text: str, prefix: str) -> _Branch | None:
    """The branch of a kernel's text.

    None if it asks how many blocks there are, or returns early.
    """
    *functions, kernel = ast.parse(text).body
    assert isinstance(kernel, ast.FunctionDef)
    params = [a.arg for a in kernel.args.args]
    names = {n.id for n in ast.walk(kernel)
             if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for node in ast.walk(kernel):
        if isinstance(node, ast.Return) or (
                isinstance(node, ast.Attribute) and node.attr == "gridDim"):
            return None
    for function in functions:
        assert isinstance(function, ast.FunctionDef)
        names.add(function.name)
        function.name = prefix + function.name
    renamed = _Renamed({*names, *params}, prefix)
    return _Branch(params, *([line for s in statements
                              for line in ast.unparse(s).splitlines()]
                             for statements in (map(renamed.visit, kernel.body),
                                                functions)))


class _Renamed(ast.NodeTransformer):
    """A kernel's own names with a prefix, and its own number for the block's."""

    def __init__(self, names: set[str], prefix: str) -> None:
        self._names, self._prefix = names, prefix

    def visit_Name(self, node: ast.Name) -> Any:
        """Rename what is the kernel's."""
        if node.id in self._names:
            return ast.Name(self._prefix + node.id, node.ctx)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """The number of the block among the kernel's."""
        if ast.unparse(node) == "cuda.blockIdx.x":
            return ast.Name(self._prefix + _BLOCK, ast.Load())
        return self.generic_visit(node)
