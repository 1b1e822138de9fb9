"""Generated text of the kernel of `Row` for long rows, whose chunks threads share.

Each phase folds stages over all chunks and stores their states; later phases merge
these, in order, and the last one computes the results.  Every unit of a phase merges
them by itself, as there are few chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ...backend import Signature
from ...scalar.printing.numba import cast, decode, encode, literal
from ...scalar.typing.types import compute_dtype
from ...specs import TypedRow
from ..row_text import RowText, state_names
from ..text.fold import Fold, merged, sum_text
from ..text.lines import indented, inlined, loop, unravel
from ..text.operands import Operand, offset
from .held import Room, copy_of, with_rooms
from .schedule import Schedule

__all__ = ["HoldingLongRowText", "LongRowText"]


class LongRowText(RowText):
    """Writer of the kernel of one Row whose units are chunks of rows.

    Where there are sums over rows, the last phase's units are chunks of all rows.

    Attributes
    ----------
    schedule
        The phases; one more adds up what the chunks have added to sums over all
        elements.
    rooms_apart
        What there is in temporary memory; the launcher adds its addresses to the
        phase, the elements of a chunk, and the number of chunks.
    """

    launched: ClassVar[tuple[str, ...]] = ("phase", "chunk", "chunks")

    def __init__(self, typed: TypedRow, signature: Signature,
                 inner_codes: Sequence[str] = ()) -> None:
        super().__init__(typed, signature, inner_codes)
        self.length = "length"
        self.elements.index, self.elements.given = "start + j", ("start",)
        self.schedule = Schedule(typed)
        self.rooms_apart: list[Room] = []
        self._functions: list[str] = []
        self._folds: list[Fold] = []
        self._text = super().lines()

    def lines(self) -> list[str]:
        """The lines of the kernel."""
        return self._text

    def body(self, narrow: Sequence[str]) -> list[str]:
        """The lines of the kernel, which begins with `narrow`."""
        phases = self._phases(0)
        begin, end, finish = self._sums()
        self.rooms_apart = [
            *(room for k in range(len(self.typed.stages)) for room in self._states(k)),
            *(Room(p, self.typed.outs[k].accumulator, self._per(k))
              for k, p in self.partial.items()),
            *self._held_rooms()]
        self.frame = with_rooms(self.frame, self.launched, self.rooms_apart)
        last = f"rows if phase == {self.schedule.last} else first + 1" \
            if self.partial else "first + 1"
        units = ["for u in range(begin, end):", *indented([
            "first = u // chunks", "start = (u - first*chunks)*chunk",
            f"length = min(chunk, {self.columns} - start)", f"last = {last}", *begin,
            "for row in range(first, last):",
            *indented([*self._bound(), *phases]), *end])]
        if finish:
            units = [f"if phase > {self.schedule.last}:", *indented(finish), "else:",
                     *indented(units)]
        pointers = [f"{room.name} = {room.pointer}" for room in self.rooms_apart
                    if room.per != "element"]
        title = ", ".join(o.function.function.name for o in self.typed.outs)
        return [f"# Long Row {title}", *self._functions, "def kernel(a, begin, end):",
                *indented([*narrow, *self.frame.unpack(), *pointers,
                           *(line for fold in self._folds for line in fold.locals()),
                           f"rows = {' * '.join(self.rows)}", *units])]

    # A chunk of a row --------------------------------------------------------------

    def _bound(self) -> list[str]:
        """Lines that point everything to the chunk's first element."""
        indices = [f"k{d}" for d in range(len(self.rows))]
        lines = unravel("row", self.rows, indices)
        for o in (*self.inputs, *self.outputs):
            bound = o.bind(offset(o, [*indices, "start"]))
            lines += self._copied_once(o, bound) if o in self.copied_rows else bound
        return [*lines, *(f"{room.name} = {room.pointer_at(self._place)}"
                          for room in self._scratch())]

    @property
    def _place(self) -> str:
        return f"row*{self.columns} + start"

    def _copied_once(self, o: Operand, bound: Sequence[str]) -> list[str]:
        """Lines that copy an input in the first phase, and point to the copy."""
        copy = copy_of(o).pointer_at(self._place)
        lines = [*bound, f"to = {copy}", *o.copied("to", self.length)]
        return ["if phase == 0:", *indented(lines), f"{o.name} = {copy}"]

    def _phases(self, phase: int) -> list[str]:
        """Lines of this phase and of all later ones."""
        lines = [line for k in self.schedule.finishes(phase)
                 for line in (*self._merged(k), *self.finished(
                     k, self.typed.stages[k]))]
        if phase == self.schedule.last:
            return [*lines, *self._results()]
        folds = [line for k in self.schedule.folds(phase) for line in self._stored(k)]
        return [*lines, f"if phase == {phase}:", *indented(folds), "else:",
                *indented(self._phases(phase + 1))]

    def _states(self, k: int) -> list[Room]:
        """The states of a stage's chunks."""
        return [Room(f"s{k}_p{i}", d, "chunk")
                for i, d in enumerate(self.typed.stages[k].state)]

    def _stored(self, k: int) -> list[str]:
        """Lines that fold a chunk of a stage and store its state."""
        fold, functions, body = self.folded(k, self.typed.stages[k])
        self._folds.append(fold)
        self._functions += functions
        return [*body, *(
            f"{room.name}[u] = {encode(room.dtype, value)}" for room, value in zip(
                self._states(k), fold.values(fold.top, "0"), strict=True))]

    def _merged(self, k: int) -> list[str]:
        """Lines that merge the states of a row's chunks, in their order."""
        stage, rooms = self.typed.stages[k], self._states(k)
        values = state_names(f"s{k}", stage)
        others = [f"s{k}_o{i}" for i in range(len(values))]

        def loads(names: Sequence[str], at: str) -> list[str]:
            return [f"{name} = {decode(room.dtype, f'{room.name}[{at}]')}"
                    for name, room in zip(names, rooms, strict=True)]

        return [*loads(values, "row*chunks"), "for c in range(1, chunks):", *indented([
            *loads(others, "row*chunks + c"),
            *merged(stage.merge, stage.state, values, others, f"s{k}_m")])]

    def _results(self) -> list[str]:
        """Lines that compute a chunk's results."""
        functions, lines = self._element_outs()
        row = self._row_outs()[1]
        if row:
            lines = [*lines, "if start == 0:", *indented(row)]
        self._functions += functions
        for k, out in self._outs("scalar"):
            fold, functions, body = self._scalar_sum(k, out)
            self._folds.append(fold)
            self._functions += functions
            lines += body
        return lines or ["pass"]

    def in_place(self, column: str) -> list[str]:
        """Lines that make a column's number one of the chunk."""
        return [f"{column} -= start"]

    # What is held until later phases -----------------------------------------------

    def _scratch(self) -> list[Room]:
        """Values of elements."""
        return [Room(name, d, "element") for name, d in self.scratch.items()]

    def _held_rooms(self) -> list[Room]:
        return [*self._scratch(), *map(copy_of, self.copied_rows)]

    # Sums over rows ----------------------------------------------------------------

    def _per(self, k: int) -> str:
        return "column" if self.typed.outs[k].kind == "column" else "chunk"

    def _sums(self) -> tuple[list[str], list[str], list[str]]:
        """Lines around the rows of a chunk, and those that finish sums of elements."""
        begin: list[str] = []
        end: list[str] = []
        finish: list[str] = []
        for k, o in self._outs("column", "scalar"):
            p, y, zero = self.partial[k], self.outputs[k], literal(o.accumulator, 0)
            r0 = cast(o.accumulator, compute_dtype(o.function.results[0]), f"{p}[l]")
            store = [f"r0 = {r0}", y.store("l", o.function.results[0], "r0")]
            if o.kind == "scalar":
                begin.append(f"{p}[u] = {zero}")
                total = sum_text(o.accumulator, f"{p}[0]", f"{p}[c]")
                finish += [*y.bind(), "for c in range(1, chunks):",
                           f"    {p}[0] = {total}", "l = 0", *store]
                continue
            q = f"q{k}"
            self._functions += [
                *inlined(f"zero{k}", ["l", q], [f"{q}[l] = {zero}"]),
                *inlined(f"store{k}", ["l", p, *y.names], store)]
            begin += [f"{q} = {Room(p, o.accumulator, 'column').pointer_at('start')}",
                      loop(f"zero{k}", "0", self.length, [q])]
            end.append(loop(f"store{k}", "0", self.length, [q, *y.names]))
        if not (begin and self.schedule.last):
            return begin, end, finish
        only = f"if phase == {self.schedule.last}:"
        return ([only, *indented(begin)], [only, *indented(end)] if end else [], finish)


class HoldingLongRowText(LongRowText):
    """Writer of a kernel that holds values, and copies of inputs, for later phases."""

    on_stack: ClassVar[bool] = True

    def _strided(self, wanted: str, reads: int) -> list[Operand]:
        """The inputs of which there are copies: rows that several phases read."""
        return super()._strided(wanted, reads) if wanted == "element" else []
