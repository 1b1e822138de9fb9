"""`CpuBackend`: the backend of host arrays."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..backend import PROTOCOL_VERSION, Launcher, Signature
from ..specs import Contract, Map, Raw, Reduce, Row, Spec
from ..support.forks import LOCK

__all__ = ["CpuBackend"]


class CpuBackend:
    """The backend that owns all arrays in host memory; it makes NumPy arrays.

    Nothing is asynchronous: a launcher returns when the results are there.
    """

    name = "cpu"
    protocol = PROTOCOL_VERSION

    def available(self) -> str | None:
        """The reason why it cannot be used, Numba or llvmlite missing, or None."""
        for module in ("numba", "llvmlite"):
            if find_spec(module) is None:
                return f"{module} is not installed"
        return None

    def devices(self) -> tuple[str, ...]:
        """The backend's only device, ``"cpu"``."""
        return ("cpu",)

    def owns(self, device: str) -> bool:
        """Whether `device` is the host."""
        return device == "cpu"

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, device: str) -> np.ndarray:
        """Allocate a NumPy array."""
        return np.empty(shape, dtype)

    def from_host(self, array: np.ndarray, device: str) -> np.ndarray:
        """Copy an array."""
        return np.array(array, order="C")

    def to_host(self, array: np.ndarray) -> np.ndarray:
        """Copy an array."""
        return np.array(array)

    def synchronize(self) -> None:
        """Do nothing: launches return when they are done."""

    def build(self, spec: Spec, signature: Signature) -> Launcher:
        """Compile `spec` for `signature`, or load it from the cache.

        Raises
        ------
        CompileError
            Numba cannot compile the kernel.
        """
        typed = spec.typed(signature.inputs, signature.outputs)
        with LOCK:
            build = _builder(spec)
        return build(typed, signature)


def _builder(spec: Spec) -> Callable[[Any, Signature], Launcher]:
    """Import and return the function that builds launchers of a kind of spec."""
    match spec:
        case Map():
            from .map import build_map

            return build_map
        case Reduce():
            from .reduce import build_reduce

            return build_reduce
        case Row():
            from .row import build_row

            return build_row
        case Contract():
            from .contract.launcher import build_contract

            return build_contract
        case Raw():
            from .raw.launcher import build_raw

            return build_raw
    raise TypeError(f"{spec!r} is no spec that runs as a kernel")
