"""NumPy arrays, and NumPy views of host arrays of any library."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Any

import numpy as np

from ...errors import DeviceError, KernelTypeError
from ..description import Array, Reading
from ..dtypes import SUPPORTED, element_strides, refuse_address, refuse_dtype
from ..memory import array_over

__all__ = ["NUMPY", "OWNER", "NumpyLibrary", "aligned_empty", "host_view"]

#: The flag of arrays that own their memory, which is no part of a layout.
OWNER = 0x4

# The address is the first field of NumPy's array object, a part of its ABI; reading it
# there takes a fifth of the time of `ndarray.ctypes.data`:
# benchmarks/notes/host.md#what-a-launch-costs.
_ADDRESS = object.__basicsize__


def _address(x: np.ndarray) -> int:
    return ctypes.c_void_p.from_address(id(x) + _ADDRESS).value or 0


def _address_by_ctypes(x: np.ndarray) -> int:
    return x.ctypes.data


#: The same as text, which calls no function of Python.
_READ = f"word_at(id({{x}}) + {_ADDRESS}).value"

_probe = np.zeros(1)
if _address(_probe) != _probe.ctypes.data:  # another interpreter than CPython
    _address, _READ = _address_by_ctypes, "{x}.ctypes.data"


class NumpyLibrary:
    """The library interface of `numpy.ndarray`, its subclasses and scalars."""

    name = "numpy"
    writable = True
    differentiates = False

    def describe(self, x: Any, name: str) -> Array:
        """Describe an array or a NumPy scalar (as an array without dimensions)."""
        if type(x) is not np.ndarray:
            x = _plain(x, name)
        dtype = SUPPORTED.get(x.dtype)
        if dtype is None:
            refuse_dtype(x.dtype, name)
        flags, shape, itemsize = x.flags, x.shape, dtype.itemsize
        if flags.forc:
            strides = tuple([stride // itemsize for stride in x.strides])
        else:
            strides = element_strides(x.strides, shape, itemsize, name)
        if not flags.aligned:
            refuse_address(dtype, name)
        return Array(_address(x), shape, strides, dtype, "cpu", None,
                     not flags.writeable, self, x)

    def reading(self) -> Reading:
        """The text by which calls read an array."""
        return Reading(_READ, (
            "{x}.dtype", "{x}.shape", "{x}.strides", f"{{x}}.flags.num & {~OWNER}"),
            names=(("word_at", ctypes.c_size_t.from_address),))

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, device: str) -> np.ndarray:
        """Allocate a NumPy array."""
        return np.empty(shape, dtype)

    def maker(self, shape: tuple[int, ...], dtype: np.dtype, device: str,
              ) -> Callable[[], Any]:
        """A function that allocates NumPy arrays."""
        return partial(np.empty, shape, dtype)

    def pointer(self, native: np.ndarray) -> int:
        """The array's address."""
        return _address(native)

    def view(self, native: np.ndarray, shape: tuple[int, ...],
             strides: tuple[int, ...], offset: int) -> np.ndarray:
        """View the same memory with other strides; read-only if `native` is.

        Nor if it repeats elements, as with `numpy.broadcast_to`.
        """
        whole = self.describe(native, "array")
        whole.pointer += offset * whole.dtype.itemsize
        whole.shape, whole.strides = shape, strides
        whole.readonly |= 0 not in shape and any(
            n > 1 and not s for n, s in zip(shape, strides, strict=True))
        return host_view(whole)

    def viewer(self, native: np.ndarray, shape: tuple[int, ...],
               strides: tuple[int, ...], offset: int) -> Callable[[Any], np.ndarray]:
        """A function that views arrays laid out as `native`, as `view` does.

        Contiguous ones are buffers, 1.3 µs on a busy core, where the array interface of
        `view` takes 23.
        """
        steps = tuple([stride * native.itemsize for stride in strides])
        repeats = native.flags.writeable and not self.view(
            native, shape, strides, offset).flags.writeable
        if native.flags.forc:
            turned = not native.flags.c_contiguous
            make: Any = np.ndarray
            found = partial(make, shape, native.dtype, strides=steps,
                            offset=offset * native.itemsize)
            with suppress(TypeError, ValueError):  # negative strides
                found(native.T if turned else native)
                return _changed(found, turned, repeats) if turned or repeats else found
        return lambda x: self.view(x, shape, strides, offset)

    def stream(self, device: str) -> int:
        """0: the host has no streams."""
        return 0

    def streams(self, device: str) -> Callable[[], int]:
        """A function that returns 0, as the host has no streams."""
        return int

    def free_cache(self, device: str) -> None:
        """Do nothing: NumPy caches next to no memory."""

    def tracks(self, x: Any) -> bool:
        """False: NumPy has no automatic differentiation."""
        return False

    def finish(self, native: np.ndarray) -> np.ndarray:
        """Return the array unchanged."""
        return native

    def to_host(self, x: Any) -> np.ndarray:
        """Return the array itself; a scalar as an array."""
        return x if type(x) is np.ndarray else _plain(x, "array")


