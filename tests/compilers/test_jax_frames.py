"""Frames of XLA's foreign function interface, made here: also those of a GPU."""

from __future__ import annotations

import ctypes
from ctypes import addressof, byref, c_int64, c_void_p, sizeof

import numpy as np
import pytest

from nbfused.autograd.compilers.jax import ffi
from nbfused.autograd.compilers.jax.ffi import Place

STREAM, ORDINAL = 0x7F00, 3


@ctypes.CFUNCTYPE(c_void_p, ctypes.POINTER(ffi._StreamArguments))
def stream_get(asked):
    asked.contents.stream = STREAM
    return None


@ctypes.CFUNCTYPE(c_void_p, ctypes.POINTER(ffi._OrdinalArguments))
def device_ordinal(asked):
    asked.contents.ordinal = ORDINAL
    return None


MESSAGES = []


@ctypes.CFUNCTYPE(c_void_p, ctypes.POINTER(ffi._ErrorArguments))
def error_create(given):
    MESSAGES.append(given.contents.message.decode())
    return 0x1234


class Frame:
    """A frame with buffers and a number."""

    def __init__(self, number=7, inputs=(), outputs=(), api_size=None):
        self.api = ffi._Api(api_size or sizeof(ffi._Api))
        self.api.version.major, self.api.version.minor = 0, 3
        for name, function in (("stream_get", stream_get), ("error_create",
                               error_create), ("device_ordinal", device_ordinal)):
            setattr(self.api, name, ctypes.cast(function, c_void_p).value)
        self.frame = ffi._Frame(sizeof(ffi._Frame))
        self.frame.api = ctypes.pointer(self.api)
        self.kept = []
        for values, arrays in ((self.frame.arguments, inputs),
                               (self.frame.results, outputs)):
            buffers = [ffi._Buffer(sizeof(ffi._Buffer), None, 11,
                                       x.ctypes.data, x.ndim) for x in arrays]
            table = (ctypes.POINTER(ffi._Buffer) * len(buffers))(
                *map(ctypes.pointer, buffers))
            values.count = len(buffers)
            values.values = ctypes.cast(table, ctypes.POINTER(
                ctypes.POINTER(ffi._Buffer)))
            self.kept += [buffers, table]
        scalar = ffi._Scalar(5, ctypes.pointer(c_int64(number)))
        table = (ctypes.POINTER(ffi._Scalar) * 1)(ctypes.pointer(scalar))
        self.frame.attributes.count = 1
        self.frame.attributes.values = ctypes.cast(table, ctypes.POINTER(
            ctypes.POINTER(ffi._Scalar)))
        self.kept += [scalar, table]

    @property
    def address(self):
        return addressof(self.frame)


def test_a_handler_reads_numbers_addresses_and_where_the_buffers_are():
    seen = []
    x, y = np.zeros(3, np.float32), np.zeros(3, np.float32)
    frame = Frame(2**59 + 1, [x, x], [y])
    handler = ffi._HANDLER(ffi._guarded(
        lambda *call: seen.append(call), ffi._on_host))
    assert handler(frame.address) is None
    ((number, pointers, place),) = seen
    assert number == 2**59 + 1
    assert pointers == (x.ctypes.data, x.ctypes.data, y.ctypes.data)
    assert (place.device, place.stream) == ("cpu", None)


@pytest.mark.parametrize("known", [True, False])
def test_on_a_gpu_it_works_on_xlas_stream(known):
    """Where the interface is too old to tell the device, there is but one."""
    size = None if known else ffi._Api.device_ordinal.offset
    frame = Frame(api_size=size)
    place = ffi._on_gpu(frame.address)
    assert place == Place(f"cuda:{ORDINAL * known}", STREAM, place.library)
    assert place.library.stream(place.device) == STREAM
    assert place.library.streams(place.device)() == STREAM


def test_what_is_raised_becomes_an_error_of_xla():
    def broken(*call):
        raise ValueError("no kernel today")

    handler = ffi._HANDLER(ffi._guarded(broken, ffi._on_host))
    frame = Frame()
    assert handler(frame.address) == 0x1234
    assert MESSAGES.pop() == "ValueError: no kernel today"


def test_a_question_for_the_version_runs_nothing():
    metadata = ffi._Metadata(sizeof(ffi._Metadata))
    extension = ffi._MetadataExtension()
    extension.base.kind = ffi._METADATA
    extension.metadata = ctypes.pointer(metadata)
    frame = Frame()
    frame.frame.extension = ctypes.cast(byref(extension), c_void_p).value
    handler = ffi._HANDLER(ffi._guarded(
        lambda *call: pytest.fail("it ran"), ffi._on_host))
    assert handler(frame.address) is None
    assert (metadata.version.major, metadata.version.minor) == (0, 3)
