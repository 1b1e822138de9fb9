"""Checks of gradients and cotangents that a caller gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import describe, dtype_of, is_array
from ...arrays.traced import Traced
from ...dispatch import execute
from ...errors import DeviceError, KernelTypeError, ShapeError
from ..graph import FULL, GraphArray, Pass

__all__ = ["check_gradient", "cotangent"]


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
    found, wanted = describe(value, name), describe(like.data)
    if found.library is not wanted.library:
        raise KernelTypeError(
            f"{name} is an array of {found.library.name}; expected one of "
            f"{wanted.library.name}, as the Variable has: convert it (from_dlpack does "
            "not copy)")
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
    if type(given) in (bool, int, float) and not like.shape:
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
