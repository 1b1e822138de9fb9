"""Rows of a Map that are copies of rows of a table: moved as bytes.

What a gather does for an element, besides its load and its store, is the same for all
of a row.  As bytes a row has no end that is shorter than a vector, and 16-bit floats
are not converted: benchmarks/notes/cpu.md#gathers-of-rows.

Short rows of a table that no near cache holds are *fetched* ahead: a processor sees but
few of them at once, and waits for each.  Those of a few numbers, where there is a loop
for their length, it sees enough of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..scalar.typing.row_loads import row_loads
from ..scalar.typing.types import Typed
from ..support.records import record
from .text.divisions import Divided
from .text.elements import Computed, Elements
from .text.lines import indented, inlined, loop
from .text.operands import Frame, Operand, offset

__all__ = ["RowCopy", "copy_loops", "row_copy"]

#: Bytes of a row below which it is short, and has a loop of its own.
_SHORT = 16

#: How many rows ahead are fetched, of 8, 16 and 32: 425,108 rows of 2 float32 from 7 MB
#: take 14.0 ns each without, 10.1, 7.6 and 6.9 with them, from 70 KB 2.7, 3.9 with any.
_AHEAD = 32
#: Rows that are looked at first, how many there are at least, and bytes of the longest.
_SAMPLE, _LEAST, _LONGEST = 64, 1024, 256
#: Bytes that they lie apart, more than what the second cache holds.
_APART = 1 << 19


@record(frozen=True)
class RowCopy:
    """The rows of a table that rows of a Map are copies of.

    Attributes
    ----------
    elements
        What is bound to the parameters of the function without divisions.
    function, start, divisor
        The function of a row's place in the table; the index that the row begins at,
        a multiple of the divisor.
    table, output
        What is read, and what is stored.
    """

    elements: Elements
    function: Typed
    start: str
    divisor: str
    table: Operand
    output: Operand

    def lines(self, begin: str, end: str, widest: int = 32) -> list[str]:
        """Lines that copy the elements ``begin … end - 1`` of a row.

        They lie within one multiple of each divisor, the table's rows are contiguous,
        and there are less than twice `widest` bytes, or it is 32.
        """
        size = self.output.dtype.itemsize
        return [*self._place(), "place += "
                f"{size}*(first - {self.start} + {begin})",
                f"copy_bytes(address({self.output.name}) + {size}*{begin}, "
                f"{self.table.name}_at + place, {size}*({end} - {begin}), {widest})"]

    def _place(self) -> list[str]:
        """Lines that compute where a row of the table begins, as ``place``."""
        rows = [f"row{k}" for k in range(len(self.function.function.results))]
        steps = (f"{row}*{stride}" for row, stride in zip(
            rows, self.table.strides, strict=False))
        return [*self.elements.evaluate(self.function, rows),
                f"place = {self.output.dtype.itemsize}*({' + '.join(steps)})"]

    @property
    def follows(self) -> bool:
        """Whether a row's place depends on nothing that counts along."""
        return not any(isinstance(self.elements.table[p], Computed)
                       for p in self.function.function.params)

    def begin(self, operands: Sequence[Operand], row: str) -> list[str]:
        """Lines before rows of `row` elements, which see whether they lie apart."""
        size = self.output.dtype.itemsize
        return ["apart = False", f"if end - first >= {_LEAST}*{row} and "
                f"{size}*{row} <= {_LONGEST}:", *indented([
                    f"low, high = {1 << 62}, {-1 << 62}",
                    f"for ahead in range(k0, k0 + {_SAMPLE}):", *indented([
                        *self._ahead(operands), "low = min(low, place)",
                        "high = max(high, place)"]),
                    f"apart = high - low > {_APART}"])]

    def fetch(self, operands: Sequence[Operand]) -> list[str]:
        """Lines that fetch a row that comes later."""
        return [f"if k0 + {_AHEAD} < n0:", *indented([
            f"ahead = k0 + {_AHEAD}", *self._ahead(operands),
            f"prefetch({self.table.name}_at + place)"])]

    def point(self, operands: Sequence[Operand], length: int) -> list[str]:
        """Lines of the function that copies the whole row `k` of `length` elements."""
        _, pieces = self._pieces(length)
        return inlined("copy_row", ["k", *self._names(operands)], [
            *self._loaded(operands),
            *(f"to[{pieces}*k + {at}] = origin[{pieces}*row + {at}]"
              for at in range(pieces))])

    def rows(self, operands: Sequence[Operand], row: str, length: int) -> list[str]:
        """Lines that copy rows of `length` elements, where no array has gaps."""
        same = [*self._same(operands, row, length),
                f"{self.table.strides[0]} == {length}"]
        kind, _ = self._pieces(length)
        return [f"if first < end and {' and '.join(same)}:", *indented([
            *self._pointers(operands, kind),
            loop("copy_row", "k0", f"end // {length}", self._names(operands)),
            "first = end"])]

    def point_apart(self, operands: Sequence[Operand], length: int) -> list[str]:
        """Lines of the function that copies a row of `length` from a strided table."""
        down, along = self.table.strides
        return inlined("copy_apart", ["k", *self._names(operands), down, along], [
            *self._loaded(operands),
            *(f"to[{length}*k + {at}] = origin[row*{down} + {at}*{along}]"
              for at in range(length))])

    def rows_apart(self, operands: Sequence[Operand], row: str, length: int,
                   ) -> list[str]:
        """Lines that copy such rows, where they are all that a piece has."""
        same = [f"begin % {length} == 0", f"end % {length} == 0",
                *self._same(operands, row, length)]
        kind = f"u{8*self.output.dtype.itemsize}"
        return [f"if begin < end and {' and '.join(same)}:", *indented([
            *self._pointers(operands, kind),
            loop("copy_apart", f"begin // {length}", f"end // {length}",
                 [*self._names(operands), *self.table.strides]), "return"])]

    def _same(self, operands: Sequence[Operand], row: str, length: int) -> list[str]:
        """Conditions that rows have a length, and only the table may have gaps."""
        return [*(f"{name} == {length}" for name in (
            row, self.divisor, self.output.strides[0])),
            *(f"{o.strides[0]} == 1" for o in _repeated(operands))]

    def _pointers(self, operands: Sequence[Operand], kind: str) -> list[str]:
        """Lines that point to the rows' places, what is stored, and the table."""
        return [*(line for o in _repeated(operands) for line in o.bind()[:1]),
                f"to = {kind}_pointer({self.output.name}_at)",
                f"origin = {kind}_pointer({self.table.name}_at)"]

    def _loaded(self, operands: Sequence[Operand]) -> list[str]:
        """Lines that compute the row of the table for the row `k`."""
        return [*(f"{name} = {replace(o, code='1').load('k')}"
                  for o in _repeated(operands) for name in o.names),
                *self.elements.evaluate(self.function, ["row"])]

    def _pieces(self, length: int) -> tuple[str, int]:
        """The integers that a row is moved as, and how many there are."""
        size = self.output.dtype.itemsize*length
        width = min(size & -size, 8)
        return f"u{8*width}", size // width

    def _names(self, operands: Sequence[Operand]) -> list[str]:
        """Names that the functions of a row read."""
        loaded = {name for o in operands for name in o.names}
        return [*(n for n in self.elements.names(self.function) if n not in loaded),
                *(o.name for o in _repeated(operands)), "to", "origin"]

    def _ahead(self, operands: Sequence[Operand]) -> list[str]:
        """Lines that compute the place of the row ``ahead``."""
        bound = [line for o in operands if o.code == "0" and not o.output
                 for line in o.bind(offset(o, ["ahead"]))]
        return [*bound, *self._place()]