def _changed(view: Callable[[Any], np.ndarray], turned: bool, repeats: bool,
             ) -> Callable[[Any], np.ndarray]:
    """`view` of what is turned round in memory; not to be written to if it repeats."""

    def made(x: Any) -> np.ndarray:
        found = view(x.T if turned else x)
        if repeats:
            found.flags.writeable = False
        return found

    return made


#: Methods by which a subclass says what is computed with it.
_ARITHMETIC = ("__array_ufunc__", "__add__", "__sub__", "__mul__", "__truediv__",
               "__matmul__", "__pow__")

#: The library interface of NumPy, to which host arrays belong.
NUMPY = NumpyLibrary()


def host_view(array: Array) -> np.ndarray:
    """View an array of any library in host memory as a NumPy array.

    Parameters
    ----------
    array
        A description with ``device == "cpu"``.

    Returns
    -------
    numpy.ndarray
        Shares the memory and keeps it alive; not writable where `array` is not.

    Raises
    ------
    DeviceError
        If it is on a device: reading there would end the process.
    """
    if array.device != "cpu":
        raise DeviceError(
            f"host_view: the array is on {array.device}; expected the host; use "
            "nbfused.to_numpy, which copies")
    bits = array_over(array.pointer, array.shape, array.strides, array.dtype.itemsize,
                      readonly=array.readonly, owner=array.owner)
    return bits.view(array.dtype)


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype, boundary: int) -> np.ndarray:
    """Allocate an array that starts at a multiple of `boundary` bytes."""
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    block = np.empty(count + boundary, np.uint8)
    start = -block.ctypes.data % boundary
    return block[start:start + count].view(dtype).reshape(shape)


def _plain(x: Any, name: str) -> np.ndarray:
    """Convert subclasses and scalars to plain arrays of the same memory."""
    # Looking up numpy.ma imports it, which takes as long as half of NumPy.
    if "numpy.ma" in sys.modules and isinstance(x, np.ma.MaskedArray):
        raise KernelTypeError(
            f"{name}: masked arrays have no kernels, as their mask would be lost; "
            "use x.filled(value) or x.compressed()")
    kind: Any = type(x)
    if _computes_otherwise(kind):
        raise KernelTypeError(
            f"{name} is a {kind.__module__}.{kind.__qualname__}, an array that says "
            "itself what is computed with it (a unit, a matrix product), which kernels "
            f"would pass over; expected a plain one: use numpy.asarray({name}), and "
            "wrap the result again")
    return np.asarray(x)


@cache
def _computes_otherwise(kind: type) -> bool:
    """Whether a subclass redefines arithmetic, as arrays with units do.

    One that only carries notes does not, nor do `numpy.memmap` and `numpy.recarray`,
    nor one that says so.
    """
    return issubclass(kind, np.ndarray) and not hasattr(
        kind, "computes_as_numpy") and any(
        getattr(kind, name) is not getattr(np.ndarray, name) for name in _ARITHMETIC)
