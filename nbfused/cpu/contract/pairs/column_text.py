"""Generated text of the kernel of wide products of pairs, which is cut into columns."""

from __future__ import annotations

import numpy as np

from ...text.lines import indented
from ..gemm_text import WORDS, slot_lines, wait_lines
from ..tile import Tile

__all__ = ["COLUMN_WORDS", "columns_text"]

#: Words that every call has anew, and that products of one shape share; the epilogue's
#: steps from column to column and its arguments follow.
_CHANGING = ("a_at", "b_at", "left", "room", "control", "before")
COLUMN_WORDS = ("packs", "share", "n", "k", "terms", "pitch", "b_down", "b_along",
                "pack_right", "m", "panels", "blocks", "a_down", "a_along", "pack_left",
                "multiply", "slots", "slot", "sums", "stride", "across", "epilogue",
                "words", "operands", "inner", "finished", "down")


def columns_text(dtype: np.dtype, tile: Tile) -> list[str]:
    """Text of the kernel that multiplies, and finishes each block of columns.

    As `blocks_text`, where the left factor is the one that is packed first.
    """
    names = [f"{name} = a[{k}]" for k, name in enumerate((*_CHANGING, *COLUMN_WORDS))]
    return [f"# Columns {dtype.name}", "def kernel(a, begin, end):", *indented([
        *names, "w = i64_local(11)", f"arguments = i64_local({WORDS})",
        "for u in range(begin, end):", *indented([
            "if u < packs:", *indented([
                "w[0], w[1], w[2], w[3] = a_at, left, a_down, a_along",
                "w[4], w[5] = m, k",
                "enter(pack_left, address(w), u*share, min(panels, (u + 1)*share))",
                "word_add(control, 1)"]),
            "else:", *indented([*wait_lines(), *slot_lines([
                "p = across*(u - packs) // blocks",
                "count = across*(u - packs + 1) // blocks - p",
                f"column = {tile.columns}*p",
                f"width = min(n - column, {tile.columns}*count)",
                "right = room + s*slot",
                f"w[0], w[1] = b_at + {dtype.itemsize}*column*b_down, right",
                "w[2], w[3], w[4], w[5] = b_down, b_along, width, k",
                "enter(pack_right, address(w), 0, count)",
                f"given = {len(names)} + operands",
                "for i in range(words):", "    arguments[i] = a[given + i]",
                "for i in range(operands):",
                f"    arguments[i] += column*a[{len(names)} + i]",
                "w[0], w[1], w[2], w[3] = left, right, right + sums, terms",
                "w[4], w[5], w[6], w[7], w[8] = panels, stride, pitch, m, width",
                "w[9], w[10] = arguments[1] if finished else 0, down",
                "enter(multiply, address(w), 0, count)", "if not finished:", *indented([
                    "arguments[0] = right + sums", "arguments[inner] = width",
                    "enter(epilogue, address(arguments), 0, m*width)"])])])])])]
