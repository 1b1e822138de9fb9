"""Import and export of DLPack capsules, through `ctypes`.

An import reads the struct in the capsule and keeps the capsule, which frees the tensor
when it goes.  An export lets NumPy make the capsule, and then puts our address, dtype
and device into it: NumPy's deleter is C code, so that consumers may call it from any
thread and even while the interpreter shuts down, as a Python callback may not be.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...errors import KernelTypeError
from ...support.dtypes import TYPES
from ...support.loop_nests import dense_strides
from ..devices import device_kind, ordinal
from ..dtypes import check_extents
from ..memory import array_over

__all__ = ["DEVICE_TYPES", "Header", "HostExport", "Tensor", "device_type", "export",
           "header_function", "header_of", "read"]

MAX_VERSION = (1, 0)

DEVICE_TYPES = {"cpu": 1, "cuda": 2, "rocm": 10}
_KINDS = {1: "cpu", 2: "cuda", 3: "cpu", 10: "rocm", 11: "cpu", 13: "cuda"}
"""Pinned host memory (3, 11) is the host's; managed memory (13) the device's."""

_READ_ONLY, _COMPLEX = 1, 5


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device", _Device), ("ndim", ctypes.c_int32),
        ("dtype", _DataType), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64), ("tensor", _Tensor))


_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.argtypes = (ctypes.py_object, ctypes.c_char_p)
_capsule_is.restype = ctypes.c_int
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_capsule_pointer.restype = ctypes.c_void_p


class Tensor(NamedTuple):
    """The contents of a DLPack capsule; strides in elements."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype
    device: str
    readonly: bool


class Header(NamedTuple):
    """The layout of an array; `words` are device, rank and dtype as DLPack has them."""

    address: int
    words: tuple[int, int]
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@cache
def header_function(kind: type) -> int | None:
    """The address of a C function that describes arrays of a type; None without one.

    ``int function(PyObject *array, DLTensor *header)``, of DLPack's C exchange API: not
    0 where it failed, with an exception set.
    """
    try:
        table = _capsule_pointer(getattr(kind, "__dlpack_c_exchange_api__", None),
                                 b"dlpack_exchange_api")
    except ValueError:  # no capsule, or another one
        return None
    words = (ctypes.c_uint64 * 6).from_address(table)
    # Version (major, minor), an older table, four functions of which this is the last.
    return words[5] or None if words[0] & 0xffffffff == 1 else None


def header_of(array: Any, function: int) -> Header | None:
    """Describe an array by its library's C function; None of complex numbers.

    These may be conjugated, which a header does not tell.
    """
    found = _Tensor()
    call = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
    if call(function)(array, ctypes.addressof(found)) or found.dtype.code == _COMPLEX:
        return None
    device, kind = (ctypes.c_int64 * 2).from_address(ctypes.addressof(found) + 8)
    rank = found.ndim
    return Header((found.data or 0) + found.byte_offset, (device, kind),
                  tuple(found.shape[:rank]), tuple(found.strides[:rank]))


def read(capsule: Any, name: str) -> Tensor:
    """Read a capsule without consuming it; its user has to keep it alive.

    Raises
    ------
    KernelTypeError
        If its version, dtype or device is not known, or its shape none.
    """
    struct, flags = _struct(capsule, name)
    shape = check_extents(tuple(struct.shape[:struct.ndim]), name)
    # No strides mean C order.
    strides = (tuple(struct.strides[:struct.ndim]) if struct.strides
               else dense_strides(shape))
    device = device_name(struct.device.type, struct.device.id, name)
    return Tensor((struct.data or 0) + struct.byte_offset, shape, strides,
                  _dtype(struct.dtype, name), device, bool(flags & _READ_ONLY))


def device_name(kind: int, index: int, name: str) -> str:
    """Convert a DLPack device to a name such as ``"cuda:0"``."""
    if kind not in _KINDS:
        raise KernelTypeError(
            f"{name} is on a device of DLPack type {kind}; expected the host (1), CUDA "
            "(2) or ROCm (10); copy it to one of them first")
    return "cpu" if _KINDS[kind] == "cpu" else f"{_KINDS[kind]}:{index}"


def device_type(device: str) -> tuple[int, int]:
    """Convert a device's name to DLPack's type and number."""
    return DEVICE_TYPES[device_kind(device)], ordinal(device)


def export(pointer: int, shape: tuple[int, ...], strides: tuple[int, ...],
           dtype: np.dtype, device: str, owner: Any, *, readonly: bool = False,
           max_version: tuple[int, int] | None = None) -> Any:
    """Make a capsule for memory that `owner` keeps alive; strides in elements.

    Raises
    ------
    BufferError
        If the memory is read-only and the consumer is too old to know of that.
    """
    bits = array_over(pointer, shape, strides, dtype.itemsize, readonly=readonly,
                      owner=owner)
    version = None if max_version is None else min(max_version, MAX_VERSION)
    capsule = bits.__dlpack__(max_version=version)
    struct, _ = _struct(capsule, "array")
    struct.data, struct.byte_offset = pointer or None, 0
    struct.device.type, struct.device.id = device_type(device)
    struct.dtype.code = TYPES[dtype].dlpack
    return capsule


class HostExport:
    """A DLPack producer of a NumPy array, also of bfloat16, which NumPy refuses."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return device_type("cpu")

    def __dlpack__(self, *, stream: Any = None,
                   max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None,
                   copy: bool | None = None) -> Any:
        x = self._array
        if stream is not None or dl_device not in (None, device_type("cpu")) or copy:
            raise BufferError("host memory: no stream, no other device, no copy")
        strides = tuple([stride // x.itemsize for stride in x.strides])
        return export(x.ctypes.data, x.shape, strides, x.dtype, "cpu", x,
                      readonly=not x.flags.writeable, max_version=max_version)


def _struct(capsule: Any, name: str) -> tuple[_Tensor, int]:
    """The tensor in a capsule, and its flags."""
    if _capsule_is(capsule, b"dltensor_versioned"):
        address = _capsule_pointer(capsule, b"dltensor_versioned")
        versioned = _Versioned.from_address(address)
        if versioned.major != MAX_VERSION[0]:
            raise KernelTypeError(
                f"{name}: DLPack version {versioned.major}.{versioned.minor}; expected "
                f"version {MAX_VERSION[0]}")
        return versioned.tensor, versioned.flags
    if _capsule_is(capsule, b"dltensor"):
        # It has no flags, so the memory may not be ours to write; as NumPy decides.
        tensor = _Tensor.from_address(_capsule_pointer(capsule, b"dltensor"))
        return tensor, _READ_ONLY
    raise KernelTypeError(f"{name}: __dlpack__ gave {capsule!r}, which is no tensor")


def _dtype(given: _DataType, name: str) -> np.dtype:
    dtype = _DTYPES.get((given.code, given.bits))
    if dtype is None or given.lanes != 1:
        raise KernelTypeError(
            f"{name}: DLPack dtype (code {given.code}, {given.bits} bits, "
            f"{given.lanes} lanes) has no kernels; convert it to float32 or another "
            "common dtype first")
    return dtype


_DTYPES = {(t.dlpack, dtype.itemsize * 8): dtype for dtype, t in TYPES.items()}
