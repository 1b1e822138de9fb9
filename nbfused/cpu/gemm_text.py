"""The text of the kernels of `gemm`."""

from __future__ import annotations

import numpy as np

from .text import indented, inlined, loop, short
from .tile import Tile, tile_of

__all__ = ["multiply_text", "pack_text"]

#: Bytes of a panel's row that are packed at once: those of all rows of a panel, packed,
#: stay in the first-level cache.
_PACKED_BYTES = 1 << 9

#: Panels that are packed at once where columns are read.
_NEIGHBOURS = 4

#: Bytes of a panel's row that a tile is multiplied by at once: the right panel stays in
#: the second-level cache.
_DEPTH_BYTES = 1 << 12


def multiply_text(dtype: np.dtype, tile: Tile) -> list[str]:
    """The kernel that multiplies packed factors; its units are right panels."""
    size, depth = dtype.itemsize, _DEPTH_BYTES // dtype.itemsize
    left = f"left + {size * tile.rows}*(i*k + done)"
    right = f"right + {size * tile.columns}*(j*k + done)"
    sums = f"sums + {size}*({tile.rows}*i*stride + {tile.columns}*j)"
    call = f"tile_{short(dtype)}({left}, near, {sums}, count, stride, done == 0, ahead)"
    return [f"# Product {dtype.name}", "def kernel(a, begin, end):", *indented([
        "left, right, sums, k, panels, stride = a[0], a[1], a[2], a[3], a[4], a[5]",
        "for j in range(begin, end):", "    done = 0", "    while done < k:",
        f"        count = min({depth}, k - done)", f"        near = {right}",
        "        for i in range(panels):",
        "            last = i == panels - 1  # what follows is needed next",
        f"            ahead = near + {size * tile.columns}*count if last else near",
        f"            {call}", "        done += count"])]


def pack_text(dtype: np.dtype, width: int, order: str) -> list[str]:
    """The kernel that packs rows of a matrix; its units are panels of `width` rows.

    Parameters
    ----------
    order
        ``"rows"`` if the numbers of a row are neighbours, ``"columns"`` if those of a
        column are, else ``"any"``.
    """
    pointer, size = f"{short(dtype)}_pointer", dtype.itemsize
    if order == "columns":
        body = _columns(pointer, size, width)
    else:
        squares = [f"if w == {width}:", *indented(_squares(dtype, width))]
        body = ["for p in range(begin, end):", *indented([
            f"w = min({width}, n - p*{width})", "lo = 0",
            *(squares if order == "rows" else ()), *_rows(pointer, size, width)])]
    return [f"# Pack {dtype.name} {width}",
            *inlined("copy", ["l", "x", "s", "y", "t"], ["y[l*t] = x[l*s]"]),
            *inlined("clear", ["l", "y", "t"], [f"y[l*t] = {short(dtype)}(0.0)"]),
            *inlined("copy_column", ["l", "x", "y"], ["y[l] = x[l]"]),
            "def kernel(a, begin, end):", *indented([
                "x_at, y_at, down, along, n, k = a[0], a[1], a[2], a[3], a[4], a[5]",
                *body])]


def _columns(pointer: str, size: int, width: int) -> list[str]:
    """A column after the other, of several panels: longer pieces of it are faster."""
    return [
        f"for q in range(begin, end, {_NEIGHBOURS}):", "    for i in range(k):",
        f"        for p in range(q, min(end, q + {_NEIGHBOURS})):", *indented(indented(
            indented([
                f"w = min({width}, n - p*{width})",
                f"x = {pointer}(x_at + {size}*(p*{width} + i*along))",
                f"y = {pointer}(y_at + {size * width}*(p*k + i))",
                f"if w == {width}:",
                f"    {loop('copy_column', '0', str(width), ['x', 'y'], rolled=True)}",
                "else:",
                f"    {loop('copy_column', '0', 'w', ['x', 'y'])}",
                f"    {loop('clear', 'w', str(width), ['y', '1'])}"])))]


def _rows(pointer: str, size: int, width: int) -> list[str]:
    """What is left of rows from ``lo``, a part of each row after the other."""
    return [
        "while lo < k:", f"    hi = min(k, lo + {_PACKED_BYTES // size})",
        f"    for r in range({width}):",
        f"        y = {pointer}(y_at + {size}*(p*k*{width} + r))",
        "        if r < w:",
        f"            x = {pointer}(x_at + {size}*(p*{width} + r)*down)",
        f"            {loop('copy', 'lo', 'hi', ['x', 'along', 'y', str(width)])}",
        "        else:", f"            {loop('clear', 'lo', 'hi', ['y', str(width)])}",
        "    lo = hi"]


def _squares(dtype: np.dtype, width: int) -> list[str]:
    """Squares of a vector's width, of all rows of a panel."""
    size, lanes = dtype.itemsize, tile_of(dtype.itemsize).lanes
    lines = [f"while lo + {lanes} <= k:"]
    for first in range(0, width, lanes):
        source = f"x_at + {size}*((p*{width} + {first})*down + lo)"
        target = f"y_at + {size}*((p*k + lo)*{width} + {first})"
        count = min(lanes, width - first)
        lines.append(f"    transpose_{short(dtype)}({source}, down, {target}, {width}, "
                     f"{count})")
    return [*lines, f"    lo += {lanes}"]
