"""Comparing a column's number, which fits 32 bits, with a number of 64 bits."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from ...scalar.ir.nodes import Let, Literal, Value, rewrite
from ...scalar.typing.types import Typed

__all__ = ["CALLS", "compared_short"]

_OP = "column_is"
#: The intrinsic that compares.
CALLS = {(_OP, "int64"): _OP}


@lru_cache(maxsize=1024)
def compared_short(typed: Typed) -> Typed:
    """`typed` with ``index == number`` as one comparison of 32 bits for each element.

    That the number's upper half is 0 is then known once for a row.
    """
    def wide(v: Value) -> bool:
        dtype = np.dtype(v.kind) if isinstance(v, Literal) else typed.dtypes[v]
        return dtype == np.int64

    def change(s: Let) -> tuple[Let]:
        if s.op != "eq" or "index" not in s.args or not all(map(wide, s.args)):
            return (s,)
        other = next((v for v in s.args if v != "index"), "index")
        return (replace(s, op=_OP, args=("index", other)),)

    body = rewrite(typed.function.body, change)
    return replace(typed, function=replace(typed.function, body=body))
