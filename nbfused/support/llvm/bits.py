"""The bits of a number as another type of its size, in LLVM."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from .rounding import Emitter

__all__ = ["bit_casts"]

#: The prefix of a type in generated text, for each kind, and LLVM's type by bits.
_KINDS = {"i": "int", "u": "uint", "f": "float"}
_LLVM: dict[tuple[bool, int], Any] = {
    (True, 32): ir.FloatType(), (True, 64): ir.DoubleType(),
    (False, 32): ir.IntType(32), (False, 64): ir.IntType(64)}


def bit_casts() -> dict[str, tuple[str, str, Emitter]]:
    """The names in generated text: types of result and operand, and the emitter."""
    found: dict[str, tuple[str, str, Emitter]] = {}
    for bits in (32, 64):
        for source, target in (("f", "i"), ("f", "u"), ("i", "f"), ("u", "f")):
            kind = _LLVM[target == "f", bits]
            found[f"{source}{bits}_as_{target}{bits}"] = (
                f"{_KINDS[target]}{bits}", f"{_KINDS[source]}{bits}",
                _to(kind))
    return found


def _to(kind: Any) -> Emitter:
    return lambda builder, x: builder.bitcast(x, kind)
