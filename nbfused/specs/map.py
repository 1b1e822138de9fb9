"""`Map`: a scalar function at every point of the broadcast shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..scalar.ir import Function
    from ..scalar.types import Typed

__all__ = ["Map", "TypedMap"]


@dataclass(frozen=True)
class Map:
    """``outputs[i] = function(inputs[i], ...)``.

    Attributes
    ----------
    function
        One result for each output.
    kinds
        For each parameter of `function`: ``"element"`` (an array, broadcast),
        ``"scalar"`` (a number given at call time), ``"raw"`` (an array that the
        function indexes itself, ``load(raw, i, j, …)`` with as many integers as it has
        dimensions), ``"index"`` (the flat C-order index
        of the point) or ``"size"`` (the number of points).  The last two are not
        inputs of the call.
    raw_outputs
        Parameters of kind ``"raw"`` that the function writes with ``atomic_add``.
    """

    function: Function
    kinds: tuple[str, ...]
    raw_outputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class TypedMap:
    """A Map with every value typed: what a backend prints."""

    function: Typed
    kinds: tuple[str, ...]
