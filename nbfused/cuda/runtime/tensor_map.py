"""Tensor maps: what TMA needs to know of an array in global memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from functools import lru_cache

from .driver import check, cu

__all__ = ["ALIGN", "LINE", "reachable", "tensor_map"]

#: Bytes of a line of the L2 cache.
LINE = 128
#: Bytes of which TMA wants addresses and strides to be multiples.
ALIGN = 16
#: Bytes between elements that are more than TMA can count.
_STRIDE = 1 << 40


def reachable(pointer: int, strides: Iterable[int]) -> bool:
    """Whether TMA can step by these strides in bytes, from an element on."""
    return pointer % ALIGN == 0 and all(
        0 < s < _STRIDE and s % ALIGN == 0 for s in strides)


@lru_cache(maxsize=1024)
def tensor_map(dtype: str, pointer: int, extents: tuple[int, ...],
               strides: tuple[int, ...], box: tuple[int, ...],
               swizzle: str = "128B") -> bytes:
    """The TMA tensor map of a tiled array, cached by its arguments.

    Elements outside of the array are read as zeros, and not written.

    Parameters
    ----------
    dtype
        Of the elements; ``"tfloat32"``: float32 that is rounded to TF32 on the way.
    extents, box
        Of the array and of what is moved at once, the innermost dimension first.
    strides
        In bytes, from the second dimension on.
    swizzle
        How 16-byte pieces change places in shared memory; ``"NONE"`` or of 128 bytes.
    """
    driver, rank = cu(), len(extents)
    kinds, promotions = driver.CUtensorMapDataType, driver.CUtensorMapL2promotion
    # Boxes across lines of the L2 cache ask for less if they do not ask for pairs.
    whole = not any(x % LINE for x in (pointer, *strides))
    found = check(driver.cuTensorMapEncodeTiled(
        getattr(kinds, f"CU_TENSOR_MAP_DATA_TYPE_{dtype.upper()}"), rank, pointer,
        [driver.cuuint64_t(n) for n in extents],
        [driver.cuuint64_t(s) for s in strides], [driver.cuuint32_t(n) for n in box],
        [driver.cuuint32_t(1)]*rank,
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
        getattr(promotions, "CU_TENSOR_MAP_L2_PROMOTION_L2_"
                f"{'256B' if whole else '128B'}"),
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE))
    return ctypes.string_at(int(found.getPtr()), 128)
