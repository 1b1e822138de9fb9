"""Partition of a launch into pieces for the threads of the pool."""

from __future__ import annotations

from collections.abc import Callable

from ...config import config
from .objects import Entry
from .pool import POOL, Pool
from .team import Order

__all__ = ["LINE", "SERIAL", "Launch", "bind_parallel", "lead_of", "order_of",
           "run_parallel", "runs_alone"]

#: A launch of fewer elements than this is not worth waking a thread for.  The bound
#: itself was not measured; a helper that sleeps begins 70 to 130 µs after the call:
#: benchmarks/notes/cpu.md#threads.
SERIAL = 1 << 16
#: Bytes of a cache line.
LINE = 64
#: Pieces for each thread: one that is late gets fewer.  Tried from 1 to 256, all alike:
#: benchmarks/notes/cpu.md#dead-ends-of-the-cpu.
_SHARES = 8
#: Rows of a piece, at least, before it ends where a row does: fewer would make pieces
#: that differ much.
_ROWS = 4
#: Units by which a long piece is a multiple, so that vectors share no cache line.
_ALIGN = 64


def lead_of(address: int, itemsize: int) -> int:
    """Number of array elements before the first whole cache line.

    NumPy's large arrays begin 16 bytes after a line.  A vector of 64 bytes then lies in
    two lines, each of which is read, or written, twice.
    """
    return -address % LINE // itemsize


def runs_alone(units: int, weight: int = 1) -> bool:
    """Whether one thread runs a launch of so many units of so many elements."""
    return units * weight < SERIAL or units < 2


def run_parallel(entry: Entry, block: bytes, units: int, weight: int = 1,
                 lead: int = 0, pool: Pool = POOL, row: int = 1) -> None:
    """Run `entry` on the units ``0 … units - 1``, in parallel if it pays.

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
    row
        Units that a piece should not cut.
    """
    if runs_alone(units, weight):
        entry(block, 0, units)
        return
    if lead:
        entry(block, 0, lead)
    threads = pool.threads
    if threads < 2:
        entry(block, lead, units)
        return
    pool.share(entry, block, units, _step(units, weight, lead, threads, row),
               lead)


def _step(units: int, weight: int, lead: int, threads: int, row: int) -> int:
    """Number of units in a piece."""
    pieces = min(threads * _SHARES, units * weight // (SERIAL // 4))
    step = -(-(units - lead) // pieces)
    if step > 8 * _ALIGN:  # vectors of neighbouring pieces do not share cache lines
        step = -(-step // _ALIGN) * _ALIGN
    return -(-step // row) * row if 1 < row <= step // _ROWS else step


def order_of(entry: Entry, units: int, weight: int, row: int, leads: bool,
             ) -> Order | None:
    """The order of a launch that threads share; None if there is one thread.

    With `leads` it stays valid when fewer units than a cache line has bytes are taken
    from the beginning: there are as many pieces then.
    """
    step = _step(units, weight, 0, POOL.threads, row)
    while leads and 0 < units % step <= LINE:
        step += _ALIGN
    made = POOL.order(entry, units, step, turns=True)
    return made and made[0]


#: ``launch(block)`` or ``launch(block, lead)``.
Launch = Callable[..., None]


def bind_parallel(entry: Entry, units: int, weight: int = 1, step: int = 0,
                  row: int = 1) -> Launch:
    """Prepare `run_parallel` on the `cpu` backend's pool for many equal calls.

    In pieces of `step` units, where that is said, which are then taken in order.
    """
    if runs_alone(units, weight):
        def alone(block: bytes, lead: int = 0) -> None:
            entry(block, 0, units)

        return alone
    setting, threads, program = config.num_threads, POOL.threads, POOL.program
    orders: dict[int, tuple[Order, int] | None] = {}

    def launch(block: bytes, lead: int = 0) -> None:
        if config.num_threads != setting:
            return run_parallel(entry, block, units, weight, lead, row=row)
        if lead not in orders:
            size = step or _step(units, weight, lead, threads, row)
            orders[lead] = POOL.order(entry, units, size, lead, lead, not step)
        order = orders[lead]
        if order is None:
            entry(block, 0, units)
        elif program(order[0] + block, 0, 0):
            POOL.launch(order[0] + block, order[1])
        return None

    return launch
