"""Dask arrays: lazy, in chunks of NumPy or CuPy; specs are run chunk by chunk."""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import isnan
from typing import Any

import numpy as np

from ...errors import KernelTypeError, ShapeError
from ..description import Array
from ..dtypes import check_dtype

__all__ = ["DASK", "DaskLibrary"]


class DaskLibrary:
    """The library interface of `dask.array.Array`: nothing is in memory.

    `dispatch.execute` hands a spec on such arrays to `dispatch.dask_arrays`; whatever
    asks for addresses or elements is refused.
    """

    name = "dask"
    writable = False
    differentiates = False
    lazy = True

    def check(self, x: Any, name: str) -> None:
        """Check that kernels can be run on the chunks of `x`.

        Raises
        ------
        KernelTypeError
            A dtype without kernels.
        ShapeError
            Chunks of unknown sizes.
        """
        check_dtype(x.dtype, name)
        if any(map(isnan, x.shape)):
            raise ShapeError(
                f"{name} is a Dask array with chunks of unknown sizes, {x.chunks}; "
                f"expected known ones: call {name}.compute_chunk_sizes() first")

    def describe(self, x: Any, name: str) -> Array:
        """Raise the error for an array that is not in memory."""
        raise KernelTypeError(
            f"{name} is a Dask array, whose elements are not in memory, where this "
            f"operation needs them; use {name}.map_blocks(function), or "
            f"{name}.compute() if it fits")

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype, like: Any) -> Any:
        """Zeros in chunks as those of `like`, if it has that shape."""
        chunks = like.chunks if like.shape == shape else "auto"
        return sys.modules["dask.array"].zeros_like(like, dtype=dtype, shape=shape,
                                                    chunks=chunks)

    def from_numpy(self, host: np.ndarray, device: str) -> Any:
        """An array of one chunk."""
        return sys.modules["dask.array"].from_array(host, chunks=-1)

    def meta(self, x: Any) -> Any:
        """An empty array of the library of the chunks."""
        return x._meta

    def to_host(self, x: Any) -> np.ndarray:
        """Raise: it would be computed without a word."""
        raise KernelTypeError(
            "a Dask array has no elements in memory, which are needed here; write "
            "x.compute() if it fits (of a Variable x.data.compute())")

    def symbolic(self, x: Any) -> bool:
        """True: `nf.fuse` runs a function on it operation by operation."""
        return True

    def tracks(self, x: Any) -> bool:
        """False: Dask differentiates nothing."""
        return False

    def finish(self, native: Any) -> Any:
        """Return the array unchanged."""
        return native

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, device: str) -> Any:
        """Raise: no kernel stores in one."""
        raise self._no_memory()

    def maker(self, shape: tuple[int, ...], dtype: np.dtype, device: str,
              ) -> Callable[[], Any]:
        """Raise: no kernel stores in one."""
        raise self._no_memory()

    def pointer(self, native: Any) -> int:
        """Raise: there is no address."""
        raise self._no_memory()

    def view(self, native: Any, shape: tuple[int, ...], strides: tuple[int, ...],
             offset: int) -> Any:
        """Raise: there are no strides."""
        raise self._no_memory()

    def stream(self, device: str) -> int:
        """The default stream: nothing is in flight."""
        return 0

    def streams(self, device: str) -> Callable[[], int]:
        """A function that returns the default stream."""
        return int

    def free_cache(self, device: str) -> None:
        """Do nothing: the chunks are made by their own library."""

    @staticmethod
    def _no_memory() -> KernelTypeError:
        return KernelTypeError("a Dask array has no memory of its own to view or to "
                               "store in; use its chunks, through map_blocks")


DASK = DaskLibrary()
