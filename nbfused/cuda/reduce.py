"""Reduce on CUDA: how the work is cut up, and what is launched.

Two kinds of kernels: *rows* gives each kept point to a group of lanes that walk the
reduced elements together; *columns* gives neighbouring kept points to neighbouring
lanes.  Where the kept points alone do not fill the device, the reduced elements are cut
into chunks; the last block of a kept point, or a second kernel, merges the chunks'
states in a fixed order, so the same input gives the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod

from ..backend import Call, Launcher, Signature
from ..specs import Reduce, TypedReduce
from .driver import Device, device
from .launch import Program
from .reduce_columns import Columns
from .reduce_rows import Rows
from .reduce_text import BLOCK, COLUMN_LANES, Plan, ReduceText
from .reduce_writer import Writer
from .scratch import TICKETS, scratch_of
from .states import WARP

__all__ = ["ReduceLauncher", "build_reduce"]

#: Blocks for each multiprocessor: several times as many as run at once, so that none
#: waits for the last.
RESIDENT = 16
#: Reduced elements of a lane from which a kept point gets a block instead of a warp.
LONG = 16
#: Reduced elements below which a block's chunk is not worth another block.
CHUNK = 4096
#: Kept points in a row from which neighbouring lanes take neighbouring points.
WIDE = 16

_WRITERS: dict[str, type[Writer]] = {"rows": Rows, "columns": Columns}


@dataclass(frozen=True)
class Cut:
    """The reduced elements of each kept point in `count` chunks of `size`."""

    count: int
    size: int


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
        self.name, self.typed, self.signature = name, typed, signature
        self.text = ReduceText(name, typed, signature)
        self._programs: dict[Plan, Program] = {}
        self._kept_loops, self._reduced_loops = signature.ranks
        self._sizes = [d.itemsize for d in typed.state]

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
            self._in_chunks(plan, call, where, kept, cut)

    def plan(self, call: Call, kept: int, reduced: int) -> Plan:
        """Which kernel: by where neighbouring elements lie."""
        last = self._kept_loops - 1
        inputs = self.text.inputs
        inner = [abs(call.strides[o.at][last]) for o in inputs]
        along = [abs(call.strides[o.at][-1]) for o in inputs]
        reach = call.shape[last]
        if kept > 1 and reach >= WIDE and sum(inner) < sum(along):
            codes = tuple("1" if s == 1 else "0" if s == 0 else "s"
                          for s in (call.strides[o.at][last] for o in inputs))
            vector = self._columns_aligned(call, codes)
            codes = codes if vector else ()
            return Plan("columns", codes, BLOCK, ahead=self.text.ahead(codes))
        codes = tuple(o.code for o in inputs)
        kept_loops = range(self._kept_loops)
        vector = self.text.rows_vector and self._aligned(call, kept_loops, codes)
        codes = codes if vector else ()
        lanes = 1 if reduced <= 4 else 8 if reduced < 64 else \
            WARP if reduced < LONG*BLOCK else BLOCK
        return Plan("rows", codes, BLOCK, lanes, ahead=self.text.ahead(codes))

    def _columns_aligned(self, call: Call, codes: tuple[str, ...]) -> bool:
        """Whether whole accesses of neighbouring kept points are possible."""
        if "s" in codes or "1" not in codes:
            return False
        width = self.text.width(codes)
        last = self._kept_loops - 1
        loops = [k for k in range(len(call.shape)) if k != last]
        return call.shape[last] % width == 0 and self._aligned(call, loops, codes)

    def _aligned(self, call: Call, loops: Iterable[int],
                 codes: tuple[str, ...]) -> bool:
        width = self.text.width(codes)
        for o, code in zip(self.text.inputs, codes, strict=True):
            if code != "1":
                continue
            if call.pointers[o.at] & (min(16, o.dtype.itemsize*width) - 1):
                return False
            if any(call.strides[o.at][k] % width for k in loops if call.shape[k] > 1):
                return False
        return True

    def cut(self, plan: Plan, kept: int, reduced: int, where: Device) -> Cut:
        """Chunks so that the device is full, if there is that much to do."""
        if plan.kind == "columns":
            blocks = self._across(plan, kept)
            least = 4*plan.depth*plan.ahead
        else:
            blocks = -(-kept*plan.lanes // plan.threads)
            least = CHUNK
        count = min(RESIDENT*where.processors*BLOCK // plan.threads // max(blocks, 1),
                    reduced // least)
        if count <= 1:
            return Cut(1, reduced)
        unit = plan.lanes*self.text.step(plan) if plan.kind == "rows" \
            else plan.depth*plan.ahead
        size = -(-reduced // count)
        size = -(-size // unit)*unit
        return Cut(-(-reduced // size), size)

    def _in_chunks(self, plan: Plan, call: Call, where: Device, kept: int,
                   cut: Cut) -> None:
        """By one kernel whose last blocks merge the states, or by two."""
        starts, total = [], 0
        for size in self._sizes:
            starts.append(total)
            total += -(-kept*cut.count*size // 256)*256
        groups = kept if plan.kind == "rows" else self._across(plan, kept)
        alone = plan.kind == "columns" or plan.lanes == plan.threads
        scratch = scratch_of(where)
        with scratch.lock:
            found = scratch.find(total, call.stream) \
                if alone and groups <= TICKETS else None
            if found is not None:
                tickets, base = found
                self._launch(replace(plan, stage="last"), call, where, kept, cut,
                             (*(base + s for s in starts), tickets))
                return
        with where.current(), where.workspace(total, call.stream) as base:
            states = tuple(base + s for s in starts)
            self._launch(replace(plan, stage="partial"), call, where, kept, cut, states)
            finish = Plan(plan.kind, (), BLOCK, WARP if kept > 64 else BLOCK, "finish",
                          self.text.finish_ahead)
            steps = (1, kept) if plan.kind == "columns" else (cut.count, 1)
            self._launch(finish, call, where, kept, Cut(1, cut.count), states, steps)

    def _across(self, plan: Plan, kept: int) -> int:
        """Blocks of *columns* side by side."""
        return -(-kept // (COLUMN_LANES*self.text.plan_width(plan)))

    def _launch(self, plan: Plan, call: Call, where: Device, kept: int, cut: Cut,
                states: tuple[int, ...] = (), steps: tuple[int, ...] = ()) -> None:
        if plan.kind == "columns":
            blocks = self._across(plan, kept)*cut.count
        else:
            blocks = -(-kept*cut.count*plan.lanes // plan.threads)
        program = self._programs.get(plan)
        if program is None:
            program = self._programs[plan] = Program(
                _WRITERS[plan.kind](self.text, plan).kernel())
        values = self.text.values(plan, call, states, (cut.count, cut.size, *steps))
        program.launch(where, call.stream, blocks, values)


def build_reduce(spec: Reduce, signature: Signature) -> Launcher:
    """A launcher for `spec`; kernels are compiled when first needed."""
    return ReduceLauncher(spec.name, spec.typed(signature.inputs, signature.outputs),
                          signature)
