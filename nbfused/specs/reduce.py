"""`Reduce`: map, combine along axes, post-process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from ..scalar.ir import Function, Literal
    from ..scalar.types import Typed
    from .combine import Combine

__all__ = ["Reduce", "TypedReduce"]


@dataclass(frozen=True)
class Reduce:
    """``outputs = post(combine over axes of lift(map(inputs)))``.

    Attributes
    ----------
    map
        Parameters as in `Map` (`kinds`); its results are the combine's operands.
    post
        First parameters: the state; then any of the *scalar* inputs by name, and
        ``size``, the number of elements reduced.  One result for each output.
    axes
        Non-negative, sorted; None means all.
    """

    map: Function
    kinds: tuple[str, ...]
    combine: Combine
    post: Function
    axes: tuple[int, ...] | None = None
    keepdims: bool = False


@dataclass(frozen=True)
class TypedReduce:
    """A Reduce with every value typed.

    Attributes
    ----------
    element
        ``lift(map(...))`` as one function: inputs (`kinds`) to the state.  A
        parameter of kind ``"index"`` is the flat C-order index *within the reduced
        elements*.
    merge
        Parameters: the state twice (``a``'s, then ``b``'s), in `state` dtypes.
    post
        `post_kinds` for each parameter: ``"state"``, ``"scalar"`` or ``"size"``.
    identity
        One typed literal for each part of the state.
    state
        Dtypes in which the state is kept (never a 16-bit float).
    """

    element: Typed
    kinds: tuple[str, ...]
    merge: Typed
    post: Typed
    post_kinds: tuple[str, ...]
    identity: tuple[Literal, ...]
    state: tuple[np.dtype, ...]
