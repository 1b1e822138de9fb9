"""Row on CUDA: a group of lanes for each row; elements are read from memory once.

Lanes keep their elements in registers from stage to stage, all loads in flight
together.  A row may have a few lanes of a warp, a block, or the blocks of a cluster.
Where there are sums over rows, and in clusters, blocks stay and go through many rows,
the next one on its way; in clusters a row is finished while the next one's sums travel.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ..backend import Call, Launcher, Signature
from ..specs import Row, TypedRow
from .driver import Device, device
from .launch import Program
from .row_plan import RowPlan
from .row_streamed import AHEAD, LONG, lanes_once
from .row_text import RowText
from .row_total import RowTotal
from .states import WARP

__all__ = ["RowLauncher", "build_row"]

#: Threads of a block where several rows share it.
BLOCK = 256
#: Lanes for a row that is not kept, by its number of accesses.
_LANES = ((16, 8), (128, 32), (512, 128), (1024, 256))
_MOST_LANES = 512
#: Static shared memory of the stages' reductions, at most.
_STATIC = 2048
#: Threads of a multiprocessor that sums over rows are cut up for.
_RESIDENT = 512
#: Rows are large that take more than so many times the second cache: what was read is
#: the last to leave it.  Such loads are faster (why is not known), but less of the
#: results remains for who reads them next, which costs more where arrays are smaller.
LARGE = 2


class RowLauncher:
    """Chooses the kernel by the call's extents and alignment.

    Parameters
    ----------
    name
        Of the row function.
    typed, signature
        What to compute, on which dtypes and loops.
    """

    def __init__(self, name: str, typed: TypedRow, signature: Signature) -> None:
        self.text = text = RowText(name, typed, signature)
        self._programs: dict[RowPlan, Program] = {}
        self._total = RowTotal(name, {k: text.outputs[k] for k in text.sums},
                               text.accumulators, text.columns) if text.sums else None

    def __call__(self, call: Call) -> None:
        """Launch on the call's stream."""
        where = device(call.device)
        plan = self.plan(call, where)
        shared = self.text.shared_bytes(call.shape[-1], plan)
        blocks = -(-prod(call.shape[:-1]) // plan.groups)*plan.cluster
        if plan.resident:
            blocks = min(blocks, self._resident(plan, where, shared))
        if self._total is None:
            self._launch(plan, call, where, blocks, shared, ())
        else:
            self._with_sums(plan, call, where, blocks, shared)

    def plan(self, call: Call, where: Device) -> RowPlan:
        """Which kernel, and with how many lanes to a row."""
        text, columns, vector = self.text, call.shape[-1], self._vector(call)
        accesses = columns // (text.width if vector or text.could_rag else 1)
        lanes = next((n for most, n in _LANES if accesses <= most), _MOST_LANES)
        if text.once():
            lanes = lanes_once(accesses, _MOST_LANES)
        if vector and columns < 1 << 32:  # see `compared_short`
            for kept in text.plans(accesses, where.arch >= (9, 0), BLOCK):
                if self._fits(kept, columns, where) and not (
                        text.once() and (kept.cluster > 1 or lanes >= LONG)):
                    bulk = where.arch >= (9, 0) and text.brought(kept)
                    return replace(kept, lasting=not kept.resident
                                   and self._large(call, where),
                                   bulk=bulk, held=kept.held or bulk)
        ragged = not vector and text.could_rag
        vector = vector or ragged
        sums = "shared" if text.columns else ""
        resident = _RESIDENT if text.sums else 0
        ahead = text.ahead(AHEAD) if vector and text.could_keep and not resident else 0
        plan = RowPlan(lanes, vector, sums=sums, resident=resident, block=BLOCK,
                       ahead=ahead, ragged=ragged)
        if self._fits(plan, columns, where):
            return plan
        return replace(plan, lanes=max(lanes, 2*WARP), sums="global")

    def _fits(self, plan: RowPlan, columns: int, where: Device) -> bool:
        """Whether as many blocks as should take turns have room for what they share."""
        size = self.text.shared_bytes(columns, plan) + _STATIC
        turns = max(1, plan.resident // plan.threads)
        return size <= min(where.shared_limit, where.shared_total // turns)

    def _large(self, call: Call, where: Device) -> bool:
        """Whether the elements that are read are many more than the cache holds."""
        read = prod(call.shape)*sum(o.dtype.itemsize for o in self.text.kept)
        return read > LARGE*where.cache_size

    def _vector(self, call: Call) -> bool:
        text = self.text
        if not text.could_vector or call.shape[-1] % text.width:
            return False
        for o in text.unit:
            if call.pointers[o.at] & (min(16, o.dtype.itemsize*text.width) - 1):
                return False
            if any(s % text.width for s in call.strides[o.at][:-1]):
                return False
        return True

    def _with_sums(self, plan: RowPlan, call: Call, where: Device, blocks: int,
                   shared: int) -> None:
        """Every block's sums to a workspace, then their total."""
        assert self._total is not None
        columns, starts, total = call.shape[-1], {}, 0
        for k, dtype in self.text.accumulators.items():
            starts[k] = total
            count = columns if k in self.text.columns else 1
            total += -(-blocks*count*dtype.itemsize // 256)*256
        with where.current(), where.workspace(total, call.stream) as base:
            parts = {k: base + start for k, start in starts.items()}
            self._launch(plan, call, where, blocks, shared, tuple(parts.values()))
            self._total(where, call, parts, blocks // plan.cluster)

    def _program(self, plan: RowPlan) -> Program:
        program = self._programs.get(plan)
        if program is None:
            program = self._programs[plan] = Program(self.text.kernel(plan))
        return program

    def _resident(self, plan: RowPlan, where: Device, shared: int) -> int:
        """Blocks that run at the same time, whole clusters of them."""
        blocks = where.processors*max(1, plan.resident // plan.threads)
        if plan.cluster == 1:
            return blocks
        most, program = blocks // plan.cluster, self._program(plan)
        if program.kernel.cluster > 1:  # else blocks share a row and need not meet
            most = min(most, program.clusters(where, shared))
        return max(1, most)*plan.cluster

    def _launch(self, plan: RowPlan, call: Call, where: Device, blocks: int,
                shared: int, parts: tuple[int, ...]) -> None:
        program = self._program(plan)
        values = (*call.pointers, *parts, *call.shape,
                  *(s for strides in call.strides for s in strides), *call.scalars)
        program.launch(where, call.stream, blocks, values, shared)


def build_row(spec: Row, signature: Signature) -> Launcher:
    """A launcher for `spec`; kernels are compiled when first needed."""
    return RowLauncher(spec.name, spec.typed(signature.inputs, signature.outputs),
                       signature)
