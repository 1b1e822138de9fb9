"""`CpuBackend`: host arrays."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..backend import PROTOCOL_VERSION, Launcher, Signature
from ..forks import LOCK
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
        with LOCK:
            build = _builder(spec)
        return build(typed, signature)


def _builder(spec: Spec) -> Callable[[Any, Signature], Launcher]:
    """The function for a spec's kind, from a module that may not be imported yet."""
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
            from .contract import build_contract

            return build_contract
        case Raw():
            from .raw import build_raw

            return build_raw
    raise TypeError(f"{spec!r} is no spec that runs as a kernel")
