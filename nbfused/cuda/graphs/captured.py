"""Calls of other libraries as nodes of a graph: captured once, on a stream of ours."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ..runtime.driver import check
from .graph_start import Shown
from .libraries import driver_library

__all__ = ["Captured", "CapturedNode"]

#: ``CU_STREAM_CAPTURE_MODE_RELAXED``: other threads, as the one with which PyTorch
#: watches NCCL, and the library itself may do what a capture would forbid them.
_RELAXED = 2
_NON_BLOCKING = 1
_LOCK = threading.Lock()


@cache
def _stream(ordinal: int) -> ctypes.c_void_p:
    """A stream of a device to capture on, never given back: libraries may note it.

    Its kernels go before others, which wait for what they carry.
    """
    library, stream = driver_library(), ctypes.c_void_p()
    least, most = ctypes.c_int(), ctypes.c_int()
    check((library.cuCtxGetStreamPriorityRange(ctypes.byref(least),
                                               ctypes.byref(most)),))
    check((library.cuStreamCreateWithPriority(
        ctypes.byref(stream), ctypes.c_uint(_NON_BLOCKING), most),))
    return stream


class Captured:
    """A graph of what a library puts on a stream; the device's context is current.

    Parameters
    ----------
    ordinal
        The number of the device.
    enqueue
        ``enqueue(stream)`` calls the library.

    Raises
    ------
    DriverError
        It does what no graph can hold.
    """

    def __init__(self, ordinal: int, enqueue: Callable[[int], None]) -> None:
        library = driver_library()
        self.graph, self._destroy = ctypes.c_void_p(), library.cuGraphDestroy
        with _LOCK:
            stream = _stream(ordinal)
            check((library.cuStreamBeginCapture_v2(stream, ctypes.c_int(_RELAXED)),))
            try:
                enqueue(stream.value or 0)
            finally:
                code = library.cuStreamEndCapture(stream, ctypes.byref(self.graph))
            check((code,))

    def __del__(self) -> None:
        """Give it back; graphs that have taken it in have a copy."""
        if self.graph.value:
            self._destroy(self.graph)


class CapturedNode:
    """A captured graph as a node of another one; nothing in it changes from run to run.

    Parameters
    ----------
    captured
        What it runs.
    after
        The nodes that it waits for, by number.
    """

    changed = False

    def __init__(self, captured: Captured, after: Sequence[int]) -> None:
        self.handle, self.after = ctypes.c_void_p(), tuple(after)
        self._captured = captured

    def add(self, graph: ctypes.c_void_p, before: Any) -> int:
        """Add it to a graph; what the driver says."""
        code: int = driver_library().cuGraphAddChildGraphNode(
            ctypes.byref(self.handle), graph, before,
            ctypes.c_size_t(len(self.after)), self._captured.graph)
        return code

    def write(self, addresses: Sequence[int], numbers: Sequence[Any]) -> None:
        """Write nothing: its memory is the same in every run."""

    def shown(self) -> Shown:
        """List what runs write: nothing."""
        return Shown(0, 0, ())
