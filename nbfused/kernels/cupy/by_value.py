"""Arguments of native kernels as the bytes that the kernel reads.

=========================== =========================================================
argument                    C++ parameter
=========================== =========================================================
array on the device, None   pointer; null
``bool``                    ``bool``
``int``                     ``long long``; a narrower integer if the value fits
``float``                   ``double``
``complex``                 two ``double``, 16 bytes
NumPy scalar, or a NumPy    the type of its dtype (``numpy.float32`` is ``float``),
array of one element        also of a structured one, laid out as the struct is
=========================== =========================================================
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arrays import Array, describe, is_array
from ...autograd import Variable
from ...backend import Backend
from ...errors import DeviceError, KernelTypeError, NotDifferentiableError, RangeError
from ...scalar.typing.python_numbers import plain_number

__all__ = ["arrays_of", "pack_arguments"]

#: Integers of each size.
_INTEGERS = {1: "b", 2: "h", 4: "i", 8: "q"}


def arrays_of(args: Sequence[Any], backend: Backend, label: str) -> list[Any]:
    """The arguments, device arrays described and Variables unwrap_variable.

    Raises
    ------
    DeviceError
        An array that is not on a device of `backend`, or on another one than the rest.
    KernelTypeError
        What is neither array nor number.
    NotDifferentiableError
        A Variable that requires grad.
    """
    given = [_resolved(x, f"{label}: args[{k}]", backend) for k, x in enumerate(args)]
    devices = {x.device for x in given if isinstance(x, Array)}
    if len(devices) > 1:
        raise DeviceError(f"{label}: args lie on {', '.join(sorted(devices))}; a "
                          "kernel takes arrays on one device, move the others with "
                          "nbfused.array(x, device=...)")
    return given


def _resolved(x: Any, name: str, backend: Backend) -> Any:
    if isinstance(x, Variable):
        if x.requires_grad:
            raise NotDifferentiableError(
                f"{name} requires grad, and native code has no derivative; pass "
                "x.data, or wrap the launch in nbfused.custom_vjp")
        x = x.data
    if x is None or isinstance(x, (bool, int, float, complex, np.generic)):
        return x
    if isinstance(x, np.ndarray) and not backend.owns("cpu"):
        return _by_value(x, name)
    if not is_array(x):
        raise KernelTypeError(f"{name} is a {type(x).__name__}; expected an array on a "
                              "device, a number, or a NumPy scalar")
    array = describe(x, name)
    if not backend.owns(array.device):
        raise DeviceError(f"{name} is on {array.device}; expected a device of the "
                          f"backend {backend.name!r}: nbfused.array(x, device=...)")
    return array


def _by_value(x: np.ndarray, name: str) -> Any:
    """The bytes of a NumPy array's only element; structs go to kernels this way."""
    if x.size != 1:
        raise DeviceError(
            f"{name} is a NumPy array of shape {x.shape} on the host; expected an "
            "array on the device: nbfused.array(x, device='cuda'); only one element "
            "goes by value")
    return x.reshape(())[()]


def pack_arguments(given: Sequence[Any], sizes: Sequence[int] | None,
                   label: str) -> list[bytes]:
    """The bytes of each argument.

    Parameters
    ----------
    given
        What `arrays_of` gave.
    sizes
        Bytes of the kernel's parameters; None if they are not known.

    Raises
    ------
    KernelTypeError
        Too few or too many arguments, or one that its parameter does not hold.
    RangeError
        A Python integer that does not fit.
    """
    if sizes is not None and len(sizes) != len(given):
        raise KernelTypeError(f"{label} takes {len(sizes)} arguments, got {len(given)}")
    return [_bytes(x, None if sizes is None else sizes[k], f"{label}: args[{k}]")
            for k, x in enumerate(given)]


def _bytes(x: Any, size: int | None, name: str) -> bytes:
    x = plain_number(x)
    data = _integer(x, size, name) if type(x) is int else _encoded(x, name)
    if size is not None and len(data) != size:
        raise KernelTypeError(
            f"{name} is a {_kind(x)} of {len(data)} bytes, its parameter has {size}; "
            "pass a NumPy scalar of the parameter's type, such as numpy.float32(x), or "
            "a structured one with align=True")
    return data


def _kind(x: Any) -> str:
    return "pointer" if x is None or isinstance(x, Array) else type(x).__name__


def _encoded(x: Any, name: str) -> bytes:
    if x is None or isinstance(x, Array):
        return struct.pack("Q", 0 if x is None else x.pointer)
    value = np.asarray(x)
    if value.dtype.kind not in "biufcV" or value.dtype.hasobject:
        raise KernelTypeError(f"{name} has dtype {value.dtype}, which C++ has not; "
                              "expected a number")
    return value.tobytes()


def _integer(x: int, size: int | None, name: str) -> bytes:
    """An integer, signed or unsigned, in the parameter's size."""
    code = _INTEGERS.get(size or 8, "q")
    for form in (code, code.upper()):
        try:
            return struct.pack("=" + form, x)
        except struct.error:
            continue
    raise RangeError(f"{name} is {x}, which {8 * struct.calcsize('=' + code)} bits do "
                     "not hold")
