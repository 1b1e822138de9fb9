"""Plans of Row's kernels, and the choice among them."""

from __future__ import annotations

from collections.abc import Iterator

from ...support.records import record
from ..text.states import WARP

__all__ = ["RowPlan", "Share", "kept_plans", "plans_apart", "suffice"]


@record(frozen=True)
class Share:
    """A way to share a row.

    Attributes
    ----------
    lanes, cluster
        Threads of a block, and blocks, for a row.
    most
        Accesses of a lane.
    registers
        That a lane may keep from one stage to the next.
    resident, staged
        See `RowPlan`.
    inputs
        Elements that are read for each that is summed, at least: with fewer, too few
        bytes would be on their way.
    held
        Columns' values must have room in registers too; elsewhere they may have.
    width
        Elements of an access, at least: with fewer, more threads are faster.
    """

    lanes: int
    cluster: int
    most: int
    registers: int = 64
    resident: int = 0
    staged: bool = False
    inputs: int = 1
    held: bool = False
    width: int = 1


#: The first that suffices is taken.  Blocks of a cluster are slow to start, so they
#: stay for many rows; others are quicker where every row has its own.  Measured:
#: benchmarks/notes/rows.md#lanes-for-a-row and #clusters.
_SHARES = (Share(2, 1, 1), Share(4, 1, 1), Share(8, 1, 2), Share(32, 1, 2),
           Share(64, 1, 4), Share(128, 1, 4),
           Share(256, 1, 4, width=8), Share(512, 1, 8, 32),
           Share(256, 4, 4, 64, 512, True, 2), Share(256, 8, 2, 16, 1024),
           Share(1024, 1, 8, 32), Share(256, 8, 8, 64, 512, True, 2),
           Share(256, 8, 8, 32, 1024),
           Share(256, 8, 8, 64, 512), Share(512, 8, 8, 64, 512))
#: The same for rows with sums over rows, for which every block needs room.  Lanes with
#: one access need so few registers that twice as many are resident.  Measured:
#: benchmarks/notes/rows.md#sums-over-rows.
_SUMMED = (Share(1, 1, 1, 64, 512), Share(2, 1, 1, 64, 512), Share(4, 1, 1, 64, 512),
           Share(8, 1, 2, 64, 512), Share(32, 1, 4, 80, 512), Share(64, 1, 2, 64, 512),
           Share(256, 1, 1, 16, 1024, held=True), Share(64, 1, 4, 80, 384),
           Share(128, 1, 2, 64, 512), Share(256, 1, 2, 64, 512),
           Share(512, 1, 4, 64, 512), Share(512, 2, 4, 64, 512, True),
           Share(512, 8, 2, 64, 1024, True), Share(256, 8, 4, 64, 512, True),
           Share(256, 4, 4, 64, 512), Share(256, 8, 8, 64, 512),
           Share(512, 8, 8, 64, 512))
#: The same for rows of which every element is loaded by itself, see `elements.Apart`:
#: benchmarks/notes/rows.md#elements-one-by-one.
_APART = (Share(8, 1, 4), Share(16, 1, 8), Share(32, 1, 16), Share(128, 1, 8),
          Share(256, 1, 8), Share(512, 1, 8), Share(1024, 1, 8),
          Share(512, 4, 8), Share(512, 8, 8), Share(1024, 8, 16))
#: Accesses of a multiprocessor's lanes that should be on their way together where rows
#: come to shared memory, its registers, the most that a lane should have of these, and
#: how many of a lane's are not for elements or columns' values.
#: Some more are where rows end inside of the last accesses.  Fitted to
#: benchmarks/notes/rows.md#bulk-copies.
_BROUGHT, _REGISTERS, _OF_LANE, _BESIDES, _ENDS = 4096, 65536, 64, 16, 4
#: Where nothing is summed and the row is longer.
_ALONE = Share(256, 1, 4)


