"""Creation of arrays on a device, and conversion of arrays back to NumPy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import prod
from operator import index
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..config import config
from ..errors import (
    AllocationError,
    KernelTypeError,
    NbFusedError,
    RangeError,
    ShapeError,
)
from ..registry.backends import backend_for, default_device
from .constructors import Shape, start_backend
from .description import Array, Library
from .detect import describe, is_array, is_lazy, library_of
from .devices import Device, canonical_device, device_kind, ordinal
from .dtypes import check_dtype
from .libraries.cupy import CUPY
from .libraries.interface import as_device_array
from .libraries.numpy import host_view

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ..backend import Backend

__all__ = ["array", "array_like", "empty", "from_dlpack", "full", "to_numpy"]

T = TypeVar("T")

_LARGEST = 2**59 - 1  # times 16 bytes: what an address can hold


def array(x: Any, dtype: DTypeLike | None = None, device: Device | None = None) -> Any:
    """Copy `x` into a new array."""
    place, backend = _choose_device(device, x)
    # Copied on the host; the copy is what a device array is filled from.
    kind = None if dtype is None else check_dtype(dtype)
    source = to_numpy(x) if is_array(x) else x
    host = _call_numpy("x", source, lambda: np.array(source, dtype=kind, copy=True))
    check_dtype(host.dtype, "x")
    return _send(host, place, backend)


def array_like(host: np.ndarray, like: Any) -> Any:
    """Copy a NumPy array to the library and the device of another array.

    On the host, of NumPy, it is `host` itself.
    """
    if is_lazy(like):
        return library_of(like).from_numpy(host, "")  # type: ignore[attr-defined]
    given = describe(like)
    send = getattr(given.library, "from_numpy", None)
    if send is not None:
        return send(host, given.device)
    return host if given.device == "cpu" else backend_for(
        given.device, "like").from_host(host, given.device)


def empty(shape: Shape, dtype: DTypeLike = "float64",
          device: Device | None = None) -> Any:
    """Make an array without setting its elements."""
    place, backend = _choose_device(device)
    extents, kind = _elements(shape, dtype)
    if _uses_cupy(place):
        return CUPY.empty(extents, kind, place)
    if place == "cpu":
        return _call_numpy("shape", shape, lambda: np.empty(extents, kind))
    return backend.empty(extents, kind, place)


def full(shape: Shape, value: Any, dtype: DTypeLike = "float64",
         device: Device | None = None) -> Any:
    """Make an array with every element `value`."""
    place, backend = _choose_device(device)
    extents, kind = _elements(shape, dtype)
    value = to_numpy(value) if is_array(value) else value
    given = _call_numpy("value", value, lambda: np.asarray(value))
    if not isinstance(value, int):  # a huge one is an object, and out of range
        check_dtype(given.dtype, "value")
    if given.dtype.kind == "c" and kind.kind != "c":
        raise KernelTypeError(f"value: {value!r} is complex, and dtype {kind} is not; "
                              "pass dtype='complex128', or take .real")
    host = _call_numpy("shape", shape, lambda: np.empty(extents, kind))
    _call_numpy("value", value, lambda: np.copyto(host, value, casting="unsafe"))
    return _send(host, place, backend)


def to_numpy(x: Any) -> np.ndarray:
    """Convert an array of any library to a NumPy array.

    Parameters
    ----------
    x
        An array, or something with a method ``to_numpy`` such as a `Variable`.

    Returns
    -------
    numpy.ndarray
        Shares the memory of an array on the host; a copy of one on a device.

    Raises
    ------
    KernelTypeError
        If `x` is neither, or autograd of its library tracks it.
    """
    if not is_array(x) and hasattr(x, "to_numpy"):
        return np.asarray(x.to_numpy())
    library = library_of(x)
    _refuse_tracked(library, x)
    return library.to_host(x)


def from_dlpack(x: Any, *, device: Device | None = None,
                copy: bool | None = None) -> Any:
    """Import an array from another library through DLPack.

    Parameters
    ----------
    x
        Anything with ``__dlpack__`` and ``__dlpack_device__``.
    device
        By default where `x` is; another one means a copy.
    copy
        True: always; False: never; None: only if it must be.

    Returns
    -------
    array
        As `array` would return; it shares memory unless copied.

    Raises
    ------
    BufferError
        If a copy is needed and ``copy=False``.
    KernelTypeError
        If `x` does not speak DLPack, or its memory cannot be exported.
    """
    if not hasattr(x, "__dlpack__"):
        raise KernelTypeError(
            f"x is a {type(x).__name__} without __dlpack__; use nbfused.array(x)")
    source = describe(x, "x")
    _refuse_tracked(source.library, x)
    place = source.device if device is None else canonical_device(device)
    if place != source.device and copy is False:
        raise BufferError(
            f"x is on {source.device} and device={place!r}: that takes a copy, which "
            "copy=False forbids")
    if copy or place != source.device:
        start_backend(place)
        return array(x, device=place)
    backend_for(place, "x")
    return _wrapped(source)


def _refuse_tracked(library: Library, x: Any) -> None:
    """Refuse a conversion that would lose a gradient of another library."""
    if library.tracks(x):
        library.describe(x, "x")  # of a tracer there is more to say
        raise KernelTypeError(
            f"x: a {type(x).__name__} of {library.name} that is being differentiated; "
            "its gradient would be lost; use x.detach() or its like first")


def _wrapped(source: Array) -> Any:
    if source.device == "cpu":
        return host_view(source)
    wrapper = as_device_array(source)
    return cupy().from_dlpack(wrapper) if _uses_cupy(source.device) else wrapper


def _choose_device(device: Device | None, x: Any = None) -> tuple[str, Backend]:
    """Choose the device: an array stays where it is unless another one is named."""
    if device is not None:  # `constructors` has started it
        place = canonical_device(device)
        return place, backend_for(place, "device")
    here = describe(x).device if is_array(x) else "cpu"
    place = default_device() if here == "cpu" else here
    return place, start_backend(place)


def _send(host: np.ndarray, place: str, backend: Backend) -> Any:
    if place == "cpu":
        return host
    return _to_cupy(host, place) if _uses_cupy(place) else backend.from_host(
        host, place)


def _to_cupy(host: np.ndarray, place: str) -> Any:
    """Copy to CuPy by `set`: `cupy.asarray` first allocates pinned memory.

    A fifth of its time for 4 kB and for 64 MB: benchmarks/notes/host.md#cold-start.
    """
    order = "F" if host.flags.f_contiguous else "C"
    with cupy().cuda.Device(ordinal(place)):
        made = cupy().empty(host.shape, host.dtype, order)
        made.set(host)
    return made


def _call_numpy(name: str, given: Any, make: Callable[[], T]) -> T:
    """Call `make`, and raise NumPy's refusals of `given` as errors of our own."""
    kinds: dict[type[Exception], type[NbFusedError]] = {
        OverflowError: RangeError, ValueError: ShapeError, TypeError: KernelTypeError}
    try:
        return make()
    except MemoryError as error:
        raise AllocationError(f"{name}: the host has no room for such an array: {error}"
                              "; make a smaller one, or several") from error
    except tuple(kinds) as error:
        found = next(e for kind, e in kinds.items() if isinstance(error, kind))
        raise found(f"{name}: NumPy makes no array of this {type(given).__name__}: "
                    f"{error}; expected numbers that the dtype holds, or rows of equal "
                    "length") from error


