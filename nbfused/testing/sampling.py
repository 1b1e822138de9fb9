"""Test arrays: values from a domain, in every layout of strides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..arrays import array, library_of
from ..support.dtypes import BFLOAT16

__all__ = ["DTYPES", "LAYOUTS", "draw", "lay_out", "send", "special"]

#: Dtypes by the characters of `op.Case.dtypes`, the most tested first.
DTYPES: dict[str, tuple[np.dtype, ...]] = {
    "f": (*map(np.dtype, ("float32", "float64", "float16")), BFLOAT16),
    "i": tuple(map(np.dtype, ("int32", "int64", "int8", "int16"))),
    "u": tuple(map(np.dtype, ("uint8", "uint64", "uint16", "uint32"))),
    "b": (np.dtype(bool),),
    "c": tuple(map(np.dtype, ("complex64", "complex128"))),
}


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype,
         domain: Any) -> np.ndarray:
    """Draw random values of `dtype` from a domain of `op.Case`."""
    if len(domain) == 3:  # indices, labels
        return rng.integers(domain[0], domain[1], shape)
    low, high = domain
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "c":
        return (rng.uniform(low, high, shape)
                + 1j * rng.uniform(low, high, shape)).astype(dtype)
    if dtype.kind in "iu":
        first = max(int(np.ceil(low)), 0 if dtype.kind == "u" else -128)
        last = max(first, int(np.floor(high)))
        return rng.integers(first, last + 1, shape).astype(dtype)
    return rng.uniform(low, high, shape).astype(dtype)


def special(dtype: np.dtype) -> np.ndarray:
    """Special values: zeros, ties, ends of the range, infinities, NaN."""
    from ml_dtypes import finfo

    top = float(finfo(dtype).max)
    return np.array([0.0, -0.0, 1.0, 1.0, -1.0, 0.5, top, -top, np.inf, -np.inf, np.nan,
                     80.0, -80.0], dtype=dtype)


def _plain(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).reshape(x.shape)


def _fortran(x: np.ndarray) -> np.ndarray:
    return np.asfortranarray(x)


def _reversed(x: np.ndarray) -> np.ndarray:
    back = (slice(None, None, -1),) * x.ndim
    return np.ascontiguousarray(x[back])[back]


def _strided(x: np.ndarray) -> np.ndarray:
    wide = np.zeros(tuple(2 * n for n in x.shape), x.dtype)
    view = wide[(slice(None, None, 2),) * x.ndim]
    view[...] = x
    return view


def _constant(x: np.ndarray) -> np.ndarray:
    """An array whose first axis has stride 0: copies of its first row."""
    return np.broadcast_to(x[:1], x.shape) if x.ndim and x.shape[0] else x


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "contiguous": _plain, "fortran": _fortran, "reversed": _reversed,
    "strided": _strided, "constant": _constant,
}


def lay_out(x: np.ndarray, layout: str) -> np.ndarray:
    """Copy `x` to one of the `LAYOUTS`."""
    return LAYOUTS[layout](x) if x.ndim else x


def send(x: np.ndarray, device: str) -> Any:
    """Copy `x` to a device with the same strides, gaps and repetitions included."""
    if not x.ndim or not x.size:
        return array(x, device=device)
    strides = tuple(stride // x.itemsize for stride in x.strides)
    steps = [(n - 1) * stride for n, stride in zip(x.shape, strides, strict=True)]
    lowest = x[tuple(np.s_[-1:] if stride < 0 else np.s_[:1] for stride in strides)]
    memory = as_strided(lowest, (sum(map(abs, steps)) + 1,), (x.itemsize,))
    native = array(memory, device=device)
    return library_of(native).view(native, x.shape, strides,
                                   -sum(step for step in steps if step < 0))


def elementwise_shapes(nin: int) -> Iterator[tuple[str, tuple[tuple[int, ...], ...]]]:
    """Names and shapes for an elementwise op of `nin` arguments."""
    for shape in ((), (0,), (1,), (7,), (33,), (1025,), (3, 0, 2)):
        yield "x".join(map(str, shape)) or "scalar", (shape,) * nin
    broadcast = ((5, 7), (7,), (5, 1), (1, 1))
    if nin > 1:
        yield "broadcast", tuple(broadcast[k % 4] for k in range(nin))