@record(frozen=True)
class RowPlan:
    """One kernel of a Row.

    Attributes
    ----------
    lanes
        Threads per row and block: at most a warp's, with several rows in a block, or a
        block's.
    vector
        Neighbouring elements in one access.
    kept
        Accesses of a lane whose elements stay in registers from stage to stage; 0: each
        stage reads them again.
    even
        The lanes' accesses are exactly the row.
    cluster
        Blocks that share a row.
    sums
        Where sums over rows are kept: ``""`` (no such output), ``"registers"``,
        ``"shared"`` or ``"global"``.
    resident
        Threads of a multiprocessor, whose blocks go through many rows; 0: a block for
        every row.
    block
        Threads of a block where several rows share it.
    staged
        Elements stay in shared memory, and a row is finished while the next one's
        reduction is under way.
    ahead
        Accesses of a lane that are on their way together where they are not kept; 0:
        one, which may be in a loop of any kind.
    ragged
        Rows may begin and end inside an access.
    held
        Columns' values stay in registers from row to row, or from before the row is
        there.
    lasting
        Elements are the last to leave the second cache, see `row.LARGE`.
    bulk
        One thread asks for the whole row, which comes to shared memory.
    tiled
        Operands of which a block's rows pass through shared memory; each thread has a
        row, if there are any.
    each
        Rows of such a thread.
    """

    lanes: int
    vector: bool = False
    kept: int = 0
    even: bool = False
    cluster: int = 1
    sums: str = ""
    resident: int = 0
    block: int = 256
    staged: bool = False
    ahead: int = 0
    ragged: bool = False
    held: bool = False
    lasting: bool = False
    bulk: bool = False
    tiled: tuple[int, ...] = ()
    each: int = 1

    @property
    def looped(self) -> bool:
        """Whether a block goes through many rows."""
        return self.resident > 0

    @property
    def early(self) -> bool:
        """Whether what a row has one of is loaded with its elements, a row before."""
        return self.looped and self.kept > 0

    @property
    def places(self) -> int:
        """Rows that a block has room for in shared memory."""
        return 3 if self.staged else 1

    @property
    def turns(self) -> int:
        """Places in shared memory for a cluster's states, see `ClusterSlots`."""
        return 4 if self.staged else 2

    @property
    def threads(self) -> int:
        """Per block."""
        return max(self.lanes, self.block) if self.lanes <= WARP else self.lanes

    @property
    def groups(self) -> int:
        """Rows that a block works on at a time."""
        return self.threads // self.lanes*self.each


def kept_plans(accesses: int, registers: int, clusters: bool, sums: str, block: int,
               alone: bool = False, summed: int | None = None,
               inputs: int = 1, held: int = 0, width: int = 8) -> Iterator[RowPlan]:
    """Plans that keep a row in registers or in shared memory, best first.

    Parameters
    ----------
    accesses
        That a row takes.
    registers
        That one access of each lane costs.
    clusters
        Whether blocks may share a row.
    alone
        Nothing is summed: any number of blocks may.
    summed
        Registers that the sums over rows cost of each access, if a row may be `staged`.
    inputs
        Elements that are read for each that is summed.
    held
        Registers that columns' values cost of each access, to keep them as well.
    width
        Elements of an access.
    """
    if alone and accesses > _ALONE.lanes*_ALONE.most:
        blocks = -(-accesses // (_ALONE.lanes*_ALONE.most))
        kept = -(-accesses // (_ALONE.lanes*blocks))  # only the last may be outside
        yield RowPlan(_ALONE.lanes, True, kept, accesses == kept*_ALONE.lanes*blocks,
                      blocks)
    for share in _SUMMED if sums else _SHARES:
        if (share.cluster > 1 and not clusters) or share.inputs > inputs or (
                share.staged and summed is None) or share.width > width:
            continue
        cost = summed or 0 if share.staged else registers
        together = share.lanes*share.cluster
        kept = -(-accesses // together)
        room = kept*(cost + held) <= share.registers
        if kept <= share.most and kept*cost <= share.registers and (
                room or not share.held):
            yield RowPlan(share.lanes, True, kept, kept*together == accesses,
                          share.cluster, sums, share.resident, block, share.staged,
                          held=held > 0 and room and share.resident > 0
                          and not share.staged)


def plans_apart(columns: int, registers: int, block: int,
                clusters: bool) -> Iterator[RowPlan]:
    """Plans that keep single elements in registers, best first.

    Parameters
    ----------
    columns
        Elements of a row.
    registers
        That one column costs each lane.
    clusters
        Whether blocks may share a row.
    """
    for share in _APART:
        together = share.lanes*share.cluster
        kept = -(-columns // together)
        if kept <= share.most and kept*registers <= share.registers and (
                clusters or share.cluster == 1):
            yield RowPlan(share.lanes, False, kept, kept*together == columns,
                          share.cluster, block=block)


def suffice(plan: RowPlan, each: int) -> bool:
    """Whether there are registers for rows that are brought, and enough rows.

    Parameters
    ----------
    plan
        Says how many accesses a lane has.
    each
        Registers for the elements of an access, and for what their columns have.
    """
    most = min(_REGISTERS*plan.kept // _BROUGHT, _OF_LANE)
    return plan.kept*each <= most - _BESIDES - (0 if plan.even else _ENDS)
