"""Generated text of the kernels of the blocked matrix product."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...support.dtypes import BFLOAT16, short
from ..text.lines import indented, inlined, loop
from .pairs.tile_text import multiply_pairs_text
from .tile import Tile, tile_of

__all__ = ["STATIC", "WORDS", "block_lines", "blocks_text", "multiply_text",
           "pack_text", "packed_together", "slot_lines", "wait_lines"]

#: Bytes of a panel's row that are packed at once: those of all rows of a panel, packed,
#: stay in the first-level cache.  Not measured.
_PACKED_BYTES = 1 << 9

#: Panels that are packed at once where columns are read; not measured.
_NEIGHBOURS = 4

#: Bytes of a panel's row that a tile is multiplied by at once: the right panel stays in
#: the second-level cache.  Depths of 64, 128 … 1024 float32 reach 82.8, 94.6, 104.2,
#: 109.8 and 113.3 GFLOP/s: benchmarks/notes/cpu.md#products-on-the-cpu.
_DEPTH_BYTES = 1 << 12

_LINE = 64  # bytes of a cache line

#: Glances at threads that still pack, before yielding the processor; not measured.
_PATIENCE = 1 << 10

#: Words of a kernel of blocks that every call has anew, and that products of one shape
#: share; the epilogue's steps and its arguments follow.
CHANGING = ("a_at", "b_at", "right", "room", "control", "before")
STATIC = ("packs", "share", "n", "k", "terms", "pitch", "b_down", "b_along",
          "pack_right", "m", "panels", "blocks", "a_down", "a_along", "pack_left",
          "multiply", "slots", "slot", "sums", "stride", "across", "epilogue",
          "words", "operands", "extent", "finished", "down")

#: Words of an epilogue's arguments at most.
WORDS = 128


def packed_together(dtype: np.dtype) -> int:
    """Terms of a sum that are packed side by side: pairs of bfloat16, else each."""
    return 2 if dtype == BFLOAT16 else 1


def blocks_text(dtype: np.dtype, tile: Tile) -> list[str]:
    """Text of the kernel that multiplies, and finishes each block of rows.

    Its first units pack the right factor, `share` panels each.  Those after them are
    blocks of rows, and wait for the first ones; pieces are taken in order, so somebody
    is at work on each of these.  A block is made in one of the `slots`, of which there
    are as many as threads; ``control`` counts what is packed, and has a word for each
    slot, in a line of its own, that says whether it is taken.
    """
    names = [f"{name} = a[{k}]" for k, name in enumerate((*CHANGING, *STATIC))]
    steps = len(names)
    return [f"# Blocks {dtype.name}", "def kernel(a, begin, end):", *indented([
        *names, "w = i64_local(11)", f"arguments = i64_local({WORDS})",
        "for u in range(begin, end):", *indented([
            "if u < packs:", *indented([
                "w[0], w[1], w[2], w[3] = b_at, right, b_down, b_along",
                "w[4], w[5] = n, k",
                "enter(pack_right, address(w), u*share, min(across, (u + 1)*share))",
                "word_add(control, 1)"]),
            "else:", *indented([
                *wait_lines(), *slot_lines(block_lines(
                    dtype, tile, "u - packs", steps))])])])]


def wait_lines() -> list[str]:
    """Lines that wait until the first units have packed a factor."""
    return ["glances = 0", "while word_read(control) - before < packs:", "    pause()",
            "    glances += 1", f"    if glances > {_PATIENCE}:", "        give_way()"]


def slot_lines(lines: Sequence[str]) -> list[str]:
    """Lines that run others in a slot of their own, ``s``."""
    return ["s = 0", f"while not word_take(control + {_LINE} + {_LINE}*s, 1):",
            "    s = s + 1 if s + 1 < slots else 0", "    pause()", *lines,
            f"word_write(control + {_LINE} + {_LINE}*s, 0)"]


def block_lines(dtype: np.dtype, tile: Tile, number: str, steps: int,
                moves: Sequence[str] = ()) -> list[str]:
    """Lines that make the block of a `number` in slot ``s``.

    Parameters
    ----------
    steps
        Word of the first of the epilogue's steps.
    moves
        Lines that move the epilogue's arguments further.
    """
    return [
        f"p = panels*({number}) // blocks",
        f"count = panels*({number} + 1) // blocks - p",
        f"row = {tile.rows}*p", f"rows = min(m - row, {tile.rows}*count)",
        "left = room + s*slot",
        f"w[0], w[1] = a_at + {dtype.itemsize}*row*a_down, left",
        "w[2], w[3], w[4], w[5] = a_down, a_along, rows, k",
        "enter(pack_left, address(w), 0, count)",
        "w[0], w[1], w[2], w[3] = left, right, left + sums, terms",
        "w[4], w[5], w[6], w[7], w[8] = count, stride, pitch, rows, n",
        f"given = {steps} + operands",
        "for i in range(words):", "    arguments[i] = a[given + i]",
        "for i in range(operands):", f"    arguments[i] += row*a[{steps} + i]", *moves,
        "w[9], w[10] = arguments[1] if finished else 0, down",
        "enter(multiply, address(w), 0, across)",
        "if not finished:", *indented([
            "arguments[0] = left + sums", "arguments[extent] = rows",
            "enter(epilogue, address(arguments), 0, rows*n)"])]


def multiply_text(dtype: np.dtype, tile: Tile) -> list[str]:
    """Text of the kernel that multiplies packed factors; units are right panels."""
    if packed_together(dtype) > 1:
        return multiply_pairs_text(tile, _DEPTH_BYTES)
    size, depth = dtype.itemsize, _DEPTH_BYTES // dtype.itemsize
    left = f"left + {size * tile.rows}*(i*pitch + done)"
    right = f"right + {size * tile.columns}*(j*pitch + done)"
    sums = f"sums + {size}*({tile.rows}*i*stride + {tile.columns}*j)"
    call = f"tile_{short(dtype)}({left}, near, {sums}, count, stride, done == 0, ahead)"
    return [f"# Product {dtype.name}", "def kernel(a, begin, end):", *indented([
        "left, right, sums, k, panels = a[0], a[1], a[2], a[3], a[4]",
        "stride, pitch = a[5], a[6]",
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
        column are, and with ``" apart"`` where they are only the nearer ones.
    """
    pointer, size = f"{short(dtype)}_pointer", dtype.itemsize
    if order.startswith("columns"):
        body = _columns(pointer, size, width, order != "columns")
    else:
        squares = [f"if w == {width}:", *indented(_squares(dtype, width))]
        body = ["for p in range(begin, end):", *indented([
            f"w = min({width}, n - p*{width})", "lo = 0",
            *(squares if order == "rows" else ()), *_rows(pointer, size, width)])]
    return [f"# Pack {dtype.name} {width}",
            *inlined("copy", ["l", "x", "s", "y", "t"], ["y[l*t] = x[l*s]"]),
            *inlined("clear", ["l", "y", "t"], [f"y[l*t] = {short(dtype)}(0.0)"]),
            "def kernel(a, begin, end):", *indented([
                "x_at, y_at, down, along, n, k = a[0], a[1], a[2], a[3], a[4], a[5]",
                *body])]


