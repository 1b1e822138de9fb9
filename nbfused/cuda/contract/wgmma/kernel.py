"""Contract on Hopper's tensor cores: the text of the kernel.

A warp group (four warps) brings tiles of A and B to shared memory by TMA; others
multiply them by wgmma, and keep the sums in registers.  There the epilogue, the user's
own scalar function, meets them (`results`); what it gives leaves through
shared memory by TMA, while the next tile is already multiplied.

The structure follows measurements with Numba on an H200: tiles of 128×256×64, four of
them on their way, one block a multiprocessor that takes tile after tile.
"""

from __future__ import annotations

from ....gpu.operands import kernel_name
from ...runtime.compile import Kernel
from ...text.source import Source, calls_for
from ..text import ContractText, coordinates, raster
from ..tma import box_places, matrix_descriptor, next_stage, start_barriers
from .extras import Boxes
from .results import Results
from .tiling import DEPTH, TOGETHER, WgmmaPlan

__all__ = ["WgmmaText"]

#: Tiles down a column before the next column; 6 to 32 were tried, see
#: benchmarks/notes/products.md#dead-ends-of-16-bit-products.
RASTER = 16
#: Descriptors of tiles with k as the inner dimension, and as the outer one.
_INNER, _OUTER = matrix_descriptor(16), matrix_descriptor(8192)


