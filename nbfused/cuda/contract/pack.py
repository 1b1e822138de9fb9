"""Factors in an order that tensor cores can be fed from: packed rows, then a product.

A factor whose rows begin anywhere, or that has no dimension with stride 1, or a
prologue, is brought into temporary memory first, its prologue applied on the way.  That
costs little beside a large product.  Rows that are not short begin at multiples of 128
bytes there: TMA's boxes are lines of the L2 cache then.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from itertools import chain
from math import prod

import numpy as np

from ...backend import Call, Signature
from ...gpu.operands import kernel_name
from ...gpu.programs import Programs
from ...scalar.printing.numba import literal
from ...scalar.typing.promotion import compute_dtype
from ...specs import TypedContract
from ...support.dtypes import storage
from ...support.records import record
from ..runtime.compile import Kernel
from ..runtime.driver import Device
from ..runtime.launch import Program
from ..text.source import Source, decoded, encoded, evaluate
from ..tuning.bounded_cache import BoundedCache
from ..tuning.tuner import layout_of
from .text import ContractText, offsets_of

__all__ = ["PackLauncher"]

#: Multiply-adds from which on a product is worth packing its factors:
#: benchmarks/notes/products.md#rows-that-begin-anywhere.
LEAST = 1 << 22
#: The same of float32 that is not rounded, whose products take any stride, slower: see
#: the same record; and extents from which on that is so of shorter sums, too.
EXACT, BROAD = 1 << 31, 256
#: Extents below which the packed factors are read too seldom to make up for it: see
#: benchmarks/notes/products.md#narrow.
THIN = 16
#: Extent along k from which on float32 that is not rounded is packed, and thin products
#: of 16-bit floats where the others are no more than `TALL`: through registers each
#: slice waits, and few tiles leave nothing to do meanwhile.
DEEP, TALL = 512, 1 << 15
#: Threads of a block, each of which stores one access.
THREADS = 256
#: Bytes of which the length of a row is a multiple; and of a long one.
_ALIGN, _LINE, _LONG = 16, 128, 1024

#: The factors that are packed, how many loops each has, and how many neighbours are
#: loaded at once; 0: none, they have a stride.
_Ways = tuple[tuple[int, int, int], ...]


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
    def blocks(self) -> int:
        """Blocks that pack all rows."""
        each = _ALIGN // self.item
        return -(-prod(self.extents[:-1])*self.row // (each*THREADS))

    @property
    def bytes(self) -> int:
        """Packed size in bytes, rounded up to 256."""
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
        Operands, loops and functions.
    """

    def __init__(self, text: ContractText) -> None:
        self._text, self._batch = text, text.ranks[0]
        self._programs: Programs[_Ways, Program] = Programs(Program, self._kernel)
        self._layouts: BoundedCache[Hashable, dict[int, _Layout]] = BoundedCache()
        typed, dtypes = text.typed, [self._dtype(w) for w in (0, 1)]
        self._possible = text.ranks[1:] == (1, 1, 1) and (
            dtypes[0].itemsize == 2 or dtypes[0] == np.float32
            or typed.prologues != (None, None))
        exact = dtypes[0].itemsize > 2 and typed.precision is None
        self._exact = exact and typed.prologues == (None, None)
        self._stripped = replace(typed, prologues=(None, None))
        self._signature = text.signature._replace(
            inputs=(*dtypes, *text.signature.inputs[2:]))

    def _dtype(self, which: int) -> np.dtype:
        prologue = self._text.typed.prologues[which]
        return self._text.factors[which].dtype if prologue is None \
            else prologue.results[0]

    def worthwhile(self, call: Call) -> bool:
        """Whether a factor needs it, and the product is large beside its factors."""
        *_, m, n, k = call.shape
        thick = min(m, n, k) >= THIN or self._is_deep(call) or \
            self._text.typed.prologues != (None, None)
        enough = prod(call.shape) >= (EXACT if self._exact else LEAST)
        if self._exact:
            enough &= k >= DEEP or min(m, n, k) >= BROAD
        return self._possible and enough and thick and bool(self.layouts(call))

    def _is_deep(self, call: Call) -> bool:
        """Whether sums are long, and rows and columns not too many for tiles."""
        *_, m, n, k = call.shape
        return k >= DEEP and max(m, n) < TALL and \
            self._text.factors[0].dtype.itemsize == 2

    def product(self, call: Call) -> tuple[TypedContract, Signature]:
        """The product after packing, and its operands' layouts."""
        codes = list(self._signature.inner)
        for w, layout in self.layouts(call).items():
            along = layout.loops[-1] == self._batch + 2
            codes[w] = "s1" if along == (w == 0) else "1s"
        return self._stripped, self._signature._replace(inner=tuple(codes))

    def layouts(self, call: Call) -> dict[int, _Layout]:
        """The factors that have to be packed."""
        return self._layouts.find(layout_of(call), lambda: self._found(call))

    def _found(self, call: Call) -> dict[int, _Layout]:
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

    def bytes(self, call: Call) -> int:
        """Bytes of the packed factors."""
        return sum(layout.bytes for layout in self.layouts(call).values())

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
        with where.current(), where.workspace(self.bytes(call), call.stream) as base:
            after = self.packed(call, base)
            self._pack(call, where, layouts, after.pointers)
            multiply(after, where)

    def _pack(self, call: Call, where: Device, layouts: dict[int, _Layout],
              targets: Sequence[int]) -> None:
        """One launch: the last blocks of one factor run beside the other's first."""
        ways = tuple([(w, len(layout.loops), self._together(call, w, layout))
                      for w, layout in layouts.items()])
        pointers = [p for w in layouts for p in (call.pointers[w], targets[w])]
        self._programs[ways].launch(
            where, call.stream, sum(layout.blocks for layout in layouts.values()),
            (*pointers, *chain.from_iterable(
                (*layout.extents, *(call.strides[w][x] for x in layout.loops),
                 layout.row, layout.blocks) for w, layout in layouts.items())))

    def _together(self, call: Call, which: int, layout: _Layout) -> int:
        """Neighbours that one load brings from wherever a row begins; 0: none."""
        *outer, inner = [call.strides[which][x] for x in layout.loops]
        if inner != 1:
            return 0
        item = self._text.factors[which].dtype.itemsize
        most = _ALIGN // max(item, self._dtype(which).itemsize)
        return next(n for n in (8, 4, 2, 1) if n <= most
                    and not call.pointers[which] % (n*item)
                    and not any(x % n for x in outer))

    def _kernel(self, ways: _Ways) -> Kernel:
        """A block packs accesses of one of the factors."""
        out = Source(kernel_name(self._text.name, "pack", *(
            f"{w}" if together == 1 else f"{w}by{together}"
            for w, _, together in ways)))
        for w, *_ in ways:
            out.pointer(self._text.factors[w].pointer,
                        storage(self._text.factors[w].dtype))
            out.pointer(f"target{w}", storage(self._dtype(w)))
        for w, rank, _ in ways:
            strides = (self._text.factors[w].stride(k) for k in range(rank))
            out.integer(*(f"n{w}_{k}" for k in range(rank)), *strides, f"width{w}",
                        f"blocks{w}")
        out("block = i64(cuda.blockIdx.x)")
        first, *second = ways
        if not second:
            self._access(out, *first)
            return out.kernel(THREADS)
        with out.block(f"if block < blocks{first[0]}:"):
            self._access(out, *first)
        with out.block("else:"):
            out(f"block -= blocks{first[0]}")
            self._access(out, *second[0])
        return out.kernel(THREADS)

    def _access(self, out: Source, which: int, rank: int, together: int) -> None:
        """A thread's access of a packed row: beyond its end a row is 0.

        Along k that is multiplied.
        """
        o, each = self._text.factors[which], _ALIGN // self._dtype(which).itemsize
        extents = [f"n{which}_{k}" for k in range(rank)]
        out(f"access = block*{THREADS} + i64(cuda.threadIdx.x)",
            f"accesses = divide(width{which}, i64({each}))",
            "row = divide(access, accesses)",
            f"first = (access - row*accesses)*{each}")
        with out.block(f"if row < {'*'.join(extents[:-1])}:"):
            at = offsets_of(out, "row", extents[:-1], [o], 0, f"q{which}_")[o.at]
            step = f"*{o.stride(rank - 1)}"*(together == 0)
            out(f"source = {at}", f"room = {extents[-1]} - first")
            with out.block(f"if room >= {each}:"):
                names = self._loaded(out, which, together, each, step)
                self._store(out, which, [self._element(out, which, name, e)
                                         for e, name in enumerate(names)])
            with out.block("else:"):
                places = [f"source + min(first + {e}, {extents[-1]} - 1){step}"
                          for e in range(each)]
                out(*(f"y{which}_{e} = {o.pointer}[{place}]"
                      for e, place in enumerate(places)))
                found = [self._element(out, which, f"y{which}_{e}", each + e)
                         for e in range(each)]
                self._store(out, which, [
                    f"({x} if {e} < room else {self._zero(which)})"
                    for e, x in enumerate(found)])

    def _loaded(self, out: Source, which: int, together: int, each: int,
                step: str) -> list[str]:
        """Load the elements of an access that a row fills; their names."""
        o = self._text.factors[which]
        names = [f"x{which}_{e}" for e in range(each)]
        for e in range(0, each, together or 1):
            load = f"load{together or 1}({o.pointer}, source + (first + {e}){step})"
            out(f"{', '.join(names[e:e + (together or 1)])}, = {load}")
        return names

    @staticmethod
    def _store(out: Source, which: int, elements: Sequence[str]) -> None:
        out(f"store{len(elements)}(target{which}, access*{len(elements)}, "
            f"({', '.join(elements)},))")

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
            f"e{which}_{e}_")
        out(*lines)
        return encoded(prologue.results[0], prologue.results[0], name)