def _repeated(operands: Sequence[Operand]) -> list[Operand]:
    """The operands that have one element for each row."""
    return [o for o in operands if o.code == "0" and not o.output]


def copy_loops(copy: RowCopy, frame: Frame, bound: Sequence[str],
               step: Sequence[str], written: int) -> list[str]:
    """Lines that copy the rows from ``first`` to ``end``, by a loop for their length.

    One for all would ask of each short row whether it is a long one.

    Parameters
    ----------
    bound, step
        Lines before a row and after it.
    written
        The length of rows that have a function of their own, or 0.
    """
    row, size = f"n{frame.rank - 1}", copy.output.dtype.itemsize
    lines: list[str] = []
    if copy.follows and frame.rank == 2:
        lines = copy.rows(frame.operands, row, written) if written else []
        lines += [*copy.begin(frame.operands, row), "while apart and first < end:",
                 *indented([*copy.fetch(frame.operands), *bound,
                            *copy.lines("0", row), *step])]
    return [*lines, f"while first < end and {size}*{row} >= {_SHORT}:",
            *indented([*bound, *copy.lines("0", row), *step]),
            "while first < end:",
            *indented([*bound, *copy.lines("0", row, _SHORT // 2), *step])]


def row_copy(divided: Divided, elements: Elements, output: Operand) -> RowCopy | None:
    """The copy that all rows of a Map are; None of other Maps."""
    slots = elements.table.items()
    index, starts = ([p for p, slot in slots if _is_named(slot, name)]
                     for name in ("index", "multiple"))
    found = row_loads(divided.typed, index, starts, [
        p for p, slot in slots
        if p in index or (isinstance(slot, Operand) and slot.code != "0")])
    if found is None or found.copied is None or not found.loads[0].rank or \
            output.code != "1":
        return None
    table, start = elements.table[found.copied], elements.table[found.loads[0].start]
    if not isinstance(table, Operand) or table.dtype != output.dtype:
        return None
    assert isinstance(start, Computed)
    divisor = divided.divisors[int(start.name.removeprefix("multiple"))]
    return RowCopy(elements, found.places, start.name, divisor, table, output)


def _is_named(slot: object, name: str) -> bool:
    """Whether a slot is the index, or the multiple of a divisor."""
    return isinstance(slot, Computed) and slot.name.rstrip("0123456789") == name
