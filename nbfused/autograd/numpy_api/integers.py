"""Python integers beside arrays, which take the arrays' dtype (NEP 50)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from ...arrays import dtype_of
from ...arrays.traced import TracedNumber
from ...errors import RangeError

__all__ = ["as_float", "check_integer", "check_integers", "fit", "loop_dtype",
           "short"]

_NUMBERS = frozenset((bool, int, float, complex))


def check_integers(values: Sequence[Any], op_name: str, names: Sequence[str],
                   compares: bool = False, loop: np.ufunc | None = None) -> list[Any]:
    """Convert Python integers to the dtype of the arrays beside them.

    As in NumPy: one that the dtype does not hold is a `RangeError`, but where it is
    only compared with: there an infinity stands for it.  Beside floats an integer
    becomes one, and where NumPy's ufunc `loop` computes integers in floats, as a
    division does.
    """
    fitted = list(values)
    kinds = [v.python if isinstance(v, TracedNumber) else type(v) for v in values]
    strong = [dtype_of(v) for v, k in zip(values, kinds, strict=True)
              if k not in _NUMBERS]
    known = [d for d in strong if d.kind != "b"]  # a condition says nothing
    whole = bool(known) and all(d.kind in "iu" for d in known)
    dtype = np.result_type(*known) if whole else np.dtype(np.int64)
    alone = whole or not known  # beside bools an integer is one of 64 bits
    computed = loop_dtype(loop, dtype) if alone and loop is not None else dtype
    floating = computed.kind == "f" or any(d.kind in "fcV" for d in known)
    if dtype.kind == "f" or floating:  # a float of uint64 and a signed one
        dtype = np.dtype(np.int64)
    for k, (name, value, kind) in enumerate(zip(names, values, kinds, strict=True)):
        if kind is not int:
            continue
        label = f"{op_name}: '{name}'"
        if isinstance(value, TracedNumber):
            value.record_check(partial(_check_fits, dtype=dtype, label=label))
        elif floating and not -2**63 <= value < 2**63:
            number = as_float(value, label)
            fitted[k] = computed.type(number) if computed.kind == "f" else number
        elif compares and not _fits(value, dtype):
            fitted[k] = math.copysign(math.inf, value)
        else:
            _check_fits(value, dtype, label)
            if value >= 2**63:  # kernels take numbers of 64 bits as signed ones
                fitted[k] = dtype.type(value)
    return fitted


def fit(values: Sequence[Any], places: Sequence[int]) -> bool:
    """Whether `check_integers` lets the Python integers at some places be.

    False also where it has to look: every dtype holds 0 to 127, and beside floats all
    of 64 bits do.
    """
    for k in places:
        if not 0 <= values[k] < 128:
            break
    else:
        return True
    return all(-2**63 <= values[k] < 2**63 for k in places) and any(
        dtype_of(v).kind in "fcV" for v in values if type(v) not in _NUMBERS)


def check_integer(value: Any, like: Any, op_name: str, name: str) -> Any:
    """A number beside an array, or anything else, as `check_integers` has it."""
    return check_integers((like, value), op_name, ("", name))[1] if type(
        value) is int or isinstance(value, TracedNumber) else value


@cache
def loop_dtype(ufunc: np.ufunc, dtype: np.dtype) -> np.dtype:
    """The dtype that a ufunc computes in where all its arguments have one dtype.

    It is that one where the ufunc does not take it.
    """
    try:
        found: np.dtype = ufunc.resolve_dtypes(
            (*[dtype]*ufunc.nin, *[None]*ufunc.nout))[0]
        return found
    except TypeError:
        return dtype


def _fits(value: int, dtype: np.dtype) -> bool:
    info = np.iinfo(dtype)
    return bool(info.min <= value <= info.max)


def _check_fits(value: int, dtype: np.dtype, label: str) -> None:
    if not _fits(value, dtype):
        info = np.iinfo(dtype)
        raise RangeError(
            f"{label} is the Python integer {short(value)}, out of range for {dtype} "
            f"({info.min} to {info.max}); convert the arrays with astype, or pass a "
            "float")


def as_float(value: int, label: str) -> float:
    """An integer as a float; `RangeError` where none is so large."""
    try:
        return float(value)
    except OverflowError:
        raise RangeError(f"{label} is the Python integer {short(value)}, which fits no "
                         "float; pass a float") from None


def short(value: int) -> str:
    """The digits of an integer, or their count if there are many."""
    bits = value.bit_length()
    return str(value) if bits < 80 else f"of {bits} bits"
