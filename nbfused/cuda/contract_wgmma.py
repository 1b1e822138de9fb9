"""Contract on Hopper's tensor cores: the text of the kernel.

A warp group (four warps) brings tiles of A and B to shared memory by TMA; others
multiply them by wgmma, and keep the sums in registers.  There the epilogue, the user's
own scalar function, meets them (`contract_wgmma_results`); what it gives leaves through
shared memory by TMA, while the next tile is already multiplied.

The structure follows measurements with Numba on an H200: tiles of 128×256×64, four of
them on their way, one block a multiprocessor that takes tile after tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .compile import Kernel
from .contract_text import ContractText
from .contract_wgmma_extras import BOX, Boxes
from .contract_wgmma_results import SLAB, Results
from .contract_wgmma_split import SHARE, Shares
from .source import Source, calls_for, kernel_name, storage

__all__ = ["DEPTH", "TILINGS", "Hopper", "Tiling", "WgmmaText"]

DEPTH = 64
#: Bytes of shared memory that a block may have, on every Hopper GPU.
SHARED = 232448
#: Bytes of it for barriers.
BARRIERS = 512
#: Tiles on their way at most.
STAGES = 8
#: Tiles down a column before the next column.
RASTER = 16
_MAPS = ("map_left", "map_right")
#: Descriptor of a tile with 128-byte swizzling, its address left out: bytes from one
#: group of 8 rows to the next, and between tiles that are side by side.
_INNER = (1 << 62) | ((1024 >> 4) << 32) | ((16 >> 4) << 16)
_OUTER = (1 << 62) | ((1024 >> 4) << 32) | ((8192 >> 4) << 16)


@dataclass(frozen=True)
class Tiling:
    """How the warp groups of a block share the work.

    Attributes
    ----------
    high
        Times 64 rows of one group.
    columns
        Of a tile.
    groups
        That multiply.
    turns
        Whether each has tiles of its own: one multiplies while the other stores.
        Otherwise they have the rows of one tile.
    split
        Blocks, a cluster, that share a tile: each has a part of k, and in the end 64
        of the columns.
    """

    high: int
    columns: int
    groups: int
    turns: bool = False
    split: int = 1

    @property
    def rows(self) -> int:
        """Of a tile."""
        return 64*self.high*(1 if self.turns else self.groups)

    @property
    def sums(self) -> int:
        """That a thread keeps."""
        return self.high*self.columns//2

    @property
    def threads(self) -> int:
        """Of a block."""
        return 128*(1 + self.groups)

    @property
    def stage_bytes(self) -> int:
        """Of a tile of A and one of B."""
        return (self.rows + self.columns)*DEPTH*2


#: What is compiled; `wgmma_plan` chooses.
TILINGS = (Tiling(1, 256, 2), Tiling(2, 128, 2, True),
           Tiling(1, 128, 2), Tiling(1, 128, 1), Tiling(1, 64, 1),
           Tiling(1, 128, 1, split=2))


@dataclass(frozen=True)
class Hopper:
    """What the text depends on besides the spec.

    Attributes
    ----------
    tiling
        Of the result.
    along
        For A and B, whether k is the dimension with stride 1.
    batch
        For A, B, the outputs and then each extra, the batch loops that they vary along.
    loads
        How each extra comes to the fragment: ``"box"`` (by TMA), ``"pair"`` (two
        neighbours at once), ``"row"`` (one element for all columns) or ``"each"``.
    stores
        How each output leaves: ``"tile"`` (by TMA), ``"lanes"`` (rows of a slab) or
        ``"each"``.
    slabs
        Of 2 KiB for each warp: the results on their way to memory.
    boxes
        Of 8 KiB: the extras by TMA of 64 rows and columns.
    once
        Whether A, B and each extra are read by one block only.
    asks
        Whether the next tile's operands are asked for early, to come to the L2 cache.
    spread
        Tiles that begin at the same k, if not all: others begin elsewhere, and not all
        blocks read the same of A at once.
    """

    tiling: Tiling
    along: tuple[bool, bool]
    batch: tuple[tuple[int, ...], ...]
    loads: tuple[str, ...]
    stores: tuple[str, ...]
    slabs: int
    boxes: int = 0
    once: tuple[bool, ...] = ()
    asks: bool = False
    spread: int = 0

    @property
    def stages(self) -> int:
        """Tiles of A and B that fit in shared memory, beside slabs and barriers."""
        return min(STAGES, self._room(self.ahead) // self.tiling.stage_bytes)

    @property
    def ahead(self) -> int:
        """Parts of a group's extras that TMA brings before the group needs them."""
        if not self.boxes:
            return 0
        return 4 if self._room(4) >= 4*self.tiling.stage_bytes else 2

    def _room(self, ahead: int) -> int:
        return SHARED - BARRIERS - self._slab_bytes - self._box_bytes(ahead) \
            - self._share_bytes

    @property
    def _share_bytes(self) -> int:
        return self.tiling.split*SHARE if self.tiling.split > 1 else 0

    def _box_bytes(self, ahead: int) -> int:
        return self.tiling.groups*ahead*self.boxes*BOX

    def copy(self, which: int, rank: int) -> str:
        """The instruction that brings a box of A, B or an extra."""
        once = which < len(self.once) and self.once[which]
        return f"tile_copy{rank}{'_once' if once else ''}"

    @property
    def _slab_bytes(self) -> int:
        return self.tiling.groups*4*self.slabs*SLAB

    @property
    def slabs_at(self) -> int:
        """Where the slabs lie, behind the tiles."""
        return self.stages*self.tiling.stage_bytes

    @property
    def boxes_at(self) -> int:
        """Where the extras by TMA lie, behind the slabs."""
        return self.slabs_at + self._slab_bytes

    @property
    def shares_at(self) -> int:
        """Where other blocks' sums come."""
        return self.boxes_at + self._box_bytes(self.ahead)

    @property
    def barriers_at(self) -> int:
        """Where the barriers lie: of the tiles, of turns, of the extras."""
        return self.shares_at + self._share_bytes

    @property
    def meeting_at(self) -> int:
        """Where the barriers of blocks that share a tile lie, in place of turns'."""
        return self.barriers_at + 16*self.stages

    @property
    def extras_at(self) -> int:
        """Where the extras' barriers lie."""
        return self.barriers_at + 16*self.stages + 16

    @property
    def shared(self) -> int:
        """Bytes of shared memory."""
        return self.extras_at + 16*self.tiling.groups*self.ahead


