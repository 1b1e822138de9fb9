"""Row on CUDA: a group of lanes for each row; elements are read from memory once.

Lanes keep their elements in registers from stage to stage, all loads in flight
together.  A row may have a few lanes of a warp, a block, or the blocks of a cluster.
Where there are sums over rows, and in clusters, blocks stay and go through many rows,
the next one on its way; in clusters a row is finished while the next one's sums travel.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from math import prod
from typing import TYPE_CHECKING

from ...backend import Call, Launcher, Signature
from ...gpu.operands import ACCESS, all_arguments
from ...gpu.programs import Programs
from ...specs import Row, TypedRow
from ..map.repeats import Repeats
from ..runtime.binding import Bindable
from ..runtime.driver import Device, device
from ..runtime.launch import Program
from ..text.states import WARP
from .plan import RowPlan
from .skeleton import kernel
from .split.choice import Rule, facts_of, skeleton_for
from .streamed import AHEAD, LONG, lanes_of_few, lanes_once
from .text import RowText
from .tiled import tile_bytes, tiles
from .total import RowTotal

if TYPE_CHECKING:
    from .split.launcher import SplitRow
    from .split.unrolled import UnrolledRow

__all__ = ["RowLauncher", "build_row"]

#: Threads of a block where several rows share it.
BLOCK = 256
#: Lanes for a row that is not kept, by its number of accesses; no record.
_LANES = ((16, 8), (128, 32), (512, 128), (1024, 256))
#: The same before these where there are sums over rows, for which blocks go through
#: many rows: benchmarks/notes/rows.md#sums-over-rows-of-few-elements.
_LANES_OF_SUMS = ((6, 1), (12, 2), (24, 4), (56, 8), (128, 16), (256, 32))
_MOST_LANES = 512
#: Static shared memory of the stages' reductions, at most.
_STATIC = 2048
#: Threads of a multiprocessor that sums over rows are cut up for; no record.
_RESIDENT = 512
#: Elements up to which one block goes through all rows, so that no kernel adds the
#: blocks' sums.  Not measured.
ALONE = 4096
#: Rows for each multiprocessor up to which the blocks of a cluster share rows of which
#: every element is loaded by itself: benchmarks/notes/rows.md#few-rows.
ROWS_OF_CLUSTERS = 1
#: Rows are large that take more than so many times the second cache: what was read is
#: the last to leave it.  Such loads are faster (why is not known), but less of the
#: results remains for who reads them next, which costs more where arrays are smaller:
#: benchmarks/notes/rows.md#hints-of-rows.
LARGE = 2
#: Elements, and rows that are the same, from which one of them is computed and copied:
#: benchmarks/notes/memory.md#inputs-that-repeat.
REPEATS = 1 << 23, 16


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
        self._programs: Programs[RowPlan, Program] = Programs(
            Program, partial(kernel, text))
        self._total = RowTotal(name, {k: text.outputs[k] for k in text.sums},
                               text.accumulators, text.columns) if text.sums else None

    def __call__(self, call: Call) -> None:
        """Launch on the call's stream."""
        where = device(call.device)
        plan = self.plan(call, where)
        chosen = self.rule(call, plan, where).skeleton
        if chosen == "split" and self._split.possible:
            self._split(call, where)
            return
        if chosen == "map":
            self._unrolled(call)
            return
        if chosen == "thread":
            plan = RowPlan(1, block=BLOCK)
        if chosen == "tile":
            plan = tiles(self.text, call, where.processors)
        shared = tile_bytes(self.text, call.shape[-1], plan) if plan.tiled else \
            self.text.shared_bytes(call.shape[-1], plan)
        blocks = -(-prod(call.shape[:-1]) // plan.groups)*plan.cluster
        if plan.resident:
            blocks = min(blocks, self._resident(plan, where, shared))
        if self._total is None:
            self._launch(plan, call, where, blocks, shared, ())
        else:
            self._with_sums(plan, call, where, blocks, shared)

    def rule(self, call: Call, plan: RowPlan, where: Device) -> Rule:
        """The skeleton for a call, where `plan` is for a group of lanes a row."""
        return skeleton_for(facts_of(self.text, call, plan, where.processors))

    @cached_property
    def _split(self) -> SplitRow:
        from .split.launcher import SplitRow  # with Reduce and Map, which takes time

        return SplitRow(self.text)

    @cached_property
    def _unrolled(self) -> UnrolledRow:
        from .split.unrolled import UnrolledRow

        return UnrolledRow(self.text)

    def plan(self, call: Call, where: Device) -> RowPlan:
        """The kernel for a call, and its number of lanes to a row."""
        text, columns, vector = self.text, call.shape[-1], self.text.is_aligned(call)
        accesses = columns // (text.width if vector or text.could_rag else 1)
        few = _LANES_OF_SUMS if text.sums else ()
        lanes = next((n for most, n in (*few, *_LANES) if accesses <= most),
                     _MOST_LANES)
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
        if not vector and columns < 1 << 32:
            clusters = where.arch >= (9, 0) and \
                prod(call.shape[:-1]) <= ROWS_OF_CLUSTERS*where.processors
            for apart in text.plans_apart(columns, BLOCK, clusters):
                return apart
        ragged = not vector and text.could_rag
        vector = vector or ragged
        if text.once():
            lanes = lanes_of_few(lanes, accesses, _MOST_LANES,
                                 prod(call.shape[:-1])/where.processors)
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

    def _with_sums(self, plan: RowPlan, call: Call, where: Device, blocks: int,
                   shared: int) -> None:
        """Every block's sums to a workspace, then their total."""
        assert self._total is not None
        if plan.cluster == 1 and prod(call.shape) <= ALONE:
            blocks = 1
        if blocks == 1 and self._are_sums(call):
            self._launch(plan, call, where, blocks, shared, tuple(
                [call.pointers[o.at] for o in self._total.outputs.values()]))
            return
        starts, total = self.text.partial_sums(call.shape[-1], blocks)
        with where.current(), where.workspace(total, call.stream) as base:
            parts = {k: base + start for k, start in starts.items()}
            self._launch(plan, call, where, blocks, shared, tuple(parts.values()))
            self._total(where, call, parts, blocks // plan.cluster)

    def _are_sums(self, call: Call) -> bool:
        """Whether one block's sums are the outputs as they lie."""
        assert self._total is not None
        return all(
            o.dtype == self._total.accumulators[k] and not call.pointers[o.at] % ACCESS
            and (k not in self._total.columns or call.strides[o.at][-1] == 1)
            for k, o in self._total.outputs.items())

    def _resident(self, plan: RowPlan, where: Device, shared: int) -> int:
        """Blocks that run at the same time, whole clusters of them."""
        blocks = where.processors*max(1, plan.resident // plan.threads)
        if plan.cluster == 1:
            return blocks
        most, program = blocks // plan.cluster, self._programs[plan]
        if program.kernel.cluster > 1:  # else blocks share a row and need not meet
            most = min(most, program.clusters(where, shared))
        return max(1, most)*plan.cluster

    def _launch(self, plan: RowPlan, call: Call, where: Device, blocks: int,
                shared: int, parts: tuple[int, ...]) -> None:
        self._programs[plan].launch(where, call.stream, blocks,
                                    all_arguments(call, parts), shared)


def build_row(spec: Row, signature: Signature) -> Launcher:
    """A launcher for `spec`; kernels are compiled when first needed."""
    typed = spec.typed(signature.inputs, signature.outputs)
    return Repeats(Bindable(RowLauncher(spec.name, typed, signature)), signature,
                   signature.ranks[0], *REPEATS)
