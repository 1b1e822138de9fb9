"""Atomic updates that give the old value: blocks of a kernel run on several threads.

Integers have instructions of their own; floats, and what rounds to 16 bits, are
compared and exchanged as their bits until nobody came between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .halves import HALVES

__all__ = ["ATOMICS"]

_I16, _I64 = ir.IntType(16), ir.IntType(64)
_INSTRUCTIONS = {"add": "add", "and": "and", "or": "or", "xor": "xor", "exch": "xchg"}
_ORDER = "seq_cst"

#: What a value becomes: (builder, old, operand) → new.
Update = Callable[[Any, Any, Any], Any]


def _smaller(builder: Any, old: Any, x: Any) -> Any:
    """NaN if either is, as NumPy's minimum."""
    keep = builder.or_(builder.fcmp_ordered("<", old, x),
                       builder.fcmp_unordered("uno", old, old))
    return builder.select(keep, old, x)


def _larger(builder: Any, old: Any, x: Any) -> Any:
    """NaN if either is, as NumPy's maximum."""
    keep = builder.or_(builder.fcmp_ordered(">", old, x),
                       builder.fcmp_unordered("uno", old, old))
    return builder.select(keep, old, x)


_UPDATES: dict[str, Update] = {
    "add": lambda builder, old, x: builder.fadd(old, x), "min": _smaller,
    "max": _larger, "exch": lambda builder, old, x: x,
}


def _exchange(builder: Any, address: Any, bits: ir.IntType,
              update: Callable[[Any], Any]) -> Any:
    """Update the bits at an address; the old ones."""
    word = builder.bitcast(address, bits.as_pointer())
    first, entry = builder.load(word), builder.block
    again = builder.append_basic_block("atomic")
    done = builder.append_basic_block("atomic.end")
    builder.branch(again)
    builder.position_at_end(again)
    seen = builder.phi(bits)
    seen.add_incoming(first, entry)
    answer = builder.cmpxchg(word, seen, update(seen), _ORDER, _ORDER)
    seen.add_incoming(builder.extract_value(answer, 0), builder.block)
    builder.cbranch(builder.extract_value(answer, 1), done, again)
    builder.position_at_end(done)
    return seen


def _floating(builder: Any, address: Any, x: Any, update: Update) -> Any:
    kind = x.type
    bits = ir.IntType(32 if isinstance(kind, ir.FloatType) else 64)
    old = _exchange(builder, address, bits, lambda seen: builder.bitcast(
        update(builder, builder.bitcast(seen, kind), x), bits))
    return builder.bitcast(old, kind)


def _complex(builder: Any, address: Any, x: Any, update: Update) -> Any:
    """Part by part: each is atomic, the pair is not."""
    found = x
    part = builder.extract_value(x, 0).type
    base = builder.bitcast(address, part.as_pointer())
    for k in (0, 1):
        old = _floating(builder, builder.gep(base, [_I64(k)], source_etype=part),
                        builder.extract_value(x, k), update)
        found = builder.insert_value(found, old, k)
    return found


def _integer(builder: Any, address: Any, x: Any, op: str, signed: bool) -> Any:
    instruction = _INSTRUCTIONS.get(op) or ("" if signed else "u") + op
    return builder.atomic_rmw(instruction, address, x, _ORDER)


def _address(context: Any, builder: Any, kind: Any, pointer: Any, offset: Any) -> Any:
    return builder.gep(pointer, [offset], source_etype=context.get_data_type(kind))


def _fetch(op: str) -> Any:
    @intrinsic
    def fetch(typing: Any, pointer: Any, offset: Any, value: Any) -> Any:
        """Update ``pointer[offset]``; the old value."""
        kind = pointer.dtype

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            address = _address(context, builder, kind, *values[:2])
            x = context.cast(builder, values[2], value, kind)
            if isinstance(kind, types.Integer):
                return _integer(builder, address, x, op, kind.signed)
            if isinstance(kind, types.Complex):
                return _complex(builder, address, x, _UPDATES[op])
            return _floating(builder, address, x, _UPDATES[op])

        return kind(pointer, types.int64, value), codegen

    return fetch


@intrinsic
def fetch_cas(typing: Any, pointer: Any, offset: Any, compare: Any, value: Any) -> Any:
    """Store where the element has the bits of `compare`; the old value."""
    kind = pointer.dtype

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        address = _address(context, builder, kind, *values[:2])
        wanted = context.cast(builder, values[2], compare, kind)
        x = context.cast(builder, values[3], value, kind)
        bits = ir.IntType(kind.bitwidth)
        word = builder.bitcast(address, bits.as_pointer())
        answer = builder.cmpxchg(word, builder.bitcast(wanted, bits),
                                 builder.bitcast(x, bits), _ORDER, _ORDER)
        return builder.bitcast(builder.extract_value(answer, 0), wanted.type)

    return kind(pointer, types.int64, compare, value), codegen


def _convert(context: Any, builder: Any, name: str, value: Any) -> Any:
    """A 16-bit float from or to its bits, by the function that text calls."""
    operand = types.uint16 if name.endswith("_f32") else types.float32
    signature, codegen = HALVES[name]._defn(None, operand)
    return codegen(context, builder, signature, (value,))


def _fetch_half(op: str, short: str) -> Any:
    @intrinsic
    def fetch(typing: Any, pointer: Any, offset: Any, value: Any) -> Any:
        """`_fetch` of a 16-bit float, which is stored as its bits."""
        f32 = types.float32

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            address = _address(context, builder, types.uint16, *values[:2])
            x = context.cast(builder, values[2], value, f32)

            def update(seen: Any) -> Any:
                old = _convert(context, builder, f"{short}_to_f32", seen)
                new = _UPDATES[op](builder, old, x)
                return _convert(context, builder, f"f32_to_{short}", new)

            old = _exchange(builder, address, _I16, update)
            return _convert(context, builder, f"{short}_to_f32", old)

        return f32(pointer, types.int64, value), codegen

    return fetch


def _cas_half(short: str) -> Any:
    @intrinsic
    def fetch(typing: Any, pointer: Any, offset: Any, compare: Any, value: Any) -> Any:
        """`fetch_cas` of a 16-bit float."""
        f32 = types.float32

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            address = _address(context, builder, types.uint16, *values[:2])
            bits = [_convert(context, builder, f"f32_to_{short}",
                             context.cast(builder, v, t, f32))
                    for v, t in zip(values[2:], (compare, value), strict=True)]
            answer = builder.cmpxchg(address, *bits, _ORDER, _ORDER)
            return _convert(context, builder, f"{short}_to_f32",
                            builder.extract_value(answer, 0))

        return f32(pointer, types.int64, compare, value), codegen

    return fetch


#: Text of a kernel calls these by name.
ATOMICS: dict[str, Any] = {
    **{f"fetch_{op}": _fetch(op) for op in (*_INSTRUCTIONS, "min", "max")},
    **{f"fetch_{op}_{short}": _fetch_half(op, short)
       for op in _UPDATES for short in ("f16", "bf16")},
    "fetch_cas": fetch_cas,
    "fetch_cas_f16": _cas_half("f16"), "fetch_cas_bf16": _cas_half("bf16"),
}
