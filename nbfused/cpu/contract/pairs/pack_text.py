"""Generated text of the kernels that pack factors in pairs along the sums."""

from __future__ import annotations

from ...text.lines import indented, inlined, loop

__all__ = ["DEPTH", "NEIGHBOURS", "pack_pairs_text"]

#: Terms of which the pairs of a panel's row are a multiple: whole vectors are stored.
DEPTH = 32

#: Panels that are packed at once where columns are read:
#: benchmarks/notes/cpu.md#products-of-bfloat16.
NEIGHBOURS = 8


def pack_pairs_text(width: int, order: str) -> list[str]:
    """The kernel that packs rows of a matrix; its units are panels of `width` rows.

    Parameters
    ----------
    order
        As of `gemm_text.pack_text`.
    """
    body = {"rows": _rows, "columns": _columns}.get(order, _apart)(width)
    return [f"# Pack pairs {width} {order}", *_COPY, "def kernel(a, begin, end):",
            *indented([
                "x_at, y_at, down, along, n, k = a[0], a[1], a[2], a[3], a[4], a[5]",
                f"size = {4*width}*(-(-k // {DEPTH})*{DEPTH // 2})", *body])]


_COPY = inlined("copy", ["l", "x", "s", "y", "t"], ["y[l*t] = x[l*s]"])


def _rows(width: int) -> list[str]:
    """Lines that pack by transposing squares of pairs."""
    square = DEPTH // 2
    return ["for p in range(begin, end):", f"    for lo in range(0, k, {DEPTH}):",
            *indented(indented([
                f"pairs_of_rows(x_at + 2*((p*{width} + {first})*down + lo), down, "
                f"y_at + p*size + {2*width}*lo + {4*first}, {width}, "
                f"{min(square, width - first)}, n - p*{width} - {first}, k - lo)"
                for first in range(0, width, square)]))]


def _columns(width: int) -> list[str]:
    """Lines that pack two rows of neighbours at once, of several panels."""
    return [
        f"for q in range(begin, end, {NEIGHBOURS}):", "    for i in range(0, k, 2):",
        f"        for p in range(q, min(end, q + {NEIGHBOURS})):",
        f"            pairs_of_columns(x_at + 2*(p*{width} + i*along), along, "
        f"y_at + p*size + {2*width}*i, {width}, n - p*{width}, k - i)"]


def _apart(width: int) -> list[str]:
    """Lines that pack number by number."""
    return [
        "for p in range(begin, end):",
        f"    for r in range(min({width}, n - p*{width})):",
        *indented(indented([
            f"x = bf16_pointer(x_at + 2*(p*{width} + r)*down)",
            "y = bf16_pointer(y_at + p*size + 4*r)",
            loop("copy", "0", "(k + 1) // 2", ["x", "2*along", "y", str(2*width)]),
            f"x = bf16_pointer(x_at + 2*((p*{width} + r)*down + along))",
            "y = bf16_pointer(y_at + p*size + 4*r + 2)",
            loop("copy", "0", "k // 2", ["x", "2*along", "y", str(2*width)]),
            "if k % 2:", f"    y[k // 2*{2*width}] = 0"]))]
