"""Maps whose last dimension is short: an iteration of the inner loop is a whole row.

Of points with three coordinates less a centre, or images times a mask, the last
dimension is all that there is to vectorise, and a loop of three iterations costs more
than what it computes.  Here a row's elements are written out, with places that the
compiler knows, and the loop runs over the rows: it becomes vectors of rows.
benchmarks/notes/cpu.md#short-rows
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from math import prod

from ..backend import Call, Signature, Start
from ..scalar.ir.nodes import EFFECTS, For, Let, While, walk
from ..scalar.typing.types import Typed
from ..specs import TypedMap
from .runtime.compile import build
from .runtime.objects import Entry
from .text.elements import Elements, elementwise
from .text.lines import advance, indented, inlined, loop, unravel
from .text.operands import Frame, Operand, offset
from .text.reuse import cost_of, is_cheap
from .text.starts import start_of

__all__ = ["ShortRows", "Way", "is_vector", "rows_nest", "start_rows", "ways_of"]

#: Elements of a row at most, and of one with elementary functions: 12 elements take as
#: long by the usual loop, and 16 exponentials 0.6 s to compile.
_LONGEST, _LONGEST_COSTLY = 8, 16

#: Rows along the inner loop at least, and elements of a call that is worth a kernel for
#: its row's length.
_ROWS, _LEAST = 16, 1 << 11

#: Statements of the elements of a row at most, by `cost_of`: they take time to compile.
_STATEMENTS = 192

#: How an array's elements lie: its code in the loop over rows, and how many elements
#: lie from one row to the next, or in the row that all rows read; 0 of one element.
Way = tuple[str, int]


class ShortRows:
    """The kernels of a Map for short rows, compiled when first needed."""

    def __init__(self, typed: TypedMap, signature: Signature) -> None:
        self._typed, self._signature = typed, signature
        function = typed.function
        self._statements = cost_of(function)
        self._possible = (
            not typed.inner and set(typed.kinds) <= {"element", "scalar", "index"}
            and len(signature.outputs) == len(function.results) and is_vector(function))
        self._longest = _LONGEST if is_cheap(function) else _LONGEST_COSTLY
        self._kernels: dict[tuple[int, tuple[Way, ...]], tuple[Entry, Frame]] = {}

    def bind(self, call: Call) -> Start | None:
        """Bind a call; None where its rows are long, or lie in another way."""
        row = call.shape[-1]
        if not self._possible or row * self._statements > _STATEMENTS:
            return None
        ways = ways_of(call, self._longest, [("1", row)]*len(self._signature.outputs))
        if ways is None:
            return None
        known = self._kernels.get((row, ways))
        if known is None:
            lines, frame = _text(self._typed, self._signature, row, ways)
            known = build("\n".join(lines)), frame
            self._kernels[row, ways] = known  # two threads may make it: no harm
        return start_rows(*known, call)


def is_vector(typed: Typed) -> bool:
    """Whether a function has neither loops nor effects: copies of it are vectors."""
    return not any(isinstance(s, For | While) or (
        isinstance(s, Let) and s.op in EFFECTS) for s in walk(typed.function.body))


def ways_of(call: Call, longest: int, outputs: Sequence[Way]) -> tuple[Way, ...] | None:
    """The ways that a call's arrays lie in; None where a row in turn is faster.

    Parameters
    ----------
    longest
        Elements of a row at most.
    outputs
        The ways that outputs have to lie in.
    """
    if len(call.shape) < 2 or not 1 < call.shape[-1] <= longest or \
            call.shape[-2] < _ROWS or prod(call.shape) < _LEAST:
        return None
    found = [_way(call.shape[-1], *s[-2:]) for s in call.strides]
    ways = tuple([way for way in found if way is not None])
    fits = len(ways) == len(found) and ways[len(ways) - len(outputs):] == tuple(outputs)
    return ways if fits else None


def start_rows(entry: Entry, frame: Frame, call: Call) -> Start:
    """A start of a kernel whose units of work are rows."""
    rows = replace(call, shape=call.shape[:-1],
                   strides=tuple([s[:-1] for s in call.strides]))
    return start_of(entry, frame, rows, (), prod(rows.shape), call.shape[-1])


def _way(row: int, down: int, along: int) -> Way | None:
    """The way that elements lie, by their strides from row to row and within one."""
    if along == 1 and row <= down <= 2*row:
        return "1", down
    if along in (0, 1) and down == 0:
        return "0", row * along
    return ("1", 0) if along == 0 and down == 1 else None


def _text(typed: TypedMap, signature: Signature, row: int, ways: Sequence[Way],
          ) -> tuple[list[str], Frame]:
    rank = signature.ranks[0] - 1
    function = typed.function
    inputs = len(ways) - len(signature.outputs)
    elements, operands, scalars = elementwise(
        function, typed.kinds, signature, [code for code, _ in ways[:inputs]], rank)
    outputs = [Operand(f"y{k}", dtype, "1", rank, True)
               for k, dtype in enumerate(signature.outputs)]
    arrays = [replace(o, row=apart) for o, (_, apart)
              in zip([*operands, *outputs], ways, strict=True)]
    frame = Frame(arrays, rank, scalars)
    point, names = _point(typed, elements, arrays, inputs, row)
    cheap = is_cheap(function)
    run = loop("point", "j0", "j1", names, masked=not cheap)
    return [f"# Map {function.function.name} of rows of {row}", *point,
            "def kernel(a, begin, end):", *["    wide_vectors()"] * (not cheap),
            *indented(rows_nest(frame, run))], frame


def _point(typed: TypedMap, elements: Elements, arrays: Sequence[Operand], inputs: int,
           row: int) -> tuple[list[str], list[str]]:
    """Lines of the function of a row, and the names that it takes besides ``j``."""
    function = typed.function
    body: list[str] = []
    stores: list[str] = []
    names: dict[str, None] = {}
    by_name = {o.name: o for o in arrays}
    for at in range(row):
        table = {parameter: replace(by_name[slot.name], at=at)
                 if isinstance(slot, Operand) else slot
                 for parameter, slot in elements.table.items()}
        one = replace(elements, table=table, index=f"{row}*(first + j) + {at}")
        results = [f"r{at}_{k}" for k in range(len(function.results))]
        body += one.evaluate(function, results, f"v{at}_")
        outputs = [replace(o, at=at) for o in arrays[inputs:]]
        stores += [o.store("j", dtype, r) for o, dtype, r
                   in zip(outputs, function.results, results, strict=True)]
        names |= dict.fromkeys(chain(one.names(function),
                                     *(o.names for o in outputs)))
    return inlined("point", ["j", *names], [*body, *stores]), list(names)


def rows_nest(frame: Frame, run: str) -> list[str]:
    """Lines of the loops over the rows begin … end - 1, of which `run` is the inner."""
    extents = [f"n{d}" for d in range(frame.rank)]
    if frame.rank == 1:
        return [*frame.unpack(), *(line for o in frame.operands for line in o.bind()),
                "first = 0", "j0 = begin", "j1 = end", run]
    outer = [f"k{d}" for d in range(frame.rank - 1)]
    return [*frame.unpack(), "if begin < end:", *indented([
        f"lines = begin // {extents[-1]}", f"first = lines * {extents[-1]}",
        *unravel("lines", extents[:-1], outer), "j0 = begin - first",
        "while first < end:", *indented([
            f"j1 = min({extents[-1]}, end - first)",
            *(line for o in frame.operands for line in o.bind(offset(o, outer))),
            run, f"first += {extents[-1]}", "j0 = 0", *advance(extents[:-1], outer)])])]
