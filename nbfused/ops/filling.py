"""Arrays shaped like another one, and arrays filled with one number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import check_dtype, describe, dtype_of, is_array
from ..arrays.detect import is_symbolic
from ..arrays.traced import Traced, TracedNumber
from ..autograd import Variable, apply
from ..autograd.graph import FULL
from ..errors import KernelTypeError, RangeError
from ..op import AnyArray, Case, op
from ..op.base import check_operand, is_number
from ..op.keywords import as_numpy
from ..scalar.ir.nodes import Block, Function
from ..specs import Map

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["empty_like", "fill", "full_like", "ones_like", "zeros_like"]

_NAMES = ("x", "fill_value")
LIKE = Case(((4, 5),), dtypes="biufc")


def _array(x: Any, name: str) -> Any:
    """The array behind `x`, detached from the tape."""
    check_operand(x, name, "x")
    if is_number(x):
        raise KernelTypeError(f"{name}: 'x' must be an array, got {x!r}; make one with "
                              "nf.array")
    return x.data if _is_value(x) else x


def _is_value(x: Any) -> bool:
    """Whether `x` is a Variable that holds an array, and not a traced one."""
    return isinstance(x, Variable) and not isinstance(x, Traced)


def _is_array(x: Any) -> bool:
    return isinstance(x, (list, tuple, Variable)) or (
        is_array(x) and not isinstance(x, np.generic))


def _number(value: Any, dtype: np.dtype, name: str) -> Any:
    """Cast `value` to `dtype` as NumPy does."""
    if not is_number(value):
        raise KernelTypeError(f"{name}: 'fill_value' must be a number, got {value!r}")
    if isinstance(value, TracedNumber):
        return value.computed(lambda x: _number(x, dtype, name))
    try:
        return np.full((), value, dtype)[()]
    except OverflowError as error:
        raise RangeError(f"{name}: 'fill_value' is {value}, which {dtype} does not "
                         "hold") from error


def empty_like(x: AnyArray, dtype: DTypeLike | None = None,
               **keywords: Any) -> AnyArray:
    """Make an uninitialised array of the library, shape and device of `x`.

    Parameters
    ----------
    x : array or Variable
        A Variable gives a Variable.
    dtype : dtype, optional
        That of `x` by default.
    **keywords
        `order`, `shape` and `device`, as in `numpy.empty_like`.

    Returns
    -------
    array
        C-contiguous.

    Examples
    --------
    >>> import numpy as np
    >>> empty_like(np.zeros((2, 3)), "float32").dtype
    dtype('float32')
    """
    if keywords:
        return as_numpy("empty_like", x, dtype=dtype, **keywords)
    data = _array(x, "empty_like")
    if is_symbolic(data):
        return full_like(data, 0, dtype)
    like = describe(data, "x")
    kind = like.dtype if dtype is None else check_dtype(dtype)
    made = like.library.finish(like.library.empty(like.shape, kind, like.device))
    return Variable(made) if isinstance(x, Variable) else made


@op(np.full_like, Case(((4, 5),), {"fill_value": 2.5}),
    Case(((3, 2),), {"fill_value": 3}, dtypes="iu"),
    Case(((3,),), {"fill_value": True}, dtypes="b"))
def full_like(x: AnyArray, fill_value: Any, dtype: DTypeLike | None = None, *,
              out: AnyArray | None = None, **keywords: Any) -> AnyArray:
    """Make an array like `x` with every element `fill_value`.

    Parameters
    ----------
    x : array or Variable
        Gives library, shape, device; nothing is differentiated through it.
    fill_value : number, or array or list without `out`
        Cast as NumPy casts it; an array broadcasts to the shape.
    dtype : dtype, optional
        That of `x` by default.
    out : array, optional
        Where to store, of the shape of `x`.
    **keywords
        `order`, `shape` and `device`, as in `numpy.full_like`.

    Raises
    ------
    RangeError
        An integer that the dtype does not hold.

    Examples
    --------
    >>> import numpy as np
    >>> full_like(np.zeros(2), 7)
    array([7., 7.])
    """
    if keywords or (out is None and _is_array(fill_value)):
        return as_numpy("full_like", x, fill_value, dtype=dtype, out=out, **keywords)
    data = _array(x, "full_like")
    target = dtype if out is None else dtype_of(out)
    kind = dtype_of(data) if target is None else check_dtype(target)
    value = _number(fill_value, kind, "full_like")
    (made,) = apply(FULL, (data, value), out=None if out is None else (out,),
                    dtypes=(kind,), names=_NAMES)
    return Variable(made) if _is_value(x) and out is None else made


@op(np.zeros_like, LIKE)
def zeros_like(x: AnyArray, dtype: DTypeLike | None = None,
               **keywords: Any) -> AnyArray:
    """Make an array of zeros like `x`; parameters as for `full_like`."""
    if keywords:
        return as_numpy("zeros_like", x, dtype=dtype, **keywords)
    return full_like(x, 0, dtype)


@op(np.ones_like, LIKE)
def ones_like(x: AnyArray, dtype: DTypeLike | None = None,
              **keywords: Any) -> AnyArray:
    """Make an array of ones like `x`; parameters as for `full_like`."""
    if keywords:
        return as_numpy("ones_like", x, dtype=dtype, **keywords)
    return full_like(x, 1, dtype)


def fill(x: AnyArray, value: Any) -> None:
    """Set every element of an array in place.

    Parameters
    ----------
    x : array or Variable
        Of any library whose arrays can be changed.
    value : number
        Cast as NumPy casts it.

    Raises
    ------
    ReadOnlyError, OverlapError
        An array that must not be written to, or whose elements share memory.
    KernelTypeError
        An array of a library that does not change arrays (JAX).
    TapeError
        A Variable that requires grad, outside `no_grad`.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.zeros(2)
    >>> fill(x, 7)
    >>> x
    array([7., 7.])
    """
    number = _number(value, dtype_of(_array(x, "fill")), "fill")
    apply(_FILL, (number,), out=(x,), names=("value",))


_FILL = Map(Function("fill", ("value",), Block((), ("value",))), ("scalar",))