class WgmmaText:
    """Writes the kernel of one Contract.

    Parameters
    ----------
    text
        Operands, ranks and functions.
    plan
        How.
    """

    def __init__(self, text: ContractText, plan: Hopper) -> None:
        self.text, self.plan, self.typed = text, plan, text.typed
        self.tiling = tiling = plan.tiling
        kind = "turns" if tiling.turns else "wgmma"
        self.out = Source(kernel_name(text.name,
                                      f"{kind}{tiling.rows}x{tiling.columns}"))
        self.others = [*text.extras, *text.outputs]
        self.calls = calls_for(text.outputs)
        self.groups, self.first = [], []
        loops = 0
        for rank in text.ranks:
            self.groups.append([f"n{loops + k}" for k in range(rank)])
            self.first.append(loops)
            loops += rank
        self.kind = "f16" if text.factors[0].dtype.name == "float16" else "bf16"
        self.boxes = Boxes(self)
        self.shares = Shares(self) if plan.tiling.split > 1 else None

    def kernel(self) -> Kernel:
        """The text and its parameters."""
        out = self.out
        out.descriptor("map_left", "map_right", *(
            f"map{o.at}" for o, how in zip(self.text.outputs, self.plan.stores,
                                           strict=True) if how == "tile"),
            *self.boxes.maps)
        for o in self.others:
            out.pointer(o.pointer, storage(o.dtype))
        loops = sum(self.text.ranks)
        out.integer(*(f"n{k}" for k in range(loops)),
                    *(o.stride(k) for o in self.others for k in range(loops)))
        epilogue = self.typed.epilogue
        names = [p for p, k in zip(epilogue.function.params[1:], self.typed.kinds,
                                   strict=True) if k == "scalar"]
        self.scalars = {p: out.scalar(f"a{k}", epilogue.dtypes[p])
                        for k, p in enumerate(names)}
        self._begin()
        with out.block("if warp < 4:"):
            self._produce()
        with out.block("else:"):
            self._consume()
        return out.kernel(self.tiling.threads, 1, "a", self.tiling.split)

    def _begin(self) -> None:
        out, tiling, plan = self.out, self.tiling, self.plan
        for name, extents in zip(("batch", "m", "n", "k"), self.groups, strict=True):
            out(f"size_{name} = {'*'.join(extents) or 'i64(1)'}")
        out("memory = tiles_at()", "thread = i64(cuda.threadIdx.x)",
            "warp = first_lane(thread >> 5)",
            f"full = memory + {plan.barriers_at}",
            f"empty = full + {8*plan.stages}", f"order = empty + {8*plan.stages}")
        readers = 1 if tiling.turns else tiling.groups
        with out.block("if thread == 0:"):
            for s in range(plan.stages):
                out(f"barrier_init(full + {8*s}, 1)",
                    f"barrier_init(empty + {8*s}, {readers})")
            if tiling.turns:
                out("barrier_init(order, 1)", "barrier_init(order + 8, 1)")
            self.boxes.prepare()
            if self.shares:
                self.shares.prepare()
            out("barrier_fence()", "prefetch_map(map_left)", "prefetch_map(map_right)")
        out("cuda.syncthreads()", "step = i64(cuda.gridDim.x)",
            "tile = i64(cuda.blockIdx.x)",
            f"down = divide(size_m + {tiling.rows - 1}, i64({tiling.rows}))",
            f"wide = divide(size_n + {tiling.columns - 1}, i64({tiling.columns}))",
            "tiles = size_batch*down*wide",
            f"slices = divide(size_k + {DEPTH - 1}, i64({DEPTH}))",
            "stage = i64(0)", "phase = i64(0)")
        if self.shares:
            self.shares.begin()

    @property
    def _first_slice(self) -> str:
        return "slice_first" if self.shares else "i64(0)"

    def position(self, tile: str = "tile", which: str = "") -> None:
        """Of a tile: its first row and column, and its place in the batch.

        `which` is the end of their names.
        """
        self.out(f"batch = divide({tile}, down*wide)",
                 f"place = {tile} - batch*down*wide",
                 f"band = divide(place, {RASTER}*wide)",
                 f"place -= band*{RASTER}*wide",
                 f"height = min(down - band*{RASTER}, i64({RASTER}))",
                 "column = divide(place, height)",
                 f"m_first{which} = (band*{RASTER} + place - column*height)"
                 f"*{self.tiling.rows}",
                 f"n_first{which} = column*{self.tiling.columns}")
        rest, extents = "batch", self.groups[0]
        for k in range(len(extents) - 1, 0, -1):
            self.out(f"rest{k} = divide({rest}, {extents[k]})",
                     f"batch{k}{which} = {rest} - rest{k}*{extents[k]}")
            rest = f"rest{k}"
        if extents:
            self.out(f"batch0{which} = {rest}")

    @contextmanager
    def tiles_in_turn(self, step: str) -> Iterator[None]:
        """A loop over the block's tiles that knows the next one's position, too."""
        out, names = self.out, ["m_first", "n_first"]
        names += [f"batch{k}" for k in range(self.text.ranks[0])]
        if self.plan.asks:
            self.position()
        with out.block("while tile < tiles:"):
            if self.plan.asks:
                out(f"following = tile + {step}", "more = following < tiles")
                self.position("min(following, tiles - 1)", "_next")
            else:
                self.position()
            yield
            if self.plan.asks:
                out(*(f"{name} = {name}_next" for name in names))
            out(f"tile += {step}")

    def _next_stage(self) -> None:
        out = self.out
        out("stage += 1")
        with out.block(f"if stage == {self.plan.stages}:"):
            out("stage = i64(0)", "phase ^= 1")

    # --- bringing tiles

    def _produce(self) -> None:
        out, tiling = self.out, self.tiling
        if tiling.groups == 2:
            out(f"fewer_registers{72 if self._loads_more else ''}()")
        with out.block("if thread == 0:"), self.tiles_in_turn("step"):
            out(f"slice = {self._first_slice}")
            if self.plan.spread:
                out(f"own_slices = slices - {self._first_slice}",
                    f"shift = divide(divide(tile, i64({self.plan.spread}))"
                    f"*{self.plan.spread}*own_slices, tiles)")
            with out.block("while slice < slices:"):
                out("barrier_wait(empty + 8*stage, phase ^ 1)",
                    "ready = full + 8*stage",
                    f"barrier_expect(ready, {tiling.stage_bytes})",
                    f"left = memory + stage*{tiling.stage_bytes}",
                    f"right = left + {tiling.rows*DEPTH*2}", f"k = slice*{DEPTH}")
                if self.plan.spread:
                    out(f"k += shift*{DEPTH}")
                    with out.block(f"if k >= slices*{DEPTH}:"):
                        out(f"k -= own_slices*{DEPTH}")
                self._copies(0, "left", "m_first", tiling.rows)
                self._copies(1, "right", "n_first", tiling.columns)
                if self.plan.asks:
                    self._asks(0, "m_first", "n_first", tiling.rows)
                    self._asks(1, "n_first", "m_first", tiling.columns)
                self._next_stage()
                out("slice += 1")
        self.boxes.produce()
        if self.shares:
            out("cluster_wait()")

    @property
    def _loads_more(self) -> bool:
        """Whether loading takes more registers than usual."""
        return self.plan.boxes > 0 or self.plan.asks

    def _copies(self, which: int, target: str, first: str, extent: int) -> None:
        """One box where k is the inner dimension, else one for each 64 of the other."""
        for at, places in self._boxes(which, first, extent, ""):
            copy = self.plan.copy(which, len(places))
            self.out(f"{copy}({target} + {at}, {_MAPS[which]}, ready, "
                     f"{', '.join(places)})")

    def _boxes(self, which: int, first: str, extent: int, tile: str,
               ) -> Iterator[tuple[int, list[str]]]:
        """Where each box lies in the stage and in the array."""
        batch = [f"batch{k}{tile}" for k in reversed(self.plan.batch[which])]
        if self.plan.along[which]:
            yield 0, ["k", first + tile, *batch]
            return
        for c in range(extent//64):
            yield c*DEPTH*128, [f"{first}{tile} + {64*c}", "k", *batch]

    def _asks(self, which: int, first: str, across: str, extent: int) -> None:
        """For the next tile, by one of the blocks that need it."""
        with self.out.block(f"if more and {across}_next == 0:"):
            for _, places in self._boxes(which, first, extent, "_next"):
                self.out(f"tile_ask{len(places)}({_MAPS[which]}, {', '.join(places)})")

    # --- multiplying them

    def _consume(self) -> None:
        out, tiling = self.out, self.tiling
        base = [_INNER if along else _OUTER for along in self.plan.along]
        # 64 rows of A are 8192 bytes, whichever dimension is the inner one.
        own = 0 if tiling.turns else 8192*tiling.high
        if tiling.groups == 2:
            out(f"more_registers{216 if self._loads_more else ''}()")
        out("group = (warp >> 2) - 1", "lane = thread & 31",
            f"left = i64({base[0]}) + (((memory + group*{own}) & 0x3FFFF) >> 4)",
            f"right = i64({base[1]}) + (((memory + {tiling.rows*DEPTH*2}) & 0x3FFFF)"
            " >> 4)")
        results = Results(self, "0" if tiling.turns else f"group*{64*tiling.high}")
        results.begin()
        if tiling.turns:
            out("tile += group*step", "count = group*slices",
                "turn = 1 - group")
        with out.block("while tile < tiles:"):
            self.position()
            results.announce()
            self._multiply(results)
            results.tile()
            out(f"tile += {tiling.groups if tiling.turns else 1}*step")
        results.end()

    def _multiply(self, results: Results) -> None:
        out, tiling, n = self.out, self.tiling, self.tiling.sums
        steps = "_".join("2" if along else "128" for along in self.plan.along)
        if tiling.turns:
            self._turn()
        out(f"sums = zeros{n}()", f"slice = {self._first_slice}", "before = empty")
        with out.block("while slice < slices:"):
            out("barrier_wait(full + 8*stage, phase)",
                f"at = stage*{tiling.stage_bytes >> 4}",
                f"sums = product_{self.kind}_{tiling.high}x{tiling.columns}_{steps}"
                f"(sums, left + at, right + at, slice > {self._first_slice})",
                f"sums = product_wait{n}_1(sums)")
            self._release(f"slice > {self._first_slice} and ")
            out("before = empty + 8*stage")
            self._next_stage()
            out("slice += 1")
        if tiling.turns:
            with out.block("if (thread & 127) == 0:"):
                out("barrier_arrive(order + 8*(1 - group))")
        results.fetch_first()  # while the last product is on its way
        out(f"sums = product_wait{n}_0(sums)")
        self._release("")

    def _release(self, condition: str) -> None:
        """Tell the loading warp that a stage has been read."""
        with self.out.block(f"if {condition}(thread & 127) == 0:"):
            self.out("barrier_arrive(before)")

    def _turn(self) -> None:
        """Wait until the other group has begun all its products."""
        stages = self.plan.stages
        self.out(f"round = divide(count, i64({stages}))",
                 f"stage = count - round*{stages}", "phase = round & 1",
                 "count += 2*slices", "barrier_wait(order + 8*group, turn)",
                 "turn ^= 1")
