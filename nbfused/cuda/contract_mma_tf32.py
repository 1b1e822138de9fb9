"""Contract in TF32 on Hopper's tensor cores: the text of the kernel.

One thread brings tiles of A and B to shared memory by TMA, which rounds them; eight
warps multiply by wgmma.  Of the two factors one has k as its inner dimension: 256 rows
of it are read in shared memory.  128 of the other go through registers, 16 a warp, in
either order.  If those are B's, it is the transposed product that is computed.
"""

from __future__ import annotations

from .compile import Kernel
from .contract_mma_plan import Plan
from .contract_mma_results import ResultRows
from .contract_text import ContractText, position
from .source import Source, kernel_name, storage

__all__ = ["DEPTH", "ROWS", "Tf32Text", "lane_of_fragments", "shared_of"]

#: Places along k of a tile: 128 bytes.  Rows of the factors: in registers, in memory.
DEPTH, ROWS = 32, (128, 256)
RASTER = 8
_STAGE = sum(ROWS)*DEPTH*4
#: Warps that multiply; those of the third group lend them their registers.
_CONSUMERS, _THREADS = 8, 384
#: Descriptor of a tile with 128-byte swizzling, its address left out.
_SWIZZLED = (1 << 62) | ((1024 >> 4) << 32) | ((16 >> 4) << 16)


def shared_of(plan: Plan) -> int:
    """Bytes of shared memory; two barriers for each stage."""
    return plan.stages*(_STAGE + 16)


class Tf32Text:
    """Writes the kernel of one Contract.

    Parameters
    ----------
    text
        Operands, ranks and functions.
    plan
        How.
    batch
        For A and B, the batch loops that they vary along.
    """

    def __init__(self, text: ContractText, plan: Plan,
                 batch: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
        self.text, self.plan, self.batch, self.typed = text, plan, batch, text.typed
        m, n = plan.extents
        self.out = Source(kernel_name(text.name, f"tf32_{m}x{n}"))
        self.groups, loops = [], 0
        for rank in text.ranks:
            self.groups.append([f"n{loops + k}" for k in range(rank)])
            loops += rank
        #: The factor in shared memory, and the one in registers.
        self.whole = 1 if plan.engine.name == "tf32a" else 0
        self.split = 1 - self.whole

    def kernel(self) -> Kernel:
        """The text and its parameters."""
        out = self.out
        scalars = self._parameters()
        self._begin()
        with out.block(f"if warp >= {_CONSUMERS}:"):
            out("fewer_registers()")
            with out.block(f"if thread == {32*_CONSUMERS}:"):
                self._produce()
        with out.block("else:"):
            out("more_registers()")
            self._consume()
            out("consumers_sync()")
            ResultRows(out, self.text, self.plan, self.groups, scalars).write()
        return out.kernel(_THREADS, 1, feature="a")

    def _parameters(self) -> dict[str, str]:
        out, loops = self.out, sum(self.text.ranks)
        others = [*self.text.extras, *self.text.outputs]
        out.descriptor("map_left", "map_right")
        for o in others:
            out.pointer(o.pointer, storage(o.dtype))
        out.integer(*(f"n{k}" for k in range(loops)),
                    *(o.stride(k) for o in others for k in range(loops)))
        epilogue = self.typed.epilogue
        names = [p for p, k in zip(epilogue.function.params[1:], self.typed.kinds,
                                   strict=True) if k == "scalar"]
        return {p: out.scalar(f"a{k}", epilogue.dtypes[p])
                for k, p in enumerate(names)}

    def _begin(self) -> None:
        out, plan = self.out, self.plan
        for name, extents in zip(("batch", "m", "n", "k"), self.groups, strict=True):
            out(f"size_{name} = {'*'.join(extents) or 'i64(1)'}")
        position(out, *plan.extents, RASTER)
        across = plan.warps[1]
        out("thread = i64(cuda.threadIdx.x)", "warp = first_lane(thread >> 5)",
            "lane = thread & 31", f"warp_m = divide(warp, i64({across}))",
            f"warp_n = warp - warp_m*{across}", "memory = shared_at()",
            f"full = memory + {plan.stages*_STAGE}", f"empty = full + {8*plan.stages}")
        with out.block("if thread == 0:"):
            for s in range(plan.stages):
                out(f"barrier_init(full + {8*s}, 1)",
                    f"barrier_init(empty + {8*s}, {_CONSUMERS})")
            out("barrier_fence()")
        out("cuda.syncthreads()",
            f"slices = divide(size_k + {DEPTH - 1}, i64({DEPTH}))",
            "stage = i64(0)", "phase = i64(0)", "slice = i64(0)")

    def _at(self, which: int) -> int:
        """Where the tile of a factor begins in a stage: A's, then B's."""
        return 0 if which == 0 else ROWS[int(self.whole == 0)]*DEPTH*4

    def _next(self) -> None:
        out = self.out
        out("slice += 1", "stage += 1")
        with out.block(f"if stage == {self.plan.stages}:"):
            out("stage = i64(0)", "phase ^= 1")

    # --- bringing tiles

    def _produce(self) -> None:
        out, rest = self.out, "batch"
        for k in range(len(self.groups[0]) - 1, 0, -1):
            out(f"rest{k} = divide({rest}, {self.groups[0][k]})",
                f"batch{k} = {rest} - rest{k}*{self.groups[0][k]}")
            rest = f"rest{k}"
        if self.groups[0]:
            out(f"batch0 = {rest}")
        with out.block("while slice < slices:"):
            out("barrier_wait(empty + 8*stage, phase ^ 1)", "ready = full + 8*stage",
                f"barrier_expect(ready, {_STAGE})",
                f"target = memory + stage*{_STAGE}", f"k = slice*{DEPTH}")
            for which in (0, 1):
                self._copies(which)
            self._next()

    def _copies(self, which: int) -> None:
        """One box where k is the inner dimension, else one for each 32 of the other."""
        batch = [f"batch{k}" for k in reversed(self.batch[which])]
        rank, first = 2 + len(batch), ("m_first", "n_first")[which]
        along = self.plan.factors[which].along
        boxes = [(0, "k", first)] if along else [
            (c*DEPTH*128, f"{first} + {32*c}", "k") for c in range(ROWS[0]//32)]
        for at, inner, outer in boxes:
            self.out(f"tile_copy{rank}(target + {self._at(which) + at}, "
                     f"{('map_left', 'map_right')[which]}, ready, "
                     f"{', '.join([inner, outer, *batch])})")

    # --- multiplying them

    def _consume(self) -> None:
        """Each group of four warps loads registers while the other multiplies."""
        out, plan, along = self.out, self.plan, self.plan.factors[self.split].along
        out(f"mine = memory + {self._at(self.split)} + "
            + lane_of_fragments(along),
            f"there = i64({_SWIZZLED}) + "
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
