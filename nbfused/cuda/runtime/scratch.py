"""Memory that the launches on one stream use one after the other.

What one kernel leaves there the next one may overwrite: a stream runs them in order.
It is kept, so that a launch allocates nothing: benchmarks/notes/memory.md#reductions.
"""

from __future__ import annotations

import threading
from operator import index

from ...support.records import record
from .driver import Device, DriverError, check, cu
from .notes import NOTES

__all__ = ["HEAD", "TICKETS", "Scratch", "scratch_of"]

#: Counters at the beginning, 32 bits each: 0 between launches.
TICKETS = 4096
HEAD = 4*TICKETS  # bytes of them
#: More memory than this is not kept for later.
_MOST_BYTES = 4 << 20
#: Streams are not known to be gone: no more of them get memory of their own.
_MOST_STREAMS = 64
#: The handles that mean the device's default stream, which is never captured.
_DEFAULT = (0, 1)


@record
class _Block:
    address: int
    size: int


class Scratch:
    """The memory of each stream of a device.

    Attributes
    ----------
    lock
        To be held from `find` until the kernel is launched.
    """

    def __init__(self, device: Device) -> None:
        self.lock = threading.Lock()
        self._device = device
        self._blocks: dict[int, _Block] = {}

    def find(self, size: int, stream: int) -> tuple[int, int] | None:
        """Addresses of the counters and of `size` bytes; None if there are none.

        There are none where `stream` is being captured: the graph may run beside what
        the stream does then.
        """
        if size > _MOST_BYTES:
            return None
        notes = NOTES.get()
        if notes is not None and notes.memory is not None:
            return notes.memory.counters(size)
        key = -1 if stream in _DEFAULT else self._identity(index(stream))
        if key is None:
            return None
        block = self._blocks.get(key)
        if block is None or block.size < size:
            if block is None and len(self._blocks) >= _MOST_STREAMS:
                return None
            block = self._blocks[key] = self._grown(block, size, stream)
        return block.address, block.address + HEAD

    def _identity(self, stream: int) -> int | None:
        """A number that no other stream ever has; None while `stream` is captured."""
        driver = cu()
        capturing = driver.CUstreamCaptureStatus
        try:
            with self._device.current():
                status = check(driver.cuStreamIsCapturing(stream))
                if status != capturing.CU_STREAM_CAPTURE_STATUS_NONE:
                    return None
                return int(check(driver.cuStreamGetId(stream)))
        except (AttributeError, DriverError):  # older than CUDA 12
            return None

    def _grown(self, old: _Block | None, size: int, stream: int) -> _Block:
        size = 1 << max(16, (size - 1).bit_length())
        with self._device.current():
            if old is not None:
                self._device.free(old.address, stream)
            address = self._device.allocate(HEAD + size, stream)
            check(cu().cuMemsetD8Async(address, 0, HEAD, stream))
        return _Block(address, size)


_SCRATCHES: dict[int, Scratch] = {}


def scratch_of(device: Device) -> Scratch:
    """The scratch memory of a device, made at the first call."""
    found = _SCRATCHES.get(device.ordinal)
    return found or _SCRATCHES.setdefault(device.ordinal, Scratch(device))
