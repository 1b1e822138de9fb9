"""Dask arrays for tests: random chunks, and a scheduler that must not be asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")


def cut(rng: np.random.Generator, n: int) -> tuple[int, ...]:
    """Random sizes of a few chunks that make `n`."""
    sizes: list[int] = []
    while n > sum(sizes):
        size = int(rng.integers(max(1, n // 6), max(2, (n + 1) // 2)))
        sizes.append(min(size, n - sum(sizes)))
    return tuple(sizes) or (0,)


def lazy(x: np.ndarray, seed: int = 0) -> Any:
    """The array in random chunks."""
    rng = np.random.default_rng(seed)
    return da.from_array(x, chunks=tuple(cut(rng, n) for n in x.shape))


def _refuse(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("a Dask array was computed")


@contextmanager
def nothing_computed() -> Iterator[None]:
    """Fail where anything is computed."""
    with dask.config.set(scheduler=_refuse):
        yield


def value(x: Any) -> np.ndarray:
    """Compute an array in one thread, and check what it said of itself."""
    x = getattr(x, "data", x) if not isinstance(x, da.Array) else x
    assert isinstance(x, da.Array)
    found = np.asarray(x.compute(scheduler="synchronous"))
    assert (found.shape, found.dtype) == (x.shape, x.dtype)
    assert (x._meta.ndim, x._meta.dtype) == (x.ndim, x.dtype)
    for block in np.ndindex(x.numblocks):
        one = x.blocks[block].compute(scheduler="synchronous")
        assert np.shape(one) == tuple(
            sizes[at] for sizes, at in zip(x.chunks, block, strict=True))
    return found
