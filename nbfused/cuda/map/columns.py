"""Maps on CUDA over columns that lie side by side: ``p[:, 0], p[:, 1], p[:, 2]``.

A thread takes all columns of several rows by whole accesses.  An access of one column
alone would use a part of what memory brings:
benchmarks/notes/memory.md#columns-side-by-side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import gcd

from ...backend import Call, Signature
from ...gpu.operands import ACCESS, MOST, Operand
from ...specs import TypedMap
from ...support.records import record
from ..text.hints import loaded_text
from ..text.source import LONGEST, Source, statements_of
from .text import IN_FLIGHT, MapText

__all__ = ["ColumnsText", "SideBySide", "rows_taken", "side_by_side"]

#: Registers for what a thread loads at most, and for what it stores: an estimate.
REGISTERS = 64
#: Accesses of an array by a thread: more take longer than a way through shared memory,
#: see the record.
ACCESSES = 4
#: Statements of a thread's rows that are worth the time to compile them: an estimate.
LONG = 4*LONGEST


@record(frozen=True)
class SideBySide:
    """Operands of a Map of one loop that are the columns of arrays.

    Attributes
    ----------
    groups
        For each array, its columns' numbers, in order.
    rows
        That a thread takes: all are whole accesses.
    """

    groups: tuple[tuple[int, ...], ...]
    rows: int


def side_by_side(text: MapText, call: Call) -> SideBySide | None:
    """The columns among a call's operands; None where some are not with all of theirs.

    Arrays that begin or end inside an access have none.
    """
    if len(call.shape) != 1 or {"raw", "scatter", "window"} & {*text.typed.kinds}:
        return None
    groups = [g for own in (text.inputs, text.outputs) for g in _groups(own, call)]
    apart = [o for o in text.looped if o.code == "s"]
    if not apart or sum(map(len, groups)) != len(apart):
        return None
    sides = [[(len(g), g[0].dtype.itemsize) for g in groups
              if (g[0].at < len(text.inputs)) == read] for read in (True, False)]
    rows = rows_taken(*sides)
    if not 0 < rows*statements_of(text.typed.function) <= LONG or any(
            call.pointers[g[0].at] % ACCESS for g in groups) or any(
            call.pointers[o.at] % min(ACCESS, rows*o.dtype.itemsize)
            for o in text.unit):
        return None
    return SideBySide(tuple(tuple(o.at for o in g) for g in groups), rows)


def _groups(operands: Sequence[Operand], call: Call) -> Iterator[list[Operand]]:
    """Operands that are all columns of an array, in their order."""
    found: dict[tuple[int, int], list[Operand]] = defaultdict(list)
    for o in operands:
        if o.code == "s":
            found[call.strides[o.at][0], o.dtype.itemsize].append(o)
    for (columns, itemsize), own in found.items():
        own.sort(key=lambda o: call.pointers[o.at])
        for k in range(0, len(own), max(columns, 1)):
            group, start = own[k:k + columns], call.pointers[own[k].at]
            if len(group) == columns and all(
                    call.pointers[o.at] == start + m*itemsize
                    for m, o in enumerate(group)):
                yield group


def rows_taken(read: Sequence[tuple[int, int]],
               written: Sequence[tuple[int, int]]) -> int:
    """Rows of a thread; 0 if it has no room for so many.

    The arguments are of the arrays that are read and written: columns, and bytes of an
    element.
    """
    rows = max(ACCESS // gcd(ACCESS, count*size) for count, size in (*read, *written))
    while 0 < rows*sum(count*size for count, size in read) < IN_FLIGHT:
        rows *= 2
    most = max(sum(count*max(1, size // 4) for count, size in side)
               for side in (read, written))
    longest = max(count*size for count, size in (*read, *written))
    fits = rows*most <= REGISTERS and rows*longest <= ACCESSES*ACCESS
    return rows if fits else 0


class ColumnsText(MapText):
    """Writes the kernel of a Map over columns that lie side by side.

    Parameters
    ----------
    name, typed, signature, threads
        As for `MapText`.
    found
        What `side_by_side` found.
    """

    def __init__(self, name: str, typed: TypedMap, signature: Signature, *,
                 found: SideBySide, threads: int) -> None:
        super().__init__(name, typed, signature, vector=False, threads=threads)
        self.rows = found.rows
        self.groups = [[self.operands[at] for at in own] for own in found.groups]
        self.name = self.name.replace("general", "columns")

    def __str__(self) -> str:
        return f"rows={self.rows} threads={self.threads}"

    def blocks(self, shape: Sequence[int]) -> int:
        """Number of blocks for so many rows."""
        return -(-shape[0] // (self.rows*self.threads))

    def _body(self, out: Source) -> None:
        rows = self.rows
        out(f"first = (i64(cuda.blockIdx.x)*{self.threads} + i64(cuda.threadIdx.x))"
            f"*{rows}")
        with out.block(f"if first + {rows} <= size:"):
            self._whole(out)
        with out.block("else:"):
            out("j = first")
            with out.block("while j < size:"):
                self._element(out, "j")
                out("j += 1")

    def _whole(self, out: Source) -> None:
        """Load all columns of the thread's rows, evaluate, store."""
        loaded = self._loaded(out)
        values = self._evaluate(out, [
            ({p: loaded[o.at][e] for p, o in self.loaded}, f"first + {e}")
            for e in range(self.rows)])
        numbers = {o.at: r for r, o in enumerate(self.results)}
        for own in self._stretches(self.results):
            flat = [values[e][numbers[o.at]] for e in range(self.rows) for o in own]
            for width, k, at in _accesses(own, self.rows):
                out(f"store{width}({own[0].pointer}, {at}, "
                    f"({', '.join(flat[k:k + width])},))")

    def _loaded(self, out: Source) -> dict[int, list[str]]:
        """The elements of each input, a row after the other, as text."""
        found: dict[int, list[str]] = {}
        for o in self.inputs:
            if o.code == "0":
                out(f"x{o.at} = {o.pointer}[0]")
                found[o.at] = [f"x{o.at}"]*self.rows
        for own in self._stretches(self.inputs):
            names = [f"x{own[0].at}_{k}" for k in range(self.rows*len(own))]
            for width, k, at in _accesses(own, self.rows):
                out(f"{', '.join(names[k:k + width])}, = "
                    f"{loaded_text(own[0], width, at, self.hint)}")
            found |= {o.at: names[m::len(own)] for m, o in enumerate(own)}
        return found

    def _stretches(self, operands: Sequence[Operand]) -> list[list[Operand]]:
        """Columns of one array, and operands of which each row has an element."""
        named = {o.at for o in operands}
        return [*(g for g in self.groups if g[0].at in named),
                *([o] for o in operands if o.code == "1")]


def _accesses(own: Sequence[Operand], rows: int) -> list[tuple[int, int, str]]:
    """Accesses of a thread: elements, the first one's number, and its place."""
    count = rows*len(own)
    width = min(count, MOST, ACCESS // own[0].dtype.itemsize)
    start = "first" if len(own) == 1 else f"first*{len(own)}"
    return [(width, k, f"{start} + {k}") for k in range(0, count, width)]
