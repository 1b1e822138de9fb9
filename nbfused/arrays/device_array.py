"""`DeviceArray`: the array type for devices that no other library has arrays on."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from math import prod
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from ..errors import KernelTypeError, ShapeError
from ..registry.backends import backend_for
from ..registry.operations import OPS
from ..support.dtypes import BFLOAT16
from ..support.loop_nests import dense_strides, is_dense
from .constructors import array
from .description import Array, Reading
from .devices import canonical_device, device_kind
from .indexing import index_view, infer_shape
from .libraries.dlpack import HostExport, device_type, export
from .operators import Operators, array_namespace

__all__ = ["DEVICE", "DeviceArray", "DeviceLibrary"]


class DeviceArray(Operators):
    """Memory on a device with a shape, and the operators of the array API.

    Made by `nbfused.array`, `empty` and `zeros` where CuPy is not imported.  Other
    libraries take it through DLPack and ``__cuda_array_interface__``.

    Parameters
    ----------
    pointer : int
        Address of the first element.
    shape : tuple of int
    strides : tuple of int or None
        In elements (None: C-contiguous); unlike NumPy's, which count bytes.
    dtype : numpy.dtype
    device : str
        ``"cuda:0"``.
    stream : int or None
        Handle of the stream that last wrote to it (0: legacy default); None if the
        elements are ready.
    owner : object
        Keeps the memory alive.

    Notes
    -----
    Indexing by integers, slices, ``...`` and ``None``, `T` and `reshape` give views;
    index arrays and masks give copies.  Functions are those of `nbfused.ops` and of
    `nbfused.array_api`, its namespace.
    """

    __slots__ = ("__weakref__", "device", "dtype", "owner", "pointer", "shape",
                 "stream", "strides")

    __array_ufunc__ = None  # numpy.add(x, 1) must not copy x behind the user's back

    def __init__(self, pointer: int, shape: tuple[int, ...],
                 strides: tuple[int, ...] | None, dtype: np.dtype, device: str,
                 stream: int | None = None, owner: Any = None) -> None:
        self.pointer: int = pointer
        self.shape: tuple[int, ...] = tuple(shape)
        self.strides: tuple[int, ...] = (
            dense_strides(shape) if strides is None else tuple(strides))
        self.dtype: np.dtype = np.dtype(dtype)
        self.device: str = device
        self.stream: int | None = stream
        self.owner: Any = owner

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, without gaps between them."""
        return self.size * self.dtype.itemsize

    @property
    def T(self) -> DeviceArray:
        """The view with reversed axes."""
        return self.view(self.shape[::-1], self.strides[::-1], 0)

    @property
    def mT(self) -> DeviceArray:
        """The view with the last two axes exchanged."""
        if self.ndim < 2:
            raise ShapeError(f"mT: shape {self.shape}, expected two dimensions or more")
        return self.view((*self.shape[:-2], *self.shape[:-3:-1]),
                         (*self.strides[:-2], *self.strides[:-3:-1]), 0)

    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        """The module `nbfused.array_api`."""
        return array_namespace(api_version)

    def to_device(self, device: str, /, *, stream: Any = None) -> Any:
        """A copy on another device; itself where it is on that one."""
        if stream is not None:
            raise KernelTypeError("to_device: 'stream' is not supported, got "
                                  f"{stream!r}; leave it out")
        return self if canonical_device(device) == self.device else array(
            self, device=device)

    def view(self, shape: tuple[int, ...], strides: tuple[int, ...],
             offset: int) -> DeviceArray:
        """View the same memory; strides and offset in elements, unchecked."""
        return DeviceArray(self.pointer + offset * self.dtype.itemsize, shape, strides,
                           self.dtype, self.device, self.stream, self.owner)

    def reshape(self, *shape: int | tuple[int, ...]) -> DeviceArray:
        """View a C-contiguous array in another shape; one extent may be -1.

        Raises
        ------
        ShapeError
            If the number of elements differs, or the array is not contiguous.
        """
        extents = infer_shape(_one_shape(shape), self.shape)
        if not is_dense(self.shape, self.strides):
            raise ShapeError(
                f"cannot view strides {self.strides} of shape {self.shape} as "
                f"{extents}; expected a C-contiguous array; use nbfused.ops.reshape")
        return self.view(extents, dense_strides(extents), 0)

    def fill(self, value: Any) -> None:
        """Set every element in place."""
        OPS["full_like"](self, value, out=self)

    def to_numpy(self) -> np.ndarray:
        """Copy to the host after the work queued on its stream."""
        return backend_for(self.device, "array").to_host(self)

    def item(self) -> Any:
        """The only element as a Python number."""
        return self.to_numpy().item()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __getitem__(self, key: Any) -> DeviceArray:
        items = key if isinstance(key, tuple) else (key,)
        if any(isinstance(item, list) or getattr(item, "shape", ())
               for item in items):
            found: DeviceArray = OPS["getitem"](self, key)
            return found
        return self.view(*index_view(self.shape, self.strides, key))

    def __setitem__(self, key: Any, value: Any) -> None:
        """Store into a view, or where a mask of the same shape holds."""
        if getattr(key, "dtype", None) == np.bool_ and key.shape == self.shape:
            OPS["where"](key, value, self, out=self)
            return
        part = self.view(*index_view(self.shape, self.strides, key))
        if hasattr(value, "dtype"):
            OPS["positive"](OPS["broadcast_to"](value, part.shape), out=part)
        else:
            part.fill(value)

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            f"implicit copy of a DeviceArray from {self.device}: use .to_numpy()")

    def __repr__(self) -> str:
        return (f"DeviceArray(shape={self.shape}, dtype={self.dtype}, "
                f"device={self.device!r})")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The array interface, version 3; it lacks bfloat16."""
        if device_kind(self.device) != "cuda" or self.dtype == BFLOAT16:
            raise AttributeError(
                f"no __cuda_array_interface__ for {self.dtype} on {self.device}; "
                "DLPack has it")
        itemsize = self.dtype.itemsize
        strides = tuple([stride * itemsize for stride in self.strides])
        return {
            "shape": self.shape,
            "strides": None if is_dense(self.shape, self.strides) else strides,
            "typestr": self.dtype.str,
            "data": (self.pointer if self.size else 0, False),
            "stream": 1 if self.stream == 0 else self.stream,
            "version": 3,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return device_type(self.device)

    def __dlpack__(self, *, stream: int | None = None,
                   max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None,
                   copy: bool | None = None) -> Any:
        if dl_device == device_type("cpu") and copy is not False:
            return HostExport(self.to_numpy()).__dlpack__(max_version=max_version)
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError(
                f"DeviceArray exports a view of {self.device} or a copy on the host; "
                f"got dl_device={dl_device}, copy={copy}")
        self._order(stream)
        return export(self.pointer if self.size else 0, self.shape, self.strides,
                      self.dtype, self.device, self.owner, max_version=max_version)

    def _order(self, stream: int | None) -> None:
        """Order the work on the elements before later work on `stream`."""
        consumer = _consumer(stream, device_kind(self.device))
        if stream != -1 and self.stream is not None and consumer != self.stream:
            backend_for(self.device, "array").synchronize()


class DeviceLibrary:
    """The library interface of `DeviceArray`, through the device's backend."""

    name = "nbfused"
    writable = True
    differentiates = False

    def describe(self, x: DeviceArray, name: str) -> Array:
        """Describe a `DeviceArray`."""
        return Array(x.pointer, x.shape, x.strides, x.dtype, x.device, x.stream, False,
                     self, x)

    def reading(self) -> Reading:
        """The text by which calls read an array."""
        return Reading("{x}.pointer", ("{x}.dtype", "{x}.shape", "{x}.strides",
                                       "{x}.device", "{x}.stream"))

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, device: str) -> Any:
        """Allocate through the backend."""
        return backend_for(device, "array").empty(shape, dtype, device)

    def maker(self, shape: tuple[int, ...], dtype: np.dtype, device: str,
              ) -> Callable[[], Any]:
        """A function that allocates through the backend."""
        return partial(self.empty, shape, dtype, device)

    def pointer(self, native: Any) -> int:
        """The array's address."""
        return int(native.pointer)

    def view(self, native: DeviceArray, shape: tuple[int, ...],
             strides: tuple[int, ...], offset: int) -> DeviceArray:
        """View the same memory with other strides."""
        return native.view(shape, strides, offset)

    def stream(self, device: str) -> int:
        """The legacy default stream, with which all other streams synchronise."""
        return 0

    def streams(self, device: str) -> Callable[[], int]:
        """A function that returns the default stream."""
        return int

    def free_cache(self, device: str) -> None:
        """Collect arrays held by reference cycles; nothing is cached."""
        gc.collect()

    def tracks(self, x: Any) -> bool:
        """False: only `nbfused.Variable` differentiates such arrays."""
        return False

    def finish(self, native: DeviceArray) -> DeviceArray:
        """Return the array unchanged."""
        return native

    def to_host(self, x: DeviceArray) -> np.ndarray:
        """Copy to the host."""
        return x.to_numpy()


DEVICE = DeviceLibrary()

#: Handles of the default stream, and what DLPack forbids, by the kind of device.
_DEFAULT = {"cuda": (1,), "rocm": (0,)}
_FORBIDDEN = {"cuda": (0,), "rocm": (1, 2)}


def _consumer(stream: int | None, kind: str) -> int | None:
    """Convert the stream number that DLPack passes to our numbering."""
    if stream in _FORBIDDEN.get(kind, ()):
        raise ValueError(
            "stream=0 is ambiguous; expected 1, 2, a handle or -1" if kind == "cuda"
            else f"stream={stream} does not exist on ROCm; expected 0, a handle or -1")
    return 0 if stream is None or stream in _DEFAULT.get(kind, ()) else stream


def _one_shape(shape: tuple[int | tuple[int, ...], ...]) -> tuple[int, ...]:
    """Accept a shape as separate arguments or as one tuple."""
    if len(shape) == 1 and isinstance(shape[0], tuple | list):
        return tuple(shape[0])
    if not all(isinstance(extent, int | np.integer) for extent in shape):
        raise KernelTypeError(f"reshape: got {shape}; expected integers")
    return tuple(int(extent) for extent in shape)  # type: ignore[arg-type]
