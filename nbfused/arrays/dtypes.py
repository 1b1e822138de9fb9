"""The dtypes that kernels take."""

from __future__ import annotations

from typing import Any, NoReturn

import ml_dtypes
import numpy as np

from ..errors import KernelTypeError

__all__ = ["BFLOAT16", "SUPPORTED", "check_address", "check_dtype", "check_extents",
           "element_strides", "refuse_address"]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

_NAMES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
)

SUPPORTED: dict[np.dtype, np.dtype] = {
    dtype: dtype for dtype in (*map(np.dtype, _NAMES), BFLOAT16)
}
"""Each dtype under itself: equal ones (``long`` and ``longlong``) become one object."""


def check_dtype(dtype: Any, name: str = "dtype") -> np.dtype:
    """Check that kernels take `dtype`, and give the one object that stands for it.

    Parameters
    ----------
    dtype
        Anything that `numpy.dtype` takes; ``"bfloat16"`` too.
    name
        The argument it belongs to, for the message.

    Raises
    ------
    KernelTypeError
        If there are no kernels for it.
    """
    try:
        dtype = np.dtype(dtype)
    except (TypeError, ValueError) as error:
        raise KernelTypeError(f"{name}: {dtype!r} is no dtype; {_EXPECTED}") from error
    known = SUPPORTED.get(dtype)
    return known if known is not None else refuse_dtype(dtype, name)


def refuse_dtype(dtype: Any, name: str) -> NoReturn:
    """Raise the error for a dtype without kernels, with the way out."""
    raise KernelTypeError(
        f"{name}: dtype {dtype} has no kernels; {_EXPECTED}; {_way_out(dtype)}")


_EXPECTED = f"expected {', '.join(_NAMES)} or bfloat16"


def _way_out(dtype: Any) -> str:
    if isinstance(dtype, np.dtype):
        if not dtype.isnative:
            return "its bytes are swapped: use x.astype(x.dtype.newbyteorder('='))"
        if dtype.names:
            return f"select a field: x[{dtype.names[0]!r}]"
        if dtype.kind in "Mm":
            return "use x.view('int64')"
        if dtype.kind in "OSUT":
            return "convert to numbers with x.astype(...)"
        if dtype.kind == "c":
            return "use x.astype('complex128')"
        if dtype.kind == "f" and dtype.itemsize > 8:
            return "use x.astype('float64')"
    return "convert it to a dtype of the list, such as float32"


def check_address(pointer: int, dtype: np.dtype, name: str) -> int:
    """The address of an array, if kernels can load its elements from there.

    Raises
    ------
    KernelTypeError
        If they cannot: a GPU would end the process' work on it.
    """
    if pointer % dtype.alignment:
        refuse_address(dtype, name)
    return pointer


def refuse_address(dtype: np.dtype, name: str) -> NoReturn:
    """Raise the error for elements between the multiples of their size."""
    raise KernelTypeError(
        f"{name}: its elements do not lie at multiples of {dtype.alignment} bytes, as "
        f"{dtype} needs; copy it first: x.copy(), or x.clone() of a tensor")


def check_extents(shape: tuple[int, ...], name: str) -> tuple[int, ...]:
    """The shape that another library says, if it can be one.

    Raises
    ------
    KernelTypeError
        If an extent is negative.
    """
    if min(shape, default=0) < 0:
        raise KernelTypeError(f"{name}: its library gives it the shape {shape}; "
                              "expected extents of at least 0; copy it there first")
    return shape


def element_strides(strides: tuple[int, ...], shape: tuple[int, ...], itemsize: int,
                    name: str) -> tuple[int, ...]:
    """Strides in bytes → strides in elements.

    Raises
    ------
    KernelTypeError
        If a stride that is ever stepped is no multiple of the item size.
    """
    for stride, extent in zip(strides, shape, strict=True):
        if stride % itemsize and extent > 1:
            raise KernelTypeError(
                f"{name}: strides {strides} are not multiples of the item size "
                f"{itemsize}, as in a field of a structured array; copy it first: "
                "x.copy()")
    return tuple([stride // itemsize for stride in strides])
