"""Atomic updates that return the old value, between threads of the pool.

Integers have instructions of their own; floats, and what rounds to 16 bits, are
compared and exchanged as their bits until nobody came between.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from numba import types
from numba.extending import intrinsic

from ...support.llvm_atomics import INSTRUCTIONS, UPDATES, Target, namespace, updated
from ..text.halves import HALVES

__all__ = ["ATOMICS"]

_ORDER = "seq_cst"


def _swap(builder: Any, address: Any, seen: Any, new: Any) -> tuple[Any, Any]:
    """Compare and exchange: the value found, and whether `new` was stored."""
    answer = builder.cmpxchg(address, seen, new, _ORDER, _ORDER)
    return builder.extract_value(answer, 0), builder.extract_value(answer, 1)


def _floating(builder: Any, address: Any, x: Any, op: str) -> Any:
    return updated(builder, address, x, UPDATES[op], _swap)


def _integer(builder: Any, address: Any, x: Any, op: str, signed: bool) -> Any:
    instruction = INSTRUCTIONS.get(op) or ("" if signed else "u") + op
    return builder.atomic_rmw(instruction, address, x, _ORDER)


def _convert(name: str, operand: Any, context: Any, builder: Any, value: Any) -> Any:
    """Convert a 16-bit float from or to its bits."""
    signature, codegen = HALVES[name]._defn(None, operand)
    return codegen(context, builder, signature, (value,))


#: Text of a kernel calls these by name.
ATOMICS: dict[str, Any] = namespace(Target(intrinsic, _integer, _floating, _swap, {
    short: (partial(_convert, f"{short}_to_f32", types.uint16),
            partial(_convert, f"f32_to_{short}", types.float32))
    for short in ("f16", "bf16")}))
