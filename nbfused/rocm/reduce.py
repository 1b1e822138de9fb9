"""Reduce on ROCm: how the work is cut up, and what is launched.

*rows* gives each kept point to a group of lanes that walk the reduced elements
together; *columns* gives neighbouring kept points to neighbouring lanes.  Where the
kept points alone do not fill the device, the reduced elements are cut into chunks and a
second kernel merges the chunks' states in a fixed order: no atomics, so the same input
gives the same bits.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ..backend import Call, Launcher, Signature
from ..gpu.programs import Programs
from ..gpu.reduce_layout import Cut, cut_for
from ..specs import Reduce, TypedReduce
from .runtime.device import Device, device
from .runtime.launch import Program
from .text.reduce import BLOCK, COLUMN_LANES, SCATTERED, Plan, ReduceText

__all__ = ["MOST_BLOCKS", "ReduceLauncher", "build_reduce"]

#: Lanes that exchange values without shared memory.
GROUP = 32
#: Blocks per processor that keep its memory accesses in flight.
RESIDENT = 8
#: Threads that fill a device.
FULL = 1 << 18
#: Lanes for a kept point with many elements, a block each.
LONG = (256, 1024)
#: Bytes of a state of which so many threads can have one in their registers.
SMALL = 16
#: Reduced elements below which a block's chunk is not worth another block.
CHUNK = 4096
#: Blocks of a launch: each takes the next piece of work until there is none.
MOST_BLOCKS = 1 << 20
#: Bytes of shared memory so that several blocks fit on a processor, and at most.
SHARED, MOST_SHARED = 16 << 10, 48 << 10


class ReduceLauncher:
    """Chooses kernels by the call's extents, strides and alignment.

    Parameters
    ----------
    name
        Of the function.
    typed, signature
        What to compute, on which dtypes and loops.
    """

    def __init__(self, name: str, typed: TypedReduce, signature: Signature) -> None:
        self.text = ReduceText(name, typed, signature)
        self._programs: Programs[Plan, Program] = Programs(
            Program, self.text.kernel)
        self._kept_loops = signature.ranks[0]

    def __call__(self, call: Call) -> None:
        """Launch on the call's stream."""
        where = device(call.device)
        kept = prod(call.shape[:self._kept_loops])
        reduced = prod(call.shape[self._kept_loops:])
        plan = self.plan(call, kept, reduced)
        cut = self.cut(plan, kept, reduced, where)
        if cut.count == 1:
            self._launch(plan, call, where, kept, cut)
        else:
            self._in_two(plan, call, where, kept, cut)

    # --- which kernel

    def plan(self, call: Call, kept: int, reduced: int) -> Plan:
        """Choose the kernel, by where neighbouring elements lie."""
        across = self.text.codes_across(call) if kept > 1 else None
        return self._rows(call, kept, reduced) if across is None \
            else self._columns(call, across)

    def _rows(self, call: Call, kept: int, reduced: int) -> Plan:
        codes = tuple(o.code for o in self.text.inputs)
        width = self.text.width(codes)
        vector = self.text.rows_vector and self.text.is_aligned(
            call, codes, width, range(self._kept_loops))
        width = width if vector else 1
        lanes = self._lanes(kept, reduced)
        return Plan("rows", codes if vector else (), width, self.text.each(width),
                    max(lanes, BLOCK), lanes)

    def _lanes(self, kept: int, reduced: int) -> int:
        lanes = 1 if reduced <= 4 else 8 if reduced < 64 else GROUP
        for more in LONG if self.text.state_size <= SMALL else LONG[:1]:
            if kept*lanes < FULL and reduced >= 8*more:
                lanes = more
        return lanes

    def _columns(self, call: Call, codes: tuple[str, ...]) -> Plan:
        last, size = self._kept_loops - 1, self.text.state_size
        width, threads = 1, BLOCK
        if "s" not in codes and "1" in codes:
            width = self.text.width(codes)
            while width > 1 and width*threads*size > SHARED:
                width //= 2
        loops = [k for k in range(len(call.shape)) if k != last]
        if width > 1 and call.shape[last] % width == 0 and self.text.is_aligned(
                call, codes, width, loops):
            return Plan("columns", codes, width, self.text.each(width), threads)
        while threads > COLUMN_LANES and threads*size > MOST_SHARED:
            threads //= 2
        return Plan("columns", (), 1, self.text.each(1), threads)

    def cut(self, plan: Plan, kept: int, reduced: int, where: Device) -> Cut:
        """Chunks so that the device is full, if there is that much to do."""
        blocks = max(1, -(-kept // plan.points))
        least = 4*plan.unit if plan.kind == "columns" else CHUNK
        count = min(RESIDENT*where.processors*BLOCK // plan.threads // blocks,
                    reduced // least)
        return cut_for(reduced, count, plan.unit)

    # --- launches

    def _in_two(self, plan: Plan, call: Call, where: Device, kept: int,
                cut: Cut) -> None:
        total = kept*cut.count*self.text.state_size
        with where.workspace(total, call.stream) as states:
            self._launch(replace(plan, stage="partial"), call, where, kept, cut,
                         (states,))
            columns = plan.kind == "columns"
            lanes = 1 if columns and kept >= BLOCK else GROUP if kept > 64 else BLOCK
            finish = Plan("rows", (), 1, SCATTERED, BLOCK, lanes, "finish")
            steps = (1, kept) if columns else (cut.count, 1)
            self._launch(finish, call, where, kept, Cut(1, cut.count), (states,), steps)

    def _launch(self, plan: Plan, call: Call, where: Device, kept: int, cut: Cut,
                states: tuple[int, ...] = (), steps: tuple[int, ...] = ()) -> None:
        if plan.kind == "columns":
            blocks = -(-kept // plan.points)*cut.count
        else:
            blocks = -(-kept*cut.count // plan.points)
        values = self.text.values(plan, call, states, (cut.count, cut.size, *steps))
        self._programs[plan].launch(
            where, call.stream, min(blocks, MOST_BLOCKS), values)


def build_reduce(spec: Reduce, signature: Signature) -> Launcher:
    """A launcher for `spec`; kernels are compiled when first needed."""
    return ReduceLauncher(spec.name, spec.typed(signature.inputs, signature.outputs),
                          signature)
