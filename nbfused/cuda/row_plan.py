"""Which of Row's kernels fits a call."""

from __future__ import annotations

from dataclasses import dataclass

from .states import WARP

__all__ = ["RowPlan", "kept_plan"]

#: Registers of a thread for what it keeps from one stage to the next.
BUDGET = 64
#: Lanes for a row, blocks that share it, accesses of a lane at most: the first that
#: suffices.  Then, if blocks stay for many rows, the threads of a multiprocessor.
_SHARES = ((8, 1, 2, 0), (32, 1, 4, 0), (64, 1, 4, 0), (128, 1, 4, 0), (256, 1, 4, 0),
           (512, 1, 8, 0), (1024, 1, 8, 0), (256, 8, 8, 768), (512, 8, 8, 512))
#: The same for rows with sums over rows.
_SUMMED = ((8, 1, 2, 512), (32, 1, 8, 512), (128, 1, 4, 512), (256, 1, 4, 512),
           (512, 1, 4, 512), (256, 4, 4, 512), (256, 8, 8, 512), (512, 8, 8, 512))
#: Lanes and accesses where nothing is summed and the row is longer.
_ALONE = (256, 4)


@dataclass(frozen=True)
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
    """

    lanes: int
    vector: bool = False
    kept: int = 0
    even: bool = False
    cluster: int = 1
    sums: str = ""
    resident: int = 0
    block: int = 256

    @property
    def threads(self) -> int:
        """Per block."""
        return max(self.lanes, self.block) if self.lanes <= WARP else self.lanes

    @property
    def groups(self) -> int:
        """Rows that a block works on at a time."""
        return self.threads // self.lanes


def kept_plan(accesses: int, registers: int, clusters: bool, sums: str,
              block: int, alone: bool = False) -> RowPlan | None:
    """How many lanes keep a row in registers; None if no number does.

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
    """
    lanes, most = _ALONE
    if alone and accesses > lanes*most:
        blocks = -(-accesses // (lanes*most))
        return RowPlan(lanes, True, most, accesses == blocks*lanes*most, blocks)
    for lanes, cluster, most, resident in _SUMMED if sums else _SHARES:
        kept = -(-accesses // (lanes*cluster))
        if kept <= min(most, BUDGET // registers) and (clusters or cluster == 1):
            even = kept*lanes*cluster == accesses
            return RowPlan(lanes, True, kept, even, cluster, sums, resident, block)
    return None
