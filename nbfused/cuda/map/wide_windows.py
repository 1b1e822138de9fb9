"""The kernel of a Map with windows whose threads have neighbouring columns.

What lies as the results do, the windows of the rows above and below among it, is loaded
and stored in whole accesses; windows that begin in between, element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...backend import Call, Signature
from ...gpu.operands import Operand, are_aligned, width_of
from ...specs import TypedMap
from ..text.hints import loaded_text
from ..text.source import Source, affordable, decoded
from .windows import WindowText

__all__ = ["Wide", "WideWindowText", "wide_in"]

#: Columns of one thread at most, threads side by side, and elements that a thread loads
#: before it stores the first: benchmarks/notes/table.md#stencils.
_MOST, _SIDE = 4, 32
_AHEAD = 64


class Wide(NamedTuple):
    """The operands of whole accesses, by number, and those with a result's strides.

    The latter have one offset in common, where 64 bits for each take most registers.
    """

    operands: tuple[int, ...]
    alike: tuple[int, ...]
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
    aligned = tuple([o.at for o in unit if are_aligned(call, [o], width, outer)])
    if not {o.at for o in text.results} <= {*aligned}:
        return None
    strides = call.strides[text.results[0].at]
    return Wide(aligned, tuple([o.at for o in unit if call.strides[o.at] == strides]),
                width)


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
        loads = sum(1 for o in self.inputs if o.code != "0") or 1
        rows = max(1, _AHEAD // (self.each*loads))
        self.rows = affordable(typed.function, self.each*rows) // self.each or 1
        self.name = f"{self.name}_wide"

    def _columns(self, out: Source, coordinates: Sequence[tuple[int, str]]) -> None:
        # Outer coordinates of windows that wrap may turn.
        self.alike = {*self._wide.alike} - {
            o.at for o, _ in self._around() if self.rank > 2}
        last, rows = self.extents[-1], self.extents[-2]
        end = f"i + {(self.rows - 1)*self.lanes}"
        usual = [self._is_there(k, end, coordinates) for k in self.boxes]
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

        Of windows that wrap, the outer coordinates may turn.
        """
        row, last = self.rank - 2, self.rank - 1
        right = f"j + {self.each - 1}"
        inside = (f"b{k}_l{last} <= j and {right} < b{k}_h{last} and "
                  f"b{k}_l{row} <= i and {end} < b{k}_h{row}")
        around = self._between(k, outer)
        if self.typed.wraps[k] or not outer:
            around = ""
        if self.typed.inner[k]:
            return f"{around} and {inside}" if around else inside
        return (f"({f'not ({around}) or ' if around else ''}{right} < b{k}_l{last} or "
                f"j >= b{k}_h{last} or {end} < b{k}_l{row} or b{k}_h{row} <= i)")

    def _usual(self, out: Source) -> None:
        """All rows and columns of a thread at once, where nothing has to be asked."""
        row, rows = self.rank - 2, []
        inside = {p: str(self.typed.inner[k]) for p, k in self.typed.box_of.items()}
        for o in self.looped:
            if o.at not in self.alike or o is self.results[0]:
                out(f"row{o.at} = at{o.at} + i*{o.stride(row)}",
                    f"next{o.at} = {self.lanes}*{o.stride(row)}")
        for k in range(self.rows):
            rows.append({p: self._elements(out, o, k) for p, o in self.loaded
                         if inside.get(p) != "False"})
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
        if o.at in self.whole:
            out(f"{', '.join(names)}, = {loaded_text(o, self.each, at, self.hint)}")
        else:
            step = f"*{o.stride(self.rank - 1)}"*(o.code == "s")
            out(*(f"{name}, = {loaded_text(o, 1, f'{at} + {e}{step}', self.hint)}"
                  for e, name in enumerate(names)))
        return [decoded(o.dtype, name) for name in names]
