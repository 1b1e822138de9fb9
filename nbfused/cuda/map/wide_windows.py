"""The kernel of a Map with windows whose threads have neighbouring columns.

What lies as the results do, the windows of the rows above and below among it, is loaded
and stored in whole accesses; windows that begin in between, element by element.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

#: Columns of one thread at most, threads side by side, and elements that a thread loads
#: before it stores the first: benchmarks/notes/table.md#stencils.
_MOST, _SIDE = 4, 32
_AHEAD = 64


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
        Of a window that begins few columns from an operand of whole accesses: its
        number, that operand's, and the columns.  Most of its elements are there.  Other
        calls of a bound kernel may have other distances, so that it asks for them.
    turning
        For each box the first one with the same sides along columns, of those whose
        windows come from the other end of a row; None where there is nothing to turn.
    width
        Columns of a thread.
    """

    operands: tuple[int, ...]
    alike: tuple[int, ...]
    beside: tuple[tuple[int, int, int], ...]
    turning: tuple[int | None, ...]
    width: int


def wide_in(text: WindowText, call: Call) -> Wide | None:
    """The operands of whole accesses; None where the results are none of them.

    Nor where rows are too short for a warp, or the function is too long to print for
    each of a thread's columns.
    """
    unit = [o for o in text.looped if o.code == "1"]
    width = min(_MOST, width_of(unit))
    if text.rank == 1 or width == 1 or call.shape[-1] < _SIDE*width or affordable(
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
                tuple(_beside(text, call, aligned, width)), turning, width)


def _turning(text: WindowText, call: Call) -> tuple[int | None, ...]:
    sides = [box[-1] for box in call.boxes]
    whole = (0, call.shape[-1])
    return tuple([sides.index(own) if wraps and own != whole else None
                  for own, wraps in zip(sides, text.typed.wraps, strict=True)])


def _beside(text: WindowText, call: Call, aligned: Sequence[int], width: int,
            ) -> Iterator[tuple[int, int, int]]:
    """The windows that begin fewer than `width` columns from whole accesses.

    Only among such as thread loads in any case, and in the same row.
    """
    box_of, columns = text.typed.box_of, call.shape[-1]
    usual = {o.at: (o, p) for p, o in text.loaded
             if p not in box_of or text.typed.inner[box_of[p]]}
    around = {o.at: call.boxes[k] for o, k in text.around}
    for at, (o, _) in usual.items():
        if at in aligned or o.code != "1":
            continue
        for other in aligned:
            by, rest = divmod(call.pointers[at] - call.pointers[other],
                              o.dtype.itemsize)
            if (rest == 0 and abs(by) < width and other in usual
                    and usual[other][0].dtype == o.dtype
                    and call.strides[at] == call.strides[other]
                    and all(_stays(box, call.shape[:-2], sides) for box, sides in (
                        (around.get(at), (max(-by, 0), columns - max(by, 0))),
                        (around.get(other), (0, columns))))):
                yield at, other, by
                break


def _stays(box: Box | None, outer: Shape, sides: tuple[int, int]) -> bool:
    """Whether a window that wraps, if any, turns in rows and at `sides` only."""
    return box is None or (box[-1] == sides and box[:-2] == whole(outer))


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
        super().__init__(name, typed, signature, threads=threads, columns=_SIDE)
        self.whole, self.each = {*wide.operands}, wide.width
        self._wide = wide
        self._partners = {at: (other, by) for at, other, by in wide.beside}
        turning = [(o.at, wide.turning[k]) for o, k in self.around]
        self._turns = {at: k for at, k in turning if k is not None}
        # Outer coordinates of windows that wrap may turn.
        self.alike = {*wide.alike} - {o.at for o, _ in self.around if self.rank > 2}
        loads = sum(1 for o in self.inputs if o.code != "0") or 1
        rows = max(1, _AHEAD // (self.each*loads))
        self.rows = affordable(typed.function, self.each*rows) // self.each or 1
        self.name = f"{self.name}_wide"

    def _columns(self, out: Source, coordinates: Sequence[tuple[int, str]]) -> None:
        last, rows = self.extents[-1], self.extents[-2]
        end = f"i + {(self.rows - 1)*self.lanes}"
        usual = [self._is_there(k, end, coordinates) for k in self.boxes]
        usual += [f"between(p{other}, p{at}) == {by*self._item(at)}"
                  for at, other, by in self._wide.beside]
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

    def _item(self, at: int) -> int:
        return self.operands[at].dtype.itemsize

    def _usual(self, out: Source) -> None:
        """All rows and columns of a thread at once, where nothing has to be asked."""
        row, rows = self.rank - 2, []
        inside = {p: str(self.typed.inner[k]) for p, k in self.typed.box_of.items()}
        for o in self.looped:
            if o.at not in self.alike or o is self.results[0]:
                out(f"row{o.at} = at{o.at} + i*{o.stride(row)}",
                    f"next{o.at} = {self.lanes}*{o.stride(row)}")
        for k in sorted({*self._turns.values()}):
            out(*(f"turn{k}_{e} = {self._turn(k, self.rank - 1, f'(j + {e})')}"
                  for e in range(self.each)))
        # Whole accesses first: others take elements of them.
        loaded = sorted([(p, o) for p, o in self.loaded if inside.get(p) != "False"],
                        key=lambda pair: pair[1].at in self._partners)
        for k in range(self.rows):
            rows.append({p: self._elements(out, o, k) for p, o in loaded})
        for k, loads in enumerate(rows):
            gone = {p: self._zero(o) for p, o in self.loaded if p not in loads}
            values = [self._printed(out, {
                **{p: texts[e] for p, texts in loads.items()}, **gone,
                **{p: inside[p] for p in self.asked}}, f"e{k}_{e}_")
                for e in range(self.each)]
            for r, o in enumerate(self.results):
                parts = ", ".join(v[r] for v in values)
                out(f"store{self.each}({o.pointer}, {self._at_row(o, k)}, ({parts},))")

    def _at_row(self, o: Operand, k: int) -> str:
        """The place of the first of a thread's columns in one of its rows."""
        at = self.results[0].at if o.at in self.alike else o.at
        return f"row{at} + {k}*next{at}"

    def _elements(self, out: Source, o: Operand, k: int) -> list[str]:
        """Load an input's elements in row `k` of a thread; their texts."""
        at = self._at_row(o, k)
        if o.code == "0":
            out(f"x{o.at}_{k} = {o.pointer}[{at}]")
            return [decoded(o.dtype, f"x{o.at}_{k}")]*self.each
        names = [f"x{o.at}_{k}_{e}" for e in range(self.each)]
        step = f"*{o.stride(self.rank - 1)}"*(o.code == "s")
        if o.at in self.whole:
            at += self._turned(o, 0, step)
            out(f"{', '.join(names)}, = {loaded_text(o, self.each, at, self.hint)}")
            return [decoded(o.dtype, name) for name in names]
        other, by = self._partners.get(o.at, (o.at, self.each))
        for e in range(self.each):
            if 0 <= e + by < self.each:
                names[e] = f"x{other}_{k}_{e + by}"
                continue
            place = f"{at} + {e}{step}{self._turned(o, e, step)}"
            out(f"{names[e]}, = {loaded_text(o, 1, place, self.hint)}")
        return [decoded(o.dtype, name) for name in names]

    def _turned(self, o: Operand, e: int, step: str) -> str:
        """By how much a window that wraps moves in the columns of a row."""
        return f" + turn{self._turns[o.at]}_{e}{step}" if o.at in self._turns else ""
