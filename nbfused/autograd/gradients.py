"""Gradients that callers give, checked; those that they get, in their own memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..arrays import Array, byte_range, describe, dtype_of, is_array, library_of
from ..arrays.detect import is_lazy
from ..arrays.traced import Traced
from ..dispatch import direct_call, execute  # not `from .. import`: see `forks`
from ..dispatch.callers import key_of
from ..errors import DeviceError, KernelTypeError, ShapeError
from ..scalar.ir.nodes import Block
from ..specs import Map
from .graph import COPY, FULL, Edge, GraphArray, Pass

__all__ = ["check_gradient", "cotangent", "seed_of", "separate_gradients",
           "without_repeats"]


def without_repeats(x: Any, always: bool = False) -> Any:
    """Copy `x` if some of its elements share memory, as in a broadcast view; or always.

    The gradient of a sum is: who writes to it in place would change all of them.
    """
    if not always and not _repeats(x):
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
    if (not seeds and len(gradients) < 2) or any(map(is_lazy, gradients.values())):
        return gradients  # one that is lazy is immutable
    if len(gradients) == len(seeds) == 1:
        ((only, x),) = gradients.items()
        if x is seeds[0] or (type(x) is np.ndarray and x.base is seeds[0]
                             and not _repeats(x)):
            return {only: without_repeats(x, always=True)}
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
    shared: dict[int, list[Edge]] = {}
    last = None
    for place, edge in places:
        if last is None or not place.overlaps(last):
            last = place
        elif edge is not None:
            shared.setdefault(id(gradients[edge]), []).append(edge)
    return gradients | _copied(gradients, shared.values())


def _copied(gradients: Mapping[Edge, Any],
            shared: Iterable[Sequence[Edge]]) -> dict[Edge, Any]:
    """Copies of gradients; one launch makes all those of an array, read once."""
    apart: dict[Edge, Any] = {}
    for edges in shared:
        x = gradients[edges[0]]
        apart |= zip(edges, execute(_copies(len(edges)), (x,),
                                    dtypes=(dtype_of(x),)*len(edges)), strict=True)
    return apart


@lru_cache(maxsize=16)
def _copies(count: int) -> Map:
    """The spec of so many copies."""
    return COPY if count == 1 else replace(COPY, function=replace(
        COPY.function, name="copies", body=Block((), ("a",)*count)))


def check_gradient(name: str, given: Any, like: GraphArray) -> None:
    """Check that a gradient from the caller is an array where `like` is.

    Raises
    ------
    KernelTypeError
        No array, or one of another library.
    DeviceError
        It is on another device.
    """
    if isinstance(given, Traced):
        return
    value = given.data if isinstance(given, GraphArray) else given
    if not is_array(value):
        raise KernelTypeError(f"{name} is a {type(given).__name__}; expected an array "
                              f"of shape {like.shape} and dtype {like.dtype}")
    if isinstance(like, Traced):
        return
    library = library_of(like.data)
    if library_of(value) is not library:
        raise KernelTypeError(
            f"{name} is an array of {library_of(value).name}; expected one of "
            f"{library.name}, as the Variable has: convert it (from_dlpack does "
            "not copy)")
    if is_lazy(value):
        return
    found, wanted = describe(value, name), describe(like.data)
    if found.device != wanted.device:
        raise DeviceError(f"{name} is on {found.device}; expected {wanted.device}, "
                          "where the Variable is: copy it there first")


def cotangent(like: GraphArray, given: Any, mode: Pass, name: str = "grad") -> Any:
    """Check a cotangent from the caller and convert it for the pass.

    A number stands for an array without dimensions.
    """
    if isinstance(given, np.generic) and given.ndim == 0 and type(
            like.data) is not np.ndarray and not isinstance(like, Traced):
        given = given.item()
    if (type(given) in (bool, int, float) and not like.shape) or (
            type(given) is complex and dtype_of(like).kind == "c" and not like.shape):
        (given,) = execute(FULL, (like.data, given), dtypes=(dtype_of(like),))
    elif isinstance(given, np.generic):
        given = np.asarray(given)
    check_gradient(name, given, like)
    if tuple(given.shape) != like.shape:
        raise ShapeError(f"{name}: shape {tuple(given.shape)}, expected {like.shape}, "
                         "that of the output")
    if dtype_of(given) != dtype_of(like):
        raise KernelTypeError(f"{name}: dtype {dtype_of(given)}, expected "
                              f"{like.dtype}, that of the output; use astype")
    if not isinstance(given, GraphArray):
        return mode.lift(given, None)
    return given if mode.records else given.data


#: Keys of an output and of a gradient for it that has been checked.
_CHECKED: set[Any] = set()
_LIMIT = 1024


def seed_of(output: GraphArray, grad: Any, mode: Pass) -> Any:
    """The cotangent that the caller gave, checked."""
    like = output._value
    same = type(grad) is type(like) and not mode.records
    read = key_of(grad.__class__) if same else None
    try:
        key = None if read is None else (read(like), read(grad))
    except Exception:  # of many kinds, from many libraries: a closer look will tell
        key = None
    if key is None or None in key:
        return cotangent(output, grad, mode)
    if key not in _CHECKED:
        cotangent(output, grad, mode)
        if len(_CHECKED) >= _LIMIT:
            _CHECKED.clear()
        _CHECKED.add(key)
    return grad
