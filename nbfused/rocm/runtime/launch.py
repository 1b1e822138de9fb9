"""Kernels as callables: found or built once, launched with packed arguments."""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Sequence
from typing import Any

from ...backend import Extents
from ...errors import BarrierError, RangeError
from ...gpu.arguments import ArgumentBuffer
from ...support.forks import free_in_child
from ..build.compile import symbol
from ..build.kernel import Kernel
from ..build.toolchain import EMULATION
from .device import LAUNCH_FAILURE, Device, HipError, check, described

__all__ = ["MOST_THREADS", "Program"]

#: Threads of a launch along x, fewer than that: a limit of HIP on AMD devices.
MOST_THREADS = 1 << 32

_ATTRIBUTES = ("num_regs", "shared_size_bytes", "local_size_bytes", "const_size_bytes",
               "max_threads_per_block")


class Program:
    """A kernel; built, or found in the cache, when a device first needs it.

    Parameters
    ----------
    kernel
        The text and its parameters.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._words = ArgumentBuffer(kernel.name, kernel.parameters)
        self._extents = (ctypes.c_uint*6)()
        self._entries: dict[int, int] = {}
        self._lock = free_in_child(threading.Lock())

    def launch(self, device: Device, stream: int, blocks: int | Extents,
               values: Sequence[Any], shared: int = 0,
               block: Extents | None = None) -> None:
        """Start blocks on `stream`.

        Parameters
        ----------
        blocks
            How many, or along each axis.
        values
            One number for each of the kernel's parameters; addresses are integers.
        shared
            Bytes of dynamic shared memory for each block.
        block
            Threads along each axis; by default as many as the kernel says.

        Raises
        ------
        KernelTypeError
            If a number does not fit its parameter.
        RangeError
            More threads along x than HIP counts.
        BarrierError
            In emulation, where a barrier was not reached by all threads of a block.
        HipError
            If the runtime refuses the launch.
        """
        grid = (blocks, 1, 1) if isinstance(blocks, int) else blocks
        threads = block or (self.kernel.threads, 1, 1)
        if grid[0]*threads[0] >= MOST_THREADS:
            raise RangeError(
                f"kernel {self.kernel.name!r}: a grid of {grid} blocks of {threads} "
                "threads; HIP takes fewer than 2**32 threads along x; use a smaller "
                "grid, and a loop over what is left")
        with self._lock:
            entry = self._entry(device)
            self._words.pack(values)
            self._extents[:] = [*grid, *threads]
            code = device.start(entry, self._extents, shared, stream,
                                self._words.address)
            if code:
                self._refused(code, device)

    def attributes(self, device: Device) -> dict[str, int]:
        """Registers, memory and limits, by the names that CUDA has for them."""
        found = (ctypes.c_int64*len(_ATTRIBUTES))()
        with self._lock:
            check(device.start(self._entry(device), None, 0, 0,
                               ctypes.addressof(found)))
        return dict(zip(_ATTRIBUTES, found, strict=True))

    def _entry(self, device: Device) -> int:
        entry = self._entries.get(device.ordinal)
        if entry is None:
            entry = self._entries[device.ordinal] = device.load(self.kernel)
        return entry

    def _in_python(self, text: str) -> str:
        """Places in the kernel's text as the lines of Python that they are from."""
        def line(place: re.Match[str]) -> str:
            found = self.kernel.python_line(int(place[1]))
            return place[0] if found is None else f"line {found}"

        return re.sub(rf"\b{symbol(self.kernel)}:(\d+)", line, text)

    def _refused(self, code: int, device: Device) -> None:
        if code == LAUNCH_FAILURE and device.arch == EMULATION:
            cause = self._in_python(described(code))
            raise BarrierError(
                f"kernel {self.kernel.name!r}: {cause}; move the barrier out of the "
                "branch or loop, or make the condition the same for the whole block")
        try:
            check(code)
        except HipError as error:
            error.add_note(f"at the launch of kernel {self.kernel.name!r}")
            raise
