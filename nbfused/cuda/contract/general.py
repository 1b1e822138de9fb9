"""Contract at every dtype, shape and stride: the text of the kernel.

Each block computes a tile of the result; each thread a few rows and columns of it in
registers.  The next slices of A and B travel to registers while the present ones, in
shared memory, are multiplied.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...gpu.operands import Operand, kernel_name
from ...scalar.printing.numba import cast
from ...scalar.typing.promotion import compute_dtype
from ...support.records import record
from ..runtime.compile import Kernel
from ..text.source import Source, decoded, encoded, evaluate
from ..text.states import storage_name
from .text import ContractText, position

__all__ = ["LARGE", "SMALL", "UNIT", "GeneralText", "Tile"]

#: Tiles of the result down a column before the next column.
RASTER = 8
#: Names of the factors.
_SIDES = ("left", "right")
#: Elements between the rows of a tile beside its extent: fewer bank conflicts.
PAD = 4
#: Rows and columns of a thread that lie side by side.
UNIT = 4


@record(frozen=True)
class Tile:
    """Extents of a block's tile, of a slice along k, and of a thread's part.

    The registers of a multiprocessor must hold `blocks` blocks.  `whole`: a slice has
    all of k, so that nothing need be remembered from slice to slice.
    """

    m: int
    n: int
    k: int
    rows: int
    columns: int
    blocks: int
    whole: bool = False

    @property
    def across(self) -> int:
        """Threads along n."""
        return self.n // self.columns

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.m // self.rows*self.across

    @property
    def part(self) -> tuple[int, int]:
        """Rows and columns of which each thread has `UNIT` times `UNIT`."""
        return self.threads // self.across*UNIT, self.across*UNIT

    def shared(self, item: int) -> int:
        """Bytes of shared memory: of slices, then of a part of the results."""
        down, across = self.part
        return max(self.k*(self.m + self.n + 2*PAD), down*(across + PAD))*item


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
        self.out = Source(kernel_name(text.name, f"{tile.m}x{tile.n}x{tile.k}"))
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
        with out.block("if size_k > 0:"):
            out("slice = i64(0)")
            if tile.whole:
                self._once()
            else:
                self._slice_by_slice()
        self._results()
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
        position(self.out, self.tile.m, self.tile.n, RASTER)
        for k, text in self._offsets("batch", "batch", self.text.operands,
                                     "b").items():
            self.out(f"base{k} = {text}")

    def _offsets(self, index: str, group: str, operands: Sequence[Operand],
                 prefix: str) -> dict[int, str]:
        return self.text.offsets(self.out, index, group, operands, prefix)

    # --- slices of A and B

    def _loads(self, o: Operand) -> list[tuple[int, str]]:
        """Elements of a slice that a thread brings; where not all do, which do."""
        tile = self.tile
        size, threads = tile.k*(tile.m if o.at == 0 else tile.n), tile.threads
        return [(e, f"thread + {e*threads} < {size}" if (e + 1)*threads > size else "")
                for e in range(-(-size // threads))]

    def _slices(self) -> None:
        """Name the elements of a slice that this thread brings, and their sources.

        Outside the operands, sources are the nearest elements inside: loads that hang
        on no condition are all on their way together.
        """
        out, tile, item = self.out, self.tile, self.text.kept.itemsize
        kind = self.text.kept.name
        out(f"tile_left = shared_{kind}(i64(0))",
            f"tile_right = shared_{kind}(i64({tile.k*(tile.m + PAD)*item}))")
        for o, side, extent in ((self.text.factors[0], "m", tile.m),
                                (self.text.factors[1], "n", tile.n)):
            x = _SIDES[o.at]
            along = o.code[1] == "1" if o.at == 0 else o.code[0] == "1"
            fast = tile.k if along else extent
            for e, _ in self._loads(o):
                lane = f"(thread + {e*tile.threads})"
                out(f"slow = divide({lane}, i64({fast}))",
                    f"fast = {lane} - slow*{fast}",
                    f"{x}k{e} = {'fast' if along else 'slow'}",
                    f"{x}o{e} = {'slow' if along else 'fast'}",
                    f"at = {side}_first + {x}o{e}",
                    f"{x}in{e} = at < size_{side}", f"at = min(at, size_{side} - 1)")
                at = self._offsets("at", side, [o], f"{x}{e}_")
                out(f"{x}at{e} = base{o.at} + {at[o.at]}")

    def _fetch(self) -> None:
        """The next slices to registers."""
        for o in self.text.factors:
            x = _SIDES[o.at]
            for e, _ in self._loads(o):
                self.out(f"at = min(slice + {x}k{e}, size_k - 1)")
                at = self._offsets("at", "k", [o], f"{x}q{e}_")
                self.out(f"{x}{e}_s = {o.pointer}[{x}at{e} + {at[o.at]}]")

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
        """Registers to shared memory; zero outside the operands."""
        for o, extent in zip(self.text.factors, (self.tile.m, self.tile.n),
                             strict=True):
            x = _SIDES[o.at]
            for e, some in self._loads(o):
                value = self._factor(o, f"{x}{e}_s", f"{x}{e}_")
                inside = f"{x}in{e} & (slice + {x}k{e} < size_k)"
                store = (f"tile_{x}[{x}k{e}*{extent + PAD} + {x}o{e}] = "
                         f"select({inside}, {value}, {self.short}(0))")
                if some:
                    with self.out.block(f"if {some}:"):
                        self.out(store)
                else:
                    self.out(store)

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
        """The epilogue, with neighbouring threads at neighbours of the result.

        The sums of each thread's `UNIT` rows and columns go through shared memory.
        """
        out, tile = self.out, self.tile
        down, across = tile.part
        out(f"kept = shared_{self.text.kept.name}(i64(0))",
            f"row = divide(thread, i64({tile.across}))*{UNIT}",
            f"lane = (thread & {tile.across - 1})*{UNIT}")
        for r in range(0, tile.rows, UNIT):
            for c in range(0, tile.columns, UNIT):
                for i in range(UNIT):
                    sums = ", ".join(f"c{r + i}_{c + j}" for j in range(UNIT))
                    out(f"store4(kept, (row + {i})*{across + PAD} + lane, ({sums},))")
                out("cuda.syncthreads()")
                self._part(r // UNIT*down, c // UNIT*across)
                out("cuda.syncthreads()")

    def _part(self, row: int, column: int) -> None:
        """Store a part of the results, from its first row and column on.

        Threads side by side have neighbours of the result; each goes on across them,
        so that only one of its offsets changes.
        """
        out, code = self.out, self.text.outputs[0].code
        along = code[1] == "1" or code[0] != "1"
        firsts = {"m": row, "n": column}
        extents = dict(zip("mn", self.tile.part, strict=True))
        fast, slow = ("n", "m") if along else ("m", "n")
        side = min(extents[fast], self.tile.threads)
        across = self.tile.threads // side
        out(f"{fast} = thread & {side - 1}")
        for x in "mn":
            out(f"stop_{x} = min(i64({extents[x]}), size_{x} - {x}_first - "
                f"{firsts[x]})")
        with out.block(f"while {fast} < stop_{fast}:"):
            places = self._places(fast, firsts[fast])
            out(f"{slow} = thread >> {side.bit_length() - 1}")
            with out.block(f"while {slow} < stop_{slow}:"):
                others = self._places(slow, firsts[slow])
                pitch = self.tile.part[1] + PAD
                self._store(f"kept[m*{pitch} + n]", {
                    k: f"base{k} + {places[k]} + {others[k]}" for k in places})
                out(f"{slow} += {across}")
            out(f"{fast} += {self.tile.threads}")

    def _places(self, side: str, first: int) -> dict[int, str]:
        """Offsets of operands at a row, or a column, of a part."""
        self.out(f"at_{side} = {side}_first + {first} + {side}")
        found = self._offsets(f"at_{side}", side, self.text.others, f"{side}_")
        self.out(*(f"{side}at{k} = {text}" for k, text in found.items()))
        return {k: f"{side}at{k}" for k in found}

    def _store(self, total: str, places: dict[int, str]) -> None:
        out = self.out
        out(*(f"at{k} = {text}" for k, text in places.items()))
        names = self.text.epilogue(out, total, self.scalars,
                                   lambda o: f"{o.pointer}[at{o.at}]", "e_")
        for o, dtype, name in zip(self.text.outputs, self.typed.epilogue.results, names,
                                  strict=True):
            out(f"{o.pointer}[at{o.at}] = {encoded(dtype, o.dtype, name)}")
