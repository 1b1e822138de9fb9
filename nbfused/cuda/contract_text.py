"""The text of Contract's kernel: a product in tiles of shared memory.

Each block computes a tile of the result; each thread a few rows and columns of it in
registers.  The next slices of A and B travel to registers while the present ones, in
shared memory, are multiplied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from ..backend import Signature
from ..records import record
from ..scalar.print_numba import cast
from ..scalar.promotion import compute_dtype
from ..scalar.types import Typed
from ..specs import TypedContract
from .compile import Kernel
from .source import (
    Operand,
    Source,
    decoded,
    encoded,
    evaluate,
    kernel_name,
    offsets,
    operand_list,
    storage,
)
from .states import storage_name

__all__ = ["LARGE", "SMALL", "ContractText", "Tile", "offsets_of", "position"]

#: Tiles of the result that follow one another down a column before the next column,
#: so that the rows of A and the columns of B in use stay in the L2 cache.
RASTER = 8
#: Names of the factors.
_SIDES = ("left", "right")
#: Elements between the rows of a tile beside its extent: fewer bank conflicts.
PAD = 4


@record(frozen=True)
class Tile:
    """Extents of a block's tile, of a slice along k, and of a thread's part.

    The registers of a multiprocessor must hold `blocks` blocks.
    """

    m: int
    n: int
    k: int
    rows: int
    columns: int
    blocks: int

    @property
    def across(self) -> int:
        """Threads along n."""
        return self.n // self.columns

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.m // self.rows*self.across

    def shared(self, item: int) -> int:
        """Bytes of shared memory."""
        return self.k*(self.m + self.n + 2*PAD)*item


LARGE = Tile(128, 128, 8, 8, 8, 1)
SMALL = Tile(64, 64, 16, 4, 4, 2)


class ContractText:
    """What the kernels of one Contract share.

    Parameters
    ----------
    name
        Of the epilogue.
    typed, signature
        What to compute, on which dtypes and loops.
    """

    def __init__(self, name: str, typed: TypedContract, signature: Signature) -> None:
        self.name, self.typed, self.ranks = name, typed, signature.ranks
        given = iter(signature.inputs[2:])
        extras = [t for t, k in zip(given, typed.kinds, strict=True) if k == "element"]
        dtypes = [*signature.inputs[:2], *extras, *signature.outputs]
        self.operands = operand_list(dtypes, signature.inner)
        self.factors = self.operands[:2]
        self.extras = self.operands[2:2 + len(extras)]
        self.outputs = self.operands[2 + len(extras):]
        #: What sums are kept in: the accumulator, or bytes that stand for bools.
        self.kept = np.dtype(np.uint8) if typed.accumulator.kind == "b" \
            else typed.accumulator

    def kernel(self, tile: Tile) -> Kernel:
        """The text and parameters of one kernel."""
        return _Writer(self, tile).kernel()


def offsets_of(out: Source, index: str, extents: Sequence[str],
               operands: Sequence[Operand], first: int, prefix: str) -> dict[int, str]:
    """`offsets`, every stride a parameter."""
    strided = [replace(o, code="s") for o in operands]
    return offsets(out, index, extents, strided, first, prefix)


def position(out: Source, rows: int, columns: int, raster: int,
             block: str = "i64(cuda.blockIdx.x)") -> None:
    """Which tile of which product a block computes; `raster` tiles down, then on."""
    out(f"down = divide(size_m + {rows - 1}, i64({rows}))",
        f"wide = divide(size_n + {columns - 1}, i64({columns}))",
        f"block = {block}", "batch = divide(block, down*wide)",
        "place = block - batch*down*wide",
        f"band = divide(place, {raster}*wide)", f"place -= band*{raster}*wide",
        f"height = min(down - band*{raster}, i64({raster}))",
        "column = divide(place, height)",
        f"m_first = (band*{raster} + place - column*height)*{rows}",
        f"n_first = column*{columns}")


class _Writer:
    """The text of one kernel under construction."""

    def __init__(self, text: ContractText, tile: Tile) -> None:
        self.text, self.tile, self.typed = text, tile, text.typed
        self.out = Source(kernel_name(text.name, f"{tile.m}x{tile.n}"))
        names, first, self.first = [], 0, []
        for rank in text.ranks:
            names.append([f"n{first + k}" for k in range(rank)])
            self.first.append(first)
            first += rank
        self.batch, self.m, self.n, self.k = names
        self.short = storage_name(text.kept)
        for o in text.operands:
            self.out.pointer(o.pointer, storage(o.dtype))
        self.out.integer(*(f"n{k}" for k in range(first)),
                         *(o.stride(k) for o in text.operands for k in range(first)))
        epilogue = self.typed.epilogue
        scalars = [p for p, k in zip(epilogue.function.params[1:], self.typed.kinds,
                                     strict=True) if k == "scalar"]
        self.scalars = {p: self.out.scalar(f"a{k}", epilogue.dtypes[p])
                        for k, p in enumerate(scalars)}

    def kernel(self) -> Kernel:
        out, tile = self.out, self.tile
        sizes = {"m": self.m, "n": self.n, "k": self.k}
        out("thread = i64(cuda.threadIdx.x)",
            *(f"size_{x} = {'*'.join(e) or 'i64(1)'}" for x, e in sizes.items()))
        self._position()
        self._slices()
        for r in range(tile.rows):
            out(*(f"c{r}_{c} = {self.short}(0)" for c in range(tile.columns)))
        out("slice = i64(0)")
        self._fetch()
        with out.block("while slice < size_k:"):
            self._keep()
            out("cuda.syncthreads()", f"slice += {tile.k}")
            self._fetch()
            self._multiply()
            out("cuda.syncthreads()")
        self._results()
        blocks = tile.blocks if self.text.kept.itemsize <= 4 else 1
        return out.kernel(tile.threads, blocks)

    def _position(self) -> None:
        position(self.out, self.tile.m, self.tile.n, RASTER)
        for k, text in self._offsets("batch", self.batch, 0, self.text.operands,
                                     "b").items():
            self.out(f"base{k} = {text}")

    def _offsets(self, index: str, extents: Sequence[str], group: int,
                 operands: Sequence[Operand], prefix: str) -> dict[int, str]:
        return offsets_of(self.out, index, extents, operands, self.first[group], prefix)

    # --- slices of A and B

    def _slices(self) -> None:
        """Which elements of each slice this thread brings, and from where."""
        out, tile, item = self.out, self.tile, self.text.kept.itemsize
        kind = self.text.kept.name
        out(f"tile_left = shared_{kind}(i64(0))",
            f"tile_right = shared_{kind}(i64({tile.k*(tile.m + PAD)*item}))")
        for o, side, extent in ((self.text.factors[0], "m", tile.m),
                                (self.text.factors[1], "n", tile.n)):
            x = _SIDES[o.at]
            along = o.code[1] == "1" if o.at == 0 else o.code[0] == "1"
            outer = self.m if side == "m" else self.n
            for e in range(tile.k*extent // tile.threads):
                lane = f"(thread + {e*tile.threads})"
                fast = tile.k if along else extent
                out(f"slow = divide({lane}, i64({fast}))",
                    f"fast = {lane} - slow*{fast}",
                    f"{x}k{e} = {'fast' if along else 'slow'}",
                    f"{x}o{e} = {'slow' if along else 'fast'}",
                    f"at = {'m_first' if side == 'm' else 'n_first'} + {x}o{e}",
                    f"{x}in{e} = at < size_{side}")
                at = self._offsets("at", outer, "bmn".index(side), [o], f"{x}{e}_")
                out(f"{x}at{e} = base{o.at} + {at[o.at]}")

    def _fetch(self) -> None:
        """The next slices to registers; zero outside the operands."""
        out, tile = self.out, self.tile
        for o, extent in zip(self.text.factors, (tile.m, tile.n), strict=True):
            x = _SIDES[o.at]
            for e in range(tile.k*extent // tile.threads):
                out(f"{x}{e} = {self.short}(0)")
                with out.block(f"if {x}in{e} and slice + {x}k{e} < size_k:"):
                    at = self._offsets(f"(slice + {x}k{e})", self.k, 3, [o],
                                       f"{x}q{e}_")
                    out(f"{x}{e}_s = {o.pointer}[{x}at{e} + {at[o.at]}]")
                    out(f"{x}{e} = {self._factor(o, f'{x}{e}_s', f'{x}{e}_')}")

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
        """Registers to shared memory."""
        tile = self.tile
        for x, extent in zip(_SIDES, (tile.m, tile.n), strict=True):
            for e in range(tile.k*extent // tile.threads):
                self.out(f"tile_{x}[{x}k{e}*{extent + PAD} + {x}o{e}] = {x}{e}")

    # --- the product

    def _multiply(self) -> None:
        out, tile = self.out, self.tile
        out(f"row = divide(thread, i64({tile.across}))*4",
            f"lane = (thread & {tile.across - 1})*4", "k = i64(0)")
        down = tile.threads // tile.across*4
        with out.block(f"while k < {tile.k}:"):
            for x, extent, count, start, step in (
                    ("left", tile.m, tile.rows, "row", down),
                    ("right", tile.n, tile.columns, "lane", tile.across*4)):
                for q in range(0, count, 4):
                    names = ", ".join(f"{x}_v{q + e}" for e in range(4))
                    out(f"{names} = load4(tile_{x}, k*{extent + PAD} + {start}"
                        f" + {q // 4*step})")
            for r in range(tile.rows):
                out(*(self._add(f"c{r}_{c}", f"left_v{r}", f"right_v{c}")
                      for c in range(tile.columns)))
            out("k += 1")

    def _add(self, total: str, a: str, b: str) -> str:
        if self.typed.accumulator.kind == "b":
            return f"{total} = u8({total} | (u8({a} & {b})))"
        if self.text.kept.kind in "iu":
            return f"{total} = {self.short}({total} + {a}*{b})"
        return f"{total} = {total} + {a}*{b}"

    # --- the results

    def _results(self) -> None:
        """The epilogue at each of this thread's elements."""
        out, tile = self.out, self.tile
        count = tile.rows*tile.columns
        out(f"sums = cuda.local.array({count}, {self.short})")
        for r in range(tile.rows):
            out(*(f"sums[{r*tile.columns + c}] = c{r}_{c}"
                  for c in range(tile.columns)))
        out(f"row = divide(thread, i64({tile.across}))*4",
            f"lane = (thread & {tile.across - 1})*4")
        others = [*self.text.extras, *self.text.outputs]
        with self._up_to("r", tile.rows):
            step = tile.threads // tile.across*4
            out(f"at_m = m_first + row + (r >> 2)*{step} + (r & 3)")
            with out.block("if at_m < size_m:"):
                rows = self._offsets("at_m", self.m, 1, others, "u")
                out(*(f"row{k} = base{k} + {text}" for k, text in rows.items()))
                with self._up_to("c", tile.columns):
                    out(f"at_n = n_first + lane + (c >> 2)*{tile.across*4} + (c & 3)")
                    with out.block("if at_n < size_n:"):
                        self._epilogue(others, f"sums[r*{tile.columns} + c]")

    @contextmanager
    def _up_to(self, name: str, count: int) -> Iterator[None]:
        self.out(f"{name} = i64(0)")
        with self.out.block(f"while {name} < {count}:"):
            yield
            self.out(f"{name} += 1")

    def _epilogue(self, others: Sequence[Operand], total: str) -> None:
        out, epilogue = self.out, self.typed.epilogue
        columns = self._offsets("at_n", self.n, 2, others, "v")
        out(*(f"at{k} = row{k} + {text}" for k, text in columns.items()))
        extras = iter(self.text.extras)
        params = epilogue.function.params
        arguments: dict[str, object] = {params[0]: self._accumulated(epilogue, total)}
        for param, kind in zip(params[1:], self.typed.kinds, strict=True):
            if kind == "scalar":
                arguments[param] = self.scalars[param]
            else:
                o = next(extras)
                arguments[param] = decoded(o.dtype, f"{o.pointer}[at{o.at}]")
        lines, names = evaluate(epilogue, arguments, "e_")
        out(*lines)
        for o, dtype, name in zip(self.text.outputs, epilogue.results, names,
                                  strict=True):
            out(f"{o.pointer}[at{o.at}] = {encoded(dtype, o.dtype, name)}")

    def _accumulated(self, epilogue: Typed, total: str) -> str:
        want = epilogue.dtypes.get(epilogue.function.params[0], self.text.kept)
        return cast(self.text.kept, want, total)
