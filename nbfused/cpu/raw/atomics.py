"""Atomic updates that return the old value, between threads of the pool.

Integers have instructions of their own; floats, and what rounds to 16 bits, are
compared and exchanged as their bits until nobody came between.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from numba import njit, types
from numba.extending import intrinsic

from ...support.llvm.atomics import INSTRUCTIONS, UPDATES, Target, namespace, updated
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


def _plain(op: str) -> dict[str, Any]:
    """Updates that nobody comes between, see `alone`; they return the old value."""
    new = {"add": lambda old, x: old + x, "exch": lambda old, x: x}[op]
    change = njit(new)

    @njit
    def update(pointer: Any, offset: int, value: Any) -> Any:
        old = pointer[offset]
        pointer[offset] = change(old, value)
        return old

    def rounded(decode: Any, encode: Any) -> Any:
        @njit
        def update(pointer: Any, offset: int, value: Any) -> Any:
            old = decode(pointer[offset])
            pointer[offset] = encode(change(old, value))
            return old

        return update

    return {f"fetch_{op}_alone": update} | {
        f"fetch_{op}_alone_{t}": rounded(HALVES[f"{t}_to_f32"], HALVES[f"f32_to_{t}"])
        for t in ("f16", "bf16")}


_TARGET = Target(intrinsic, _integer, _floating, _swap, {
    short: (partial(_convert, f"{short}_to_f32", types.uint16),
            partial(_convert, f"f32_to_{short}", types.float32))
    for short in ("f16", "bf16")})
#: Text of a kernel calls these by name.
ATOMICS: dict[str, Any] = {**_plain("add"), **_plain("exch"), **namespace(_TARGET)}
