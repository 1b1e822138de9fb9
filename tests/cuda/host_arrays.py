"""The CUDA backend on NumPy arrays, for what stands in for a device."""

from __future__ import annotations

import numpy as np

from nbfused.cuda import CudaBackend


class HostArrays(CudaBackend):
    """Takes NumPy arrays for device arrays."""

    name = "host-arrays"

    def available(self):
        return None

    def devices(self):
        return ("cpu",)

    def owns(self, device):
        return device == "cpu"

    def empty(self, shape, dtype, device):
        return np.empty(shape, dtype)

    def from_host(self, array, device):
        return np.array(array)

    def to_host(self, array):
        return np.array(array)