def _columns(pointer: str, size: int, width: int, apart: bool) -> list[str]:
    """Lines that pack column by column, several panels at a time."""
    step = "down" if apart else "1"
    given = ["x", step, "y", "1"]
    return [
        f"for q in range(begin, end, {_NEIGHBOURS}):", "    for i in range(k):",
        f"        for p in range(q, min(end, q + {_NEIGHBOURS})):", *indented(indented(
            indented([
                f"w = min({width}, n - p*{width})",
                f"x = {pointer}(x_at + {size}*(p*{width}*{step} + i*along))",
                f"y = {pointer}(y_at + {size * width}*(p*k + i))",
                f"if w == {width}:",
                f"    {loop('copy', '0', str(width), given, rolled=True)}",
                "else:",
                f"    {loop('copy', '0', 'w', given)}",
                f"    {loop('clear', 'w', str(width), ['y', '1'])}"])))]


def _rows(pointer: str, size: int, width: int) -> list[str]:
    """Lines that pack the rows from ``lo`` on, piece by piece."""
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
    """Lines that pack by transposing squares as wide as a vector."""
    size, lanes = dtype.itemsize, tile_of(dtype.itemsize).lanes
    lines = [f"while lo + {lanes} <= k:"]
    for first in range(0, width, lanes):
        source = f"x_at + {size}*((p*{width} + {first})*down + lo)"
        target = f"y_at + {size}*((p*k + lo)*{width} + {first})"
        count = min(lanes, width - first)
        lines.append(f"    transpose_{short(dtype)}({source}, down, {target}, {width}, "
                     f"{count})")
    return [*lines, f"    lo += {lanes}"]
