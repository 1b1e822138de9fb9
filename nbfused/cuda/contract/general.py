"""Contract at every dtype, shape and stride: the text of the kernel.

Each block computes a tile of the result; each thread a few rows and columns of it in
registers.  The next slices of A and B travel to registers while the present ones, in
shared memory, are multiplied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ...gpu.operands import Operand, kernel_name
from ...scalar.printing.numba import cast
from ...scalar.typing.promotion import compute_dtype
from ...support.records import record
from ..runtime.compile import Kernel
from ..text.source import Source, decoded, encoded, evaluate
from ..text.states import storage_name
from .text import ContractText, position

__all__ = ["LARGE", "SMALL", "GeneralText", "Tile"]

#: Tiles of the result down a column before the next column.
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
        """Threads of a block."""
        return self.m // self.rows*self.across

    def shared(self, item: int) -> int:
        """Bytes of shared memory."""
        return self.k*(self.m + self.n + 2*PAD)*item


LARGE = Tile(128, 128, 8, 8, 8, 1)
SMALL = Tile(64, 64, 16, 4, 4, 2)


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
        self.out = Source(kernel_name(text.name, f"{tile.m}x{tile.n}"))
        self.scalars = text.parameters(self.out, text.operands)
        self.short = storage_name(text.kept)

    def kernel(self) -> Kernel:
        """The text and its parameters."""
        out, tile = self.out, self.tile
        out("thread = i64(cuda.threadIdx.x)")
        self.text.sizes(out, ("m", "n", "k"))
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
        for k, text in self._offsets("batch", "batch", self.text.operands,
                                     "b").items():
            self.out(f"base{k} = {text}")

    def _offsets(self, index: str, group: str, operands: Sequence[Operand],
                 prefix: str) -> dict[int, str]:
        return self.text.offsets(self.out, index, group, operands, prefix)

    # --- slices of A and B

    def _slices(self) -> None:
        """Name the elements of a slice that this thread brings, and their sources."""
        out, tile, item = self.out, self.tile, self.text.kept.itemsize
        kind = self.text.kept.name
        out(f"tile_left = shared_{kind}(i64(0))",
            f"tile_right = shared_{kind}(i64({tile.k*(tile.m + PAD)*item}))")
        for o, side, extent in ((self.text.factors[0], "m", tile.m),
                                (self.text.factors[1], "n", tile.n)):
            x = _SIDES[o.at]
            along = o.code[1] == "1" if o.at == 0 else o.code[0] == "1"
            for e in range(tile.k*extent // tile.threads):
                lane = f"(thread + {e*tile.threads})"
                fast = tile.k if along else extent
                out(f"slow = divide({lane}, i64({fast}))",
                    f"fast = {lane} - slow*{fast}",
                    f"{x}k{e} = {'fast' if along else 'slow'}",
                    f"{x}o{e} = {'slow' if along else 'fast'}",
                    f"at = {'m_first' if side == 'm' else 'n_first'} + {x}o{e}",
                    f"{x}in{e} = at < size_{side}")
                at = self._offsets("at", side, [o], f"{x}{e}_")
                out(f"{x}at{e} = base{o.at} + {at[o.at]}")

    def _fetch(self) -> None:
        """The next slices to registers; zero outside the operands."""
        out, tile = self.out, self.tile
        for o, extent in zip(self.text.factors, (tile.m, tile.n), strict=True):
            x = _SIDES[o.at]
            for e in range(tile.k*extent // tile.threads):
                out(f"{x}{e} = {self.short}(0)")
                with out.block(f"if {x}in{e} and slice + {x}k{e} < size_k:"):
                    at = self._offsets(f"(slice + {x}k{e})", "k", [o], f"{x}q{e}_")
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
        others = self.text.others
        with self._up_to("r", tile.rows):
            step = tile.threads // tile.across*4
            out(f"at_m = m_first + row + (r >> 2)*{step} + (r & 3)")
            with out.block("if at_m < size_m:"):
                rows = self._offsets("at_m", "m", others, "u")
                out(*(f"row{k} = base{k} + {text}" for k, text in rows.items()))
                with self._up_to("c", tile.columns):
                    out(f"at_n = n_first + lane + (c >> 2)*{tile.across*4} + (c & 3)")
                    with out.block("if at_n < size_n:"):
                        self._store(others, f"sums[r*{tile.columns} + c]")

    @contextmanager
    def _up_to(self, name: str, count: int) -> Iterator[None]:
        self.out(f"{name} = i64(0)")
        with self.out.block(f"while {name} < {count}:"):
            yield
            self.out(f"{name} += 1")

    def _store(self, others: Sequence[Operand], total: str) -> None:
        out = self.out
        columns = self._offsets("at_n", "n", others, "v")
        out(*(f"at{k} = row{k} + {text}" for k, text in columns.items()))
        names = self.text.epilogue(out, total, self.scalars,
                                   lambda o: f"{o.pointer}[at{o.at}]", "e_")
        for o, dtype, name in zip(self.text.outputs, self.typed.epilogue.results, names,
                                  strict=True):
            out(f"{o.pointer}[at{o.at}] = {encoded(dtype, o.dtype, name)}")
