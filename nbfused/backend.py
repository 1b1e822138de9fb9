"""What a backend is, and which ones are enabled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from .scalar.types import Type
    from .specs import Spec

__all__ = ["PROTOCOL_VERSION", "Backend", "Call", "Launcher", "Signature"]

PROTOCOL_VERSION = 1


@dataclass(frozen=True, slots=True)
class Signature:
    """What a kernel is specialised on, besides its spec.

    Attributes
    ----------
    inputs
        For each input of the spec, its dtype or, for a call-time number, its weak type.
    outputs
        Dtypes of the outputs as they are stored.
    ranks
        Number of loop dimensions in each group, neighbours merged where every
        operand's strides allow: Map ``(r,)``, Reduce ``(kept, reduced)``, Row
        ``(rows, 1)``, Contract ``(batch, m, n, k)``.
    inner
        For each array operand (inputs, then outputs), its stride in the innermost
        dimension of the last group: ``"1"`` unit, ``"0"`` broadcast, ``"s"`` other.
        Contract: a pair of letters, for the last ``m`` and ``k`` dimension of A, the
        last ``k`` and ``n`` of B, the last ``m`` and ``n`` of extras and outputs.
        A raw input of a Map: ``"r2"`` for an array of two dimensions.
    """

    inputs: tuple[Type, ...]
    outputs: tuple[np.dtype, ...]
    ranks: tuple[int, ...]
    inner: tuple[str, ...]


@dataclass(slots=True)
class Call:
    """One launch: everything that changes from call to call.

    Attributes
    ----------
    shape
        Extents of the loop nest, group after group (`Signature.ranks`).
    pointers
        Addresses: array inputs in the spec's order, then outputs.
    strides
        For each pointer, a stride in elements for each extent (0: broadcast).  A raw
        input has the strides of its own dimensions instead.
    scalars
        The call-time numbers, in order.
    device
        Ordinal of the device (0 on cpu).
    stream
        Handle of the stream to launch on (0 on cpu).
    extents
        The shape of each array that the function indexes itself, in order.
    """

    shape: tuple[int, ...]
    pointers: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    scalars: tuple[Any, ...] = ()
    device: int = 0
    stream: int = 0
    extents: tuple[tuple[int, ...], ...] = ()


Launcher = Callable[[Call], None]


class Backend(Protocol):
    """One device family: owns arrays, runs specs."""

    name: str
    protocol: int

    def available(self) -> str | None:
        """None if it can be used, else why not.  Cheap; never raises."""

    def owns(self, device: str) -> bool:
        """Whether arrays on ``device`` (``"cpu"``, ``"cuda:0"``) are its own."""

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, device: str) -> Any:
        """A new array of the backend's own type, not initialised."""

    def from_host(self, array: np.ndarray, device: str) -> Any:
        """A copy of a NumPy array on the device."""

    def to_host(self, array: Any) -> np.ndarray:
        """A copy of a device array as NumPy array."""

    def synchronize(self) -> None:
        """Wait until everything launched has finished."""

    def build(self, spec: Spec, signature: Signature) -> Launcher:
        """Compile `spec` for `signature`, or load it from the cache."""
