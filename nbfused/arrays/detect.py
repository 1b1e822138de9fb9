"""Recognition of an array's library from its type, without importing the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import KernelTypeError
from .description import Array, Library
from .dtypes import check_dtype
from .libraries.numpy import NUMPY

__all__ = ["TORCH_DEVICES", "describe", "device_of", "dtype_of", "exact_library",
           "is_array", "is_lazy", "is_symbolic", "library_of", "way_out"]


def describe(x: Any, name: str = "x") -> Array:
    """Describe an array of any library, without a copy.

    Parameters
    ----------
    x
        A NumPy array or scalar, a CuPy array, PyTorch tensor, JAX array, Numba device
        array, `DeviceArray`, or anything with DLPack or ``__cuda_array_interface__``.
    name
        The argument that it is, for messages.

    Raises
    ------
    KernelTypeError
        If it is no array, or one that kernels do not take.

    Examples
    --------
    >>> import numpy as np
    >>> from nbfused.arrays import describe
    >>> describe(np.zeros((2, 3), "float32").T).strides
    (1, 3)
    """
    if type(x) is np.ndarray:
        return NUMPY.describe(x, name)
    library = _library(type(x))
    if library is None:
        raise KernelTypeError(
            f"{name} is a {type(x).__name__}; expected an array (NumPy, CuPy, PyTorch, "
            f"JAX, Numba, DLPack); make one with nbfused.array({name})")
    return library.describe(x, name)


def is_array(x: Any) -> bool:
    """Whether `describe` accepts `x`; NumPy scalars count as arrays.

    Python numbers and lists are not.
    """
    return _library(type(x)) is not None


def is_symbolic(x: Any) -> bool:
    """Whether `x` is an array that PyTorch or JAX traces or transforms."""
    asked: Any = getattr(_library(type(x)), "symbolic", None)
    return asked is not None and asked(x)


def is_lazy(x: Any) -> bool:
    """Whether `x` is an array of a library that computes later: Dask's."""
    if type(x) is np.ndarray:  # asked of every input of a view
        return False
    return getattr(_library(type(x)), "lazy", False)


def validate(x: Any, name: str) -> None:
    """Check an array as `describe` does; a lazy one without its elements.

    Raises
    ------
    KernelTypeError
        It is no array, or one that kernels do not take.
    ShapeError
        Its shape is unknown.
    """
    if is_lazy(x):
        library_of(x).check(x, name)  # type: ignore[attr-defined]
    else:
        describe(x, name)


def library_of(x: Any) -> Library:
    """Give the library whose arrays are like `x`.

    Raises
    ------
    KernelTypeError
        If `x` is no array.
    """
    library = _library(type(x))
    return library if library is not None else describe(x).library


def _library(kind: type) -> Library | None:
    try:
        return _FOUND[kind]
    except KeyError:
        _FOUND[kind] = library = _find(kind)
        return library


def exact_library(kind: type) -> Library | None:
    """The library of arrays of exactly this type; None for subclasses."""
    return _library(kind) if _name(kind) in _KNOWN else None


def _name(kind: type) -> tuple[str, str]:
    return kind.__module__.partition(".")[0], kind.__name__


def _find(kind: type) -> Library | None:
    for base in kind.__mro__:
        load = _KNOWN.get(_name(base))
        if load is not None:
            return load()
    if hasattr(kind, "__dlpack__") or hasattr(kind, "__cuda_array_interface__"):
        return _foreign()
    return None


def _torch() -> Library:
    from .libraries.torch import TORCH

    return TORCH


def _cupy() -> Library:
    from .libraries.cupy import CUPY

    return CUPY


def _numba() -> Library:
    from .libraries.numba import NUMBA

    return NUMBA


def _jax() -> Library:
    from .libraries.jax import JAX

    return JAX


def _jax_tracer() -> Library:
    from .libraries.jax import JAX_TRACER

    return JAX_TRACER


def _dask() -> Library:
    from .libraries.dask import DASK

    return DASK


def _device() -> Library:
    from .device_array import DEVICE

    return DEVICE


def _xla() -> Library:
    from .libraries.xla import XLA

    return XLA


def _foreign() -> Library:
    from .libraries.interface import FOREIGN

    return FOREIGN


# (first part of the module, class) → library: nothing is imported to find out.
_KNOWN: dict[tuple[str, str], Callable[[], Library | None]] = {
    ("numpy", "ndarray"): lambda: NUMPY,
    ("numpy", "generic"): lambda: NUMPY,
    ("torch", "Tensor"): _torch,
    ("cupy", "ndarray"): _cupy,
    ("jaxlib", "ArrayImpl"): _jax,
    ("jax", "ArrayImpl"): _jax,
    ("jax", "PRNGKeyArray"): _jax,
    ("jax", "Tracer"): _jax_tracer,
    ("dask", "Array"): _dask,
    ("numba", "DeviceNDArrayBase"): _numba,
    ("nbfused", "DeviceArray"): _device,
    ("nbfused", "XlaArray"): _xla,
    # Variables hold arrays: they export these by DLPack, and are none themselves.
    ("nbfused", "GraphArray"): lambda: None,
}

#: How objects of other packages, which only convert to arrays, get there and back.
_WAYS = {
    "xarray": "use xarray.apply_ufunc({function}, {name}), which keeps its labels",
    "pandas": "use {name}.to_numpy(), and {kind}(result, index={name}.index)",
    "scipy": "use {name}.toarray() if it fits, or its elements {name}.data",
    "sparse": "use {name}.todense() if it fits",
    "pint": "use {name}.magnitude, and give the result its unit",
    "unyt": "use {name}.value, and give the result its unit",
    "polars": "use {name}.to_numpy()",
    "pyarrow": "use {name}.to_numpy()",
    "nbfused": "NumPy's functions take what a mask chooses, np.exp(x[mask]); call "
               "{function} with the whole array, and choose of its result",
}


def way_out(x: Any, name: str, function: str) -> str | None:
    """Tell how `function` is called on an object that is no array; None if unknown."""
    kind = type(x)
    way = _WAYS.get(kind.__module__.partition(".")[0])
    return way and way.format(name=name, function=function, kind=kind.__name__)


_FOUND: dict[type, Library | None] = {}


#: Our names of PyTorch's devices, as they are found out.
TORCH_DEVICES: dict[Any, str] = {}


def device_of(x: Any, name: str = "x") -> str:
    """The device of an array, without a description where that is known."""
    if type(x).__module__ != "torch":
        return describe(library_of(x).meta(x) if is_lazy(x) else x,  # type: ignore
                        name).device
    found = TORCH_DEVICES.get(x.device)
    if found is None:
        found = TORCH_DEVICES[x.device] = describe(x, name).device
    return found


#: NumPy's dtype for each of PyTorch's, which are single objects.
_TORCH: dict[Any, np.dtype] = {}


def dtype_of(x: Any) -> np.dtype:
    """The NumPy dtype of an array of any library, or of a Variable."""
    dtype = getattr(x, "dtype", None)
    if isinstance(dtype, np.dtype):
        return dtype
    if type(dtype).__module__ != "torch":
        return describe(x).dtype
    found = _TORCH.get(dtype)
    if found is None:
        name = str(dtype).removeprefix("torch.")
        # What only stands for a tensor is not described.
        known = is_array(x) and not library_of(x).tracks(x)
        found = _TORCH[dtype] = describe(x).dtype if known else check_dtype(name)
    return found