class WgmmaText:
    """Writes the kernel of one Contract.

    Parameters
    ----------
    text
        Operands, loops and functions.
    plan
        How.
    """

    def __init__(self, text: ContractText, plan: WgmmaPlan) -> None:
        self.text, self.plan = text, plan
        self.tiling = tiling = plan.tiling
        kind = "turns" if tiling.turns else "pairs" if tiling.paired else "wgmma"
        self.out = Source(kernel_name(text.name,
                                      f"{kind}{tiling.rows}x{tiling.columns}"))
        self.calls = calls_for(text.outputs)
        self.kind = "f16" if text.factors[0].dtype.name == "float16" else "bf16"
        self.boxes = Boxes(self)
        self.out.descriptor("map_left", "map_right", *(
            f"map{o.at}" for o, how in zip(text.outputs, plan.stores, strict=True)
            if how == "tile"), *self.boxes.maps)
        self.scalars = text.parameters(self.out, text.others)

    def kernel(self) -> Kernel:
        """The text and its parameters."""
        out = self.out
        self._begin()
        with out.block("if warp < 4:"):
            self._produce()
        with out.block("else:"):
            self._consume()
        return out.kernel(self.tiling.threads, 1, "a", self.tiling.cluster)

    def _begin(self) -> None:
        out, tiling, plan = self.out, self.tiling, self.plan
        self.text.sizes(out)
        out("memory = tiles_at()", "thread = i64(cuda.threadIdx.x)",
            "warp = first_lane(thread >> 5)",
            f"full = memory + {plan.barriers_at}",
            f"empty = full + {8*plan.stages}", f"order = empty + {8*plan.stages}")
        readers = tiling.cluster*(1 if tiling.turns else tiling.groups)
        with out.block("if thread == 0:"):
            start_barriers(out, plan.stages, full=1, empty=readers)
            if tiling.turns:
                out("barrier_init(order, 1)", "barrier_init(order + 8, 1)")
            self.boxes.prepare()
            out("barrier_fence()", "prefetch_map(map_left)", "prefetch_map(map_right)")
        out("cluster_sync()" if tiling.paired else "cuda.syncthreads()",
            "step = i64(cuda.gridDim.x)", "tile = i64(cuda.blockIdx.x)",
            f"down = divide(size_m + {tiling.rows - 1}, i64({tiling.rows}))",
            f"wide = divide(size_n + {tiling.columns - 1}, i64({tiling.columns}))")
        if tiling.paired:
            # The last row of an odd number: neighbours lie side by side.
            out("rank, step, tile = tile & 1, step >> 1, tile >> 1",
                "pairs_down = down >> 1", "whole = pairs_down*wide",
                "area = whole + (down & 1)*((wide + 1) >> 1)")
        else:
            out("area = down*wide")
        out("tiles = size_batch*area",
            f"slices = divide(size_k + {DEPTH - 1}, i64({DEPTH}))",
            "stage = i64(0)", "phase = i64(0)")

    def position(self, before: str = "") -> None:
        """Name a tile's first row and column, and its place in the batch.

        `before` begins the names.
        """
        out, tiling = self.out, self.tiling
        batch = f"{before}batch"
        out(f"{batch} = divide(tile, area)", f"place = tile - {batch}*area")
        if tiling.paired:
            out("alone = place >= whole")
            with out.block("if alone:"):
                out(f"{before}m_first = (down - 1)*{tiling.rows}",
                    f"{before}n_first = ((place - whole)*2 + rank)*{tiling.columns}")
            with out.block("else:"):
                raster(out, 2*tiling.rows, tiling.columns, RASTER//2, "pairs_down",
                       before)
                out(f"{before}m_first += rank*{tiling.rows}")
        else:
            raster(out, tiling.rows, tiling.columns, RASTER, before=before)
        coordinates(out, batch, self.text.groups[0], before)

    @property
    def _places(self) -> list[str]:
        return ["m_first", "n_first",
                *(f"batch{k}" for k in range(self.text.ranks[0]))]

    def _position_next(self) -> None:
        """Name the next tile's position while products are on their way."""
        self.out("tile += step")
        self.position("next_")
        # `first_lane` lest it be computed where it is needed, after the epilogue.
        self.out(*(f"next_{name} = first_lane(next_{name})" for name in self._places))

    def _next_stage(self) -> None:
        next_stage(self.out, self.plan.stages)

    # --- bringing tiles

    def _produce(self) -> None:
        out, tiling = self.out, self.tiling
        if tiling.groups == 2:
            out(f"fewer_registers{'_56' if self.plan.boxes else ''}()")
        with out.block("if thread == 0:"), out.block("while tile < tiles:"):
            self.position()
            out("slice = i64(0)", "k = i64(0)")
            if self.plan.apart:
                out(f"k = divide(divide(tile, i64({TOGETHER}))*{TOGETHER}*slices,"
                    f" tiles)*{DEPTH}")
            with out.block("while slice < slices:"):
                out("barrier_wait(empty + 8*stage, phase ^ 1)",
                    "ready = full + 8*stage",
                    f"barrier_expect(ready, {self.plan.stage_bytes})",
                    f"left = memory + stage*{self.plan.stage_bytes}",
                    f"right = left + {self.plan.brought*DEPTH*2}")
                self._copies(0, "left", "m_first", self.plan.brought)
                self._copies(1, "right", "n_first", tiling.columns)
                self._next_stage()
                out("slice += 1", f"k += {DEPTH}")
                if self.plan.apart:
                    with out.block(f"if k >= slices*{DEPTH}:"):
                        out("k = i64(0)")
            out("tile += step")
        self.boxes.produce()

    def _copies(self, which: int, target: str, first: str, extent: int) -> None:
        """The tile of a factor; of B a block of a pair brings a half, to both."""
        if which == 0 or not self.tiling.paired:
            self._boxes("tile_copy", which, target, first, extent, extent)
            return
        half = extent//2
        with self.out.block("if alone:"):
            self._boxes("tile_copy", which, target, first, extent, half)
        with self.out.block("else:"):
            self._boxes("tile_share", which, f"{target} + rank*{half*128}",
                        f"{first} + rank*{half}", half, half)

    def _boxes(self, name: str, which: int, target: str, first: str, extent: int,
               edge: int) -> None:
        """Boxes of `edge` rows where k is the inner dimension, else of 64 columns."""
        descriptor, along = ("map_left", "map_right")[which], self.plan.along[which]
        once = "_once" if self.plan.once[which] and name == "tile_copy" else ""
        for c in range(0, extent, edge if along else 64):
            places = box_places(along, f"{first} + {c}", self.plan.batch[which])
            self.out(f"{name}{len(places)}{once}({target} + {c*128}, {descriptor}, "
                     f"ready, {', '.join(places)})")

    # --- multiplying them

    def _consume(self) -> None:
        out, tiling = self.out, self.tiling
        base = [_INNER if along else _OUTER for along in self.plan.along]
        # 64 rows of A are 8192 bytes, whichever dimension is the inner one.
        own = 0 if tiling.turns else 8192*tiling.high
        if tiling.groups == 2:
            out(f"more_registers{'_224' if self.plan.boxes else ''}()")
        out("group = (warp >> 2) - 1", "lane = thread & 31",
            f"left = i64({base[0]}) + (((memory + group*{own}) & 0x3FFFF) >> 4)",
            f"right = i64({base[1]}) + (((memory + {self.plan.brought*DEPTH*2})"
            " & 0x3FFFF) >> 4)")
        results = Results(self, "0" if tiling.turns else f"group*{64*tiling.high}")
        results.begin()
        if tiling.turns:
            out("tile += group*step", "count = group*slices",
                "turn = 1 - group")
        if tiling.early:
            self.position()
        with out.block("while tile < tiles:"):
            if not tiling.early:
                self.position()
            results.announce()
            self._multiply(results)
            results.tile()
            if tiling.early:
                out(*(f"{name} = next_{name}" for name in self._places))
            else:
                out(f"tile += {tiling.groups if tiling.turns else 1}*step")
        results.end()
        if tiling.paired:
            # A block must not end before the other has told it what it has read.
            for _ in range(self.plan.stages):
                out("barrier_wait(empty + 8*stage, phase ^ 1)")
                self._next_stage()

    def _multiply(self, results: Results) -> None:
        out, tiling, n = self.out, self.tiling, self.tiling.sums
        steps = "_".join("2" if along else "128" for along in self.plan.along)
        if tiling.turns:
            self._turn()
        out(f"sums = zeros{n}()", "slice = i64(0)", "before = empty")
        with out.block("while slice < slices:"):
            out("barrier_wait(full + 8*stage, phase)",
                f"at = stage*{self.plan.stage_bytes >> 4}",
                f"sums = product_{self.kind}_{tiling.high}x{tiling.columns}_{steps}"
                "(sums, left + at, right + at, slice > 0)",
                f"sums = product_wait{n}_1(sums)")
            self._release("slice > 0 and ")
            out("before = empty + 8*stage")
            self._next_stage()
            out("slice += 1")
        if tiling.turns:
            with out.block("if (thread & 127) == 0:"):
                out("barrier_arrive(order + 8*(1 - group))")
        results.fetch_first()  # while the last product is on its way
        if tiling.early:
            self._position_next()
        out(f"sums = product_wait{n}_0(sums)")
        self._release("")

    def _release(self, condition: str) -> None:
        """Tell the blocks that write there that a stage has been read."""
        cluster = self.tiling.cluster
        with self.out.block(f"if {condition}(thread & 127) < {cluster}:"):
            self.out("barrier_arrive(before)" if cluster == 1 else
                     "barrier_arrive_at(before, thread & 127)")

    def _turn(self) -> None:
        """Wait until the other group has begun all its products."""
        stages = self.plan.stages
        self.out(f"round = divide(count, i64({stages}))",
                 f"stage = count - round*{stages}", "phase = round & 1",
                 "count += 2*slices", "barrier_wait(order + 8*group, turn)",
                 "turn ^= 1")
