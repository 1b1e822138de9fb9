"""Row's kernel, as a skeleton: see `text.skeletons`.

Names of the kernel: ``base`` is the first row of the block's groups, ``step`` the rows
of all blocks together, ``rank`` the block's number in its cluster.
"""

from __future__ import annotations

from ..runtime.compile import Kernel
from ..text.skeletons import skeleton
from ..text.source import Source, is_wide
from .elements import LARGE, Apart, Bulk, Elements, Kept, Reloaded, Staged
from .plan import RowPlan
from .results import Results
from .scope import RowScope
from .stages import Stages
from .streamed import STREAMING, Streamed
from .sums import RowSums
from .text import RowText
from .tiled import Tiled

__all__ = ["kernel"]

#: Threads that a multiprocessor should have where a lane keeps at most so many
#: registers: the assembler is told to leave room for their blocks.
BUSY, FEW = 1024, 32
#: The same for large blocks, of which one more or less is much (measured:
#: benchmarks/notes/rows.md#lanes-for-a-row, blocks of 512 threads).
FULL, FEWER = 2048, 8
#: The same where threads have a row each; with no wish ptxas stays at 32 and spills.
TILED = 1152


def kernel(text: RowText, plan: RowPlan) -> Kernel:
    """One kernel of a Row."""
    scope = RowScope(text, plan)
    parts = Parts(scope)
    write_kernel(scope.out, parts)
    return scope.out.kernel(plan.threads, _blocks(scope), cluster=parts.stages.linked)


class Parts:
    """The slots of the skeleton."""

    def __init__(self, scope: RowScope) -> None:
        self.scope, self.plan = scope, scope.plan
        self.elements = _elements(scope)
        self.stages = Stages(scope, self.elements)
        self.sums = RowSums(scope.out, scope.text, scope.plan)
        self.results = Results(scope, self.elements, self.sums)

    def read_from(self, place: str) -> None:
        """Take elements from another place in shared memory from now on."""
        assert isinstance(self.elements, Staged)
        self.elements.slot = place


def _elements(scope: RowScope) -> Elements:
    plan = scope.plan
    if plan.tiled:
        return Tiled(scope)
    if plan.staged:
        return Staged(scope)
    if plan.bulk:
        return Bulk(scope)
    if plan.kept:
        return Kept(scope) if plan.vector else Apart(scope)
    return Streamed(scope) if plan.ahead else Reloaded(scope)


@skeleton
def write_kernel(out: Source, ROW: Parts) -> None:
    """A group of lanes for a row, or for many of them one after the other."""
    PLAN, LANES, CLUSTER, GROUPS = ROW.plan, ROW.plan.lanes, ROW.plan.cluster, \
        ROW.plan.groups
    thread = i64(cuda.threadIdx.x)
    block = i64(cuda.blockIdx.x)
    rows = "*".join(ROW.scope.extents)
    lane = thread & LANES - 1
    group = divide(thread, i64(LANES))
    turn = i64(0)
    base = divide(block, i64(CLUSTER))*GROUPS
    step = divide(i64(cuda.gridDim.x), i64(CLUSTER))*GROUPS
    if ROW.stages.linked > 1:
        ROW.stages.cluster.prepare(out)
    elif CLUSTER > 1:
        rank = block - base*CLUSTER
    ROW.elements.prepare()
    ROW.sums.start()
    if PLAN.looped:
        if PLAN.early:
            ROW.scope.start_values()
        ROW.elements.begin()
        if PLAN.staged:
            write_pipeline(out, ROW)
        else:
            while base < rows:
                write_row(out, ROW)
                base += step
                if ROW.stages.linked > 1:
                    ROW.stages.cluster.turn(out)
        ROW.sums.finish(ROW.elements.starts, ROW.elements.last)
    elif PLAN.tiled:
        write_tile(out, ROW)
    else:
        write_row(out, ROW)


@skeleton
def write_tile(out: Source, ROW: Parts) -> None:
    """Rows of a block that pass through shared memory together."""
    EACH, THREADS, LATER = ROW.plan.each, ROW.plan.threads, ROW.scope.text.later
    ROW.elements.load()
    part = i64(0)
    while part < EACH:
        place = group + part*THREADS
        inside = base + place < rows
        row = base + place if inside else i64(0)
        end = columns if inside else i64(0)
        if LATER:
            mine = last - place if inside else i64(0)
        else:
            mine = place if inside else i64(0)
        ROW.scope.place(row)
        ROW.scope.take_values("")
        for PASS in ROW.stages.passes:
            ROW.stages.write(PASS)
        ROW.results.store()
        part += 1
    ROW.elements.flush()


@skeleton
def write_row(out: Source, ROW: Parts) -> None:
    """One row of each group."""
    inside = base + group < rows
    row = base + group if inside else i64(0)
    end = columns if inside else i64(0)
    ROW.scope.place(row)
    ROW.scope.take_values("ahead" if ROW.plan.early else "")
    ROW.elements.load()
    for PASS in ROW.stages.passes:
        ROW.stages.write(PASS)
    ROW.results.store()
    ROW.elements.flush()


@skeleton
def write_pipeline(out: Source, ROW: Parts) -> None:
    """Rows of a cluster whose blocks do not wait for one another.

    A turn of the loop copies one row, sums this lane's part of the row before that and
    sends it to the other blocks, and finishes the row before that one, whose sums have
    come meanwhile.  There is one level of stages; its first row is being copied.
    """
    SCOPE, STAGES, CLUSTER = ROW.scope, ROW.stages, ROW.stages.cluster
    LAST = CLUSTER.turns - 1
    before = i64(-1)
    inside = True
    got = i64(0)
    SCOPE.copy_values("held", "ahead")
    while (base < rows) | (before >= 0):
        SCOPE.copy_values("next", "ahead")
        if base < rows:
            SCOPE.place(base)
            SCOPE.take_values("next")
            ROW.elements.load()
            FOUND = STAGES.sum_level(STAGES.levels[0])
            REDUCED = [(R.states, R.state) for R in FOUND]
            CLUSTER.send(out, REDUCED)
            turn = (turn + 1) & LAST
        if before >= 0:
            SCOPE.place(before)
            SCOPE.take_values("held")
            ROW.read_from("held")
            CLUSTER.receive(out, REDUCED, got)
            STAGES.posts(STAGES.levels[0], FOUND)
            ROW.results.store()
            got = (got + 1) & LAST
            phase = phase ^ (i64(1) if got == 0 else i64(0))
        SCOPE.copy_values("held", "next")
        before = base if base < rows else i64(-1)
        base += step
        held, near, fill = near, fill, held


def _blocks(scope: RowScope) -> int:
    """Blocks of a multiprocessor that the registers should suffice for."""
    plan = scope.plan
    states = [d for s in scope.typed.stages for d in s.state]
    if is_wide((*states, *scope.typed.dtypes.values())):
        return max(1, 512 // plan.threads)
    if plan.tiled:
        return TILED // plan.threads
    if plan.looped:
        return max(1, plan.resident // plan.threads)
    if plan.ahead:
        little = scope.text.once() and \
            plan.ahead*scope.text.registers() <= FEW // 2
        return (STREAMING if little else BUSY) // plan.threads
    each = scope.text.registers() if plan.vector else scope.text.registers_apart()
    registers = plan.kept*each
    if plan.lanes >= LARGE and 0 < registers <= FEWER:
        return FULL // plan.threads
    return BUSY // plan.threads if 0 < registers <= FEW else 0
