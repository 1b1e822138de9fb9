"""Contract in float32 on Hopper's ordinary cores: the text of the kernel.

Eight warps do nothing but multiply and add what a ninth to twelfth bring to shared
memory.  Each block gets the same number of slices of the result's tiles along k
("stream-K"): where a tile is shared, the block that has its first slice adds the
others' sums to its own, in the order of k.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ....gpu.operands import kernel_name
from ...runtime.compile import Kernel
from ...text.source import Source
from ..mma import FMA_LANES
from ..results import ResultRows
from ..text import ContractText, coordinates, position
from ..tma import start_barriers
from .tiles import APART, TURNING, Tiles

__all__ = ["F32Text", "shared_of"]

#: Tiles down a column before the next column.
RASTER = 8
#: Threads after those that multiply: they bring tiles, and lend them their registers.
_PRODUCERS = 128
#: Of those the one that sends for tiles.
_SENDER = 96


def shared_of(tiles: Tiles) -> int:
    """Bytes of shared memory: rows of sums, tiles, three barriers for each stage."""
    plan = tiles.plan
    return plan.threads//32*plan.strip_bytes + plan.stages*(tiles.stage_bytes + 24)


class F32Text:
    """Writes the kernel of one Contract.

    Parameters
    ----------
    text
        Operands, loops and functions.
    tiles
        How, and of which tiles.
    """

    def __init__(self, text: ContractText, tiles: Tiles) -> None:
        plan = tiles.plan
        self.text, self.tiles, self.plan = text, tiles, plan
        self.warps = plan.threads//32
        m, n = plan.extents
        self.out = Source(kernel_name(text.name, f"f32_{m}x{n}"))
        self.out.descriptor("map0", "map1")
        self.scalars = text.parameters(self.out, text.others)
        self.out.pointer("partial", "float32")
        self.out.pointer("flags", "uint32")

    def kernel(self) -> Kernel:
        """The text and its parameters."""
        out, plan = self.out, self.plan
        self._begin()
        with out.block(f"if warp >= {self.warps}:"):
            out("fewer_registers()", f"mover = thread - {plan.threads}")
            with out.block(f"if mover == {_SENDER}:"), self._pieces():
                self._send()
            if self.tiles.turned:
                with out.block(f"if mover < {TURNING}:"):
                    self._turn()
        with out.block("else:"):
            out("more_registers()")
            self._lanes()
            with self._pieces():
                self._consume()
                with out.block("if begin > 0:"):
                    self._leave()
                with out.block("else:"):
                    self._gather()
                    _Rows(out, self.text, plan, self.scalars).write()
        return out.kernel(plan.threads + _PRODUCERS, plan.blocks, feature="a")

    def _begin(self) -> None:
        """Barriers, and which slices are this block's, counted through all tiles.

        A block waits for others only that were started before it, so it does not
        matter how many run at a time.
        """
        out, plan = self.out, self.plan
        m, n = plan.extents
        self.text.sizes(out)
        out("thread = i64(cuda.threadIdx.x)", "warp = first_lane(thread >> 5)",
            "lane = thread & 31", "memory = first_lane(shared_at())",
            f"tiles = memory + {self.warps*plan.strip_bytes}",
            f"full = tiles + {plan.stages*self.tiles.stage_bytes}",
            f"empty = full + {8*plan.stages}", f"raw = empty + {8*plan.stages}")
        with out.block("if thread == 0:"):
            start_barriers(out, plan.stages, full=self.tiles.arrivals,
                           empty=self.warps, raw=1)
            out("barrier_fence()")
        out("cuda.syncthreads()",
            f"slices = divide(size_k + {plan.depth - 1}, i64({plan.depth}))",
            f"total = divide(size_m + {m - 1}, i64({m}))"
            f"*divide(size_n + {n - 1}, i64({n}))*size_batch*slices",
            "blocks = i64(cuda.gridDim.x)", "me = blocks - 1 - i64(cuda.blockIdx.x)",
            "at = divide(me*total, blocks)", "stop = divide((me + 1)*total, blocks)",
            "turn = i32(0)")

    @contextmanager
    def _pieces(self, condition: str = "") -> Iterator[None]:
        """Lines for each tile of the block's, from slice `begin` up to `end`."""
        out = self.out
        with out.block(f"while {condition}at < stop:"):
            out("tile = divide(at, slices)", "begin = at - tile*slices",
                "end = min(slices, begin + stop - at)")
            position(out, *self.plan.extents, RASTER, "tile")
            yield
            out("at += end - begin")

    def _ring(self) -> tuple[str, str]:
        """The stage that a slice goes through, and the phase of its barriers."""
        stages = self.plan.stages
        return f"(turn & {stages - 1})", f"((turn >> {stages.bit_length() - 1}) & 1)"

    # --- bringing tiles

    def _send(self) -> None:
        """One thread, as far ahead as there is room."""
        out, (stage, phase) = self.out, self._ring()
        coordinates(out, "batch", self.text.groups[0])
        out("slice = i32(begin)")
        with out.block("while slice < end:"):
            out(f"barrier_wait(empty + 8*{stage}, {phase} ^ 1)",
                f"target = tiles + {stage}*{self.tiles.stage_bytes}",
                f"ready = full + 8*{stage}", f"came = raw + 8*{stage}")
            self.tiles.send(out)
            out("slice = i32(slice + 1)", "turn = i32(turn + 1)")

    def _turn(self) -> None:
        """Turn the block's slices that came with k as their inner dimension."""
        out, (stage, phase) = self.out, self._ring()
        out("rest = i32(stop - at)")
        with out.block("while rest > 0:"):
            out(f"barrier_wait(raw + 8*{stage}, {phase})",
                f"target = tiles + {stage}*{self.tiles.stage_bytes}")
            self.tiles.turn(out)
            out("warp_sync()")
            with out.block("if lane == 0:"):
                out(f"barrier_arrive(full + 8*{stage})")
            out("rest = i32(rest - 1)", "turn = i32(turn + 1)")

    # --- multiplying

    def _lanes(self) -> None:
        """Name where each lane's fragments begin in the first stage."""
        out, plan, (rows, columns) = self.out, self.plan, self.plan.warp_extents
        out(*plan.warp_place, *FMA_LANES,
            f"left = tiles + (warp_m*{rows} + lane_m*4)*4",
            f"right = tiles + {self.tiles.first(1)} + (warp_n*{columns} + lane_n*4)*4")

    def _consume(self) -> None:
        """Multiply slice by slice.

        The last step of each loads the next slice's first fragments; whether they are
        there is asked long before.  After the last slice it loads whatever is there,
        which nobody looks at.
        """
        out, plan = self.out, self.plan
        units = f"{plan.units[0]}, {plan.units[1]}"
        geometry = (f"{units}, {plan.depth}, {self.tiles.pitch(0)}, 0, "
                    f"{self.tiles.pitch(1)}, 0")
        stage, phase = self._ring()
        barrier = f"full + 8*{stage}, {phase}"
        out(f"here = {stage}*{self.tiles.stage_bytes}", f"state = fma_zeros({units})",
            f"barrier_wait({barrier})",
            f"state = fma_first(state, left + here, right + here, {geometry})",
            "rest = i32(end - begin)")
        with out.block("while rest > 0:"):
            out(f"done = empty + 8*{stage}", "turn = i32(turn + 1)",
                "rest = i32(rest - 1)", f"ready = barrier_passed({barrier})",
                f"state = fma_most(state, left + here, right + here, {geometry})",
                f"here = {stage}*{self.tiles.stage_bytes}")
            with out.block("if rest > 0 and not ready:"):
                out(f"barrier_wait({barrier})")
            out(f"state = fma_last(state, left + here, right + here, {geometry})",
                "warp_sync()")
            with out.block("if lane == 0:"):
                out("barrier_arrive(done)")

    # --- tiles that several blocks share

    def _leave(self) -> None:
        """The sums for the block that has the tile's first slice."""
        out, plan, (m, n) = self.out, self.plan, self.plan.extents
        out(f"sums_leave(state, partial, me*{m*n} + thread, {plan.sums}, "
            f"{plan.threads})", f"sums_sync({plan.threads})")
        with out.block("if thread == 0:"):
            out("flag_raise(flags, me)")

    def _gather(self) -> None:
        """Add what the next blocks have left, one after the other."""
        out, plan, (m, n) = self.out, self.plan, self.plan.extents
        out("other = me", "have = end")
        with out.block("while have < slices:"):
            out("other += 1")
            with out.block("if thread == 0:"):
                out("flag_lower(flags, other)")
            out(f"sums_sync({plan.threads})",
                f"state = sums_join(state, partial, other*{m*n} + thread, "
                f"{plan.sums}, {plan.threads})",
                "have = min(slices, divide((other + 1)*total, blocks) - tile*slices)")


class _Rows(ResultRows):
    """Results of turned tiles: neighbouring sums lie `APART` rows or columns apart.

    Rows of a strip are in the order of the lanes that have them.
    """

    def lane(self) -> str:
        """Bytes from a strip's begin to what a lane keeps of it."""
        rows, columns = (1 if f.along else 4 for f in self.plan.factors)
        return f"lane_m*{rows*self.plan.row_bytes} + lane_n*{4*columns}"

    def keep(self, part: int) -> str:
        """Text that puts the sums of a part in the strip."""
        a, b = self.plan.factors
        rows = self.plan.row_bytes*(8 if a.along else 1)
        unit, column = (4, APART) if b.along else (16, 1)
        return (f"sums_keep(state, mine, {part}, {self.plan.units[1]}, {rows}, "
                f"{4*unit}, {4*column})")

    def row(self) -> str:
        """Text of a warp's row that is row `row` of the strip of `part`."""
        if not self.plan.factors[0].along:
            return super().row()
        return f"part*8 + (row & 7) + (row >> 3)*{APART}"
