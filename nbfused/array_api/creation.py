"""Arrays made of numbers, buffers and other arrays: Variables without gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import check_dtype, dtype_of
from ..arrays import from_dlpack as _from_dlpack
from ..arrays.constructors import array as _array
from ..arrays.constructors import empty as _empty
from ..arrays.constructors import full as _full
from ..arrays.devices import canonical_device
from ..arrays.dtypes import warn_of_lost_part
from ..autograd import Variable
from ..errors import KernelTypeError
from ..numpy_functions.base import is_value, shape_of
from ..numpy_functions.on_arrays import on_arrays
from .adapted import ADAPTED
from .dtypes import CATEGORIES, DEFAULTS, check_category, number_dtype

__all__ = [
    "arange", "asarray", "astype", "empty", "empty_like", "eye", "from_dlpack", "full",
    "full_like", "linspace", "ones", "ones_like", "placed", "zeros", "zeros_like",
]

_copied, _converted, _spread = map(on_arrays, ("copy", "astype", "broadcast_to"))


def placed(x: Any, device: Any) -> Any:
    """An array on a device; itself where it is there, or None is named."""
    if device is None or not isinstance(x, Variable):
        return x if device is None else placed(Variable(x), device)
    return x.to_device(device)


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None,
            copy: bool | None = None) -> Any:
    """Make an array of numbers, nested sequences, a buffer or another array.

    Parameters
    ----------
    obj
        Variables stay Variables, with their gradients, in lists as well; an array of a
        library is wrapped in a Variable.
    dtype : dtype, optional
        By default that of `obj`.  A real one of a complex array takes its real part,
        with NumPy's warning.
    device : str, optional
        By default where `obj` is.
    copy : bool, optional
        True: always; False: never; None: only where it must be.

    Returns
    -------
    Variable

    Raises
    ------
    ValueError
        ``copy=False``, and a copy must be made.
    """
    if not is_value(obj):
        return _of_numbers(obj, dtype, device, copy)
    found = obj if isinstance(obj, Variable) else Variable(obj)
    wanted = dtype_of(found) if dtype is None else check_dtype(dtype)
    same = dtype_of(found) == wanted and (
        device is None or found.device == canonical_device(device))
    if copy is False and not same:
        raise ValueError(f"asarray: copy=False, and the array of {dtype_of(found)} on "
                         f"{found.device} has to become {dtype} on {device}; leave "
                         "copy out")
    if dtype_of(found) != wanted:
        warn_of_lost_part("asarray", dtype_of(found), wanted)
        found = _converted(found, wanted)
    elif copy:
        found = _copied(found)
    return placed(found, device)


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """Convert the elements; complex numbers become no real ones.

    Parameters
    ----------
    x : array
        Any dtype.
    dtype : dtype
        Of the standard, or one of 16 bits.
    copy : bool
        False: `x` itself where nothing has to change.
    device : str, optional
        Where to put it.
    """
    check_category("astype", "all", x)
    if dtype_of(x).kind == "c" and np.dtype(dtype).kind in CATEGORIES["real"]:
        raise KernelTypeError(f"astype: {dtype_of(x)} does not become {dtype}; take "
                              "real(x) or imag(x)")
    made = x if not copy and dtype_of(x) == dtype else _converted(x, dtype)
    return placed(made, device)


def _of_numbers(obj: Any, dtype: Any, device: Any, copy: bool | None) -> Any:
    if isinstance(obj, (list, tuple)) and _has_arrays(obj):
        made = ADAPTED["stack"]([asarray(x) for x in obj], axis=0)
        return asarray(made, dtype=dtype, device=device)
    if copy is False and not _is_buffer(obj):
        raise ValueError(f"asarray: copy=False, and a {type(obj).__name__} is no array "
                         "in memory; leave copy out")
    if _is_buffer(obj):
        return asarray(np.asarray(obj), dtype=dtype, device=device, copy=copy)
    return Variable(_array(obj, dtype, device))


def _has_arrays(obj: Any) -> bool:
    return any(_has_arrays(x) if isinstance(x, (list, tuple)) else is_value(x)
               for x in obj)


def _is_buffer(obj: Any) -> bool:
    try:
        memoryview(obj)
    except TypeError:
        return False
    return True


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Variable:
    """Import an array of another library through DLPack."""
    return Variable(_from_dlpack(getattr(x, "data", x) if isinstance(x, Variable)
                                 else x, device=device, copy=copy))


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Variable:
    """Make an array without setting its elements."""
    return Variable(_empty(shape, _or_float(dtype), device))


def full(shape: Any, fill_value: Any, *, dtype: Any = None,
         device: Any = None) -> Variable:
    """Make an array of one number, or of that in an array, with its gradient."""
    if is_value(fill_value):
        one = asarray(fill_value, dtype=dtype, device=device)
        made: Variable = _copied(_spread(one, shape))
        return made
    kind = number_dtype(fill_value) if dtype is None else dtype
    return Variable(_full(shape, fill_value, kind, device))


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Variable:
    """Make an array of zeros."""
    return full(shape, 0, dtype=_or_float(dtype), device=device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Variable:
    """Make an array of ones."""
    return full(shape, 1, dtype=_or_float(dtype), device=device)


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None,
              device: Any = None) -> Any:
    """Make an array of one number in the shape of `x`, where that is."""
    if not is_value(x):
        raise KernelTypeError(f"full_like: got a {type(x).__name__}, expected an array;"
                              " use full")
    if is_value(fill_value):
        return full(shape_of(x), fill_value, dtype=dtype or dtype_of(x), device=device)
    return placed(_full_like(x, fill_value, dtype=dtype), device)


_full_like = on_arrays("full_like")


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Make an array of zeros in the shape of `x`."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Make an array of ones in the shape of `x`."""
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Make an array in the shape of `x`: of zeros, as any number will do."""
    return zeros_like(x, dtype=dtype, device=device)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None,
           device: Any = None) -> Variable:
    """Make a vector of numbers at equal distances, without the end."""
    first, end = (0, start) if stop is None else (start, stop)
    kind = dtype if dtype is not None else DEFAULTS[
        "integral" if all(isinstance(x, int) for x in (first, end, step))
        else "real floating"]
    return Variable(_array(np.arange(first, end, step).astype(kind), None, device))


def linspace(start: Any, stop: Any, /, num: int, *, dtype: Any = None,
             device: Any = None, endpoint: bool = True) -> Variable:
    """Make a vector of numbers at equal distances, the end included."""
    kind = dtype if dtype is not None else number_dtype(
        0j if complex in (type(start), type(stop)) else 0.0)
    made = np.linspace(start, stop, num, endpoint=endpoint)
    return Variable(_array(made.astype(kind), None, device))


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None,
        device: Any = None) -> Variable:
    """Make a matrix of ones on a diagonal, zeros elsewhere."""
    return Variable(_array(np.eye(n_rows, n_cols, k), _or_float(dtype), device))


def _or_float(dtype: Any) -> Any:
    return DEFAULTS["real floating"] if dtype is None else dtype
