"""The largest or smallest of many 16-bit floats: one instruction compares two pairs.

Elements need not be converted for that, and fewer registers are in use while a row's
loads are on their way; where registers are short, the assembler would have some loads
wait for the comparison of others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

from .accesses import asm

__all__ = ["pairs_namespace"]

_I16, _I32, _F32 = ir.IntType(16), ir.IntType(32), ir.FloatType()
Combine = Callable[[Any, Any, Any], Any]


def _combined(combine: Combine) -> Any:
    @intrinsic
    def extremum(typing: Any, pair: Any, elements: Any) -> Any:
        """Extremum of `pair`, two floats in a word, and neighbours in `elements`."""

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            count = elements.count
            halves = ir.Constant(ir.VectorType(_I16, count), ir.Undefined)
            for k in range(count):
                halves = builder.insert_element(
                    halves, builder.extract_value(values[1], k), _I32(k))
            words = builder.bitcast(halves, ir.VectorType(_I32, count // 2))
            level = [builder.extract_element(words, _I32(k)) for k in range(count // 2)]
            while len(level) > 1:
                level = [combine(builder, *level[k:k + 2])
                         for k in range(0, len(level), 2)]
            return combine(builder, values[0], level[0])

        return types.uint32(types.uint32, elements), codegen

    return extremum


def _at_once(which: str, kind: str) -> Combine:
    """``max.NaN.bf16x2`` and its like."""

    def combine(builder: Any, a: Any, b: Any) -> Any:
        return asm(builder, _I32, f"{which}.NaN.{kind}x2 $0, $1, $2;", "=r,r,r", a, b)

    return combine


def _by_halves(which: str, number: Callable[[Any, Any], Any]) -> Combine:
    """Extremum before compute capability 8.0; `number` makes a float32 of 16 bits."""
    sign = ">" if which == "max" else "<"

    def half(builder: Any, word: Any, shift: int) -> Any:
        return builder.trunc(builder.lshr(word, _I32(shift)), _I16)

    def combine(builder: Any, a: Any, b: Any) -> Any:
        whole = _I32(0)
        for shift in (0, 16):
            x, y = half(builder, a, shift), half(builder, b, shift)
            u, v = number(builder, x), number(builder, y)
            first = builder.or_(builder.fcmp_unordered("uno", u, u),
                                builder.fcmp_ordered(sign, u, v))
            found = builder.zext(builder.select(first, x, y), _I32)
            whole = builder.or_(whole, builder.shl(found, _I32(shift)))
        return whole

    return combine


def pairs_namespace(arch: tuple[int, int],
                    numbers: dict[str, Callable[[Any, Any], Any]]) -> dict[str, Any]:
    """The names for kernel text; `numbers` make a float32 of 16 bits, by kind."""
    return {f"{which}_pairs_{kind}": _combined(
        _at_once(which, kind) if arch >= (8, 0) else _by_halves(which, numbers[kind]))
        for which in ("max", "min") for kind in numbers}
