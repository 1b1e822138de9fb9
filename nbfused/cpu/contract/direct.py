"""Products of few rows or columns, multiplied as the factors lie in memory.

Packing a factor reads and writes it as often as a narrow product does.  So of one
factor vectors are loaded, along whichever extent its numbers are neighbours in, and of
the other one a number for each row.  Where the result is small and the sums are long,
these are cut into chunks, by the shapes alone, that are added up in order.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ...arrays.libraries.numpy import NUMPY
from ...arrays.memory import array_over
from ...backend import Start
from ...support.dtypes import short
from ..runtime.compile import build
from ..runtime.native import Arguments, Fill, Part, moved, native_of, with_native
from ..runtime.objects import Entry
from ..runtime.schedule import bind_parallel, runs_alone
from ..text.lines import indented
from .gemm import Factors, Multiply
from .tile import VECTORS, tile_of

__all__ = ["bind_direct", "is_narrow", "orientation"]

#: Rows or columns up to which a product is narrow, results that are few beside sums
#: that are long: benchmarks/notes/cpu.md#narrow-products.
_NARROW, _RESULTS, _LONG = 32, 1 << 14, 1 << 12

#: Rows and bytes of columns in a unit of work: pieces of the right factor's rows that
#: are whole pages.  Vectors of columns at once.  Not measured.
_ROWS, _COLUMN_BYTES, _VECTORS = 96, 1 << 12, 8

#: Products of each sum at once, for a tile of one vector and for others: what they read
#: of the vectors' factor stays in the first-level cache; not measured.
_DEPTHS = 256, 64

#: Products of a sum in a chunk at least, and units that need no chunks; not measured.
_CHUNK, _UNITS = 512, 16

#: Rows or columns at least of what vectors are loaded of across the longer side:
#: benchmarks/notes/cpu.md#narrow-products.
_SHORT = 4

#: As for blocked products: see `gemm`.
_LIGHT = 16

_WORDS = ("left", "down", "along", "right", "step", "sums", "stride", "rows", "columns",
          "k", "chunk", "over", "across")


def is_narrow(dtype: np.dtype, m: int, n: int, k: int) -> bool:
    """Whether a product is for this kernel, unless the blocked one can do it."""
    return dtype in (np.float32, np.float64) and (
        min(m, n) <= _NARROW or (m*n <= _RESULTS and k >= _LONG))


def orientation(factors: Factors) -> tuple[bool, bool] | None:
    """Whether vectors are of the left factor, and whether that is copied for it.

    Of the longer side if its numbers are neighbours, else of the shorter one, which is
    copied where its are not either.  None where that is so short that vectors would be
    all but empty: BLAS adds up along the other factor's rows then.
    """
    near = (factors.a_down == 1 or factors.m == 1,
            factors.b_down == 1 or factors.n == 1)
    long = int(factors.m <= factors.n)
    if near[long]:
        return long == 0, False
    if min(factors.m, factors.n) < _SHORT:
        return None
    return long == 1, not near[1 - long]


@cache
def _kernel(dtype: np.dtype, narrow: bool) -> Entry:
    return build("\n".join(_text(dtype, narrow)))


def _text(dtype: np.dtype, narrow: bool) -> list[str]:
    """Text of the kernel; its units are chunks of blocks of the result.

    As many rows at once as sums fill the registers, or fewer, with more columns.
    """
    tile, size = tile_of(dtype.itemsize), dtype.itemsize
    names = [f"{name} = a[{k}]" for k, name in enumerate(_WORDS)]
    branches: list[str] = []
    for k, rows in enumerate((1, tile.rows//4, tile.rows//2, tile.rows)):
        vectors = 1 if narrow else min(_VECTORS, tile.rows*VECTORS//max(rows, 1))
        test = "else:" if rows == tile.rows else f"{'el'*(k > 0)}if last - i <= {rows}:"
        at = f"{size}*(i*stride + j)"
        call = (f"direct_{short(dtype)}(left_at + {size}*i*down, down, along, "
                f"right_at + {size}*j, step, sums_at + {at}, stride, count, "
                f"done == begin_k, last - i, end_j - j, {rows}, {vectors})")
        branches += [test, f"    for j in range(first_j, end_j, {vectors*tile.lanes}):",
                     f"        {call}", f"    i += {rows}"]
    width = _COLUMN_BYTES//size
    return [f"# Direct {dtype.name}", "def kernel(a, begin, end):", *indented([
        *names, "for u in range(begin, end):", *indented([
            "q = u // across", f"first_j = (u - q*across)*{width}",
            f"end_j = min(columns, first_j + {width})", "c = q // over",
            f"first_i = (q - c*over)*{_ROWS}", f"last = min(rows, first_i + {_ROWS})",
            "begin_k = c*chunk", "end_k = min(k, begin_k + chunk)", "done = begin_k",
            f"sums_at = sums + {size}*c*rows*stride", "while done < end_k:", *indented([
                f"count = min({_DEPTHS[0 if narrow else 1]}, end_k - done)",
                f"left_at = left + {size}*done*along",
                f"right_at = right + {size}*done*step", "i = first_i",
                "while i < last:", *indented(branches), "done += count"])])])]


def bind_direct(f: Factors, swapped: bool, copied: bool, into: int | None,
                finish: Start | None) -> Multiply:
    """Bind a narrow product to its shape.

    Parameters
    ----------
    swapped, copied
        See `orientation`.
    into
        The stride of the result's rows, or columns if `swapped`, where the sums are
        the result; else `finish` makes it from the sums, which lie as in C order.
    """
    rows, columns = (f.n, f.m) if swapped else (f.m, f.n)
    down, along = (f.b_down, f.b_along) if swapped else (f.a_down, f.a_along)
    step = f.a_along if swapped else f.b_along
    copy = _copier(f.dtype, f.k, columns, step,
                   f.a_down if swapped else f.b_down) if copied else None
    tile = tile_of(f.dtype.itemsize)
    over, across = -(-rows//_ROWS), -(-columns*f.dtype.itemsize//_COLUMN_BYTES)
    chunks = min(-(-f.k//_CHUNK), -(-_UNITS//(over*across)))
    chunk = -(-f.k//chunks)
    chunks = -(-f.k//chunk)
    direct = into is not None and chunks == 1
    stride = into if direct and into is not None else columns
    entry, units = _kernel(f.dtype, columns <= tile.lanes), over*across*chunks
    words = struct.pack("=7q", stride, rows, columns, f.k, chunk, over, across)
    pack, packed_step = struct.Struct("=6q").pack, columns if copied else step
    weight = max(1, f.m*f.n*f.k//(_LIGHT*units))
    launch = bind_parallel(entry, units, weight)
    shape = (chunks, rows, columns) if chunks > 1 else (rows, columns)

    def multiply(a_at: int, b_at: int, pointers: Sequence[int],
                 scalars: tuple[Any, ...]) -> None:
        left, right = (b_at, a_at) if swapped else (a_at, b_at)
        kept = copy(right) if copy is not None else None
        if kept is not None:
            right = NUMPY.pointer(kept)
        if direct:
            launch(pack(left, down, along, right, packed_step, pointers[-1]) + words)
            return
        sums = np.empty(shape, f.dtype)
        launch(pack(left, down, along, right, packed_step, NUMPY.pointer(sums)) + words)
        if chunks > 1:
            sums = np.add.reduce(sums, 0)
        assert finish is not None
        finish((NUMPY.pointer(sums), *pointers), scalars, 0)

    if copied or chunks > 1 or not runs_alone(units, weight):
        return multiply
    arguments = Arguments(pack(0, down, along, 0, step, 0) + words, (
        Fill(0, "pointer", int(swapped)), Fill(3, "pointer", int(not swapped)),
        Fill(5, "pointer", -1) if direct else Fill(5, "room")))
    own = Part(entry, arguments, units)
    if direct:
        return with_native(multiply, [own])
    after = native_of(finish)
    return multiply if after is None else with_native(
        multiply, [own, *moved(after, _of_sums)], f.m*f.n*f.dtype.itemsize)


def _of_sums(fill: Fill) -> Fill:
    """A pointer of the epilogue: the sums, in temporary memory, or another array."""
    return fill._replace(which=fill.which + 1) if fill.which else Fill(
        fill.word, "room")


def _copier(dtype: np.dtype, k: int, columns: int, step: int, down: int,
            ) -> Callable[[int], np.ndarray]:
    """A function that copies a factor so that its columns are neighbours."""
    return lambda at: np.ascontiguousarray(array_over(
        at, (k, columns), (step, down), dtype.itemsize).view(dtype))
