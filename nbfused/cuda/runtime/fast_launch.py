"""Launches as a built-in function of the interpreter, made of machine code.

Of the 4.75 µs that a launch by `launch` takes in Python, 0.60 are Python's (addresses
and numbers are written where the kernel reads them); a function of CPython's API needs
0.087 for that, and the launch 4.03: benchmarks/notes/host.md#what-a-launch-costs.

The code (`machine_code`) names no address: those of a launch, and of the interpreter's
functions, lie in a record.  Where it cannot be had, launches are made in Python.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import threading
from collections.abc import Sequence
from functools import lru_cache

from ...backend import Start
from .machine_code import is_possible, loaded, machine_code

__all__ = ["MOST_WORDS", "fast_start", "prepare"]

#: Of the parameters of one kernel.
MOST_WORDS = 64

#: The interpreter's functions in the order of a record; then come the driver's launch,
#: the kernel, how many pointers, words and numbers there are, the configuration, the
#: words, and for each number: whether it is float64, its word, its place in `scalars`.
_API = ("PyEval_SaveThread", "PyEval_RestoreThread", "PyLong_AsUnsignedLongLongMask",
        "PyFloat_AsDouble", "PyTuple_GetItem", "PyErr_Occurred",
        "PyObject_Vectorcall", "PyLong_FromLong")
_HEAD, _CONFIGURATION = len(_API), 7
_CONFIGURED = _HEAD + 5
_WORDS = _CONFIGURED + _CONFIGURATION

#: ``start(self, args, count)``; `self` is the record, as bytes, and the function that
#: is called for everything unusual.  Objects are read where CPython has their contents.
_TEXT = """\
define ptr @start(ptr %self, ptr %args, i64 %count) nounwind {{
entry:
  %configuration = alloca [{configuration} x i64], align 16
  %words = alloca [{most} x i64], align 16
  %table = alloca [{most} x ptr], align 16
  %items = getelementptr i8, ptr %self, i64 {tuple}
  %bytes = load ptr, ptr %items
  %record = getelementptr i8, ptr %bytes, i64 {bytes}
  %after = getelementptr ptr, ptr %items, i64 1
  %unusual = load ptr, ptr %after
{loads}
  %usual = icmp eq i64 %count, 3
  br i1 %usual, label %begin, label %otherwise
begin:
  %pointers = load ptr, ptr %args
  %args1 = getelementptr ptr, ptr %args, i64 1
  %scalars = load ptr, ptr %args1
  %args2 = getelementptr ptr, ptr %args, i64 2
  %stream = load ptr, ptr %args2
  br label %configure
configure:
  %c = phi i64 [0, %begin], [%c1, %configure]
  %c_from = add i64 %c, {configured}
  %c_source = getelementptr i64, ptr %record, i64 %c_from
  %c_word = load i64, ptr %c_source, align 1
  %c_place = getelementptr i64, ptr %configuration, i64 %c
  store i64 %c_word, ptr %c_place
  %c1 = add i64 %c, 1
  %c_more = icmp ult i64 %c1, {configuration}
  br i1 %c_more, label %configure, label %copy
copy:
  %w = phi i64 [0, %configure], [%w1, %copy]
  %w_from = add i64 %w, {words}
  %w_source = getelementptr i64, ptr %record, i64 %w_from
  %w_word = load i64, ptr %w_source, align 1
  %w_place = getelementptr i64, ptr %words, i64 %w
  store i64 %w_word, ptr %w_place
  %w_entry = getelementptr ptr, ptr %table, i64 %w
  store ptr %w_place, ptr %w_entry
  %w1 = add i64 %w, 1
  %w_more = icmp ult i64 %w1, %word_count
  br i1 %w_more, label %copy, label %address
address:
  %p = phi i64 [0, %copy], [%p1, %address_one]
  %p_more = icmp ult i64 %p, %pointer_count
  br i1 %p_more, label %address_one, label %number
address_one:
  %p_item = call ptr %PyTuple_GetItem(ptr %pointers, i64 %p)
  %p_value = call i64 %PyLong_AsUnsignedLongLongMask(ptr %p_item)
  %p_place = getelementptr i64, ptr %words, i64 %p
  store i64 %p_value, ptr %p_place
  %p1 = add i64 %p, 1
  br label %address
number:
  %n = phi i64 [0, %address], [%n1, %number_done]
  %n_more = icmp ult i64 %n, %number_count
  br i1 %n_more, label %number_one, label %check
number_one:
  %n_three = mul i64 %n, 3
  %n_words = add i64 %word_count, {words}
  %n_from = add i64 %n_words, %n_three
  %n_source = getelementptr i64, ptr %record, i64 %n_from
  %n_double = load i64, ptr %n_source, align 1
  %n_source1 = getelementptr i64, ptr %n_source, i64 1
  %n_word = load i64, ptr %n_source1, align 1
  %n_source2 = getelementptr i64, ptr %n_source, i64 2
  %n_position = load i64, ptr %n_source2, align 1
  %n_item = call ptr %PyTuple_GetItem(ptr %scalars, i64 %n_position)
  %n_value = call double %PyFloat_AsDouble(ptr %n_item)
  %n_place = getelementptr i64, ptr %words, i64 %n_word
  %n_wide = icmp ne i64 %n_double, 0
  br i1 %n_wide, label %number_double, label %number_single
number_double:
  store double %n_value, ptr %n_place
  br label %number_done
number_single:
  %n_single = fptrunc double %n_value to float
  store float %n_single, ptr %n_place
  br label %number_done
number_done:
  %n1 = add i64 %n, 1
  br label %number
check:
  %s_value = call i64 %PyLong_AsUnsignedLongLongMask(ptr %stream)
  %s_place = getelementptr i64, ptr %configuration, i64 4
  store i64 %s_value, ptr %s_place
  %error = call ptr %PyErr_Occurred()
  %failed = icmp ne ptr %error, null
  br i1 %failed, label %fail, label %launch
launch:
  %state = call ptr %PyEval_SaveThread()
  %code = call i32 %driver(ptr %configuration, ptr %kernel, ptr %table, ptr null)
  call void %PyEval_RestoreThread(ptr %state)
  %refused = icmp ne i32 %code, 0
  br i1 %refused, label %otherwise, label %done
done:
  %zero = call ptr %PyLong_FromLong(i64 0)
  ret ptr %zero
fail:
  ret ptr null
otherwise:
  %made = call ptr %PyObject_Vectorcall(ptr %unusual, ptr %args, i64 %count, ptr null)
  ret ptr %made
}}
"""


def fast_start(otherwise: Start, driver: int, kernel: int, pointers: int, words: bytes,
               numbers: Sequence[tuple[bool, int, int]], configuration: bytes,
               ) -> Start | None:
    """A launch of which pointers, numbers and the stream are open; None without code.

    Parameters
    ----------
    otherwise
        Is called instead, or once more, where the driver refuses.
    driver
        The address of ``cuLaunchKernelEx``.
    kernel
        The driver's handle.
    pointers
        How many of the words are addresses of the call; they come first.
    words
        The parameters, 8 bytes each.
    numbers
        For each number of the call: whether it is float64 (float32 otherwise), which
        word it is, its place in `scalars`.
    configuration
        What the driver is given besides; its fifth word is the stream.
    """
    method = _method()
    if method is None or len(words) > 8*MOST_WORDS or not words:
        return None
    record = struct.pack(f"={_CONFIGURED}Q", *_api(), driver, kernel, pointers,
                         len(words)//8, len(numbers))
    record += configuration[:8*_CONFIGURATION] + words
    record += b"".join(struct.pack("=3Q", *number) for number in numbers)
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    made: Start = new(ctypes.addressof(method), (record, otherwise), None)
    return made


def prepare() -> None:
    """Load the code, if it is in the cache."""
    _method()


class _Method(ctypes.Structure):
    """``PyMethodDef``."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p),
                ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


