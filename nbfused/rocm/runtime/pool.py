"""Memory that is used again instead of being freed.

Freeing device memory waits for the device.  What was freed in the order of a stream may
be used again in the order of that stream at once, so each stream has blocks of its own.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable

from ...support.forks import free_in_child

__all__ = ["Pool"]

#: Sizes are rounded up to a multiple of this, large ones to one in eight of their size.
_GRAIN = 512


def rounded(size: int) -> int:
    """The bytes that a block of `size` takes: at most an eighth more, few sizes."""
    grain = max(_GRAIN, 1 << max(0, size.bit_length() - 4))
    return -(-size // grain) * grain


class Pool:
    """Blocks of one device.

    Parameters
    ----------
    malloc, free
        Of the device.
    keep
        Whether freed blocks are kept.
    """

    def __init__(self, malloc: Callable[[int], int], free: Callable[[int], None],
                 keep: bool = True) -> None:
        self._malloc, self._free, self._keep = malloc, free, keep
        self._unused: dict[tuple[int, int], list[int]] = defaultdict(list)
        self._sizes: dict[int, int] = {}
        # Collecting garbage may free in any line.
        self._lock = free_in_child(threading.RLock())

    def allocate(self, size: int, stream: int) -> int:
        """The address of at least `size` bytes."""
        if not self._keep:
            return self._malloc(size)
        block = rounded(size)
        with self._lock:
            unused = self._unused[stream, block]
            if unused:
                return unused.pop()
            address = self._malloc(block)
            self._sizes[address] = block
            return address

    def free(self, address: int, stream: int) -> None:
        """Keep it for what follows in `stream`, or free it."""
        if not self._keep:
            self._free(address)
            return
        with self._lock:
            self._unused[stream, self._sizes[address]].append(address)

    def trim(self) -> None:
        """Free what is not used; the device has finished."""
        with self._lock:
            unused = [a for blocks in self._unused.values() for a in blocks]
            self._unused.clear()
            for address in unused:
                del self._sizes[address]
                self._free(address)
