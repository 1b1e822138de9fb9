"""Factors in an order that tensor cores can be fed from: packed rows, then a product.

A factor whose rows begin anywhere, or that has no dimension with stride 1, or a
prologue, is brought into temporary memory first, its prologue applied on the way.  That
costs little beside a large product.  Rows that are not short begin at multiples of 128
bytes there: TMA's boxes are lines of the L2 cache then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np

from ..backend import Call, Signature
from ..records import record
from ..scalar.print_numba import literal
from ..scalar.promotion import compute_dtype
from ..specs import TypedContract
from .compile import Kernel
from .contract_text import ContractText, offsets_of
from .driver import Device
from .launch import Program
from .source import Source, decoded, encoded, evaluate, kernel_name, storage

__all__ = ["PackLauncher"]

#: Multiply-adds from which on a product is worth packing its factors.
LEAST = 1 << 24
#: Elements that a thread packs, and threads of a block.
EACH, THREADS = 8, 256
#: Bytes of which the length of a row is a multiple; and of a long one.
_ALIGN, _LINE, _LONG = 16, 128, 1024


@record(frozen=True)
class _Layout:
    """A packed factor: which loops it varies along, outermost first; the last is 1."""

    loops: tuple[int, ...]
    extents: tuple[int, ...]
    item: int

    @property
    def row(self) -> int:
        """Elements from row to row."""
        long = self.extents[-1]*self.item >= _LONG
        each = (_LINE if long else _ALIGN)//self.item
        return -(-self.extents[-1]//each)*each

    @property
    def bytes(self) -> int:
        """Of the whole, a multiple of 256."""
        return -(-prod(self.extents[:-1])*self.row*self.item // 256)*256

    def strides(self, count: int) -> tuple[int, ...]:
        """A stride for each of `count` loops."""
        found, step = [0]*count, self.row
        found[self.loops[-1]] = 1
        for loop, extent in reversed(list(zip(self.loops, self.extents,
                                              strict=True))[:-1]):
            found[loop] = step
            step *= extent
        return tuple(found)


class PackLauncher:
    """Packs the factors that need it; another launcher multiplies them.

    Parameters
    ----------
    text
        Operands and functions.
    signature
        Dtypes and loops.
    """

    def __init__(self, text: ContractText, signature: Signature) -> None:
        self._text, self._batch = text, signature.ranks[0]
        self._programs: dict[tuple[int, int], Program] = {}
        typed, dtypes = text.typed, [self._dtype(w) for w in (0, 1)]
        self._possible = signature.ranks[1:] == (1, 1, 1) and (
            dtypes[0].itemsize == 2 or typed.precision is not None
            or typed.prologues != (None, None))
        self._stripped = replace(typed, prologues=(None, None))
        self._signature = signature._replace(inputs=(*dtypes, *signature.inputs[2:]))

    def _dtype(self, which: int) -> np.dtype:
        prologue = self._text.typed.prologues[which]
        return self._text.factors[which].dtype if prologue is None \
            else prologue.results[0]

    def worthwhile(self, call: Call) -> bool:
        """Whether a factor needs it, and the product is large beside its factors."""
        return self._possible and prod(call.shape) >= LEAST and bool(self.layouts(call))

    def product(self, call: Call) -> tuple[TypedContract, Signature]:
        """What is left to do after packing, and on which layouts."""
        codes = list(self._signature.inner)
        for w, layout in self.layouts(call).items():
            along = layout.loops[-1] == self._batch + 2
            codes[w] = "s1" if along == (w == 0) else "1s"
        return self._stripped, self._signature._replace(inner=tuple(codes))

    def layouts(self, call: Call) -> dict[int, _Layout]:
        """The factors that have to be packed."""
        found = {}
        for w in (0, 1):
            strides, own, k = call.strides[w], self._batch + w, self._batch + 2
            along = abs(strides[k]) <= abs(strides[own])
            inner, outer = (k, own) if along else (own, k)
            if self._ordered(call, w, inner):
                continue
            batch = tuple(x for x in range(self._batch) if strides[x])
            loops = (*batch, outer, inner)
            found[w] = _Layout(loops, tuple(call.shape[x] for x in loops),
                               self._dtype(w).itemsize)
        return found

    def _ordered(self, call: Call, which: int, inner: int) -> bool:
        """Whether whole accesses reach every element of a factor as it is."""
        strides, item = call.strides[which], self._text.factors[which].dtype.itemsize
        others = (*strides[:inner], *strides[inner + 1:])
        return self._text.typed.prologues[which] is None and strides[inner] == 1 and \
            all(x*item % _ALIGN == 0 for x in (call.shape[inner], *others)) and \
            call.pointers[which] % _ALIGN == 0 and min(others) >= 0

    def packed(self, call: Call, base: int) -> Call:
        """The call on the factors that lie at `base`, one after the other."""
        pointers, strides = list(call.pointers), list(call.strides)
        for w, layout in self.layouts(call).items():
            pointers[w], strides[w] = base, layout.strides(len(call.shape))
            base += layout.bytes
        return replace(call, pointers=tuple(pointers), strides=tuple(strides))

    def __call__(self, call: Call, where: Device,
                 multiply: Callable[[Call, Device], None]) -> None:
        """Pack, then `multiply`, on the call's stream."""
        layouts = self.layouts(call)
        total = sum(layout.bytes for layout in layouts.values())
        with where.current(), where.workspace(total, call.stream) as base:
            after = self.packed(call, base)
            for w, layout in layouts.items():
                self._pack(call, where, w, layout, after.pointers[w])
            multiply(after, where)

    def _pack(self, call: Call, where: Device, which: int, layout: _Layout,
              target: int) -> None:
        program = self._programs.get((which, len(layout.loops)))
        if program is None:
            program = Program(self._kernel(which, len(layout.loops)))
            self._programs[which, len(layout.loops)] = program
        pieces = -(-layout.row // (32*EACH))
        warps = prod(layout.extents[:-1])*pieces
        program.launch(
            where, call.stream, -(-warps // (THREADS//32)),
            (call.pointers[which], target, *layout.extents,
             *(call.strides[which][x] for x in layout.loops), layout.row))

    def _kernel(self, which: int, rank: int) -> Kernel:
        """A warp packs a piece of a row: neighbouring lanes, neighbouring pairs."""
        o, target = self._text.factors[which], self._dtype(which)
        out = Source(kernel_name(self._text.name, f"pack{which}"))
        out.pointer(o.pointer, storage(o.dtype))
        out.pointer("target", storage(target))
        extents = [f"n{k}" for k in range(rank)]
        out.integer(*extents, *(o.stride(k) for k in range(rank)), "width")
        rows = "*".join(extents[:-1])
        out(f"place = i64(cuda.blockIdx.x)*{THREADS//32} + "
            "(i64(cuda.threadIdx.x) >> 5)",
            f"pieces = divide(width + {32*EACH - 1}, i64({32*EACH}))",
            "row = divide(place, pieces)",
            f"first = (place - row*pieces)*{32*EACH} + (i64(cuda.threadIdx.x) & 31)*2")
        with out.block(f"if row < {rows}:"):
            at = offsets_of(out, "row", extents[:-1], [o], 0, "q")[o.at]
            out(f"source = {at}", "begin = row*width + first",
                f"room = {extents[-1]} - first")
            step = o.stride(rank - 1)
            with out.block(f"if {step} == 1 and room > {64*(EACH//2 - 1) + 1}:"):
                out("near = source + first")
                self._pairs(out, which, "near + {0}")
            with out.block("else:"):
                out("end = room - 1")
                self._pairs(out, which, f"source + (first + min({{0}}, end))*{step}",
                            "room", "width - first")
        return out.kernel(THREADS)

    def _pairs(self, out: Source, which: int, source: str, room: str = "",
               width: str = "") -> None:
        """A lane's elements; `room`: how many a row has from there on, `width`: here.

        Beyond its end a row is 0: along k it is multiplied.
        """
        places = [64*(e//2) + e % 2 for e in range(EACH)]
        pointer = self._text.factors[which].pointer
        out(*(f"x{e} = {pointer}[{source.format(x)}]" for e, x in enumerate(places)))
        for e in range(0, EACH, 2):
            pair = [self._element(out, which, f"x{k}", k) for k in (e, e + 1)]
            if not room:
                out(f"store2(target, begin + {places[e]}, ({', '.join(pair)}))")
                continue
            pair = [f"({x} if {k} < {room} else {self._zero(which)})"
                    for x, k in zip(pair, places[e:], strict=False)]
            with out.block(f"if {places[e]} < {width}:"):
                out(f"store2(target, begin + {places[e]}, ({', '.join(pair)}))")

    def _zero(self, which: int) -> str:
        dtype = self._dtype(which)
        return encoded(dtype, dtype, literal(compute_dtype(dtype), 0.0))

    def _element(self, out: Source, which: int, element: str, e: int) -> str:
        """An element after its prologue, as it is stored."""
        o, prologue = self._text.factors[which], self._text.typed.prologues[which]
        if prologue is None:
            return element
        lines, (name,) = evaluate(
            prologue, {prologue.function.params[0]: decoded(o.dtype, element)},
            f"e{e}_")
        out(*lines)
        return encoded(prologue.results[0], prologue.results[0], name)
