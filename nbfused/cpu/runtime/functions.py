"""Built-in functions of the interpreter, made of machine code.

CPython calls one like those that it was built with: no call of Python's, and no ctypes
in between.  Its machine code is a kernel (`compile.build`), which happens to have the
parameters of ``METH_FASTCALL``: its object, the arguments, their number; and the
address of an object as its result.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import sysconfig
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from .compile import build
from .objects import address_of

__all__ = ["INTERPRETER", "NUMPY_EMPTY", "NUMPY_ZEROS", "builtin_function",
           "interpreter", "possible"]

#: The interpreter's functions, by the names that texts call them by.
INTERPRETER = {
    "increment": "Py_IncRef", "decrement": "Py_DecRef", "release": "PyEval_SaveThread",
    "acquire": "PyEval_RestoreThread", "vectorcall": "PyObject_Vectorcall",
    "variable": "PyContextVar_Get", "integer": "PyLong_AsLongLongAndOverflow",
    "clear": "PyErr_Clear", "tuple": "PyTuple_New", "allocate": "PyMem_RawMalloc",
    "free": "PyMem_RawFree", "call": "PyObject_CallNoArgs",
    "call_with": "PyObject_CallOneArg"}

#: The places of ``PyArray_Empty`` and ``PyArray_Zeros`` in the table of NumPy's C
#: functions: a part of its ABI, as all places are.
NUMPY_EMPTY, NUMPY_ZEROS = 184, 183

_FASTCALL = 0x80
_SEVEN = np.int64(7)


class _Method(ctypes.Structure):
    """``PyMethodDef``."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p),
                ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


@cache
def possible() -> bool:
    """Whether objects are laid out as texts expect, and threads hold a lock."""
    return (sys.implementation.name == "cpython" and struct.calcsize("P") == 8
            and not sysconfig.get_config_var("Py_GIL_DISABLED")
            and not sysconfig.get_config_var("Py_TRACE_REFS")
            and object.__basicsize__ == 16 and tuple.__basicsize__ == 24
            and bytes.__basicsize__ == 33 and list.__basicsize__ == 40
            and all(ctypes.c_double.from_address(id(x) + 16).value == 2.5
                    for x in (2.5, np.float64(2.5)))
            and ctypes.c_int64.from_address(id(_SEVEN) + 16).value == 7)


@cache
def interpreter() -> dict[str, int]:
    """Addresses of the interpreter's functions and of NumPy's, and of some objects."""
    found = {name: ctypes.cast(getattr(ctypes.pythonapi, symbol), ctypes.c_void_p).value
             or 0 for name, symbol in INTERPRETER.items()}
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object,
                                                          ctypes.c_void_p]
    core: Any = sys.modules.get("numpy._core._multiarray_umath") or sys.modules[
        "numpy.core._multiarray_umath"]
    table = pointer(core._ARRAY_API, None)
    for name, place in (("empty", NUMPY_EMPTY), ("zeros", NUMPY_ZEROS)):
        found[name] = ctypes.c_size_t.from_address(table + 8*place).value
    return found | {"none": id(None), "array_type": id(np.ndarray), "int_type": id(int)}


def builtin_function(text: str, own: tuple[Any, ...]) -> Callable[..., Any]:
    """A function whose machine code is that of `text`, and whose object is `own`."""
    method = _method(text)
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    made: Callable[..., Any] = new(ctypes.addressof(method), own, None)
    return made


@cache
def _method(text: str) -> _Method:
    entry = build(text)
    method = _Method(b"direct", address_of(entry), _FASTCALL, None)
    # Functions may be called while the interpreter ends, when modules are empty.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object((method, entry)))
    return method
