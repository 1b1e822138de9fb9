"""Rows of few elements: an iteration of the inner loop is a whole row.

Of points with three coordinates less a centre, images times a mask, a softmax over five
classes, the last dimension is all that there is to vectorise, and a loop of three
iterations costs more than what it computes.  Here a row's elements are written out,
with places that the compiler knows, and the loop runs over the rows: it becomes vectors
of rows.  benchmarks/notes/cpu.md#short-rows
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from ..backend import Call, Start
from ..scalar.ir.nodes import EFFECTS, For, Let, While, walk
from ..scalar.typing.types import Typed
from .runtime.compile import build
from .runtime.objects import Entry
from .text.lines import advance, indented, inlined, loop, unravel
from .text.operands import Frame, offset
from .text.reuse import cost_of, is_cheap
from .text.starts import start_of

__all__ = ["ShortRows", "Way", "is_vector", "kernel_of_rows"]

#: Rows along the inner loop at least, and elements of a call that is worth a kernel for
#: its row's length; not measured.
_ROWS, _LEAST = 16, 1 << 11

#: Statements of all elements of a row at most, by `cost_of`: a softmax of 24 elements
#: takes 1.4 s to compile.  benchmarks/notes/cpu.md#short-rows
_STATEMENTS = 336

#: How an array's elements lie: its code in the loop over rows, and how many elements
#: lie from one row to the next, or in the row that all rows read; 0 of one element.
#: Of one in planes, ``"p"``, rows are neighbours and their elements lie far apart.
Way = tuple[str, int]

#: Gives the lines of the kernel for rows of so many elements that lie in these ways,
#: and the layout of its arguments.
Writer = Callable[[int, Sequence[Way]], tuple[list[str], Frame]]


class ShortRows:
    """Kernels for rows of few elements, each compiled when first needed.

    There is one for each length, and for each way that the arrays lie in.

    Parameters
    ----------
    functions
        What a row computes, each once for an element.
    longest
        Elements of a row at most.
    whole
        For each output, whether it has all elements of a row, or one.
    write
        The writer of the kernels.
    planes
        Whether it writes them for inputs in planes; the distance in each is an extra
        argument.
    """

    def __init__(self, functions: Sequence[Typed], longest: int, whole: Sequence[bool],
                 write: Writer, planes: bool = False) -> None:
        statements = sum(map(cost_of, functions))
        self._longest = min(longest, _STATEMENTS // max(statements, 1))
        self._whole, self._write, self._planes = tuple(whole), write, planes
        self._kernels: dict[tuple[int, tuple[Way, ...]], tuple[Entry, Frame]] = {}

    def bind(self, call: Call) -> Start | None:
        """Bind a call; None where its rows are long, or lie in another way."""
        row = call.shape[-1]
        ways = self._ways(call)
        if ways is None:
            return None
        known = self._kernels.get((row, ways))
        if known is None:
            lines, frame = self._write(row, ways)
            known = build("\n".join(lines)), frame
            self._kernels[row, ways] = known  # two threads may make it: no harm
        entry, frame = known
        rows = replace(call, shape=call.shape[:-1],
                       strides=tuple([s[:-1] for s in call.strides]))
        apart = tuple([s[-1] for (code, _), s in zip(ways, call.strides, strict=True)
                       if code == "p"])
        return start_of(entry, frame, rows, apart, prod(rows.shape), row)

    def _ways(self, call: Call) -> tuple[Way, ...] | None:
        row = call.shape[-1]
        if len(call.shape) < 2 or not 1 < row <= self._longest or \
                call.shape[-2] < _ROWS or prod(call.shape) < _LEAST:
            return None
        found = [_way(row, s[-2], s[-1], self._planes) for s in call.strides]
        outputs = [("1", row * whole) for whole in self._whole]
        ways = tuple([way for way in found if way is not None])
        fits = len(ways) == len(found) and [*ways[len(ways) - len(outputs):]] == outputs
        return ways if fits else None


def _way(row: int, down: int, along: int, planes: bool) -> Way | None:
    """The way that elements lie, by their strides from row to row and within one."""
    if planes and down == 1 and abs(along) > 1:
        return "p", row
    if along == 1 and row <= down <= 2*row:
        return "1", down
    if along in (0, 1) and down == 0:
        return "0", row * along
    return ("1", 0) if along == 0 and down == 1 else None


def is_vector(typed: Typed) -> bool:
    """Whether a function has neither loops nor effects: copies of it are vectors."""
    return not any(isinstance(s, For | While) or (
        isinstance(s, Let) and s.op in EFFECTS) for s in walk(typed.function.body))


def kernel_of_rows(title: str, functions: Sequence[Typed], lines: Sequence[str],
                   names: Sequence[str], frame: Frame, before: Sequence[str] = (),
                   ) -> list[str]:
    """Lines of a kernel whose units of work are rows.

    Parameters
    ----------
    title
        What it is.
    functions
        What a row computes.
    lines, names
        Lines that compute the row ``j``, and the names that they need besides.
    before
        Lines ahead of the inner loop.
    """
    costly = not all(map(is_cheap, functions))
    return [f"# {title}", *inlined("of_row", ["j", *names], lines),
            "def kernel(a, begin, end):", *["    wide_vectors()"] * costly,
            *indented(_nest(frame, before,
                            loop("of_row", "j0", "j1", names, masked=costly)))]


def _nest(frame: Frame, before: Sequence[str], run: str) -> list[str]:
    """Lines of the loops over the rows begin … end - 1, of which `run` is the inner."""
    extents = [f"n{d}" for d in range(frame.rank)]
    if frame.rank == 1:
        return [*frame.unpack(), *(line for o in frame.operands for line in o.bind()),
                *before, "first = 0", "j0 = begin", "j1 = end", run]
    outer = [f"k{d}" for d in range(frame.rank - 1)]
    return [*frame.unpack(), "if begin < end:", *indented([
        f"lines = begin // {extents[-1]}", f"first = lines * {extents[-1]}",
        *unravel("lines", extents[:-1], outer), "j0 = begin - first",
        "while first < end:", *indented([
            f"j1 = min({extents[-1]}, end - first)",
            *(line for o in frame.operands for line in o.bind(offset(o, outer))),
            *before, run, f"first += {extents[-1]}", "j0 = 0",
            *advance(extents[:-1], outer)])])]
