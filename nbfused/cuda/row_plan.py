"""Which of Row's kernels fits a call."""

from __future__ import annotations

from dataclasses import dataclass

from .states import WARP

__all__ = ["RowPlan"]


@dataclass(frozen=True)
class RowPlan:
    """One kernel of a Row.

    Attributes
    ----------
    lanes
        Threads per row: at most a warp's, with several rows in a block, or a block's.
    vector
        Neighbouring elements in one access.
    cached
        A row's elements are copied to shared memory once and read there.
    sums
        Where sums over rows are kept: ``""`` (no such output), ``"none"`` (in registers
        only), ``"shared"`` or ``"global"``.
    block
        Threads of a block where several rows share it.
    """

    lanes: int
    vector: bool
    cached: bool
    sums: str = ""
    block: int = 256

    @property
    def threads(self) -> int:
        """Per block."""
        return max(self.lanes, self.block) if self.lanes <= WARP else self.lanes

    @property
    def groups(self) -> int:
        """Rows that a block works on at a time."""
        return self.threads // self.lanes