_FASTCALL = 0x80
_LOCK = threading.Lock()
_METHODS: list[tuple[_Method, mmap.mmap]] = []


def _method() -> _Method | None:
    """The definition of the function; None while there is no code."""
    with _LOCK:
        if not _METHODS and is_possible():
            code = machine_code("fast_launch", _text())
            if code is not None:
                _load(code)
        return _METHODS[0][0] if _METHODS else None


@lru_cache(maxsize=1)
def _text() -> str:
    kinds = dict.fromkeys(_API, "ptr") | {
        "driver": "ptr", "kernel": "ptr", "pointer_count": "i64", "word_count": "i64",
        "number_count": "i64"}
    loads = "\n".join(
        f"  %at_{name} = getelementptr i64, ptr %record, i64 {k}\n"
        f"  %{name} = load {kind}, ptr %at_{name}, align 1"
        for k, (name, kind) in enumerate(kinds.items()))
    return _TEXT.format(
        configuration=_CONFIGURATION, most=MOST_WORDS, configured=_CONFIGURED,
        words=_WORDS, tuple=tuple.__basicsize__, bytes=bytes.__basicsize__ - 1,
        loads=loads)


def _load(code: bytes) -> None:
    """Make the definition of the function, if code can be run."""
    found = loaded(code)
    if found is None:
        return
    address, memory = found
    method = (_Method(b"start", address, _FASTCALL, None), memory)
    # Functions may be called while the interpreter ends, when modules are empty.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))
    _METHODS.append(method)


@lru_cache(maxsize=1)
def _api() -> tuple[int, ...]:
    """Addresses of the interpreter's functions."""
    return tuple([ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
                  or 0 for name in _API])
