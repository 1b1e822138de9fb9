"""The plan of a Row's kernel: lanes, accesses, shared memory."""

from __future__ import annotations

from ...support.records import record

__all__ = ["RowPlan"]


@record(frozen=True)
class RowPlan:
    """One kernel of a Row.

    Attributes
    ----------
    lanes
        Threads per row: at most 32, with several rows in a block, or a block's.
    width
        Neighbouring elements in one access; 0 where they are no neighbours.
    cached
        A row's elements are copied to shared memory once and read there.
    sums
        Where sums by column are kept: ``""`` (no such output), ``"shared"`` or
        ``"global"``.
    each
        Accesses that a lane starts at once.
    block
        Threads of a block where several rows share it.
    """

    lanes: int
    width: int
    cached: bool
    sums: str = ""
    each: int = 1
    block: int = 256

    @property
    def wide(self) -> int:
        """Elements in one access."""
        return max(1, self.width)

    @property
    def threads(self) -> int:
        """Per block."""
        return max(self.lanes, self.block if self.lanes <= 32 else 0)

    @property
    def groups(self) -> int:
        """Rows that a block works on at a time."""
        return self.threads // self.lanes
