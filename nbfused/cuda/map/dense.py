"""Maps whose results are one run of memory, whatever their inputs are.

Rows that are no whole accesses, as those of (20001, 1001), and operands that are
broadcast keep a Map from moving neighbours by one access, which its results allow all
the same: those of a thread lie in one row, or in its end and the beginning of the next
one.  An input has a place in each of these rows.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import NamedTuple

from ...backend import Call, Signature
from ...gpu.operands import Operand, kernel_name, width_of
from ...specs import TypedMap
from ...support.loop_nests import dense_strides
from ..text.source import Source, affordable, offsets
from .text import MapText

__all__ = ["Dense", "DenseText", "dense_in"]

#: Elements from which whole accesses leave no processor idle; not measured.
LEAST = 1 << 18

_KINDS = frozenset({"element", "scalar", "index", "size"})


class Dense(NamedTuple):
    """Operands that are runs of memory, by number, and elements of an access."""

    operands: tuple[int, ...]
    width: int


def dense_in(text: MapText, call: Call) -> Dense | None:
    """The operands that lie as the results do; None where these are no dense runs.

    Nor are they taken whose rows are shorter than an access, or whose function is long.
    """
    kinds = set(text.typed.kinds)
    if not kinds <= _KINDS or len(call.shape) < 2 or prod(call.shape) < LEAST:
        return None
    strides = dense_strides(call.shape)
    dense = [o for o in text.looped if call.strides[o.at] == strides]
    width = width_of(dense)
    aligned = tuple([o.at for o in dense
                     if not call.pointers[o.at] & (o.dtype.itemsize*width - 1)])
    if width == 1 or call.shape[-1] < width or not {
            o.at for o in text.results} <= {*aligned} or \
            affordable(text.typed.function, width) < width:
        return None
    return Dense(aligned, width)


class DenseText(MapText):
    """Writes the kernel of a Map with dense results.

    Parameters
    ----------
    name, typed, signature, threads
        As `MapText` takes them.
    dense
        What `dense_in` has found.
    """

    def __init__(self, name: str, typed: TypedMap, signature: Signature, *,
                 threads: int, dense: Dense) -> None:
        super().__init__(name, typed, signature, vector=False, threads=threads,
                         near=True)
        self._dense, self.width = dense
        self.name = kernel_name(name, "map", "dense")

    def _body(self, out: Source) -> None:
        width, rows, last = self.width, self.extents[:-1], self.extents[-1]
        out(f"v = i64(cuda.blockIdx.x)*{self.threads} + i64(cuda.threadIdx.x)",
            f"vectors = divide(size, i64({width}))", f"j = vectors*{width} + v")
        with out.block("if j < size:"):
            self._element(out, "j")
        with out.block("if v < vectors:"):
            out(f"index = v*{width}",
                f"row = divide_short(index, {last}, inverse{len(rows)})",
                f"column = index - row*{last}", f"here = {last} - column")
            # The row after the last one is nowhere: no element lies in it.
            out(f"next_row = row + i64(here < {width})")
            apart = [replace(o, code="s") for o in self.looped
                     if o.at not in self._dense]
            starts, others = (offsets(out, row, rows, apart, 0, prefix, short=True)
                              for row, prefix in (("row", "r"), ("next_row", "s")))
            loads = {p: self._loaded(out, o, starts.get(o.at), others.get(o.at))
                     for p, o in self.loaded}
            values = self._evaluate(out, [
                ({p: texts[e] for p, texts in loads.items()}, f"index + {e}")
                for e in range(width)])
            for r, o in enumerate(self.results):
                parts = ", ".join(v[r] for v in values)
                out(f"store{width}({o.pointer}, index, ({parts},))")

    def _loaded(self, out: Source, o: Operand, start: str | None, other: str | None,
                ) -> list[str]:
        """The elements of an input as text: its rows begin at `start` and at `other`.

        None of an operand that is dense itself.
        """
        if start is None:
            return self._load(out, replace(o, code="1"), "index", 0)
        if o.code == "0":
            out(f"x{o.at}_0 = {o.pointer}[{start}]",
                f"x{o.at}_1 = {o.pointer}[{other}]")
            names = [f"x{o.at}_e{e}" for e in range(self.width)]
            out(*(f"{name} = x{o.at}_0 if {e} < here else x{o.at}_1"
                  for e, name in enumerate(names)))
            return names
        step = "1" if o.code == "1" else o.stride(len(self.extents) - 1)
        out(f"at{o.at} = {start} + column*{step}", f"to{o.at} = {other} - here*{step}")
        names = [f"x{o.at}_{e}" for e in range(self.width)]
        out(*(f"{name} = {o.pointer}[short((at{o.at} if {e} < here else to{o.at}) + "
              f"{e}*{step})]" for e, name in enumerate(names)))
        return names