def _extents(shape: Shape) -> tuple[int, ...]:
    one = isinstance(shape, int | np.integer)
    try:
        extents = tuple(map(index, (shape,) if one else shape))  # type: ignore[arg-type]
    except TypeError:
        raise KernelTypeError("shape: expected an integer or a tuple of integers, got "
                              f"{shape!r}; round it first") from None
    if any(n < 0 for n in extents) or prod(extents) > _LARGEST:
        raise ShapeError(f"shape: expected extents of at least 0, and together less "
                         f"than 2**59 elements, got {extents}; pass other ones")
    return extents


def _elements(shape: Shape, dtype: Any) -> tuple[tuple[int, ...], np.dtype]:
    """Split a dtype of vectors into trailing extents and the scalar dtype."""
    vector: tuple[int, ...] = ()
    if isinstance(dtype, tuple) or getattr(dtype, "subdtype", None):
        try:
            dtype, vector = np.dtype(dtype).subdtype or (dtype, ())
        except TypeError as error:
            raise KernelTypeError(f"dtype: {dtype!r} is no dtype; a vector is spelled "
                                  "('float32', 3)") from error
    return _extents(shape) + vector, check_dtype(dtype)


def _uses_cupy(place: str) -> bool:
    """Whether the program uses CuPy on real devices of this kind."""
    kind = device_kind(place)
    if kind not in ("cuda", "rocm") or cupy() is None or (
            kind == "rocm" and config.rocm_emulate != "0"):
        return False
    return bool(cupy().cuda.runtime.is_hip) == (kind == "rocm")


def cupy() -> Any:
    """CuPy if the program has imported it, else None."""
    return sys.modules.get("cupy")
