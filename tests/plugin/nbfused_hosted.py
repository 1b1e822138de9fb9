"""A device that is not there: arrays in host memory that say they are elsewhere.

Everything that treats a device array as a host array fails on it, without a GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nbfused.arrays import DeviceArray
from tests.plugin.nbfused_interpreter import InterpreterBackend, view


class HostedBackend(InterpreterBackend):
    """Owns ``hosted:0``; its arrays are `DeviceArray`s."""

    name = "hosted"

    def devices(self) -> tuple[str, ...]:
        return ("hosted:0",)

    def owns(self, device: str) -> bool:
        return device.partition(":")[0] == "hosted"

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, device: str) -> Any:
        memory = np.empty(max(int(np.prod(shape)), 1), dtype)
        return DeviceArray(memory.ctypes.data, tuple(shape), None, dtype, device, 0,
                           memory)

    def from_host(self, array: np.ndarray, device: str) -> Any:
        made = self.empty(array.shape, array.dtype, device)
        view(made.pointer, made.shape, made.strides, made.dtype)[...] = array
        return made

    def to_host(self, array: Any) -> np.ndarray:
        return np.array(view(array.pointer, array.shape, array.strides, array.dtype))
