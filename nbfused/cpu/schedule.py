"""How a launch is cut into pieces for the threads of the pool."""

from __future__ import annotations

from .objects import Entry
from .pool import POOL, Pool

__all__ = ["SERIAL", "spread"]

#: A launch of fewer elements than this is not worth waking a thread for.
SERIAL = 1 << 16
_SHARES = 8  # pieces for each thread: who is late gets fewer
_ALIGN = 64


def spread(entry: Entry, block: bytes, units: int, weight: int = 1,
           pool: Pool = POOL) -> None:
    """Run ``entry`` on the units ``0 … units - 1``, in pieces if there is enough work.

    Parameters
    ----------
    entry, block
        A kernel and its arguments.
    units
        What `entry` counts: points, rows, blocks.
    weight
        Elements in a unit, roughly.
    pool
        Whose threads.
    """
    work = units * weight
    if work < SERIAL or units < 2 or pool.threads < 2:
        entry(block, 0, units)
        return
    pieces = min(pool.threads * _SHARES, work // (SERIAL // 4))
    step = -(-units // pieces)
    if step > 8 * _ALIGN:  # vectors of neighbouring pieces do not share cache lines
        step = -(-step // _ALIGN) * _ALIGN
    pool.share(entry, block, units, step)
