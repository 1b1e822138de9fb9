"""Dtypes of the standard, questions about them, and what functions take."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ..arrays import check_dtype, dtype_of
from ..errors import KernelTypeError
from ..numpy_functions.base import is_value
from ..support.dtypes import BFLOAT16

__all__ = [
    "CATEGORIES", "DEFAULTS", "DTYPES", "FloatInfo", "IntInfo", "can_cast",
    "check_category", "finfo", "iinfo", "is_number", "isdtype", "number_dtype",
    "promoted", "result_type",
]

#: The dtypes of the standard by kind, as `isdtype` names the kinds.
_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
#: By name; beside those of the standard the two of 16 bits.
DTYPES = {name: np.dtype(name) for names in _KINDS.values() for name in names} | {
    "float16": np.dtype("float16"), "bfloat16": BFLOAT16}
#: The dtypes that numbers get by themselves.
DEFAULTS = {"real floating": DTYPES["float64"],
            "complex floating": DTYPES["complex128"],
            "integral": DTYPES["int64"], "indexing": DTYPES["int64"]}

#: For what a function is defined: letters of NumPy's kinds of dtypes; V is bfloat16.
CATEGORIES = {
    "all": "biufVc", "numeric": "iufVc", "real": "iufV", "real floating": "fV",
    "floating": "fVc", "integer": "iu", "boolean": "b", "integer or boolean": "biu",
    "unchecked": "",  # the function looks itself
}
_NAMED = {"bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu",
          "real floating": "fV", "complex floating": "c", "numeric": "iufVc"}
#: Dtypes promote within one of these.
_FAMILIES = ("b", "iu", "fVc")
#: The families that a Python number of some type may stand beside.
_WEAK = ((bool, "b"), (int, "iufVc"), (float, "fVc"), (complex, "c"))


def _kind(dtype: Any) -> str:
    return "V" if dtype == BFLOAT16 else np.dtype(dtype).kind


def check_category(name: str, category: str, *arrays: Any) -> None:
    """Check that a function is defined for the dtypes of its arguments.

    Raises
    ------
    KernelTypeError
        It is not, or an argument is no array.
    """
    letters = CATEGORIES[category]
    for x in arrays:
        if not is_value(x):
            raise KernelTypeError(f"{name}: got a {type(x).__name__}, expected an "
                                  "array; make one with asarray")
        if dtype_of(x).kind not in letters:
            raise KernelTypeError(
                f"{name}: got an array of {dtype_of(x)}; the array API defines it for "
                f"{category} dtypes; convert with astype, or call NumPy's function")


def promoted(name: str, *args: Any) -> np.dtype:
    """The dtype that arrays and dtypes of one kind promote to, beside numbers.

    Raises
    ------
    KernelTypeError
        They are of several kinds, or a number is of another kind.
    """
    strong = [x if isinstance(x, np.dtype) else dtype_of(x) if is_value(x) else
              check_dtype(x) for x in args if not is_number(x)]
    if not strong:
        raise KernelTypeError(f"{name}: got Python numbers only, expected an array or "
                              "a dtype")
    found = strong[0]
    for other in strong[1:]:
        found = _joined(name, found, other)
    for number in filter(is_number, args):
        _check_number(name, number, found)
        if isinstance(number, complex):
            found = np.result_type(found, 0j)
    return found


def is_number(x: Any) -> bool:
    """Whether `x` is a Python number, which has no dtype of its own."""
    return type(x) in (bool, int, float, complex)


def _joined(name: str, first: np.dtype, second: np.dtype) -> np.dtype:
    if first == second:
        return first
    kinds = {_kind(first), _kind(second)}
    family = next((f for f in _FAMILIES if kinds <= set(f)), None)
    large = {"i", "u"} == kinds and max(
        x.itemsize for x in (first, second) if x.kind == "u") == 8
    if family is None or large:
        raise KernelTypeError(
            f"{name}: {first} and {second} have no common dtype in the array API, "
            "which does not mix kinds; convert one with astype, or use NumPy's own")
    if BFLOAT16 in (first, second):
        other = second if first == BFLOAT16 else first
        return np.result_type(np.float32, other)
    return np.result_type(first, second)


def _check_number(name: str, number: Any, dtype: np.dtype) -> None:
    letters = next(letters for kind, letters in _WEAK if type(number) is kind)
    if type(number) is complex and _kind(dtype) in "fV":
        return
    if _kind(dtype) not in letters:
        raise KernelTypeError(
            f"{name}: a Python {type(number).__name__} stands beside {dtype}, which is "
            "of another kind; convert the array with astype")


def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    """The dtype that arrays, dtypes and Python numbers promote to."""
    return promoted("result_type", *arrays_and_dtypes)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether promotion leads from a dtype, or that of an array, to another one."""
    source = dtype_of(from_) if is_value(from_) else check_dtype(from_)
    target = check_dtype(to)
    try:
        return bool(promoted("can_cast", source, target) == target)
    except KernelTypeError:
        return False


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is another one, of a named kind, or one of a tuple of these.

    Examples
    --------
    >>> from nbfused import array_api as xp
    >>> xp.isdtype(xp.float32, "real floating"), xp.isdtype(xp.int8, xp.int16)
    (True, False)
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in _NAMED:
            raise ValueError(f"isdtype: kind {kind!r}, expected one of {[*_NAMED]}, a "
                             "dtype, or a tuple of them")
        return _kind(dtype) in _NAMED[kind]
    return bool(np.dtype(dtype) == np.dtype(kind))


def number_dtype(value: Any) -> np.dtype:
    """The default dtype of a Python number."""
    return np.dtype(bool) if isinstance(value, bool) else DEFAULTS[
        "integral" if isinstance(value, int) else
        "complex floating" if isinstance(value, complex) else "real floating"]


class FloatInfo(NamedTuple):
    """Limits of a floating dtype; of a complex one those of its parts."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype


class IntInfo(NamedTuple):
    """Limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: np.dtype


def _limits(name: str, kind: Any, letters: str) -> np.dtype:
    dtype = dtype_of(kind) if is_value(kind) else check_dtype(kind, name)
    if _kind(dtype) not in letters:
        raise KernelTypeError(f"{name}: got {dtype}, expected "
                              f"{'an integer' if letters == 'iu' else 'a floating'} "
                              "dtype or an array of one")
    return dtype


def finfo(type: Any, /) -> FloatInfo:
    """The limits of a floating dtype, or that of an array."""
    dtype = _limits("finfo", type, "fVc")
    found: Any = ml_dtypes.finfo(dtype) if dtype == BFLOAT16 else np.finfo(dtype)
    real = BFLOAT16 if dtype == BFLOAT16 else np.dtype(found.dtype)
    return FloatInfo(int(found.bits), float(found.eps), float(found.max),
                     float(found.min), float(found.smallest_normal), real)


def iinfo(type: Any, /) -> IntInfo:
    """The limits of an integer dtype, or that of an array."""
    dtype = _limits("iinfo", type, "iu")
    found = np.iinfo(dtype)
    return IntInfo(found.bits, int(found.max), int(found.min), dtype)
