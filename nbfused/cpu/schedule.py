"""How a launch is cut into pieces for the threads of the pool."""

from __future__ import annotations

from .objects import Entry
from .pool import POOL, Pool

__all__ = ["LINE", "SERIAL", "lead_of", "spread"]

#: A launch of fewer elements than this is not worth waking a thread for.
SERIAL = 1 << 16
#: Bytes of a cache line.
LINE = 64
_SHARES = 8  # pieces for each thread: who is late gets fewer
_ALIGN = 64


def lead_of(address: int, itemsize: int) -> int:
    """How many elements of an array lie before the first whole cache line.

    NumPy's large arrays begin 16 bytes after a line.  A vector of 64 bytes then lies in
    two lines, each of which is read, or written, twice.
    """
    return -address % LINE // itemsize


def spread(entry: Entry, block: bytes, units: int, weight: int = 1,
           lead: int = 0, pool: Pool = POOL) -> None:
    """Run ``entry`` on the units ``0 … units - 1``, in pieces if there is enough work.

    Parameters
    ----------
    entry, block
        A kernel and its arguments.
    units
        What `entry` counts: points, rows, blocks.
    weight
        Elements in a unit, roughly.
    lead
        Units before the first one whose result begins a cache line: all pieces begin
        at lines then.
    pool
        Whose threads.
    """
    work = units * weight
    if work < SERIAL or units < 2:
        entry(block, 0, units)
        return
    if lead:
        entry(block, 0, lead)
    threads = pool.threads
    if threads < 2:
        entry(block, lead, units)
        return
    pieces = min(threads * _SHARES, work // (SERIAL // 4))
    step = -(-(units - lead) // pieces)
    if step > 8 * _ALIGN:  # vectors of neighbouring pieces do not share cache lines
        step = -(-step // _ALIGN) * _ALIGN
    pool.share(entry, block, units, step, lead)
