"""XLA's foreign function interface, from Python: structures of its C API by `ctypes`.

A handler is a C function that XLA calls with a frame of buffers; this one is a callback
into Python, so that no C++ compiler is needed.  It runs what the attribute ``call``
names, on XLA's stream.  Source: ``xla/ffi/api/c_api.h``, which jaxlib brings.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import time
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
from typing import Any, NamedTuple

from ....arrays.libraries.numpy import NUMPY
from ....arrays.libraries.xla import XLA

__all__ = ["HOST", "TARGET", "Place", "register"]

TARGET = "nbfused"

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
_HANDLER = CFUNCTYPE(c_void_p, c_void_p)


class Place(NamedTuple):
    """Device, stream and library of the buffers of a call, as of an `Array`."""

    device: str
    stream: int | None
    library: Any


#: ``run(number, pointers, place)``: run a call; addresses of inputs, then of outputs.
Runner = Callable[[int, tuple[int, ...], Place], None]


@cache
def register(run: Runner) -> None:
    """Register the handlers: one for the host, one for NVIDIA GPUs."""
    jax = sys.modules["jax"]
    for platform, make in (("cpu", _on_host), ("CUDA", _on_gpu)):
        handler = _HANDLER(_guarded(run, make))
        _KEPT.append(handler)
        jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(handler),
                                    platform=platform)
    atexit.register(_finish, os.getpid())


#: XLA holds their addresses only.
_KEPT: list[Any] = []
#: An element for each call that runs.
_RUNNING: list[None] = []
_POLL = 1e-3  # seconds


def _finish(process: int) -> None:
    """Wait for calls in threads of XLA, before the interpreter of a process ends.

    A program may still run then: of a result with copies on several devices NumPy
    waits for one.  Without an interpreter Python ends its threads inside of the call,
    and XLA waits for them for ever.
    """
    if os.getpid() != process:
        return  # a fork, which has none of the threads
    jax = sys.modules["jax"]
    with jax.transfer_guard("allow"):
        for device in jax.local_devices():  # which runs one program after another
            (jax.device_put(1, device) + 1).block_until_ready()
    while _RUNNING:
        time.sleep(_POLL)
    time.sleep(_POLL)  # the last one returns


def _guarded(run: Runner, place_of: Callable[[int], Place]) -> Callable[[int], Any]:
    """A handler, which gives XLA an error for what is raised."""

    def handler(frame: int) -> int | None:
        _RUNNING.append(None)
        try:
            if _word(frame + _EXTENSION) and _describe(frame):
                return None
            run(_number(frame), (*_addresses(frame + _ARGUMENTS),
                                 *_addresses(frame + _RESULTS)), place_of(frame))
        except BaseException as error:  # nothing may leave a callback of C
            return _error(frame, f"{type(error).__name__}: {error}")
        finally:
            _RUNNING.pop()
        return None

    return handler


# The frame is read by offsets: fields of structures take four times as long.
_EXTENSION = _Frame.extension.offset
_ARGUMENTS, _RESULTS = _Frame.arguments.offset, _Frame.results.offset
_ATTRIBUTES = _Frame.attributes.offset + _Attributes.values.offset
_COUNT, _VALUES = _Values.count.offset, _Values.values.offset
_DATA, _VALUE = _Buffer.data.offset, _Scalar.value.offset


def _word(address: int) -> int:
    """The word of memory at an address."""
    return c_int64.from_address(address).value


def _number(frame: int) -> int:
    """The only attribute of a call."""
    return _word(_word(_word(_word(frame + _ATTRIBUTES)) + _VALUE))


def _addresses(values: int) -> list[int]:
    """Addresses of the elements of arguments, or of results."""
    first = _word(values + _VALUES)
    return [_word(_word(first + 8 * k) + _DATA) for k in range(_word(values + _COUNT))]


def _describe(address: int) -> bool:
    """Tell XLA which version of the interface this is, if it asks."""
    frame = _Frame.from_address(address)
    extension = cast(frame.extension, POINTER(_MetadataExtension)).contents
    if extension.base.kind != _METADATA:
        return False
    version = extension.metadata.contents.version
    theirs = frame.api.contents.version
    version.major, version.minor = theirs.major, theirs.minor
    extension.metadata.contents.traits = 0
    return True


def _error(address: int, message: str) -> int | None:
    frame = _Frame.from_address(address)
    given = _ErrorArguments(sizeof(_ErrorArguments), None, message.encode(), _INTERNAL)
    made: int | None = _FUNCTION(frame.api.contents.error_create)(
        ctypes.addressof(given))
    return made


#: Where buffers of the host are.
HOST = Place("cpu", None, NUMPY)


def _on_host(frame: int) -> Place:
    return HOST


def _on_gpu(address: int) -> Place:
    frame = _Frame.from_address(address)
    api = frame.api.contents
    asked = _StreamArguments(sizeof(_StreamArguments), None, frame.context, None)
    if _FUNCTION(api.stream_get)(ctypes.addressof(asked)):
        raise RuntimeError("XLA gives no stream")
    ordinal = _OrdinalArguments(sizeof(_OrdinalArguments), None, frame.context, 0)
    if api.size > _Api.device_ordinal.offset:  # older versions do not have it
        _FUNCTION(api.device_ordinal)(ctypes.addressof(ordinal))
    stream = int(asked.stream or 0)
    XLA.use(stream)
    return Place(f"cuda:{ordinal.ordinal}", stream, XLA)
