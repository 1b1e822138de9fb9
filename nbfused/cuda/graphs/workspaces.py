"""The workspaces of a graph's calls.

A call may use what an earlier one has left that it waits for.  Counters, and some
megabytes of the rest, are the graph's own; what more is needed is lent for one run, as
one block, whose address is one more of those that a run brings along.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Set as AbstractSet

from ...support.forks import hold_in_forks
from ...support.records import record
from ..runtime.driver import Device, check, cu
from ..runtime.notes import Address
from ..runtime.scratch import HEAD

__all__ = ["KEPT_ARENAS", "UNKNOWN", "MisfitError", "Workspaces"]

#: Where the block lies that no run has been lent yet: an address as aligned as any.
UNKNOWN = 1 << 40
#: Bytes of workspaces, besides counters, that a graph keeps, and where blocks begin;
#: not measured.
_MOST_BYTES, _ALIGN = 64 << 20, 256
#: Bytes of arenas that all graphs of this process keep on a device; not measured.
ARENAS = 32 << 20
#: In place of a call's number: no call waits for it, so that none takes its memory.
_ALL = -1


class MisfitError(Exception):
    """Raised where a call needs more memory than it did when it was noted first."""


@record
class _Block:
    """Memory that one call after the other uses.

    Attributes
    ----------
    start
        Its address; of what is lent, bytes from the beginning.
    last
        The number of the last call that uses it.
    """

    start: int
    size: int
    counts: bool
    lent: bool
    last: int


class _KeptArenas:
    """The bytes of arenas that graphs keep, by the device's number."""

    def __init__(self) -> None:
        self._bytes: Counter[int] = Counter()
        # Given back where Python collects what is unused, maybe while this thread asks.
        self._lock = threading.RLock()
        hold_in_forks(self._lock)

    def has_room(self, size: int, where: Device) -> bool:
        """Whether an arena more may be kept."""
        return self._bytes[where.ordinal] + size <= ARENAS

    def add(self, size: int, where: Device) -> bool:
        """Count an arena, if it may be kept."""
        with self._lock:
            keeps = self.has_room(size, where)
            self._bytes[where.ordinal] += size*keeps
            return keeps

    def drop(self, size: int, where: Device) -> None:
        """Count an arena no more."""
        with self._lock:
            self._bytes[where.ordinal] -= size


KEPT_ARENAS = _KeptArenas()


class Workspaces:
    """The memory of one instance of a graph; a call noted again gets the same.

    Parameters
    ----------
    stream
        On which the instance is launched.
    index
        The number that the address of what is lent has in a run.

    Attributes
    ----------
    lent
        Bytes that each run needs besides.
    """

    def __init__(self, where: Device, stream: int, index: int) -> None:
        self._where, self._stream, self._index = where, stream, index
        self._blocks: list[_Block] = []
        self._used: dict[int, list[_Block]] = {}
        self._kept = self.lent = self._arena = 0
        self._arenas = KEPT_ARENAS  # which `__del__` may not find when Python ends

    def begin(self, call: int, before: AbstractSet[int], base: int) -> None:
        """Serve a call from now on.

        Parameters
        ----------
        call
            Its number.
        before
            The calls that have finished when it starts, whatever the run.
        base
            Address of what is lent.
        """
        self._call, self._before, self._base, self._taken = call, before, base, 0

    def borrows(self, call: int) -> bool:
        """Whether a call that was noted uses memory that is lent."""
        return any(block.lent for block in self._used.get(call, ()))

    def arena(self, size: int) -> int | None:
        """Memory that no call has to itself, before that of any call.

        Returns
        -------
        int or None
            Its address; None where graphs keep so much already that it is lent, at the
            beginning of what is.
        """
        self._call = _ALL
        keeps = self._arenas.add(size, self._where)
        self._arena = size*keeps
        block = self._add(size, False, lent=not keeps)
        return block.start if keeps else None

    def workspace(self, size: int) -> Address:
        """Memory of the call alone."""
        block = self._take(size, False)
        if block.lent:
            return Address(self._base + block.start, self._index, block.start)
        return Address(block.start, None)

    def counters(self, size: int) -> tuple[Address, Address]:
        """Counters, set to 0 once: every launch leaves them so."""
        start = self._take(HEAD + size, True).start
        return Address(start, None), Address(start + HEAD, None)

    def _take(self, size: int, counts: bool) -> _Block:
        used = self._used.setdefault(self._call, [])
        if self._taken == len(used):
            free = [b for b in self._blocks if b.counts == counts and b.size >= size
                    and b.last in self._before]
            block = min(free, key=lambda b: b.size) if free else self._add(
                size, counts, lent=not counts and self._kept + size > _MOST_BYTES)
            block.last = self._call
            used.append(block)
        block = used[self._taken]
        if size > block.size:
            raise MisfitError
        self._taken += 1
        return block

    def _add(self, size: int, counts: bool, *, lent: bool) -> _Block:
        size = -(-size // _ALIGN)*_ALIGN
        if lent:
            start = self.lent
            self.lent += size
        else:
            start = self._where.allocate(size, self._stream)
            self._kept += 0 if counts else size
        if counts:
            check(cu().cuMemsetD8Async(start, 0, HEAD, self._stream))
        self._blocks.append(_Block(start, size, counts, lent, self._call))
        return self._blocks[-1]

    def __del__(self) -> None:
        """Give it back when the device has run what uses it."""
        self._arenas.drop(self._arena, self._where)
        for block in self._blocks:
            if not block.lent:
                self._where.drop(block.start, busy=True)
