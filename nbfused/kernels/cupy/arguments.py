"""Arguments of CuPy's kernels: arrays, numbers of the type that is declared, sizes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ...arrays import check_dtype, describe, is_array, library_of, zeros
from ...arrays.traced import TracedNumber
from ...autograd import Variable
from ...errors import (
    DefinitionError,
    KernelTypeError,
    RangeError,
    ShapeError,
    UnsupportedError,
)
from ...op.base import is_number
from ...ops.indexing import getitem
from ...ops.shapes import broadcast_to, reshape
from .parameters import ParameterInfo

__all__ = [
    "as_operand",
    "check_block_size",
    "check_size",
    "flatten_raw",
    "loop_array",
    "number",
    "on_stream",
    "split",
    "unwrap_variable",
]

#: Beyond this NumPy cannot describe an array, not even one that repeats one element.
_MOST_POINTS = 2**56


def split(kernel: str, in_params: Sequence[ParameterInfo],
          out_params: Sequence[ParameterInfo], args: Sequence[Any],
          out: Any) -> tuple[list[Any], list[Any]]:
    """Inputs and outputs of a call; an output is None where it is to be made.

    Raises
    ------
    KernelTypeError
        A wrong number of arguments, or outputs both by position and by keyword.
    """
    count = len(in_params)
    if out is not None:
        args = (*args, *(out if isinstance(out, tuple) else (out,)))
    if len(args) not in (count, count + len(out_params)):
        names = ", ".join(p.name for p in in_params)
        raise KernelTypeError(
            f"{kernel} takes {count} inputs ({names}), then {len(out_params)} outputs "
            f"or none, got {len(args)} arguments")
    inputs = [as_operand(x, kernel, p.name, args)
              for x, p in zip(args, in_params, strict=False)]
    outs = list(args[count:]) or [None] * len(out_params)
    for p, x in zip(out_params, outs, strict=True):
        if x is not None and is_number(as_operand(x, kernel, p.name, ())):
            raise KernelTypeError(f"{kernel}: the output '{p.name}' must be an array, "
                                  f"got {type(x).__name__}")
    return inputs, outs


def as_operand(x: Any, kernel: str, name: str, others: Sequence[Any]) -> Any:
    """An argument: an array, or a number.

    A NumPy array of one element beside arrays of another library goes by value.
    """
    if is_number(x):
        if isinstance(x, np.generic) and x.dtype.kind not in "biufc":
            check_dtype(x.dtype, f"{kernel}: '{name}'")
        return x
    if type(x).__name__ in ("TextureObject", "SurfaceObject"):
        raise UnsupportedError(f"{kernel}: '{name}' is a texture, which kernels here "
                               "do not read; pass its array as 'raw' and index it")
    if isinstance(x, np.ndarray) and x.size == 1 and any(
            is_array(y) and library_of(y) is not library_of(x)
            for y in map(unwrap_variable, others)):
        return x.reshape(())[()]
    if isinstance(x, Variable) or is_array(x) or hasattr(x, "extents"):
        return x
    raise KernelTypeError(f"{kernel}: '{name}' must be an array or a number, got "
                          f"{type(x).__name__}")


def unwrap_variable(x: Any) -> Any:
    """The array of a Variable."""
    return x.data if isinstance(x, Variable) else x


def number(x: Any, dtype: np.dtype, kernel: str, name: str) -> Any:
    """A number as its parameter declares it; integers wrap around as in CuPy."""
    if isinstance(x, TracedNumber):
        return x  # the function casts it
    if type(x) is float and dtype.kind == "f":
        return dtype.type(x)
    value = np.asarray(x)
    if value.dtype == object:
        raise RangeError(f"{kernel}: '{name}' is {x}, which does not fit 64 bits")
    if value.dtype.kind == "c" and dtype.kind != "c":
        raise KernelTypeError(f"{kernel}: '{name}' is the complex number {x}, but the "
                              f"parameter is {dtype}")
    if value.dtype.kind == "f" and dtype.kind in "iu" and not float(x).is_integer():
        raise KernelTypeError(f"{kernel}: '{name}' is {x}, but the parameter is "
                              f"{dtype}; round it first")
    with np.errstate(all="ignore"):
        return value.astype(dtype)[()]


def flatten_raw(x: Any) -> Any:
    """A raw array as it is indexed in C: one axis in C order."""
    return x if len(x.shape) == 1 else reshape(x, (-1,))


def flat_output(x: Any, name: str) -> Any:
    """A raw output as it is indexed in C; it must be possible without a copy."""
    array = describe(unwrap_variable(x), name)
    if array.ndim == 1:
        return x
    step = 1
    for extent, stride in zip(array.shape[::-1], array.strides[::-1], strict=True):
        if extent > 1 and stride != step:
            raise ShapeError(f"{name}: a raw output of several axes must be contiguous "
                             f"in C order, got shape {array.shape} and strides "
                             f"{array.strides}; pass a copy")
        step *= extent
    return reshape(unwrap_variable(x), (-1,))


def loop_array(size: int, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
    """An array of shape ``(size,)`` where the kernel runs, whose elements nobody reads.

    It takes one element's memory: of the first input that has one, else new memory
    beside the first output, never an output's own, which the kernel changes.
    """
    for x in map(unwrap_variable, inputs):
        if 0 not in tuple(x.shape):
            one = getitem(flatten_raw(x), slice(0, 1))
            return broadcast_to(one, (size,))
    for x in map(unwrap_variable, outputs):
        library = library_of(x)
        empty = library.empty((1,), np.dtype(bool), describe(x).device)
        return broadcast_to(library.finish(empty), (size,))
    return broadcast_to(zeros((1,), "bool"), (size,))


def check_size(size: Any, kernel: str, element: str | None, needed: bool) -> int | None:
    """The loop's size, if given; `ShapeError` where it has to be.

    `element` is the name of an array that is not raw, if there is one.
    """
    if size is None:
        if needed and element is None:
            raise ShapeError(f"Loop size is undecided. {kernel} was called without an "
                             "array that is not raw; pass size=")
        return None
    if element is not None:
        raise ShapeError("Specified 'size' can be used only if all of the arrays are "
                         f"'raw'; in {kernel} '{element}' is not")
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
        raise ShapeError(f"{kernel}: 'size' must be an integer of 0 or more, got "
                         f"{size!r}")
    if size > _MOST_POINTS:
        raise RangeError(f"{kernel}: 'size' is {size}; expected at most "
                         f"{_MOST_POINTS}")
    return int(size)


def check_block_size(size: Any, kernel: str) -> None:
    """`DefinitionError` for no number of threads; the launch chooses its own."""
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
        raise DefinitionError(f"{kernel}: 'block_size' must be an integer, got "
                              f"{size!r}")
    if not 0 < size <= 1024:
        raise DefinitionError(f"{kernel}: 'block_size' must be greater than zero and "
                              f"at most 1024, got {size}")


def on_stream(stream: Any, kernel: str) -> AbstractContextManager[Any]:
    """Make `stream` current, as CuPy's and PyTorch's streams do in ``with``."""
    if stream is None:
        return nullcontext()
    if hasattr(stream, "__enter__"):
        return stream
    raise KernelTypeError(f"{kernel}: 'stream' must be a stream that 'with' can make "
                          f"current, got {type(stream).__name__}; or leave it out "
                          "inside 'with stream:'")
