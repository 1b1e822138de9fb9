"""Grids and blocks of threads, checked before anything is launched."""

from __future__ import annotations

from math import prod
from operator import index
from typing import Any

from ...backend import Extents
from ...errors import KernelTypeError, RangeError

__all__ = ["block_extents", "grid_extents"]

# The same for all devices since compute capability 3.0.
_GRID = (2**31 - 1, 65535, 65535)
_BLOCK = (1024, 1024, 64)
_THREADS = 1024


def grid_extents(grid: Any, label: str) -> Extents:
    """Blocks along x, y and z.

    Raises
    ------
    KernelTypeError
        If `grid` is no integer nor tuple of up to three.
    RangeError
        If one is 0, negative or beyond the limit.
    """
    return _extents(grid, "grid", _GRID, label)


def block_extents(block: Any, label: str) -> Extents:
    """Threads along x, y and z; `grid_extents` says what is raised."""
    extents = _extents(block, "block", _BLOCK, label)
    if prod(extents) > _THREADS:
        raise RangeError(f"{label}: block {block} has {prod(extents)} threads; "
                         f"expected at most {_THREADS}")
    return extents


def _extents(value: Any, name: str, most: Extents, label: str) -> Extents:
    given = value if isinstance(value, (tuple, list)) else (value,)
    try:
        found = tuple(map(index, given))
    except TypeError:
        found = ()
    if not 1 <= len(found) <= 3:
        raise KernelTypeError(f"{label}: {name} is {value!r}; expected one to three "
                              "integers such as (128,)")
    x, y, z = (*found, 1, 1)[:3]
    if not all(1 <= n <= m for n, m in zip((x, y, z), most, strict=True)):
        raise RangeError(f"{label}: {name} {tuple(given)} has an extent out of range; "
                         f"expected 1 to {most} along x, y and z")
    return x, y, z
