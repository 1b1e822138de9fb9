"""Maps on CUDA over columns that lie side by side: ``p[:, 0], p[:, 1], p[:, 2]``.

A thread takes all columns of several rows by whole accesses, or element by element of
one row where no few accesses are whole rows.  A thread for one column alone would use a
part of what memory brings: benchmarks/notes/memory.md#columns-side-by-side.
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

__all__ = ["Columns", "ColumnsText", "Share", "SideBySide", "share_of", "side_by_side"]

#: Registers for what a thread loads at most, and for what it stores: an estimate.
REGISTERS = 64
#: Accesses of an array by a thread, whole ones and narrower: more take longer than a
#: way through shared memory, see the record.
ACCESSES, NARROW = 4, 6
#: Bytes of an element from which on half of `IN_FLIGHT` suffices, and rows that are no
#: whole accesses are faster element by element; and of one of which two accesses are,
#: too.
LARGE, LARGEST = 4, 8
#: Statements of a thread's rows that are worth the time to compile them: an estimate.
LONG = 4*LONGEST


#: Columns of an array, and bytes of an element.
Columns = tuple[int, int]


@record(frozen=True)
class Share:
    """The part of a thread: so many rows, by accesses of so many bytes.

    An element that is larger is an access.
    """

    rows: int
    access: int


@record(frozen=True)
class SideBySide:
    """Operands of a Map of one loop that are the columns of arrays.

    `groups` are for each array its columns' numbers, in order.
    """

    groups: tuple[tuple[int, ...], ...]
    share: Share


def side_by_side(text: MapText, call: Call) -> SideBySide | None:
    """Columns among a call's operands; None where some are not with all of theirs."""
    if len(call.shape) != 1 or {"raw", "scatter", "window"} & {*text.typed.kinds}:
        return None
    groups = [g for own in (text.inputs, text.outputs) for g in _groups(own, call)]
    apart = [o for o in text.looped if o.code == "s"]
    if not apart or sum(map(len, groups)) != len(apart):
        return None
    read, written = ([(len(g), g[0].dtype.itemsize) for g in groups
                      if (g[0].at < len(text.inputs)) == own] for own in (True, False))
    share = share_of(read, written,
                     gcd(ACCESS, *(call.pointers[g[0].at] for g in groups)))
    if share is None or share.rows*statements_of(text.typed.function) > LONG or any(
            call.pointers[o.at] % min(share.access, share.rows*o.dtype.itemsize)
            for o in text.unit):
        return None
    return SideBySide(tuple(tuple(o.at for o in g) for g in groups), share)


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


def share_of(read: Sequence[Columns], written: Sequence[Columns],
             aligned: int = ACCESS) -> Share | None:
    """The part of a thread; None if it has no room for that.

    Parameters
    ----------
    read, written
        The arrays.
    aligned
        Bytes that all their addresses are a multiple of.
    """
    arrays = (*read, *written)
    least = min(size for _, size in arrays)
    rows = [count*size for count, size in arrays]
    single = (least == LARGEST and 2*ACCESS in rows) or (
        least >= LARGE and any(row % ACCESS and ACCESS % row for row in rows))
    return _share(read, written, least if single else aligned) or \
        _share(read, written, least)


def _share(read: Sequence[Columns], written: Sequence[Columns],
           access: int) -> Share | None:
    """The part of a thread by accesses of so many bytes."""
    arrays = (*read, *written)
    rows = max(access // gcd(access, count*size) for count, size in arrays)
    if access == ACCESS and read:
        moved = sum(count*size for count, size in read)
        large = min(size for _, size in read) >= LARGE
        while rows*moved < (IN_FLIGHT // 2 if large else IN_FLIGHT):
            rows *= 2
    most = max(sum(count*max(1, size // 4) for count, size in side)
               for side in (read, written))
    fits = rows*most <= REGISTERS and all(
        rows*count*size <= (ACCESSES if access == ACCESS else NARROW)*max(access, size)
        for count, size in arrays)
    return Share(rows, access) if fits else None


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
        self.rows, self.access = found.share.rows, found.share.access
        self.groups = [[self.operands[at] for at in own] for own in found.groups]
        self.name = self.name.replace("general", "columns")

    def __str__(self) -> str:
        return f"rows={self.rows} access={self.access} threads={self.threads}"

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
                out("j = uncounted(j + 1)")

    def _whole(self, out: Source) -> None:
        """Load all columns of the thread's rows, evaluate, store."""
        loaded = self._loaded(out)
        values = self._evaluate(out, [
            ({p: loaded[o.at][e] for p, o in self.loaded}, f"first + {e}")
            for e in range(self.rows)])
        numbers = {o.at: r for r, o in enumerate(self.results)}
        for own in self._stretches(self.results):
            flat = [values[e][numbers[o.at]] for e in range(self.rows) for o in own]
            for width, k, at in self._parts(own):
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
            for width, k, at in self._parts(own):
                out(f"{', '.join(names[k:k + width])}, = "
                    f"{loaded_text(own[0], width, at, self.hint)}")
            found |= {o.at: names[m::len(own)] for m, o in enumerate(own)}
        return found

    def _stretches(self, operands: Sequence[Operand]) -> list[list[Operand]]:
        """Columns of one array, and operands of which each row has an element."""
        named = {o.at for o in operands}
        return [*(g for g in self.groups if g[0].at in named),
                *([o] for o in operands if o.code == "1")]

    def _parts(self, own: Sequence[Operand]) -> list[tuple[int, int, str]]:
        """Accesses of a thread: elements, the first one's number, and its place."""
        count, size = self.rows*len(own), own[0].dtype.itemsize
        width = min(count, MOST, max(1, self.access // size))
        start = "first" if len(own) == 1 else f"first*{len(own)}"
        return [(width, k, f"{start} + {k}") for k in range(0, count, width)]
