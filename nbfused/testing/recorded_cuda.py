"""Recording of CUDA kernels without a device: compiled, not run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from ..cuda import CudaBackend
from ..cuda.contract import tma as contract_tma
from ..cuda.contract.wgmma import launch as contract_wgmma_launch
from ..cuda.runtime import binding as bound
from ..cuda.runtime import driver, launch, scratch
from ..cuda.runtime.compile import Kernel
from ..cuda.runtime.notes import NOTES, Launched
from ..registry.backends import use_backend

__all__ = ["HostArrays", "NoDevice", "recording"]


class HostArrays(CudaBackend):
    """The CUDA backend with NumPy arrays in place of device arrays."""

    name = "host-arrays"

    def available(self) -> str | None:
        """None: no driver is needed."""
        return None

    def devices(self) -> tuple[str, ...]:
        """The device on which NumPy arrays stand in."""
        return ("cpu",)

    def owns(self, device: str) -> bool:
        """True for the host."""
        return device == "cpu"

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, device: str) -> Any:
        """Allocate a NumPy array."""
        return np.empty(shape, dtype)

    def from_host(self, array: np.ndarray, device: str) -> Any:
        """Copy an array."""
        return np.array(array)

    def to_host(self, array: Any) -> np.ndarray:
        """Copy an array."""
        return np.array(array)


class NoDevice:
    """A stand-in for a device like an H200, with memory of the host."""

    ordinal, address, processors = 0, 0, 132
    label, name, cuda = "cuda:0", "no device", (13, 0)
    shared_limit, shared_total, cache_size = 232448, 233472, 50 << 20

    def __init__(self, arch: tuple[int, int]) -> None:
        self.arch = arch

    @contextmanager
    def current(self) -> Iterator[None]:
        """Do nothing: there is no context to make current."""
        yield

    @contextmanager
    def workspace(self, size: int, stream: int) -> Iterator[int]:
        """A made-up address, which nobody reads, or what notes of launches have."""
        notes = NOTES.get()
        yield 1 << 20 if notes is None or notes.memory is None else \
            notes.memory.workspace(size)

    def allocate(self, size: int, stream: int) -> int:
        """A made-up address."""
        return 1 << 20

    def drop(self, address: int, busy: bool = False) -> None:
        """Do nothing: there is no memory."""

    def synchronize(self) -> None:
        """Do nothing: kernels are not run."""


@contextmanager
def recording(arch: tuple[int, int] = (9, 0)) -> Iterator[dict[str, Kernel]]:
    """Record the kernels launched in the ``with`` block, for a device of `arch`.

    Results of calls are what memory held: only the kernels count.

    Yields
    ------
    dict
        Kernels by their texts, each once, in the order of their first launches.
    """
    kernels: dict[str, Kernel] = {}

    def record(self: launch.Program, device: Any, stream: int, blocks: Any,
               values: Sequence[Any], shared: int = 0, block: Any = None) -> None:
        assert len(values) == len(self.kernel.parameters)
        assert 0 < np.prod(blocks) < 2**31
        notes = NOTES.get()
        if notes is not None:
            grid = (blocks, 1, 1) if isinstance(blocks, int) else blocks
            notes.append(Launched(self, grid, block or (self.kernel.threads, 1, 1),
                                  tuple(values), shared))
        kernels.setdefault(self.kernel.text, self.kernel)

    with ExitStack() as stack, np.errstate(all="ignore"):
        for target, name, stand_in in (
                (driver, "_devices", {0: NoDevice(arch)}),
                (launch.Program, "launch", record),
                (launch.Program, "clusters", lambda self, device, shared: 16),
                (scratch, "_SCRATCHES", {}),
                (scratch.Scratch, "_grown",
                 lambda self, old, size, stream: scratch._Block(1 << 20, size)),
                (bound.Bindable, "bind", lambda self, call: None),
                (contract_tma, "tensor_map", lambda *array: bytes(128)),
                (contract_wgmma_launch, "tensor_map", lambda *array: bytes(128))):
            stack.enter_context(patch.object(target, name, stand_in))
        stack.enter_context(use_backend(HostArrays()))
        yield kernels
