"""Kernels built ahead: recorded instead of launched, many of them in a library.

A recording device has the host's memory.  What is launched on it is noted, and its
results are whatever that memory held.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ...errors import CompileError
from ..runtime.device import Device
from .compile import load_many, symbol
from .kernel import Kernel

__all__ = ["BATCH", "RecordingDevice", "batches", "build_all"]

#: Kernels of a library: starting a compiler and reading its headers takes longer than
#: a kernel, but what is built together is also read from disk together.
BATCH = 64


class RecordingDevice(Device):
    """Stands in for a device, and needs neither one nor a compiler.

    Attributes
    ----------
    kernels : dict
        What was launched, by symbol.
    """

    def __init__(self, arch: str = "gfx90a") -> None:
        self.ordinal, self.arch = 0, arch
        self.processors, self.wave = 104, 64
        self.threads_limit, self.shared_limit = 1024, 64*1024
        self.kernels: dict[str, Kernel] = {}
        self._memory: dict[int, Any] = {}

    @classmethod
    def like(cls, other: Device) -> RecordingDevice:
        """Stand in for a device that is there."""
        made = cls(other.arch)
        made.processors, made.wave = other.processors, other.wave
        made.threads_limit = other.threads_limit
        made.shared_limit = other.shared_limit
        return made

    def allocate(self, size: int, stream: int = 0) -> int:
        """The address of zeros on the host."""
        block = (ctypes.c_char*(size + 256))() if size else None
        address = 0 if block is None else -(-ctypes.addressof(block) // 256)*256
        self._memory[address] = block
        return address

    def free(self, address: int, stream: int = 0) -> None:
        """Give memory of `allocate` back."""
        self._memory.pop(address, None)

    def copy(self, to: int, source: int, size: int, kind: int, stream: int = 0) -> None:
        """Copy at once."""
        ctypes.memmove(to, source, size)

    def memory(self) -> tuple[int, int]:
        """Free and total bytes: as many as an address can hold."""
        return 1 << 47, 1 << 47

    def first_unknown(self, addresses: Sequence[int]) -> int:
        """The number of all: every address is known."""
        return len(addresses)

    def load(self, kernel: Kernel) -> int:
        """Note the kernel."""
        self.kernels[symbol(kernel)] = kernel
        return 0

    def start(self, entry: int, extents: Any, shared: int, stream: int,
              words: int) -> int:
        """Launch nothing."""
        return 0

    def synchronize(self) -> None:
        """Nothing is ever left to wait for."""


def batches(kernels: Sequence[Kernel], size: int = BATCH) -> list[list[Kernel]]:
    """Kernels of one skeleton together, at most `size` of them, as even as can be."""
    found = []
    for skeleton in sorted({kernel.skeleton for kernel in kernels}):
        alike = [kernel for kernel in kernels if kernel.skeleton == skeleton]
        count = -(-len(alike) // size)
        found += [alike[k::count] for k in range(count)]
    return found


def build_all(kernels: Sequence[Kernel], archs: Sequence[str],
              progress: Callable[[int, int, list[Kernel]], None] | None = None,
              jobs: int | None = None) -> list[CompileError]:
    """Build kernels for architectures, several libraries at a time.

    Parameters
    ----------
    kernels, archs
        Each library has kernels for all of `archs`.
    progress
        Called for each library built, with its number, their number, and its kernels.
    jobs
        Libraries at a time; by default as many as there are processors.

    Returns
    -------
    list of CompileError
        What the compiler refused; everything else was built.
    """
    parts, errors = batches(kernels), []
    with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        running = [(part, pool.submit(load_many, part, archs)) for part in parts]
        for number, (part, future) in enumerate(running, 1):
            error = future.exception()
            if isinstance(error, CompileError):
                errors.append(error)
            elif error is not None:
                raise error
            if progress is not None:
                progress(number, len(parts), part)
    return errors
