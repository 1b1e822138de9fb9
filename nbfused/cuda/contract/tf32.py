"""Contract in TF32 on Hopper's tensor cores: the text of the kernel.

One thread brings tiles of A and B to shared memory by TMA, which rounds them; eight
warps multiply by wgmma.  Of the two factors one has k as its inner dimension: 256 rows
of it are read in shared memory.  128 of the other go through registers, 16 a warp, in
either order.  If those are B's, it is the transposed product that is computed.
"""

from __future__ import annotations

from ...gpu.operands import kernel_name
from ..runtime.compile import Kernel
from ..text.source import Source
from .plan import Plan
from .results import ResultRows
from .text import ContractText, coordinates, position
from .tma import Batches, box_places, matrix_descriptor, next_stage, start_barriers

__all__ = ["DEPTH", "ROWS", "Tf32Text", "lane_of_fragments", "shared_of"]

#: Places along k of a tile: 128 bytes.  Rows of the factors: in registers, in memory.
DEPTH, ROWS = 32, (128, 256)
#: Tiles down a column before the next column.
RASTER = 8
_STAGE = sum(ROWS)*DEPTH*4
#: Warps that multiply; those of the third group lend them their registers.
_CONSUMERS, _THREADS = 8, 384


def shared_of(plan: Plan) -> int:
    """Bytes of shared memory; two barriers for each stage."""
    return plan.stages*(_STAGE + 16)


class Tf32Text:
    """Writes the kernel of one Contract.

    Parameters
    ----------
    text
        Operands, loops and functions.
    plan
        How.
    batch
        For A and B, the batch loops that they vary along.
    """

    def __init__(self, text: ContractText, plan: Plan, batch: Batches) -> None:
        self.text, self.plan, self.batch = text, plan, batch
        m, n = plan.extents
        self.out = Source(kernel_name(text.name, f"tf32_{m}x{n}"))
        self.out.descriptor("map_left", "map_right")
        self.scalars = text.parameters(self.out, text.others)
        #: The factor in shared memory, and the one in registers.
        self.whole = 1 if plan.engine.name == "tf32a" else 0
        self.split = 1 - self.whole

    def kernel(self) -> Kernel:
        """The text and its parameters."""
        out = self.out
        self._begin()
        with out.block(f"if warp >= {_CONSUMERS}:"):
            out("fewer_registers()")
            with out.block(f"if thread == {32*_CONSUMERS}:"):
                self._produce()
        with out.block("else:"):
            out("more_registers()")
            self._consume()
            out("consumers_sync()")
            ResultRows(out, self.text, self.plan, self.scalars).write()
        return out.kernel(_THREADS, 1, feature="a")

    def _begin(self) -> None:
        out, plan = self.out, self.plan
        self.text.sizes(out)
        position(out, *plan.extents, RASTER)
        out("thread = i64(cuda.threadIdx.x)", "warp = first_lane(thread >> 5)",
            "lane = thread & 31", *plan.warp_place, "memory = shared_at()",
            f"full = memory + {plan.stages*_STAGE}", f"empty = full + {8*plan.stages}")
        with out.block("if thread == 0:"):
            start_barriers(out, plan.stages, full=1, empty=_CONSUMERS)
            out("barrier_fence()")
        out("cuda.syncthreads()",
            f"slices = divide(size_k + {DEPTH - 1}, i64({DEPTH}))",
            "stage = i64(0)", "phase = i64(0)", "slice = i64(0)")

    def _at(self, which: int) -> int:
        """Offset of a factor's tile in a stage: A's, then B's."""
        return 0 if which == 0 else ROWS[int(self.whole == 0)]*DEPTH*4

    def _next(self) -> None:
        self.out("slice += 1")
        next_stage(self.out, self.plan.stages)

    # --- bringing tiles

    def _produce(self) -> None:
        out = self.out
        coordinates(out, "batch", self.text.groups[0])
        with out.block("while slice < slices:"):
            out("barrier_wait(empty + 8*stage, phase ^ 1)", "ready = full + 8*stage",
                f"barrier_expect(ready, {_STAGE})",
                f"target = memory + stage*{_STAGE}", f"k = slice*{DEPTH}")
            for which in (0, 1):
                self._copies(which)
            self._next()

    def _copies(self, which: int) -> None:
        """One box where k is the inner dimension, else one for each 32 of the other."""
        first, along = ("m_first", "n_first")[which], self.plan.factors[which].along
        boxes = [(0, first)] if along else [
            (c*DEPTH*128, f"{first} + {32*c}") for c in range(ROWS[0]//32)]
        for at, own in boxes:
            places = box_places(along, own, self.batch[which])
            self.out(f"tile_copy{len(places)}(target + {self._at(which) + at}, "
                     f"{('map_left', 'map_right')[which]}, ready, {', '.join(places)})")

    # --- multiplying them

    def _consume(self) -> None:
        """Each group of four warps loads registers while the other multiplies."""
        out, plan, along = self.out, self.plan, self.plan.factors[self.split].along
        out(f"mine = memory + {self._at(self.split)} + "
            + lane_of_fragments(along),
            f"there = i64({matrix_descriptor(16)}) + "
            f"(((memory + {self._at(self.whole)}) & 0x3FFFF) >> 4)",
            f"state = {plan.engine.name}_zeros({plan.units[0]}, {plan.units[1]})")
        with out.block("while slice < slices:"):
            out("barrier_wait(full + 8*stage, phase)",
                f"now = tf32_fragments(mine + stage*{_STAGE}, {int(along)})",
                f"state = tf32_product(state, now, there + stage*{_STAGE >> 4})",
                "state = tf32_wait(state)")
            with out.block("if lane == 0:"):
                out("barrier_arrive(empty + 8*stage)")
            self._next()


def lane_of_fragments(along: bool) -> str:
    """Bytes from a swizzled tile's begin to a lane's first element."""
    if along:
        return "warp*2048 + (lane >> 2)*144 + (lane & 3)*4"
    return ("(warp >> 1)*4096 + (lane & 3)*128 + ((lane >> 2) & 3)*4"
            " + ((((warp & 1)*4 + (lane >> 4)) ^ (lane & 3)) << 4)")
