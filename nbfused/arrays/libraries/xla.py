"""Buffers of XLA on a device, on which a handler of its works."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ...registry.backends import backend_for
from ..device_array import DeviceArray, DeviceLibrary

__all__ = ["XLA", "XlaArray", "XlaLibrary"]


class XlaArray(DeviceArray):
    """A buffer of XLA, or memory beside it that a handler needs for its work."""

    __slots__ = ()

    def view(self, shape: tuple[int, ...], strides: tuple[int, ...],
             offset: int) -> XlaArray:
        """View the same memory; strides and offset in elements, unchecked."""
        return _of_xla(super().view(shape, strides, offset), self.stream)


class XlaLibrary(DeviceLibrary):
    """Buffers of XLA on a device: work on them goes to the stream of the handler."""

    name = "xla"

    def __init__(self) -> None:
        self._now = threading.local()

    def use(self, stream: int) -> None:
        """Let this thread work on a stream."""
        self._now.stream = stream

    def stream(self, device: str) -> int:
        """The stream that XLA runs the handler for."""
        return int(getattr(self._now, "stream", 0))

    def streams(self, device: str) -> Callable[[], int]:
        """A function that returns that stream."""
        return lambda: int(getattr(self._now, "stream", 0))

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, device: str) -> XlaArray:
        """Allocate through the backend, and wait.

        The memory was another array's of the default stream, with which XLA's streams
        do not synchronise.
        """
        backend = backend_for(device, "array")
        made = backend.empty(shape, dtype, device)
        backend.synchronize()
        return _of_xla(made, self.stream(device))

    def from_numpy(self, host: np.ndarray, device: str) -> XlaArray:
        """Copy an array from the host, and wait."""
        backend = backend_for(device, "array")
        made = backend.from_host(host, device)
        backend.synchronize()
        return _of_xla(made, self.stream(device))


XLA = XlaLibrary()


def _of_xla(x: Any, stream: int | None) -> XlaArray:
    return XlaArray(x.pointer, x.shape, x.strides, x.dtype, x.device, stream, x)
