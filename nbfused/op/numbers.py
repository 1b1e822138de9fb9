"""Checks of numeric arguments: Python integers beside arrays, and options."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from operator import index
from reprlib import Repr
from typing import Any

import numpy as np

from ..arrays import dtype_of
from ..arrays.traced import TracedNumber
from ..errors import KernelTypeError, RangeError
from ..scalar.typing.python_numbers import is_symbol

__all__ = [
    "boolean",
    "brief",
    "check_integers",
    "fraction",
    "non_negative",
    "real_number",
    "whole_number",
]

_REPR = Repr()
_REPR.maxother = _REPR.maxstring = 80
#: What was given, for messages: a large array is cut short.
brief = _REPR.repr


def check_integers(values: Sequence[Any], op_name: str, names: Sequence[str],
                   compares: bool = False) -> list[Any]:
    """Convert Python integers to the dtype of the arrays beside them.

    As in NumPy (NEP 50): one that the dtype does not hold is a `RangeError`, but where
    it is only compared with: there an infinity stands for it.  Beside floats an integer
    becomes one.
    """
    fitted = list(values)
    kinds = [v.python if isinstance(v, TracedNumber) else type(v) for v in values]
    strong = [dtype_of(v) for v, k in zip(values, kinds, strict=True)
              if k not in (bool, int, float, complex)]
    known = [d for d in strong if d.kind != "b"]  # a condition says nothing
    whole = bool(known) and all(d.kind in "iu" for d in known)
    dtype = np.result_type(*known) if whole else np.dtype(np.int64)
    if dtype.kind == "f":  # of uint64 and a signed one
        dtype = np.dtype(np.int64)
    floating = any(d.kind in "fcV" for d in known)
    for k, (name, value, kind) in enumerate(zip(names, values, kinds, strict=True)):
        if kind is not int:
            continue
        label = f"{op_name}: '{name}'"
        if isinstance(value, TracedNumber):
            value.record_check(partial(_check_fits, dtype=dtype, label=label))
        elif floating and not -2**63 <= value < 2**63:
            fitted[k] = _as_float(value, op_name, name)
        elif compares and not _fits(value, dtype):
            fitted[k] = math.copysign(math.inf, value)
        else:
            _check_fits(value, dtype, label)
            if value >= 2**63:  # kernels take numbers of 64 bits as signed ones
                fitted[k] = dtype.type(value)
    return fitted


def _fits(value: int, dtype: np.dtype) -> bool:
    info = np.iinfo(dtype)
    return bool(info.min <= value <= info.max)


def _check_fits(value: int, dtype: np.dtype, label: str) -> None:
    if not _fits(value, dtype):
        info = np.iinfo(dtype)
        raise RangeError(
            f"{label} is the Python integer {_short(value)}, out of range for {dtype} "
            f"({info.min} to {info.max}); convert the arrays with astype, or pass a "
            "float")


def whole_number(value: Any, op_name: str, name: str) -> int:
    """Check an integer option; `KernelTypeError` for a fraction."""
    try:
        number = index(value)
    except KernelTypeError:
        raise  # a number that is traced says why
    except TypeError:
        raise KernelTypeError(f"{op_name}: '{name}' must be an integer, got "
                              f"{brief(value)}; round it first") from None
    if not -2**63 <= number < 2**63:
        raise RangeError(f"{op_name}: '{name}' is the Python integer {_short(number)}, "
                         "which does not fit 64 bits; pass a smaller one")
    return number


def real_number(value: Any, op_name: str, name: str) -> float:
    """Check an option that is a real number.

    `RangeError` for NaN, which would be stored everywhere without a word.
    """
    if isinstance(value, TracedNumber):
        return value.computed(partial(real_number, op_name=op_name, name=name))
    number = _as_float(value, op_name, name)
    if number != number:
        raise RangeError(f"{op_name}: '{name}' must be a number, got nan; compute it "
                         "again or leave it out")
    return number


def _as_float(value: Any, op_name: str, name: str) -> float:
    if is_symbol(value):
        return float(value)  # the program is tied to it
    if not isinstance(value, (bool, int, float, np.integer, np.floating)):
        raise KernelTypeError(f"{op_name}: '{name}' must be a number, got "
                              f"{brief(value)}; pass a float")
    try:
        return float(value)
    except OverflowError:
        raise RangeError(
            f"{op_name}: '{name}' is the Python integer {_short(int(value))}, which "
            "fits no float; pass a float") from None


def non_negative(value: Any, op_name: str, name: str) -> float:
    """Check that a number is at least 0; `RangeError` otherwise."""
    if type(value) is float and value >= 0.0:
        return value
    if isinstance(value, TracedNumber):
        return value.computed(partial(non_negative, op_name=op_name, name=name))
    number = real_number(value, op_name, name)
    if number < 0.0:
        raise RangeError(f"{op_name}: '{name}' must be at least 0, got {value!r}; pass "
                         "a small positive number")
    return number


def fraction(value: Any, op_name: str, name: str, what: str, *,
             closed: bool = False) -> float:
    """Check that a number is in ``[0, 1)``, or ``[0, 1]`` if `closed`."""
    if type(value) is float and 0.0 <= value < 1.0:
        return value
    if isinstance(value, TracedNumber):
        return value.computed(partial(fraction, op_name=op_name, name=name, what=what,
                                      closed=closed))
    number = _as_float(value, op_name, name)
    if 0.0 <= number < 1.0 or (closed and number == 1.0):
        return number
    interval = "[0, 1]" if closed else "[0, 1)"
    raise RangeError(f"{op_name}: '{name}' must be in {interval}, got {value!r}; it is "
                     f"{what}")


def boolean(value: Any, op_name: str, name: str) -> bool:
    """Check a boolean option."""
    if isinstance(value, (bool, int, np.bool_)):
        return bool(value)
    raise KernelTypeError(f"{op_name}: '{name}' must be True or False, got "
                          f"{brief(value)}; convert it with bool()")


def _short(value: int) -> str:
    """The digits of an integer, or their count if there are many."""
    bits = value.bit_length()
    return str(value) if bits < 80 else f"of {bits} bits"
