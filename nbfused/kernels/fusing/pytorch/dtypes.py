"""Dtypes of PyTorch's tensors beside one another, on what `fuse` traces.

An integer tensor beside a float32 one gives float32; a tensor without dimensions, or a
number, only says of what kind the result is at least.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....arrays import check_dtype, dtype_of, is_array
from ....errors import KernelTypeError
from ....registry.operations import OPS
from ....support.dtypes import BFLOAT16, rank_of
from ..outside.host_arrays import HostArray
from ..symbols.arrays import Symbol
from ..symbols.numbers import Number

__all__ = ["converted", "default_dtype", "promoted", "tensor_type", "torch_dtype",
           "traced"]


def default_dtype(kind: int) -> np.dtype:
    """The dtype of a Python number of a kind."""
    torch = sys.modules.get("torch")
    wide = torch is not None and torch.get_default_dtype() == torch.float64
    return np.dtype(("bool", "int64", "float64" if wide else "float32",
                     "complex128" if wide else "complex64")[kind])


def _common_dtype(a: np.dtype, b: np.dtype) -> np.dtype:
    """The dtype of two tensors: the higher kind alone decides."""
    if rank_of(a) != rank_of(b):
        low, high = sorted((a, b), key=rank_of)
        if rank_of(high) == 3 and low == np.float64:
            return np.dtype(np.complex128)
        return high
    if BFLOAT16 in (a, b) and a != b:
        return max(a, b, np.dtype(np.float32), key=lambda d: d.itemsize)
    return np.promote_types(a, b) if a != b else a


def tensor_type(operands: Sequence[Any]) -> np.dtype:
    """The dtype that PyTorch computes in.

    Parameters
    ----------
    operands
        Arrays, symbols and numbers.
    """
    groups: list[np.dtype | None] = [None, None, None]
    for x in operands:
        if isinstance(x, Number) or not (isinstance(x, Symbol) or is_array(x)):
            example = x.example if isinstance(x, Number) else x
            dtype, group = default_dtype(rank_of(np.asarray(example).dtype)), 2
        else:
            dtype, group = dtype_of(x), 0 if len(x.shape) else 1
        known = groups[group]
        groups[group] = dtype if known is None else _common_dtype(known, dtype)
    found, *lower = [dtype for dtype in groups if dtype is not None]
    for dtype in lower:
        if rank_of(dtype) > rank_of(found):  # a complex number as wide as the floats
            found = dtype if (rank_of(found), rank_of(dtype)) != (2, 3) else np.dtype(
                np.complex128 if found == np.float64 else np.complex64)
    return found


def converted(x: Any, dtype: np.dtype) -> Any:
    """A tensor in a dtype; numbers follow by themselves."""
    if isinstance(x, Number) or not (isinstance(x, Symbol) or is_array(x)):
        return x
    return x if dtype_of(x) == dtype else OPS["astype"](x, dtype)


def promoted(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """`function` of `args` in the dtype that PyTorch computes in."""
    args = traced(args)
    dtype = tensor_type(args)
    result = function(*(converted(x, dtype) for x in args))
    if isinstance(result, Symbol) and rank_of(dtype) < 2 <= rank_of(dtype_of(result)):
        dtype = default_dtype(2)  # integers divide, and have sines, in that
        result = function(*(converted(x, dtype) for x in args))
    return result


def traced(args: Sequence[Any]) -> Sequence[Any]:
    """Arrays beside symbols as symbols, so that their conversion is traced, too."""
    trace = next((x.tracer for x in args if isinstance(x, Symbol)), None)
    return args if trace is None else [
        trace.symbol(trace, trace.operand(x)) if isinstance(x, HostArray) or
        type(x).__module__ == "torch" else x for x in args]


def torch_dtype(given: Any) -> np.dtype:
    """A dtype of PyTorch as one of NumPy's."""
    text = str(given)
    if not text.startswith("torch."):
        raise KernelTypeError(f"{given!r} is no dtype of torch, and nf.fuse traces no "
                              "device; move tensors outside of the fused function")
    return check_dtype(text.removeprefix("torch."), "dtype")
