"""The kernel of a Map with windows whose threads have neighbouring columns.

What lies as the results do, the windows of the rows above and below among it, is loaded
and stored in whole accesses; windows that begin in between, element by element.  An
element that several windows of one array read is loaded once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ...backend import Call, Signature
from ...gpu.operands import Operand, are_aligned, width_of
from ...specs import TypedMap
from ...specs.base import Shape
from ...specs.windows import Box, whole
from ..text.hints import loaded_text
from ..text.source import Source, affordable, decoded
from .windows import WindowText

__all__ = ["Wide", "WideWindowText", "wide_in"]

#: Columns and rows of one thread at most, threads side by side, and elements that a
#: thread loads before it stores the first: benchmarks/notes/table.md#stencils.
_MOST, _ROWS, _SIDES = 4, 4, (64, 32)
_AHEAD = 64


class Beside(NamedTuple):
    """A window that reads what operand `base` reads, so many rows and columns on."""

    at: int
    base: int
    rows: int
    columns: int


class Element(NamedTuple):
    """An element of an operand, by rows and columns from a thread's first.

    `turned`: it comes from the other end where it is outside of the row.
    """

    at: int
    row: int
    column: int
    turned: bool = False


class Wide(NamedTuple):
    """The operands of whole accesses, by number, and how others lie beside them.

    Attributes
    ----------
    operands
        Those of whole accesses.
    alike
        Those with a result's strides: one offset is theirs in common, where 64 bits
        for each take most registers.
    beside
        The windows that read the elements of others.  Other calls of a bound kernel may
        have other distances, so that it asks for them.
    turning
        For each box the first one with the same sides along columns, of those whose
        windows come from the other end of a row; None where there is nothing to turn.
    width
        Columns of a thread.
    side
        Threads side by side.
    """

    operands: tuple[int, ...]
    alike: tuple[int, ...]
    beside: tuple[Beside, ...]
    turning: tuple[int | None, ...]
    width: int
    side: int


def wide_in(text: WindowText, call: Call) -> Wide | None:
    """The operands of whole accesses; None where the results are none of them.

    Nor where rows are too short for a warp, or the function is too long to print for
    each of a thread's columns.
    """
    unit = [o for o in text.looped if o.code == "1"]
    width = min(_MOST, width_of(unit))
    side = next((n for n in _SIDES if n*width <= call.shape[-1]), None)
    if text.rank == 1 or width == 1 or side is None or affordable(
            text.typed.function, width) < width:
        return None
    outer = range(text.rank - 1)
    turning = _turning(text, call)
    apart = {o.at for o, k in text.around if turning[k] is not None and any(
        n % width for n in (call.shape[-1], *call.boxes[k][-1]))}
    aligned = tuple([o.at for o in unit if o.at not in apart
                     and are_aligned(call, [o], width, outer)])
    if not {o.at for o in text.results} <= {*aligned}:
        return None
    strides = call.strides[text.results[0].at]
    return Wide(aligned, tuple([o.at for o in unit if call.strides[o.at] == strides]),
                tuple(_beside(text, call, aligned, width)), turning, width, side)


def _turning(text: WindowText, call: Call) -> tuple[int | None, ...]:
    sides = [box[-1] for box in call.boxes]
    whole = (0, call.shape[-1])
    return tuple([sides.index(own) if wraps and own != whole else None
                  for own, wraps in zip(sides, text.typed.wraps, strict=True)])


def _beside(text: WindowText, call: Call, aligned: Sequence[int], width: int,
            ) -> Iterator[Beside]:
    """The windows a few rows and columns from one of whole accesses.

    Only among what a thread loads in any case.
    """
    box_of, shape = text.typed.box_of, call.shape
    usual = {o.at: o for p, o in text.loaded if o.code == "1" and (
        p not in box_of or text.typed.inner[box_of[p]])}
    around = {o.at: call.boxes[k] for o, k in text.around}
    bases: list[int] = []
    for at in sorted(usual, key=lambda at: at not in aligned):
        o, row = usual[at], call.strides[at][-2]
        for base in bases if row > 2*width else ():
            by, rest = divmod(call.pointers[at] - call.pointers[base],
                              o.dtype.itemsize)
            rows = (by + width) // row
            columns = by - rows*row
            if (not rest and abs(rows) < _ROWS and abs(columns) < width
                    and usual[base].dtype == o.dtype
                    and call.strides[at] == call.strides[base]
                    and _stays(around.get(at), shape, columns)
                    and _stays(around.get(base), shape, 0)):
                yield Beside(at, base, rows, columns)
                break
        else:
            if at in aligned:
                bases.append(at)


def _stays(box: Box | None, shape: Shape, columns: int) -> bool:
    """Whether no window, or one that wraps no sooner than its `columns` leave a row."""
    sides = max(-columns, 0), shape[-1] - max(columns, 0)
    return box is None or (box[-1] == sides and box[:-2] == whole(shape[:-2]))


class WideWindowText(WindowText):
    """Writes the kernel of a Map with windows for neighbouring columns.

    Parameters
    ----------
    name, typed, signature, threads
        As of `MapText`.
    wide
        What `wide_in` has found.
    """

    def __init__(self, name: str, typed: TypedMap, signature: Signature, *,
                 threads: int, wide: Wide) -> None:
        super().__init__(name, typed, signature, threads=threads, columns=wide.side)
        self.whole, self.each = {*wide.operands}, wide.width
        self._wide = wide
        self._beside = {beside.at: beside for beside in wide.beside}
        turning = [(o.at, wide.turning[k]) for o, k in self.around]
        self._turns = {at: k for at, k in turning if k is not None}
        # Outer coordinates of windows that wrap may turn.
        self.alike = {*wide.alike} - {o.at for o, _ in self.around if self.rank > 2}
        self.apart = 1
        below = any(beside.rows for beside in wide.beside)  # else one row is faster
        most = affordable(typed.function, self.each*_ROWS) // self.each if below else 1
        self.rows = next((n for n in range(most, 1, -1)
                          if self._reads(n) <= _AHEAD), 1)
        self.name = f"{self.name}_wide"

    def _reads(self, rows: int) -> int:
        """Number of elements that a thread of so many rows loads."""
        return len({element for o in self._in_any_case().values() if o.code != "0"
                    for k in range(rows) for element in self._elements(o, k)})

    def _columns(self, out: Source, coordinates: Sequence[tuple[int, str]]) -> None:
        last, rows = self.extents[-1], self.extents[-2]
        end = f"i + {self.rows - 1}"
        usual = [self._is_there(k, end, coordinates) for k in self.boxes]
        usual += [self._is_beside(*beside) for beside in self._wide.beside]
        with out.block(f"if j < {last}:"):
            with out.block("if " + " and ".join([
                    f"j + {self.each - 1} < {last}", f"{end} < {rows}", *usual]) + ":"):
                self._offsets(out, coordinates, "j")
                self._usual(out)
            with out.block("else:"):
                out("first = i", "c = j", f"stop = min(j + {self.each}, {last})")
                with out.block("while c < stop:"):
                    out("i = first")
                    self._fixed(out, coordinates, "c")
                    self._some(out, rows)
                    out("c += 1")

    def _is_there(self, k: int, end: str, outer: Sequence[tuple[int, str]]) -> str:
        """Whether all of a thread's points are in a box, or none, as most points are.

        Of windows that wrap, only rows are asked for.
        """
        row, last = self.rank - 2, self.rank - 1
        rows = f"b{k}_l{row} <= i and {end} < b{k}_h{row}"
        if self.typed.wraps[k]:
            return rows
        right = f"j + {self.each - 1}"
        around = self._between(k, outer)
        if self.typed.inner[k]:
            inside = f"b{k}_l{last} <= j and {right} < b{k}_h{last} and {rows}"
            return f"{around} and {inside}" if around else inside
        return (f"({f'not ({around}) or ' if around else ''}{right} < b{k}_l{last} or "
                f"j >= b{k}_h{last} or {end} < b{k}_l{row} or b{k}_h{row} <= i)")

    def _is_beside(self, at: int, base: int, rows: int, columns: int) -> str:
        o, row = self.operands[at], self.rank - 2
        return (f"between(p{base}, p{at}) == "
                f"({rows}*{o.stride(row)} + {columns})*{o.dtype.itemsize}")

    def _usual(self, out: Source) -> None:
        """All rows and columns of a thread at once, where nothing has to be asked."""
        row, loaded = self.rank - 2, self._in_any_case()
        for o in self.looped:
            if o.at not in self.alike or o is self.results[0]:
                out(f"row{o.at} = at{o.at} + i*{o.stride(row)}")
        for k in sorted({*self._turns.values()}):
            out(*(f"turn{k}_{e} = {self._turn(k, self.rank - 1, f'(j + {e})')}"
                  for e in range(self.each)))
        names: dict[Element, str] = {}
        for whole_ones in (True, False):
            for k in range(self.rows):
                for o in loaded.values():
                    if (o.at in self.whole) == whole_ones:
                        self._load_new(out, o, k, names)
        for k in range(self.rows):
            values = [self._printed(out, self._values(loaded, names, k, e),
                                    f"e{k}_{e}_") for e in range(self.each)]
            for r, o in enumerate(self.results):
                parts = ", ".join(v[r] for v in values)
                out(f"store{self.each}({o.pointer}, {self._at_row(o, k)}, ({parts},))")

    def _in_any_case(self) -> dict[str, Operand]:
        """The inputs that are read where nothing has to be asked, by parameter."""
        box_of, inner = self.typed.box_of, self.typed.inner
        return {p: o for p, o in self.loaded if p not in box_of or inner[box_of[p]]}

    def _elements(self, o: Operand, k: int) -> list[Element]:
        """An input's elements in row `k` of a thread."""
        if o.code == "0":
            return [Element(o.at, k, 0)]*self.each
        found = self._beside.get(o.at, Beside(o.at, o.at, 0, 0))
        columns = [found.columns + e for e in range(self.each)]
        return [Element(found.base, found.rows + k, c, not 0 <= c < self.each
                        and o.at in self._turns) for c in columns]

    def _load_new(self, out: Source, o: Operand, k: int,
                  names: dict[Element, str]) -> None:
        """Load what has no name of an input's elements in row `k` of a thread."""
        at, elements = self._at_row(o, k), self._elements(o, k)
        step = f"*{o.stride(self.rank - 1)}"*(o.code == "s")
        if o.at in self.whole and not names.keys() >= {*elements}:
            new = [f"x{o.at}_{k}_{e}" for e in range(self.each)]
            at += self._turned(o, 0, step)
            out(f"{', '.join(new)}, = {loaded_text(o, self.each, at, self.hint)}")
            names.update(zip(elements, new, strict=True))
        for e, element in enumerate(elements):
            if element not in names:
                names[element] = f"x{o.at}_{k}_{e}"
                place = f"{at} + {e}{step}{self._turned(o, e, step)}"
                out(f"{names[element]}, = {loaded_text(o, 1, place, self.hint)}")

    def _values(self, loaded: Mapping[str, Operand], names: Mapping[Element, str],
                k: int, e: int) -> dict[str, str]:
        """The function's arguments in a row and column of a thread, by parameter."""
        found = {p: self._zero(o) for p, o in self.loaded}
        for p, o in loaded.items():
            found[p] = decoded(o.dtype, names[self._elements(o, k)[e]])
        inner = {p: self.typed.inner[b] for p, b in self.typed.box_of.items()}
        return {**found, **{p: str(inner[p]) for p in self.asked}}

    def _at_row(self, o: Operand, k: int) -> str:
        """The place of the first of a thread's columns in one of its rows."""
        at = self.results[0].at if o.at in self.alike else o.at
        return f"row{at} + {k}*{o.stride(self.rank - 2)}" if k else f"row{at}"

    def _turned(self, o: Operand, e: int, step: str) -> str:
        """By how much a window that wraps moves in the columns of a row."""
        return f" + turn{self._turns[o.at]}_{e}{step}" if o.at in self._turns else ""
