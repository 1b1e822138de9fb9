"""Generated text of the kernel that multiplies packed pairs tile by tile."""

from __future__ import annotations

from ...text.lines import indented
from ..tile import VECTORS, Tile

__all__ = ["multiply_pairs_text"]

#: Bytes of a pair, and of a sum.
_SIZE = 4

#: Rows of all right panels up to which these stay in the second-level cache, so that
#: results are stored row by row: benchmarks/notes/cpu.md#products-of-bfloat16.
_NEAR = 1 << 10


def multiply_pairs_text(tile: Tile, depth: int) -> list[str]:
    """Text of the kernel that multiplies packed pairs; units are right panels.

    Parameters
    ----------
    depth
        Bytes of a panel's row that a tile is multiplied by at once.
    """
    right = f"right + {_SIZE * tile.columns}*(j*pitch + done)"
    return ["# Product of pairs", "def kernel(a, begin, end):", *indented([
        "left, right, sums, k, panels = a[0], a[1], a[2], a[3], a[4]",
        "stride, pitch, rows, columns = a[5], a[6], a[7], a[8]",
        "result, down = a[9], a[10]", f"by_rows = k*(end - begin) <= {_NEAR}",
        "outer = panels if by_rows else end - begin",
        "inner = end - begin if by_rows else panels",
        "for o in range(outer):", "    done = 0", "    while done < k:", *indented(
            indented([
                f"count = min({depth // _SIZE}, k - done)", "for p in range(inner):",
                *indented([
                    "i = o if by_rows else p", "j = begin + (p if by_rows else o)",
                    f"near = {right}",
                    "last = p == inner - 1  # what follows is needed next",
                    f"ahead = near + {_SIZE * tile.columns}*count if last else near",
                    *_tile_lines(tile)]),
                "done += count"]))])]


def _tile_lines(tile: Tile) -> list[str]:
    """Lines that multiply panels ``i`` and ``j`` by a tile as small as what is left."""
    half = tile.rows // 2
    given = (f"left + {_SIZE * tile.rows}*(i*pitch + done), near, "
             f"sums + {_SIZE}*({tile.rows}*i*stride + {tile.columns}*j), count, "
             "stride, done == 0, ahead, done + count == k and result != 0, "
             f"result + 2*({tile.rows}*i*down + {tile.columns}*j), down, height, width")

    def of_rows(rows: int) -> list[str]:
        return [f"if width <= {tile.lanes}:", f"    tile_pairs({given}, {rows}, 1)",
                "else:", f"    tile_pairs({given}, {rows}, {VECTORS})"]

    return [f"height, width = rows - {tile.rows}*i, columns - {tile.columns}*j",
            f"if height <= {half}:", *indented(of_rows(half)), "else:",
            *indented(of_rows(tile.rows))]
