"""Gradients in memory of their own: their receivers may change them in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arrays import Array, byte_range, describe, dtype_of
from ..dispatch import direct_call, execute
from .graph import COPY, Edge

__all__ = ["separate_gradients", "without_repeats"]


def without_repeats(x: Any) -> Any:
    """Copy `x` if some of its elements share memory, as in a broadcast view.

    The gradient of a sum is: who writes to it in place would change all of them.
    """
    if not _repeats(x):
        return x
    kind = type(x)
    made = _COPIES[kind](x) if kind in _COPIES else None
    if made is None:
        made = execute(COPY, (x,))
        direct = direct_call(COPY, (x,), None)
        if direct is not None:
            _COPIES[kind] = direct
    return made[0]


#: Direct calls of `COPY`, by the type of the array.
_COPIES: dict[type, Callable[..., Any]] = {}


def _repeats(x: Any) -> bool:
    """Whether some elements of an array share memory."""
    strides = getattr(x, "strides", None)
    if strides is None and hasattr(x, "stride"):  # PyTorch's; JAX has none at all
        if x.is_contiguous():
            return False
        strides = x.stride()
    if strides and 0 in strides:
        for n, stride in zip(x.shape, strides, strict=True):
            if n > 1 and not stride:
                return True
    return False


def _owner(x: Any) -> int | None:
    """A number for the memory that an array lies in; None: unknown."""
    if type(x) is np.ndarray:
        base = x if x.base is None else x.base
        whole = base is x or (type(base) is np.ndarray and base.base is None)
        return id(base) if whole else None
    if hasattr(x, "untyped_storage"):  # PyTorch's
        return x.untyped_storage().data_ptr() or id(x)  # nothing has address 0
    # CuPy's views by strides have no base.
    memory = getattr(getattr(x, "data", None), "mem", None)
    return None if memory is None else id(memory)


def separate_gradients(gradients: dict[Edge, Any],
                       seeds: Sequence[Any]) -> dict[Edge, Any]:
    """Copy gradients that share memory with one another or with `seeds`.

    Their receivers may change them in place.  Views that repeat elements are left to
    `without_repeats`.
    """
    if not seeds and len(gradients) < 2:
        return gradients
    owners: set[int] = set()
    for x in (*seeds, *gradients.values()):
        if type(x) is np.ndarray and x.base is None:  # most are, without a call
            owner: int | None = id(x)
        else:
            owner = _owner(x)
        if owner is None or (owner in owners and not _repeats(x)):
            break
        owners.add(owner)
    else:
        return gradients
    arrays: list[tuple[Edge | None, Array]] = [(None, describe(s)) for s in seeds]
    arrays += [(edge, describe(g)) for edge, g in gradients.items()]
    places = [(byte_range(a), edge) for edge, a in arrays
              if all(n < 2 or s for n, s in zip(a.shape, a.strides, strict=True))]
    places.sort(key=lambda place: (place[0].device, place[0].low))
    apart, last = dict(gradients), None
    for place, edge in places:
        if last is None or not place.overlaps(last):
            last = place
        elif edge is not None:
            dtype = dtype_of(gradients[edge])
            (apart[edge],) = execute(COPY, (gradients[edge],), dtypes=(dtype,))
    return apart
