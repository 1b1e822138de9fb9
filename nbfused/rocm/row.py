"""Row on ROCm: a group of lanes for each row; elements are read from memory once.

Where all stages of a row need its elements, they are copied to shared memory; every
lane then reads only what it copied itself, so that nothing but the reductions has to
synchronise.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ..backend import Call, Launcher, Signature
from ..gpu.operands import all_arguments
from ..gpu.programs import Programs
from ..gpu.row_layout import sum_of
from ..specs import Row, TypedRow
from .reduce import GROUP, MOST_BLOCKS, ReduceLauncher
from .runtime.device import Device, device
from .runtime.launch import Program
from .text.row import RowText
from .text.row_plan import RowPlan
from .text.states import is_long

__all__ = ["RowLauncher", "build_row"]

#: Threads of a block where several rows share it.
BLOCK = 256
#: Lanes for a row by the number of accesses that it takes.
_LANES = ((16, 8), (128, GROUP), (512, 128), (1024, 256))
_MOST_LANES = 512
#: Accesses that a lane starts at once where they are no neighbours.
SCATTERED = 2
#: Threads per processor that sums over rows are cut up for.
RESIDENT = 1024
#: Bytes of shared memory of a block's rows: two blocks have to fit on a processor, or
#: they could not take turns.
SHARED = 32 << 10


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
        self.text = RowText(name, typed, signature)
        self._cacheable = self.text.passes() > 1 and all(
            o.code == "1" for o in self.text.elements)
        self._long = is_long([*(s.element for s in typed.stages),
                              *(o.function for o in typed.outs)])
        self._programs: Programs[RowPlan, Program] = Programs(
            Program, self.text.kernel)
        self._totals = {k: ReduceLauncher("row_total", sum_of(d), Signature(
            (d,), (self.text.outputs[k].dtype,), (1, 1), ("s", "0")))
            for k, d in self.text.accumulators.items()}

    def __call__(self, call: Call) -> None:
        """Launch on the call's stream."""
        where, plan = device(call.device), self.plan(call)
        rows, columns = prod(call.shape[:-1]), call.shape[-1]
        shared = plan.groups*self.text.row_bytes(columns, plan)
        blocks = max(1, min(-(-rows // plan.groups), MOST_BLOCKS))
        if not self._totals:
            self._launch(plan, call, where, blocks, shared, ())
            return
        blocks = min(blocks, where.processors*max(1, RESIDENT // plan.threads))
        self._with_sums(plan, call, where, blocks, shared)

    def plan(self, call: Call) -> RowPlan:
        """Choose the kernel, and the number of lanes for a row."""
        columns = call.shape[-1]
        width = self.text.width if self.text.is_aligned(call) else 0
        accesses = columns // max(1, width)
        lanes = next((n for most, n in _LANES if accesses <= most), _MOST_LANES)
        plan = RowPlan(lanes, width, width > 0 and self._cacheable,
                       "shared" if self.text.columns else "",
                       1 if width or self._long else SCATTERED, BLOCK)
        for option in (plan, replace(plan, cached=False)):
            if option.groups*self.text.row_bytes(columns, option) <= SHARED:
                return option
        return replace(plan, lanes=max(lanes, 2*GROUP), cached=False, sums="global")

    def _with_sums(self, plan: RowPlan, call: Call, where: Device, blocks: int,
                   shared: int) -> None:
        """Every block's sums to a workspace, then their total."""
        starts, total = self.text.partial_sums(call.shape[-1], blocks)
        with where.workspace(total, call.stream) as base:
            parts = {k: base + start for k, start in starts.items()}
            self._launch(plan, call, where, blocks, shared, tuple(parts.values()))
            for k, address in parts.items():
                self._total(k, call, address, blocks)

    def _total(self, k: int, call: Call, address: int, blocks: int) -> None:
        out = self.text.outputs[k]
        column = k in self.text.columns
        count, step = (call.shape[-1], call.strides[out.at][-1]) if column else (1, 0)
        if count == 0:
            return
        self._totals[k](Call(
            (count, blocks), (address, call.pointers[out.at]), ((1, count), (step, 0)),
            (), call.device, call.stream))

    def _launch(self, plan: RowPlan, call: Call, where: Device, blocks: int,
                shared: int, parts: tuple[int, ...]) -> None:
        self._programs[plan].launch(where, call.stream, blocks,
                                    all_arguments(call, parts), shared)


def build_row(spec: Row, signature: Signature) -> Launcher:
    """A launcher for `spec`; kernels are compiled when first needed."""
    return RowLauncher(spec.name, spec.typed(signature.inputs, signature.outputs),
                       signature)
