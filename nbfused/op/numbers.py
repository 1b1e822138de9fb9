"""Checks of options that are numbers."""

from __future__ import annotations

from functools import partial
from operator import index
from reprlib import Repr
from typing import Any

import numpy as np

from ..arrays.traced import TracedNumber
from ..autograd.numpy_api.integers import as_float, short
from ..errors import KernelTypeError, RangeError
from ..scalar.typing.python_numbers import is_symbol

__all__ = [
    "boolean",
    "brief",
    "fraction",
    "non_negative",
    "real_number",
    "whole_number",
]

_REPR = Repr()
_REPR.maxother = _REPR.maxstring = 80
#: What was given, for messages: a large array is cut short.
brief = _REPR.repr


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
        raise RangeError(f"{op_name}: '{name}' is the Python integer {short(number)}, "
                         "which does not fit 64 bits; pass a smaller one")
    return number


def real_number(value: Any, op_name: str, name: str) -> float:
    """Check an option that is a real number.

    `RangeError` for NaN, which would be stored everywhere without a word.
    """
    if type(value) is float and value == value:
        return value
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
    return as_float(value, f"{op_name}: '{name}'") if isinstance(value, int) else float(
        value)


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
