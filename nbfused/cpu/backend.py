"""`CpuBackend`: the backend of host arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..backend import (
    PROTOCOL_VERSION,
    Direct,
    Foreseen,
    Launcher,
    SequencedCall,
    SequenceStart,
    Signature,
    builder,
)
from ..specs import Spec
from ..support.forks import LOCK

__all__ = ["CpuBackend"]

#: What builds the launchers of each kind of spec, imported with its first kernel.
_BUILDERS = {
    "Map": "map:build_map",
    "Reduce": "reduce:build_reduce",
    "Row": "row:build_row",
    "Contract": "contract.launcher:build_contract",
    "Raw": "raw.launcher:build_raw",
}


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

    def sequence(self, calls: Sequence[SequencedCall]) -> SequenceStart | None:
        """Start calls one after another by machine code: see `Backend`."""
        from .runtime.sequence import sequence

        return sequence(calls)

    def ahead(self, calls: Sequence[Foreseen]) -> None:
        """Compile the kernels of calls side by side: see `Backend`.

        Raises
        ------
        CompileError
            Numba cannot compile one of them.
        """
        from .ahead import compile_ahead

        compile_ahead(calls)

    def expect(self) -> None:
        """Start Numba in another process, unless this one has imported it."""
        from .ahead import expect_kernels

        expect_kernels()

    def headers(self, kind: type, ranks: Sequence[int]) -> Any:
        """Read arrays of NumPy by machine code: see `Backend`."""
        if kind is not np.ndarray:
            return None
        from .runtime.headers import header_reader

        return header_reader(ranks)

    def direct_calls(self, otherwise: Callable[..., Any],
                     unset: tuple[ContextVar[Any], ContextVar[Any]]) -> Direct | None:
        """Direct calls by machine code: see `Backend`."""
        from .runtime.direct import direct_calls

        return direct_calls(otherwise, unset)

    def build(self, spec: Spec, signature: Signature) -> Launcher:
        """Compile `spec` for `signature`, or load it from the cache.

        Raises
        ------
        CompileError
            Numba cannot compile the kernel.
        """
        typed = spec.typed(signature.inputs, signature.outputs)
        with LOCK:
            build = builder(_BUILDERS, spec, __package__)
        return build(typed, signature)
