"""Devices by their numbers, and temporary memory on them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

from ..errors import AllocationError, DeviceError, NbFusedError
from ..support.forks import free_in_child

__all__ = ["ApiError", "Devices", "GpuDevice"]

#: ``CUDA_ERROR_OUT_OF_MEMORY`` and ``hipErrorOutOfMemory``.
_OUT_OF_MEMORY = 2


class ApiError(NbFusedError, RuntimeError):
    """A device's driver, or its runtime, refused a call.

    Attributes
    ----------
    code : int
        Its ``CUresult`` or ``hipError_t``.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class GpuDevice:
    """A device's number and its temporary memory.

    A backend's own device adds `_allocate`, `free`, `trim` and `memory`.

    Attributes
    ----------
    kind : str
        Name of the backend.
    ordinal : int
        As the driver numbers devices.
    """

    kind: str
    ordinal: int

    @property
    def label(self) -> str:
        """``"cuda:0"``."""
        return f"{self.kind}:{self.ordinal}"

    def allocate(self, size: int, stream: int = 0) -> int:
        """The address of `size` new bytes, usable in `stream` from now on.

        Raises
        ------
        AllocationError
            There is no such room, also after unused memory was freed.
        """
        if size == 0:
            return 0
        try:
            return self._allocate(size, stream)
        except ApiError as error:
            if error.code != _OUT_OF_MEMORY:
                raise
        self.trim()
        try:
            return self._allocate(size, stream)
        except ApiError as error:
            free, total = self.memory()
            raise AllocationError(
                f"{self.label} has no room for {size:,} bytes: {free:,} of {total:,} "
                "are free; release arrays, or the cached memory of other libraries"
            ) from error

    def _allocate(self, size: int, stream: int) -> int:
        """The address of `size` bytes, of which there is at least one."""
        raise NotImplementedError

    def free(self, address: int, stream: int = 0) -> None:
        """Give memory of `allocate` back, once `stream` has come so far."""
        raise NotImplementedError

    def trim(self) -> None:
        """Free the memory that nobody uses, after the device has finished."""
        raise NotImplementedError

    def memory(self) -> tuple[int, int]:
        """Free and total bytes."""
        raise NotImplementedError

    def workspace(self, size: int, stream: int) -> AbstractContextManager[int]:
        """Memory for the kernels launched on `stream` within the ``with`` block."""
        return self._lent(size, stream)

    @contextmanager
    def _lent(self, size: int, stream: int) -> Iterator[int]:
        address = self.allocate(size, stream)
        try:
            yield address
        finally:
            self.free(address, stream)


D = TypeVar("D")


class Devices(dict[int, D]):
    """The devices that were asked for, by number; each is made at the first look-up.

    Parameters
    ----------
    kind
        Name of the backend.
    source
        What shows the devices: ``"driver"`` or ``"runtime"``.
    make
        A device by its number.
    count
        How many there are.
    """

    def __init__(self, kind: str, source: str, make: Callable[[int], D],
                 count: Callable[[], int]) -> None:
        super().__init__()
        self._kind, self._source = kind, source
        self._make, self._count = make, count
        self._lock = free_in_child(threading.Lock())

    def __missing__(self, ordinal: int) -> D:
        with self._lock:
            if ordinal not in self:
                count, kind = self._count(), self._kind
                if not 0 <= ordinal < count:
                    raise DeviceError(
                        f"device {kind}:{ordinal} does not exist; the {self._source} "
                        f"shows {count} ({kind}:0 to {kind}:{count - 1})")
                self[ordinal] = self._make(ordinal)
            return self[ordinal]
