"""Questions of Contract's launchers about a call: its engine, and how operands lie.

They take products of one m, n and k loop each.
"""

from __future__ import annotations

from math import prod

from ...backend import Call
from ...gpu.operands import Operand
from ...scalar.typing.promotion import compute_dtype
from ..isa.engines import ENGINES, Engine
from .text import ContractText

__all__ = ["ACCESS", "aligned", "engine_of", "is_plain", "tiles_of"]

#: Bytes of an access.
ACCESS = 16


def is_plain(text: ContractText) -> bool:
    """Whether floats are multiplied as they lie, and summed in the dtype they have."""
    return (text.ranks[1:] == (1, 1, 1) and text.typed.prologues == (None, None)
            and text.typed.accumulator.kind == "f"
            and all(compute_dtype(o.dtype) == text.kept for o in text.factors))


def engine_of(text: ContractText) -> Engine | None:
    """The engine that multiplies; None for products of other kinds."""
    a, b = text.factors
    if (a.dtype != b.dtype or text.typed.prologues != (None, None)
            or text.ranks[1:] != (1, 1, 1)):
        return None
    float32 = "tf32" if text.typed.precision == "tf32" else "fma"
    name = {"float16": "f16", "bfloat16": "bf16", "float32": float32,
            "float64": "f64"}.get(a.dtype.name)
    if name is None or text.kept.name != ENGINES[name].kept:
        return None
    return ENGINES[name]


def tiles_of(call: Call, batch: int, extents: tuple[int, int]) -> int:
    """Tiles of the result, of so many rows and columns; `batch` loops come first."""
    m, n = call.shape[batch:batch + 2]
    rows, columns = extents
    return prod(call.shape[:batch]) * -(-m // rows) * -(-n // columns)


def aligned(call: Call, o: Operand, inner: int, width: int, *,
            padded: bool = False) -> bool:
    """Whether `width` neighbours along a loop are whole, aligned accesses.

    In `padded` rows something follows the last element up to a whole access.
    """
    strides, size = call.strides[o.at], min(width*o.dtype.itemsize, ACCESS)
    others = (*strides[:inner], *strides[inner + 1:])
    return (strides[inner] == 1 and (padded or call.shape[inner] % width == 0)
            and call.pointers[o.at] % size == 0
            and all(s*o.dtype.itemsize % size == 0 for s in others))
