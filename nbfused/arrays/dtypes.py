"""The dtypes that kernels support, and checks of dtypes, addresses and extents."""

from __future__ import annotations

import sys
import warnings
from typing import Any, NoReturn

import numpy as np

from ..errors import KernelTypeError
from ..support.dtypes import BFLOAT16, DTYPES, TYPES, number_kind

__all__ = ["BFLOAT16", "SUPPORTED", "check_address", "check_dtype", "check_extents",
           "element_strides", "refuse_address", "warn_of_lost_part"]

SUPPORTED: dict[np.dtype, np.dtype] = {dtype: dtype for dtype in TYPES}
"""Each dtype under itself: equal ones (``long`` and ``longlong``) become one object."""


def check_dtype(dtype: Any, name: str = "dtype") -> np.dtype:
    """Check that kernels support `dtype`, and return its canonical object.

    Parameters
    ----------
    dtype
        Anything that `numpy.dtype` takes; ``"bfloat16"`` and PyTorch's dtypes too.
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
        module, _, text = str(dtype).rpartition(".")
        if module == "torch" and text in DTYPES:  # torch.long is torch.int64
            return DTYPES[text]
        raise KernelTypeError(f"{name}: {dtype!r} is no dtype; {_EXPECTED}") from error
    known = SUPPORTED.get(dtype)
    return known if known is not None else refuse_dtype(dtype, name)


def refuse_dtype(dtype: Any, name: str) -> NoReturn:
    """Raise the error for an unsupported dtype, with advice."""
    raise KernelTypeError(
        f"{name}: dtype {dtype} has no kernels; {_EXPECTED}; {_way_out(dtype)}")


*_NAMES, _LAST = DTYPES
_EXPECTED = f"expected {', '.join(_NAMES)} or {_LAST}"


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


def warn_of_lost_part(name: str, given: np.dtype, wanted: np.dtype) -> None:
    """Warn where `name` takes complex numbers as real ones, as NumPy does.

    Warns
    -----
    ComplexWarning
        At the line that called nbfused.
    """
    if given.kind != "c" or number_kind(wanted) not in "iuf":
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(
            frame.f_globals.get("__name__")).startswith("nbfused."):
        frame, level = frame.f_back, level + 1
    warnings.warn(f"{name}: {given} becomes {wanted} without its imaginary part; "
                  "real(x) says so", np.exceptions.ComplexWarning,
                  stacklevel=level)


def check_address(pointer: int, dtype: np.dtype, name: str) -> int:
    """Return an array's address, checked to be aligned to its elements.

    Raises
    ------
    KernelTypeError
        If they cannot: a GPU would end the process' work on it.
    """
    if pointer % dtype.alignment:
        refuse_address(dtype, name)
    return pointer


def refuse_address(dtype: np.dtype, name: str) -> NoReturn:
    """Raise the error for elements that are not aligned to their size."""
    raise KernelTypeError(
        f"{name}: its elements do not lie at multiples of {dtype.alignment} bytes, as "
        f"{dtype} needs; copy it first: x.copy(), or x.clone() of a tensor")


def check_extents(shape: tuple[int, ...], name: str) -> tuple[int, ...]:
    """Check a shape reported by another library.

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
    """Convert strides in bytes to strides in elements.

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
