"""Matrix products in blocks that fit the caches, each finished while it is hot.

The right factor is packed once, for all threads.  Then each thread takes blocks of
rows: packs them, multiplies tile by tile, and hands the products on.  Every sum is made
in the order of ``k``, so that neither blocks nor threads change a bit.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from functools import cache

import numpy as np

from .compile import build
from .gemm_text import multiply_text, pack_text
from .objects import Entry
from .pool import POOL
from .schedule import spread
from .tile import tile_of

__all__ = ["blocked_product", "suits"]

#: Of a packed block of rows and of its sums: about a second-level cache.
_BLOCK_BYTES = 1 << 20

#: Of the right factor, packed.
_PACKED_BYTES = 1 << 23

#: Fewer rows, columns or products, and packing costs more than it saves.
_LEAST, _LEAST_PRODUCTS = 48, 1 << 20

#: Called with products, the row and the column of the first one, and how many rows and
#: columns there are; the products may have more.
Finish = Callable[[np.ndarray, tuple[int, int], tuple[int, int]], None]


def suits(dtype: np.dtype, m: int, n: int, k: int) -> bool:
    """Whether `blocked_product` is the right way to multiply."""
    return (dtype in (np.float32, np.float64) and min(m, n, k) >= _LEAST
            and m * n * k >= _LEAST_PRODUCTS and k * dtype.itemsize <= 1 << 16)


class _Workspace(threading.local):
    """Memory that each thread keeps: new pages would cost more than packing."""

    def __init__(self) -> None:
        self.kept: dict[str, np.ndarray] = {}

    def take(self, use: str, count: int, dtype: np.dtype) -> np.ndarray:
        """So many elements, not initialised."""
        size = count * dtype.itemsize
        if use not in self.kept or self.kept[use].nbytes < size:
            self.kept[use] = np.empty(size, np.uint8)
        return self.kept[use][:size].view(dtype)


_workspace = _Workspace()


class _Gemm:
    """The kernels for one dtype."""

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = dtype
        self.tile = tile_of(dtype.itemsize)
        self._multiply = build("\n".join(multiply_text(dtype, self.tile)))
        self._packers: dict[tuple[int, str], Entry] = {}

    def packer(self, matrix: np.ndarray, width: int) -> Entry:
        """The kernel that packs panels of `width` rows of such a matrix."""
        size = self.dtype.itemsize
        order = "rows" if matrix.strides[1] == size else \
            "columns" if matrix.strides[0] == size else "any"
        if (width, order) not in self._packers:
            text = pack_text(self.dtype, width, order)
            self._packers[width, order] = build("\n".join(text))
        return self._packers[width, order]

    def pack(self, matrix: np.ndarray, width: int, use: str) -> np.ndarray:
        """Panels of `width` rows of a matrix, the last one filled up with zeros."""
        rows, k = matrix.shape
        panels = -(-rows // width)
        packed = _workspace.take(use, panels * width * k, self.dtype)
        steps = (s // self.dtype.itemsize for s in matrix.strides)
        words = _words(matrix.ctypes.data, packed.ctypes.data, *steps, rows, k)
        spread(self.packer(matrix, width), words, panels, width * k)
        return packed

    def multiply(self, left: np.ndarray, right: np.ndarray, k: int,
                 shape: tuple[int, int]) -> np.ndarray:
        """The products of packed factors, in rows of whole tiles."""
        panels, across = (-(-n // width) for n, width in
                          zip(shape, (self.tile.rows, self.tile.columns), strict=True))
        stride = across * self.tile.columns
        sums = _workspace.take("sums", panels * self.tile.rows * stride, self.dtype)
        words = _words(left.ctypes.data, right.ctypes.data, sums.ctypes.data, k, panels,
                       stride)
        self._multiply(words, 0, across)
        return sums.reshape(-1, stride)


def _words(*numbers: int) -> bytes:
    return struct.pack(f"={len(numbers)}q", *numbers)


@cache
def _gemm(dtype: np.dtype) -> _Gemm:
    return _Gemm(dtype)


def blocked_product(a: np.ndarray, b: np.ndarray, finish: Finish) -> None:
    """Hand on the blocks of ``a @ b``, on several threads.

    Parameters
    ----------
    a, b
        ``(m, k)`` and ``(k, n)`` of one dtype, as `suits` has it; any strides.
    finish
        Does something with a block, before the next one takes its place.
    """
    gemm = _gemm(a.dtype)
    columns, row = gemm.tile.columns, a.shape[1] * a.dtype.itemsize
    step = max(1, _PACKED_BYTES // (row * columns)) * columns
    for first in range(0, b.shape[1], step):
        _multiply_columns(gemm, a, b[:, first:first + step], first, finish)


def _multiply_columns(gemm: _Gemm, a: np.ndarray, b: np.ndarray, column: int,
                      finish: Finish) -> None:
    (m, k), n, rows = a.shape, b.shape[1], gemm.tile.rows
    right = gemm.pack(b.T, gemm.tile.columns, "right")
    panels = -(-m // rows)
    pieces = -(-panels // max(1, _BLOCK_BYTES // (rows * (k + n) * a.dtype.itemsize)))
    pieces = min(panels, -(-pieces // POOL.threads) * POOL.threads)

    gemm.packer(a, rows)  # compiled once, and not by several threads

    def piece(i: int) -> None:
        row = panels * i // pieces * rows
        block = a[row:panels * (i + 1) // pieces * rows]
        left = gemm.pack(block, rows, "left")
        shape = block.shape[0], n
        finish(gemm.multiply(left, right, k, shape), (row, column), shape)

    POOL.run(piece, pieces)
