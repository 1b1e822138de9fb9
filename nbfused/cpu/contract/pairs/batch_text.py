"""Generated text of the kernel of a batch of products of pairs."""

from __future__ import annotations

import numpy as np

from ...text.lines import indented
from ..gemm_text import WORDS, block_lines, slot_lines
from ..tile import Tile

__all__ = ["BATCH_WORDS", "batch_text"]

#: Words that every call has anew, and that products of one shape share; the epilogue's
#: steps and its arguments follow.
_CHANGING = ("a_first", "b_first", "room", "control")
BATCH_WORDS = ("moves", "arrays", "n", "k", "terms", "pitch", "b_down", "b_along",
               "pack_right", "m", "panels", "blocks", "a_down", "a_along", "pack_left",
               "multiply", "slots", "slot", "packed", "sums", "stride", "across",
               "epilogue", "words", "operands", "extent", "finished", "down")


def batch_text(dtype: np.dtype, tile: Tile) -> list[str]:
    """Text of the kernel whose units are products, each made in a slot.

    ``moves`` has for each product how far its factors, and the epilogue's arrays, are
    from the first one's.  A right factor that several have in turn is packed once.
    """
    names = [f"{name} = a[{k}]" for k, name in enumerate((*_CHANGING, *BATCH_WORDS))]
    return [f"# Batch {dtype.name}", "def kernel(a, begin, end):", *indented([
        *names, "w = i64_local(11)", f"arguments = i64_local({WORDS})",
        *slot_lines(["right, before = room + s*slot + packed, 0",
                     "for u in range(begin, end):", *indented([
                         "move = i64_pointer(moves + 8*arrays*u)",
                         "a_at, b_at = a_first + move[0], b_first + move[1]",
                         "if b_at != before:", *indented([
                             "w[0], w[1], w[2], w[3] = b_at, right, b_down, b_along",
                             "w[4], w[5] = n, k",
                             "enter(pack_right, address(w), 0, across)",
                             "before = b_at"]),
                         "for c in range(blocks):", *indented(block_lines(
                             dtype, tile, "c", len(names), [
                                 "for i in range(1, operands):",
                                 "    arguments[i] += move[i + 1]"]))])])])]
