"""XLA's foreign function interface, from Python: structures of its C API by `ctypes`.

A handler is a C function that XLA calls with a frame of buffers; this one is a callback
into Python, so that no C++ compiler is needed.  It runs what the attribute ``call``
names, on XLA's stream.  Source: ``xla/ffi/api/c_api.h``, which jaxlib brings.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_void_p,
    cast,
    sizeof,
)
from functools import cache
from typing import Any

import numpy as np

from ...arrays import Array
from ...arrays.device_array import DeviceLibrary
from ...arrays.libraries.numpy import NUMPY
from ...support.dtypes import BFLOAT16
from ...support.loop_nests import dense_strides

__all__ = ["TARGET", "register"]

TARGET = "nbfused"

#: NumPy's dtypes by XLA's numbers of its own.
_DTYPES: dict[int, np.dtype] = {
    **{number: np.dtype(name) for number, name in {
        1: "bool", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "uint8",
        7: "uint16", 8: "uint32", 9: "uint64", 10: "float16", 11: "float32",
        12: "float64", 15: "complex64", 18: "complex128"}.items()},
    16: BFLOAT16,
}
_METADATA = 1
_INTERNAL = 13


class _Head(Structure):
    """The beginning of all structures."""

    _fields_ = (("size", c_size_t), ("extension", c_void_p))


class _Version(Structure):
    _fields_ = (*_Head._fields_, ("major", c_int), ("minor", c_int))


class _Extension(Structure):
    _fields_ = (("size", c_size_t), ("kind", c_int), ("next", c_void_p))


class _Metadata(Structure):
    _fields_ = (("size", c_size_t), ("version", _Version), ("traits", c_uint32),
                ("state", c_int64))


class _MetadataExtension(Structure):
    _fields_ = (("base", _Extension), ("metadata", POINTER(_Metadata)))


class _Buffer(Structure):
    _fields_ = (*_Head._fields_, ("dtype", c_int), ("data", c_void_p),
                ("rank", c_int64), ("dims", POINTER(c_int64)))


class _Values(Structure):
    """Arguments or results."""

    _fields_ = (*_Head._fields_, ("count", c_int64), ("kinds", POINTER(c_int)),
                ("values", POINTER(POINTER(_Buffer))))


class _Scalar(Structure):
    _fields_ = (("dtype", c_int), ("value", POINTER(c_int64)))


class _Attributes(Structure):
    _fields_ = (*_Head._fields_, ("count", c_int64), ("kinds", POINTER(c_int)),
                ("names", c_void_p), ("values", POINTER(POINTER(_Scalar))))


class _Api(Structure):
    """The functions that XLA gives; later versions have more at the end."""

    _fields_ = (*_Head._fields_, ("version", _Version), ("internal", c_void_p),
                *((name, c_void_p) for name in (
                    "error_create", "error_message", "error_destroy", "register",
                    "stream_get", "type_register", "context_get", "state_set",
                    "state_get", "allocate", "free", "schedule", "threads",
                    "future_create", "future_set", "future_error", "run_id",
                    "device_ordinal")))


class _Frame(Structure):
    _fields_ = (*_Head._fields_, ("api", POINTER(_Api)), ("context", c_void_p),
                ("stage", c_int), ("arguments", _Values), ("results", _Values),
                ("attributes", _Attributes))


class _ErrorArguments(Structure):
    _fields_ = (*_Head._fields_, ("message", c_char_p), ("code", c_int))


class _StreamArguments(Structure):
    _fields_ = (*_Head._fields_, ("context", c_void_p), ("stream", c_void_p))


class _OrdinalArguments(Structure):
    _fields_ = (*_Head._fields_, ("context", c_void_p), ("ordinal", c_int32))


_FUNCTION = CFUNCTYPE(c_void_p, c_void_p)
_HANDLER = CFUNCTYPE(c_void_p, POINTER(_Frame))

#: ``run(number, inputs, outputs)``: run a call on arrays that are described.
Runner = Callable[[int, list[Array], list[Array]], None]


class XlaLibrary(DeviceLibrary):
    """Buffers of XLA on a device: work on them goes to the stream of the handler."""

    name = "xla"

    def __init__(self) -> None:
        self._now = threading.local()

    def use(self, stream: int) -> None:
        """Let this thread work on a stream."""
        self._now.stream = stream

    def stream(self, device: str) -> int:
        """The stream that XLA runs the handler for."""
        return int(getattr(self._now, "stream", 0))

    def streams(self, device: str) -> Callable[[], int]:
        """A function that returns that stream."""
        return lambda: int(getattr(self._now, "stream", 0))


_XLA = XlaLibrary()


@cache
def register(run: Runner) -> None:
    """Register the handlers: one for the host, one for NVIDIA GPUs."""
    jax = sys.modules["jax"]
    for platform, make in (("cpu", _on_host), ("CUDA", _on_gpu)):
        handler = _HANDLER(_guarded(run, make))
        _KEPT.append(handler)
        jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(handler),
                                    platform=platform)


#: XLA holds their addresses only.
_KEPT: list[Any] = []


def _guarded(run: Runner, make: Callable[[Any], Callable[[Any], Array]],
             ) -> Callable[[Any], int | None]:
    """A handler, which gives XLA an error for what is raised."""

    def handler(pointer: Any) -> int | None:
        frame = pointer.contents
        if frame.extension and _describe(frame):
            return None
        try:
            describe = make(frame)
            arguments, results = frame.arguments, frame.results
            number = frame.attributes.values[0].contents.value[0]
            run(number,
                [describe(arguments.values[k]) for k in range(arguments.count)],
                [describe(results.values[k]) for k in range(results.count)])
        except BaseException as error:  # nothing may leave a callback of C
            return _error(frame, f"{type(error).__name__}: {error}")
        return None

    return handler


def _describe(frame: Any) -> bool:
    """Tell XLA which version of the interface this is, if it asks."""
    extension = cast(frame.extension, POINTER(_MetadataExtension)).contents
    if extension.base.kind != _METADATA:
        return False
    version = extension.metadata.contents.version
    theirs = frame.api.contents.version
    version.major, version.minor = theirs.major, theirs.minor
    extension.metadata.contents.traits = 0
    return True


def _error(frame: Any, message: str) -> int | None:
    given = _ErrorArguments(sizeof(_ErrorArguments), None, message.encode(), _INTERNAL)
    made: int | None = _FUNCTION(frame.api.contents.error_create)(
        ctypes.addressof(given))
    return made


def _on_host(frame: Any) -> Callable[[Any], Array]:
    return lambda buffer: _array(buffer.contents, "cpu", None, NUMPY)


def _on_gpu(frame: Any) -> Callable[[Any], Array]:
    api = frame.api.contents
    asked = _StreamArguments(sizeof(_StreamArguments), None, frame.context, None)
    if _FUNCTION(api.stream_get)(ctypes.addressof(asked)):
        raise RuntimeError("XLA gives no stream")
    ordinal = _OrdinalArguments(sizeof(_OrdinalArguments), None, frame.context, 0)
    if api.size > _Api.device_ordinal.offset:  # of the versions from 0.8 on
        _FUNCTION(api.device_ordinal)(ctypes.addressof(ordinal))
    stream = int(asked.stream or 0)
    _XLA.use(stream)
    device = f"cuda:{ordinal.ordinal}"
    return lambda buffer: _array(buffer.contents, device, stream, _XLA)


def _array(buffer: Any, device: str, stream: int | None, library: Any) -> Array:
    shape = tuple(buffer.dims[:buffer.rank])
    return Array(buffer.data or 0, shape, dense_strides(shape), _DTYPES[buffer.dtype],
                 device, stream, False, library, None)
