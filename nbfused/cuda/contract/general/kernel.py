"""Contract at every dtype, shape and stride: the text of the kernel.

Each block computes a tile of the result; each thread a few rows and columns of it in
registers.  The next slices of A and B travel to registers while the present ones, in
shared memory, are multiplied.  Where results are few, groups of threads multiply a
share of each slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from ....gpu.operands import Operand, kernel_name
from ....scalar.printing.numba import cast
from ....scalar.typing.promotion import compute_dtype
from ....support.records import record
from ...runtime.compile import Kernel
from ...text.source import Source, decoded, evaluate
from ...text.states import storage_name
from ..text import ContractText, position
from .results import GeneralResults, sum_of
from .tile import PAD, UNIT, Tile

__all__ = ["GeneralText"]

#: Tiles of the result down a column before the next column, where they are many.
RASTER = 8
#: Names of the factors.
_SIDES = ("left", "right")


@record(frozen=True)
class _Element:
    """Steps along k and rows from a thread's first element of a slice to another.

    `some`: the condition on which a thread has it, if not all have.
    """

    k: int = 0
    row: int = 0
    some: str = ""

    def after(self, other: _Element) -> _Element:
        """The steps from another element to this one."""
        return _Element(self.k - other.k, self.row - other.row)


def _steps(elements: Sequence[_Element]) -> Iterable[int]:
    """The different steps along k."""
    return dict.fromkeys(e.k for e in elements)


def _hop(x: str, steps: _Element) -> str:
    """The name of how far one element is from another."""
    return f"{x}_hop{steps.row}_{steps.k}".replace("-", "m")


class GeneralText:
    """Writes the kernel of one Contract.

    Parameters
    ----------
    text
        Operands, loops and functions.
    tile
        Extents.
    """

    def __init__(self, text: ContractText, tile: Tile) -> None:
        self.text, self.tile, self.typed = text, tile, text.typed
        extents = f"{tile.m}x{tile.n}x{tile.k}"
        if tile.groups > 1:
            extents += f"by{tile.groups}"
        self.out = Source(kernel_name(text.name, extents))
        self.scalars = text.parameters(self.out, text.operands)
        self.short = storage_name(text.kept)

    def kernel(self) -> Kernel:
        """The text and its parameters."""
        out, tile = self.out, self.tile
        out("thread = i64(cuda.threadIdx.x)",
            f"group = divide(thread, i64({tile.members}))" if tile.groups > 1 else
            "group = i64(0)",
            f"member = thread - group*{tile.members}",
            f"row = divide(member, i64({tile.across}))*{UNIT}",
            f"lane = (member & {tile.across - 1})*{UNIT}")
        self.text.sizes(out, ("m", "n", "k"))
        self._position()
        self._slices()
        for r in range(tile.rows):
            out(*(f"c{r}_{c} = {self.short}(0)" for c in range(tile.columns)))
        results = GeneralResults(out, self.text, tile, self.scalars)
        if tile.groups > 1:
            results.load()
        with out.block("if size_k > 0:"):
            out("slice = i64(0)")
            if tile.whole:
                self._once()
            else:
                self._slice_by_slice()
        results.write()
        blocks = tile.blocks if self.text.kept.itemsize <= 4 else 1
        return out.kernel(tile.threads, blocks)

    def _once(self) -> None:
        """Bring the only slice, and multiply it."""
        self._fetch()
        self._keep()
        self.out("cuda.syncthreads()")
        self._multiply()
        self.out("cuda.syncthreads()")

    def _slice_by_slice(self) -> None:
        """Multiply a slice while the next one is on its way."""
        out = self.out
        self._fetch()
        with out.block("while slice < size_k:"):
            self._keep()
            out("cuda.syncthreads()", f"slice += {self.tile.k}")
            with out.block("if slice < size_k:"):
                self._fetch()
            self._multiply()
            out("cuda.syncthreads()")

    def _position(self) -> None:
        tile = self.tile
        position(self.out, tile.m, tile.n, RASTER if tile.groups == 1 else 0)
        for k, text in self._offsets("batch", "batch", self.text.operands,
                                     "b").items():
            self.out(f"base{k} = {text}")

    def _offsets(self, index: str, group: str, operands: Sequence[Operand],
                 prefix: str) -> dict[int, str]:
        return self.text.offsets(self.out, index, group, operands, prefix)

    # --- slices of A and B

    def _slices(self) -> None:
        """Name the first element of a slice that this thread brings, and its source."""
        out, tile, item = self.out, self.tile, self.text.kept.itemsize
        kind = self.text.kept.name
        out(f"tile_left = shared_{kind}(i64(0))",
            f"tile_right = shared_{kind}(i64({tile.k*(tile.m + PAD)*item}))")
        for o, side, extent in zip(self.text.factors, "mn", (tile.m, tile.n),
                                   strict=True):
            x, fast = _SIDES[o.at], self._fast(o)
            k, own = ("fast", "slow") if self._along(o) else ("slow", "fast")
            out(f"slow = divide(thread, i64({fast}))", f"fast = thread - slow*{fast}",
                f"{x}_k = {k}", f"{x}_o = {own}", f"{x}_first = {side}_first + {own}",
                f"{x}_stop = size_{side} - {x}_first")
            elements = self._elements(o)
            out(f"{x}_place = {x}_k*{extent + PAD} + {x}_o",
                *(f"{x}_has{row} = {row} < {x}_stop"
                  for row in dict.fromkeys(e.row for e in elements)))
            if self._even(o):
                out(f"{x}_from = {self._source(o, f'{x}_first', f'{x}_k')}")
                hops = dict.fromkeys(b.after(a) for a, b in pairwise(elements))
                out(*(f"{_hop(x, hop)} = {self._far(o, hop)}" for hop in hops))
        out(f"zero = {self.short}(0)")

    def _fetch(self) -> None:
        """The next slices to registers.

        In place of what lies outside the operands comes an element inside: loads that
        hang on no condition are all on their way together.
        """
        out = self.out
        for o in self.text.factors:
            x, even = _SIDES[o.at], self._even(o)
            out(f"{x}_rest = size_k - slice - {x}_k")
            elements = self._elements(o)
            self._inside(x, elements)
            if even:
                step = self._offsets("slice", "k", [o], "")[o.at]
                out(f"at = {x}_from + {step}")
            for e, own in enumerate(elements):
                if not even:
                    row = f"min({x}_first + {own.row}, {x}_first + {x}_stop - 1)"
                    k = f"min(slice + {x}_k + {own.k}, size_k - 1)"
                    out(f"at = {self._source(o, row, k)}")
                elif e:
                    out(f"at += {_hop(x, own.after(elements[e - 1]))}")
                out(f"{x}{e}_s = {o.pointer}[select({x}_in{own.k} & {x}_has{own.row}, "
                    f"at, base{o.at})]")

    def _inside(self, x: str, elements: Sequence[_Element]) -> None:
        """Whether the slice reaches as far as each step along k."""
        self.out(*(f"{x}_in{k} = {k} < {x}_rest" for k in _steps(elements)))

    def _elements(self, o: Operand) -> list[_Element]:
        """The elements that a thread brings, as steps from its first."""
        tile, fast = self.tile, self._fast(o)
        size = tile.k*(tile.m if o.at == 0 else tile.n)
        found = []
        for first in range(0, size, tile.threads):
            slow, quick = divmod(first, fast)
            k, row = (quick, slow) if self._along(o) else (slow, quick)
            some = f"thread + {first} < {size}" if first + tile.threads > size else ""
            found.append(_Element(k, row, some))
        return found

    @staticmethod
    def _along(o: Operand) -> bool:
        """Whether neighbouring threads bring neighbours along k."""
        return o.code[1 - o.at] == "1"

    def _fast(self, o: Operand) -> int:
        """The extent of a slice along its inner loop."""
        tile = self.tile
        return tile.k if self._along(o) else (tile.m, tile.n)[o.at]

    def _even(self, o: Operand) -> bool:
        """Whether from one row, and one step along k, to the next is equally far."""
        return self.text.ranks[1 + o.at] == self.text.ranks[3] == 1

    def _source(self, o: Operand, row: str, k: str) -> str:
        """The text of the place of an element in memory."""
        out, x, side = self.out, _SIDES[o.at], "mn"[o.at]
        out(f"row_at = {row}", f"k_at = {k}")
        rows = self._offsets("row_at", side, [o], f"{x}_r")[o.at]
        ks = self._offsets("k_at", "k", [o], f"{x}_q")[o.at]
        return f"base{o.at} + {rows} + {ks}"

    def _far(self, o: Operand, hop: _Element) -> str:
        """The text of how far one element of a thread is from another."""
        return " + ".join(
            self._offsets(f"{steps}", side, [o], "")[o.at]
            for steps, side in ((hop.row, "mn"[o.at]), (hop.k, "k")) if steps)

    def _factor(self, o: Operand, element: str, prefix: str) -> str:
        """An element after its prologue, in the accumulator's dtype."""
        prologue, dtype = self.typed.prologues[o.at], o.dtype
        text = decoded(dtype, element)
        if prologue is not None:
            lines, (text,) = evaluate(
                prologue, {prologue.function.params[0]: text}, prefix)
            self.out(*lines)
            dtype = prologue.results[0]
        return cast(compute_dtype(dtype), self.text.kept, text) \
            if compute_dtype(dtype) != self.text.kept else text

    def _keep(self) -> None:
        """Registers to shared memory; zero behind the end of k.

        Of rows and columns outside the operands nothing will be stored.
        """
        for o, extent in zip(self.text.factors, (self.tile.m, self.tile.n),
                             strict=True):
            x, elements = _SIDES[o.at], self._elements(o)
            self._inside(x, elements)
            for e, own in enumerate(elements):
                value = self._factor(o, f"{x}{e}_s", f"{x}{e}_")
                store = (f"tile_{x}[{x}_place + {own.k*(extent + PAD) + own.row}] = "
                         f"select({x}_in{own.k}, {value}, zero)")
                if own.some:
                    with self.out.block(f"if {own.some}:"):
                        self.out(store)
                else:
                    self.out(store)

    # --- the product

    def _multiply(self) -> None:
        out, tile = self.out, self.tile
        down, across = tile.part
        depth = tile.k // tile.groups
        out(f"share = group*{depth}", "k = i64(0)")
        with out.block(f"while k < {depth}:"):
            for x, extent, count, start, step in (
                    ("left", tile.m, tile.rows, "row", down),
                    ("right", tile.n, tile.columns, "lane", across)):
                for q in range(0, count, 4):
                    names = ", ".join(f"{x}_v{q + e}" for e in range(4))
                    out(f"{names} = load4(tile_{x}, (share + k)*{extent + PAD} + "
                        f"{start} + {q // 4*step})")
            for r in range(tile.rows):
                out(*(self._add(f"c{r}_{c}", f"left_v{r}", f"right_v{c}")
                      for c in range(tile.columns)))
            out("k += 1")

    def _add(self, total: str, a: str, b: str) -> str:
        product = f"(u8({a} & {b}))" if self.typed.accumulator.kind == "b" \
            else f"{a}*{b}"
        return f"{total} = {sum_of(self.text, total, product)}"
