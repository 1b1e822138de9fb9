"""Contract in float32 on Hopper's ordinary cores: the text of the kernel.

One thread brings tiles of A and B to shared memory by TMA, as they lie in memory.
Eight warps do nothing but multiply and add.  Each block gets the same number of slices
of the result's tiles along k ("stream-K"): where a tile is shared, the block that has
its first slice adds the others' sums to its own, in the order of k.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .compile import Kernel
from .contract_mma import FMA_LANES
from .contract_mma_plan import Plan
from .contract_mma_results import ResultRows
from .contract_text import ContractText, position
from .source import Source, kernel_name, storage

__all__ = ["CONSUMERS", "F32Text", "box_of", "shared_of"]

RASTER = 8
#: Warps that multiply; those of the last group lend them their registers.
CONSUMERS, _THREADS = 8, 384
_SIDES = ("left", "right")


def box_of(plan: Plan, which: int) -> tuple[int, int]:
    """The extents of a tile of A or B, the inner dimension first."""
    extent = plan.extents[which]
    return (plan.depth, extent) if plan.factors[which].along else (extent, plan.depth)


def _stage(plan: Plan) -> int:
    """Bytes of a tile of A and one of B."""
    return sum(plan.extents)*plan.depth*4


def shared_of(plan: Plan) -> int:
    """Bytes of shared memory: tiles, rows of sums, two barriers for each stage."""
    return plan.stages*(_stage(plan) + 16) + CONSUMERS*plan.strip_bytes


class F32Text:
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
        self.out = Source(kernel_name(text.name, f"f32_{m}x{n}"))
        self.groups, loops = [], 0
        for rank in text.ranks:
            self.groups.append([f"n{loops + k}" for k in range(rank)])
            loops += rank

    def kernel(self) -> Kernel:
        """The text and its parameters."""
        out = self.out
        scalars = self._parameters()
        self._begin()
        with out.block(f"if warp >= {CONSUMERS}:"):
            out("fewer_registers()")
            with out.block(f"if thread == {32*CONSUMERS}:"):
                with self._pieces():
                    self._produce()
        with out.block("else:"):
            out("more_registers()")
            self._lanes()
            with self._pieces():
                self._consume()
                with out.block("if begin > 0:"):
                    self._leave()
                with out.block("else:"):
                    self._gather()
                    ResultRows(out, self.text, self.plan, self.groups,
                               scalars).write()
        return out.kernel(_THREADS, 1, feature="a")

    def _parameters(self) -> dict[str, str]:
        out, loops = self.out, sum(self.text.ranks)
        others = [*self.text.extras, *self.text.outputs]
        out.descriptor("map_left", "map_right")
        for o in others:
            out.pointer(o.pointer, storage(o.dtype))
        out.pointer("partial", "float32")
        out.pointer("flags", "uint32")
        out.integer(*(f"n{k}" for k in range(loops)),
                    *(o.stride(k) for o in others for k in range(loops)))
        epilogue = self.typed.epilogue
        names = [p for p, k in zip(epilogue.function.params[1:], self.typed.kinds,
                                   strict=True) if k == "scalar"]
        return {p: out.scalar(f"a{k}", epilogue.dtypes[p])
                for k, p in enumerate(names)}

    def _begin(self) -> None:
        """Barriers, and which slices are this block's, counted through all tiles.

        A block waits for others only that were started before it, so it does not
        matter how many run at a time.
        """
        out, plan = self.out, self.plan
        m, n = plan.extents
        for name, extents in zip(("batch", "m", "n", "k"), self.groups, strict=True):
            out(f"size_{name} = {'*'.join(extents) or 'i64(1)'}")
        out("thread = i64(cuda.threadIdx.x)", "warp = first_lane(thread >> 5)",
            "lane = thread & 31", "memory = first_lane(shared_at())",
            f"tiles = memory + {CONSUMERS*plan.strip_bytes}",
            f"full = tiles + {plan.stages*_stage(plan)}",
            f"empty = full + {8*plan.stages}")
        with out.block("if thread == 0:"):
            for s in range(plan.stages):
                out(f"barrier_init(full + {8*s}, 1)",
                    f"barrier_init(empty + {8*s}, {CONSUMERS})")
            out("barrier_fence()")
        out("cuda.syncthreads()",
            f"slices = divide(size_k + {plan.depth - 1}, i64({plan.depth}))",
            f"total = divide(size_m + {m - 1}, i64({m}))"
            f"*divide(size_n + {n - 1}, i64({n}))*size_batch*slices",
            "blocks = i64(cuda.gridDim.x)", "me = blocks - 1 - i64(cuda.blockIdx.x)",
            "at = divide(me*total, blocks)", "stop = divide((me + 1)*total, blocks)",
            "turn = i32(0)")

    @contextmanager
    def _pieces(self) -> Iterator[None]:
        """Lines for each tile of the block's, from slice `begin` up to `end`."""
        out = self.out
        with out.block("while at < stop:"):
            out("tile = divide(at, slices)", "begin = at - tile*slices",
                "end = min(slices, begin + stop - at)")
            position(out, *self.plan.extents, RASTER, "tile")
            yield
            out("at += end - begin")

    def _turn(self) -> tuple[str, str]:
        """The stage that a slice goes through, and the phase of its barriers."""
        stages = self.plan.stages
        return f"(turn & {stages - 1})", f"((turn >> {stages.bit_length() - 1}) & 1)"

    # --- bringing tiles

    def _produce(self) -> None:
        out, plan, rest = self.out, self.plan, "batch"
        for k in range(len(self.groups[0]) - 1, 0, -1):
            out(f"rest{k} = divide({rest}, {self.groups[0][k]})",
                f"batch{k} = {rest} - rest{k}*{self.groups[0][k]}")
            rest = f"rest{k}"
        if self.groups[0]:
            out(f"batch0 = {rest}")
        stage, phase = self._turn()
        out("slice = begin")
        with out.block("while slice < end:"):
            out(f"barrier_wait(empty + 8*{stage}, {phase} ^ 1)",
                f"ready = full + 8*{stage}", f"barrier_expect(ready, {_stage(plan)})",
                f"target = tiles + {stage}*{_stage(plan)}", f"k = slice*{plan.depth}")
            for which in (0, 1):
                self._copy(which)
            out("slice += 1", "turn = i32(turn + 1)")

    def _copy(self, which: int) -> None:
        batch = [f"batch{k}" for k in reversed(self.batch[which])]
        places = ["k", ("m_first", "n_first")[which]]
        if not self.plan.factors[which].along:
            places.reverse()
        target = "target" if which == 0 else \
            f"target + {self.plan.extents[0]*self.plan.depth*4}"
        self.out(f"tile_copy{2 + len(batch)}({target}, map_{_SIDES[which]}, ready, "
                 f"{', '.join([*places, *batch])})")

    # --- multiplying them

    def _lanes(self) -> None:
        """Where each lane's fragments begin in the first stage."""
        out, plan = self.out, self.plan
        across, (m, n) = plan.warps[1], plan.warp_extents
        out(f"warp_m = divide(warp, i64({across}))", f"warp_n = warp - warp_m*{across}",
            *FMA_LANES, f"left = tiles + {lane_of_left(plan)}",
            f"right = tiles + {plan.extents[0]*plan.depth*4} + (warp_n*{n} + lane_n*4)*4")

    def _consume(self) -> None:
        """Multiply slice by slice.

        The last step of each waits for the next slice's first fragments.  After the
        last slice it loads whatever is there, which nobody looks at.
        """
        out, plan, name = self.out, self.plan, self.plan.engine.name
        pitch = plan.depth if plan.factors[0].along else plan.extents[0]
        geometry = (f"{plan.units[0]}, {plan.units[1]}, {plan.depth}, {4*pitch}, 0, "
                    f"{4*plan.extents[1]}, 0")
        stage, phase = self._turn()
        wait = f"barrier_wait(full + 8*{stage}, {phase})"
        fragments = ", ".join(f"{x} + {stage}*{_stage(plan)}" for x in _SIDES)
        out(f"state = {name}_zeros({plan.units[0]}, {plan.units[1]})", wait,
            f"state = {name}_first(state, {fragments}, {geometry})",
            "rest = i32(end - begin)")
        with out.block("while rest > 0:"):
            out(f"state = {name}_most(state, {fragments}, {geometry})",
                f"done = empty + 8*{stage}", "rest = i32(rest - 1)",
                "turn = i32(turn + 1)")
            with out.block("if rest > 0:"):
                out(wait)
            out(f"state = {name}_last(state, {fragments}, {geometry})", "warp_sync()")
            with out.block("if lane == 0:"):
                out("barrier_arrive(done)")

    # --- tiles that several blocks share

    def _leave(self) -> None:
        """The sums for the block that has the tile's first slice."""
        out, (m, n) = self.out, self.plan.extents
        out(f"sums_leave(state, partial, me*{m*n} + thread, {self.plan.sums})",
            "cuda.threadfence()", "consumers_sync()")
        with out.block("if thread == 0:"):
            out("flag_raise(flags, me)")

    def _gather(self) -> None:
        """Add what the next blocks have left, one after the other."""
        out, (m, n) = self.out, self.plan.extents
        out("other = me")
        with out.block("while end < slices:"):
            out("other += 1")
            with out.block("if thread == 0:"):
                out("flag_lower(flags, other)")
            out("consumers_sync()",
                f"state = sums_join(state, partial, other*{m*n} + thread, "
                f"{self.plan.sums})",
                "end = min(slices, divide((other + 1)*total, blocks) - tile*slices)")


def lane_of_left(plan: Plan) -> str:
    """Bytes from a tile of A to a lane's fragments.

    Where k is the inner dimension, TMA has exchanged the groups of 16 bytes of each
    row, as the number of the 128 bytes that they lie in says.
    """
    rows = plan.warp_extents[0]
    if not plan.factors[0].along:
        return f"(warp_m*{rows} + lane_m*4)*4"
    row = 4*plan.depth
    return (f"(warp_m*{rows} + lane_m)*{row}"
            f" + ((divide(lane_m*{row}, i64(128)) & {row//16 - 1}) << 4)")
