"""`CpuBackend`: host arrays."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from ..backend import PROTOCOL_VERSION, Launcher, Signature
from ..specs import Contract, Map, Raw, Reduce, Row, Spec

__all__ = ["CpuBackend"]


class CpuBackend:
    """Owns every array in host memory; its own arrays are NumPy's.

    Nothing is asynchronous: a launcher returns when the results are there.
    """

    name = "cpu"
    protocol = PROTOCOL_VERSION

    def available(self) -> str | None:
        """None, unless Numba or llvmlite is not installed."""
        for module in ("numba", "llvmlite"):
            if find_spec(module) is None:
                return f"{module} is not installed"
        return None

    def devices(self) -> tuple[str, ...]:
        """The one device."""
        return ("cpu",)

    def owns(self, device: str) -> bool:
        """Whether `device` is the host."""
        return device == "cpu"

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, device: str) -> np.ndarray:
        """Allocate."""
        return np.empty(shape, dtype)

    def from_host(self, array: np.ndarray, device: str) -> np.ndarray:
        """Copy."""
        return np.array(array, order="C")

    def to_host(self, array: np.ndarray) -> np.ndarray:
        """Copy."""
        return np.array(array)

    def synchronize(self) -> None:
        """Nothing is ever left to wait for."""

    def build(self, spec: Spec, signature: Signature) -> Launcher:
        """Compile `spec` for `signature`, or load it from the cache.

        Raises
        ------
        CompileError
            Numba cannot compile the kernel.
        """
        typed = spec.typed(signature.inputs, signature.outputs)
        match spec:
            case Map():
                from .map import build_map

                return build_map(typed, signature)
            case Reduce():
                from .reduce import build_reduce

                return build_reduce(typed, signature)
            case Row():
                from .row import build_row

                return build_row(typed, signature)
            case Contract():
                from .contract import build_contract

                return build_contract(typed, signature)
            case Raw():
                from .raw import build_raw

                return build_raw(typed, signature)
        raise TypeError(f"{spec!r} is no spec that runs as a kernel")
