"""The closed list of ways to combine, each with its derivative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..scalar.ir import Function

__all__ = ["COMBINES", "Combine"]


@dataclass(frozen=True)
class Combine:
    """An associative, commutative way to combine a (tuple) state.

    Attributes
    ----------
    lift
        The map's results (and, last, ``index`` if `indexed`) to a state.
    merge
        Two states (first ``a``'s parts, then ``b``'s) to one.
    identity
        For each part: ``"0"``, ``"1"``, ``"lowest"``, ``"highest"``.
    widen
        Keep the state in `numpy.sum`'s accumulator type (int8 -> int64).
    """

    name: str
    lift: Function
    merge: Function
    identity: tuple[str, ...]
    indexed: bool = False
    widen: bool = False


COMBINES: dict[str, Combine] = {}
