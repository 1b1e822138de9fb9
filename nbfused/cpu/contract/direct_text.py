"""Generated text of the kernels of narrow products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...support.dtypes import short
from ...support.records import record
from ..text.lines import indented, inlined, loop
from .tile import square_lanes

__all__ = ["ROOM", "WORDS", "InnerLoop", "move_text", "product_text", "split_text",
           "sum_text", "turn_text"]

#: Words that each call gives, addresses, and those that products of one shape share.
FILLED = ("left", "right", "sums")
WORDS = ("down", "along", "own", "step", "stride", "aside", "rows", "columns", "k",
         "high", "wide", "chunk", "deep", "over", "across", "each", "left_apart",
         "right_apart", "sums_apart")


#: Numbers of a factor that is turned for each product of a batch at most, in whole
#: squares: with what else is read they stay in the first cache.
ROOM = 1 << 10


@record(frozen=True)
class InnerLoop:
    """The inner loop of a kernel.

    Attributes
    ----------
    form
        ``"columns"`` loads vectors of the right factor along its columns, and keeps a
        tile of sums in registers; ``"streams"`` does for sums in the cache, of more
        columns; ``"dots"`` loads vectors of both factors along the sums.
    left, right
        Dtypes of the factors in memory.
    rows
        Rows of a tile of sums.
    across
        Its vectors, or columns for ``"dots"``.
    parts
        In how many each sum is made; for ``"streams"`` products at once.
    paired
        Whether pairs of bfloat16 are multiplied.
    """

    form: str
    left: np.dtype
    right: np.dtype
    rows: int
    across: int
    parts: int
    paired: bool = False


def product_text(dtype: np.dtype, inner: InnerLoop, lanes: int, turned: bool = False,
                 ) -> list[str]:
    """Text of a kernel whose units are chunks of the sums of blocks of the result.

    A block is `high` rows and `wide` columns, a chunk's products are added to the sums
    `deep` at a time; each chunk has sums of its own.  Of a batch of products, whose
    factors and sums are so far `apart`, each has so many units; where the right factor
    is `turned`, from rows along the sums, each is one unit.
    """
    names = [f"{name} = a[{k}]" for k, name in enumerate((*FILLED, *WORDS))]
    left, right, size = (d.itemsize for d in (inner.left, inner.right, dtype))
    kinds = "pairs" if inner.paired else "_".join(
        map(short, (inner.left, inner.right, dtype)))
    body = _BODIES[inner.form](inner, kinds, (left, right, size), lanes)
    name = f"Narrow {kinds} {inner.form} {inner.rows} {inner.across} {inner.parts}"
    turn, begin = ([], f"right + {right}*p*right_apart") if not turned else (
        _turned(dtype), "address(room)")
    return [f"# {name}{' turned'*turned}", "def kernel(a, begin, end):", *indented([
        *names, *[f"room = {short(dtype)}_local({ROOM})"]*turned,
        "for u in range(begin, end):", *indented([
            # No divisions where small products are one unit each.
            "p = u if each == 1 else u // each", "r = u - p*each", *turn,
            "q = r if across == 1 else r // across", "first_j = (r - q*across)*wide",
            "end_j = min(columns, first_j + wide)",
            "c = q if over == 1 else q // over", "first_i = (q - c*over)*high",
            "last = min(rows, first_i + high)",
            "begin_k = c*chunk", "end_k = min(k, begin_k + chunk)", "done = begin_k",
            f"sums_at = sums + {size}*(c*rows*columns + p*sums_apart)",
            "while done < end_k:", *indented([
                "count = min(deep, end_k - done)",
                f"left_at = left + {left}*(done*along + p*left_apart)",
                f"right_at = {begin} + {right}*done*step", *body,
                "done += count"])])])]


def _turned(dtype: np.dtype) -> list[str]:
    """Lines that copy the right factor of product ``p`` to columns."""
    lanes, size = square_lanes(dtype.itemsize), dtype.itemsize
    return [f"for i in range(0, columns, {lanes}):", *indented([
        f"for t in range(0, k, {lanes}):", *indented([
            f"square_padded_{short(dtype)}(right + {size}*(p*right_apart + i*own + t), "
            f"own, address(room) + {size}*(t*step + i), step, columns - i, k - t)"])])]


def _columns(inner: InnerLoop, kinds: str, sizes: Sequence[int],
             lanes: int) -> list[str]:
    left, right, size = sizes
    return [f"for i in range(first_i, last, {inner.rows}):", *indented([
        f"for j in range(first_j, end_j, {inner.across*lanes}):", *indented([
            f"direct_{kinds}(left_at + {left}*i*down, down, along, "
            f"right_at + {right}*j, step, sums_at + {size}*(i*stride + j), stride, "
            "count, done == begin_k, last - i, end_j - j, "
            f"{inner.rows}, {inner.across}, {inner.parts})"])])]


def _streams(inner: InnerLoop, kinds: str, sizes: Sequence[int],
             lanes: int) -> list[str]:
    left, right, size = sizes

    def call(depth: int) -> str:
        return (f"stream_{kinds}(left_at + {left}*(first_i*down + d*along), down, "
                f"along, right_at + {right}*(first_j + d*step), step, "
                f"sums_at + {size}*(first_i*stride + first_j), stride, "
                f"done + d == begin_k, end_j - first_j, {inner.rows}, {depth})")

    return ["d = 0", f"while d + {inner.parts} <= count:",
            *indented([call(inner.parts), f"d += {inner.parts}"]),
            "while d < count:", *indented([call(1), "d += 1"])]


def _dots(inner: InnerLoop, kinds: str, sizes: Sequence[int],
          lanes: int) -> list[str]:
    left, right, size = sizes
    return [f"for j in range(first_j, end_j, {inner.across}):", *indented([
        f"for i in range(first_i, last, {inner.rows}):", *indented([
            f"dots_{kinds}(left_at + {left}*i*down, down, "
            f"right_at + {right}*j*own, own, "
            f"sums_at + {size}*(i*stride + j*aside), stride, aside, count, "
            "done == begin_k, last - i, end_j - j, "
            f"{inner.rows}, {inner.across}, {inner.parts})"])])]


_BODIES = {"columns": _columns, "streams": _streams, "dots": _dots}


def move_text(dtype: np.dtype) -> list[str]:
    """Text of the kernel that copies rows, its units, number by number.

    Words: both addresses, strides of rows and along them of both, numbers in a row.
    """
    pointer = f"{short(dtype)}_pointer"
    return [f"# Move {dtype.name}",
            *inlined("move", ["j", "x", "s", "y", "t"], ["y[j*t] = x[j*s]"]),
            "def kernel(a, begin, end):", *indented([
                "s, t, n = a[3], a[5], a[6]", "for i in range(begin, end):", *indented([
                    f"x = {pointer}(a[0] + {dtype.itemsize}*i*a[2])",
                    f"y = {pointer}(a[1] + {dtype.itemsize}*i*a[4])",
                    loop("move", "0", "n", ["x", "s", "y", "t"])])])]


def split_text(dtype: np.dtype, columns: int) -> list[str]:
    """Text of the kernel that copies rows, its units, of so many neighbours to columns.

    Words: both addresses, numbers in a column.
    """
    names = [f"y{c}" for c in range(columns)]
    pointer = f"{short(dtype)}_pointer"
    return [f"# Split {dtype.name} {columns}",
            *inlined("split", ["i", "x", *names], [
                f"{y}[i] = x[i*{columns} + {c}]" for c, y in enumerate(names)]),
            "def kernel(a, begin, end):", *indented([
                f"x = {pointer}(a[0])", *(
                    f"{y} = {pointer}(a[1] + {dtype.itemsize*c}*a[2])"
                    for c, y in enumerate(names)),
                loop("split", "begin", "end", ["x", *names])])]


def turn_text(dtype: np.dtype, lanes: int) -> list[str]:
    """Text of the kernel that copies rows, `lanes` of which are a unit, to columns.

    Words: both addresses, strides of the rows and of what become rows, rows, columns.
    """
    size = dtype.itemsize
    return [f"# Turn {dtype.name}", "def kernel(a, begin, end):", *indented([
        "s, t, rows, columns = a[2], a[3], a[4], a[5]",
        f"for i in range({lanes}*begin, min(rows, {lanes}*end), {lanes}):", *indented([
            f"for j in range(0, columns, {lanes}):", *indented([
                f"square_any_{short(dtype)}(a[0] + {size}*(i*s + j), s, "
                f"a[1] + {size}*(j*t + i), t, rows - i, columns - j)"])])])]


def sum_text(dtype: np.dtype) -> list[str]:
    """Text of the kernel that adds later chunks to the sums, its units, of the first.

    Words: its address, sums in a chunk, chunks.
    """
    pointer = f"{short(dtype)}_pointer"
    return [f"# Chunks {dtype.name}",
            *inlined("add", ["i", "x", "y"], ["x[i] += y[i]"]),
            "def kernel(a, begin, end):", *indented([
                f"x = {pointer}(a[0])", "for c in range(1, a[2]):", *indented([
                    f"y = {pointer}(a[0] + {dtype.itemsize}*c*a[1])",
                    loop("add", "begin", "end", ["x", "y"])])])]
