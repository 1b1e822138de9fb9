"""The times of launches on the GPU, by events around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...errors import AllocationError
from ..runtime.driver import Device, check, cu

__all__ = ["Timer", "is_capturing", "timing"]

#: Times the L2 cache that is written before each launch: nothing is read from it, and
#: the host is ahead of the device by then, so that its own time does not count.
FLUSH = 4


#: The driver's answer for the default stream while another one is recorded.
_IMPLICIT = 906


def is_capturing(device: Device, stream: int) -> bool:
    """Whether what goes to `stream` is recorded, or may not go there now, not run."""
    with device.current():
        answer = cu().cuStreamIsCapturing(stream)
    return int(answer[0]) == _IMPLICIT or int(check(answer)) != 0


class Timer:
    """Two events on a stream, and memory that fills the L2 cache.

    Parameters
    ----------
    stream
        Where launches go.
    address, size
        Of the memory; 0 bytes: the cache is not flushed.
    """

    def __init__(self, stream: int, address: int, size: int) -> None:
        self._stream, self._address, self._size = stream, address, size
        self._begin, self._end = (check(cu().cuEventCreate(0)) for _ in range(2))

    def microseconds(self, launch: Callable[..., Any], *arguments: Any) -> float:
        """The device's time for the work that ``launch(*arguments)`` starts."""
        driver = cu()
        if self._size:
            check(driver.cuMemsetD8Async(self._address, 0, self._size, self._stream))
        check(driver.cuEventRecord(self._begin, self._stream))
        launch(*arguments)
        check(driver.cuEventRecord(self._end, self._stream))
        check(driver.cuEventSynchronize(self._end))
        return 1e3*float(check(driver.cuEventElapsedTime(self._begin, self._end)))

    def close(self) -> None:
        """Give the events back."""
        for event in (self._begin, self._end):
            check(cu().cuEventDestroy(event))


@contextmanager
def timing(device: Device, stream: int) -> Iterator[Timer]:
    """A timer for launches on `stream` of `device`, whose context is current."""
    size = FLUSH*device.cache_size
    try:
        address = device.allocate(size, stream)
    except AllocationError:  # times with a warm cache are better than none
        address = size = 0
    timer = Timer(stream, address, size)
    try:
        yield timer
    finally:
        timer.close()
        device.free(address, stream)
