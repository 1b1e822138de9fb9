"""Atomic updates that return the old value, as LLVM intrinsics for Numba.

A target says what its instructions are; what is common is here: elements that are
updated through their bits, complex numbers, floats of 16 bits, and the names by which
the text of kernels calls all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from llvmlite import ir
from numba import types

from ..records import record

__all__ = ["INSTRUCTIONS", "UPDATES", "Target", "Update", "exchange", "namespace",
           "updated"]

#: LLVM's names of what integers do at once; of min and max it has signed and unsigned.
INSTRUCTIONS = {"add": "add", "and": "and", "or": "or", "xor": "xor", "exch": "xchg"}
_I16, _I64 = ir.IntType(16), ir.IntType(64)

#: What a value becomes: (builder, old, operand) → new.
Update = Callable[[Any, Any, Any], Any]
#: (builder, address, seen, new) → the bits there, whether they were `seen`.
Swap = Callable[[Any, Any, Any, Any], tuple[Any, Any]]
#: (context, builder, value) → value: a 16-bit float from its bits, or to them.
Convert = Callable[[Any, Any, Any], Any]


def _extremum(order: str) -> Update:
    """The larger or smaller number; NaN if either is, as in NumPy."""

    def update(builder: Any, old: Any, x: Any) -> Any:
        keep = builder.or_(builder.fcmp_ordered(order, old, x),
                           builder.fcmp_unordered("uno", old, old))
        return builder.select(keep, old, x)

    return update


#: Of floats.
UPDATES: dict[str, Update] = {
    "add": lambda builder, old, x: builder.fadd(old, x), "min": _extremum("<"),
    "max": _extremum(">"), "exch": lambda builder, old, x: x,
}


@record(frozen=True)
class Target:
    """Properties of a kind of device that atomic updates depend on.

    Attributes
    ----------
    intrinsic
        Numba's decorator.
    integer
        (builder, address, operand, name, signed) → old integer.
    floating
        (builder, address, operand, name) → old float.
    swap
        Compares and exchanges bits.
    halves
        For the short name of each 16-bit float how its bits are read and made.
    """

    intrinsic: Any
    integer: Callable[[Any, Any, Any, str, bool], Any]
    floating: Callable[[Any, Any, Any, str], Any]
    swap: Swap
    halves: Mapping[str, tuple[Convert, Convert]]


def exchange(builder: Any, address: Any, bits: Any, update: Callable[[Any], Any],
             swap: Swap) -> Any:
    """Emit a compare-and-exchange loop on the bits at an address."""
    word = builder.bitcast(address, bits.as_pointer())
    first, entry = builder.load(word), builder.block
    again = builder.append_basic_block("atomic")
    done = builder.append_basic_block("atomic.end")
    builder.branch(again)
    builder.position_at_end(again)
    seen = builder.phi(bits)
    seen.add_incoming(first, entry)
    old, stored = swap(builder, word, seen, update(seen))
    seen.add_incoming(old, builder.block)
    builder.cbranch(stored, done, again)
    builder.position_at_end(done)
    return seen


def updated(builder: Any, address: Any, x: Any, update: Update, swap: Swap) -> Any:
    """Emit the update of an element through its bits; returns the old value."""
    old = exchange(builder, address, _bits(x.type), lambda seen: builder.bitcast(
        update(builder, builder.bitcast(seen, x.type), x), _bits(x.type)), swap)
    return builder.bitcast(old, x.type)


def _bits(kind: Any) -> Any:
    if isinstance(kind, ir.IntType):
        return kind
    return ir.IntType(32) if isinstance(kind, ir.FloatType) else _I64


def _complex(builder: Any, address: Any, x: Any, op: str, target: Target) -> Any:
    """Update a complex element part by part: the pair is not atomic."""
    found, part = x, builder.extract_value(x, 0).type
    base = builder.bitcast(address, part.as_pointer())
    for k in (0, 1):
        at = builder.gep(base, [_I64(k)], source_etype=part)
        old = target.floating(builder, at, builder.extract_value(x, k), op)
        found = builder.insert_value(found, old, k)
    return found


def _address(context: Any, builder: Any, kind: Any, pointer: Any, offset: Any) -> Any:
    return builder.gep(pointer, [offset], source_etype=context.get_data_type(kind))


def _fetch(op: str, target: Target) -> Any:
    @target.intrinsic
    def fetch(typing: Any, pointer: Any, offset: Any, value: Any) -> Any:
        """Update ``pointer[offset]`` atomically; return the old value."""
        kind = pointer.dtype

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            address = _address(context, builder, kind, *values[:2])
            x = context.cast(builder, values[2], value, kind)
            if isinstance(kind, types.Complex):
                return _complex(builder, address, x, op, target)
            if isinstance(kind, types.Float):
                return target.floating(builder, address, x, op)
            return target.integer(builder, address, x, op, kind.signed)

        return kind(pointer, types.int64, value), codegen

    return fetch


def _compare(target: Target) -> Any:
    @target.intrinsic
    def fetch(typing: Any, pointer: Any, offset: Any, compare: Any, value: Any) -> Any:
        """Store if the element's bits equal `compare`'s; return the old value."""
        kind = pointer.dtype

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            address = _address(context, builder, kind, *values[:2])
            wanted = context.cast(builder, values[2], compare, kind)
            x = context.cast(builder, values[3], value, kind)
            bits = _bits(wanted.type)
            old, _ = target.swap(builder, builder.bitcast(address, bits.as_pointer()),
                                 builder.bitcast(wanted, bits),
                                 builder.bitcast(x, bits))
            return builder.bitcast(old, wanted.type)

        return kind(pointer, types.int64, compare, value), codegen

    return fetch


def _fetch_half(op: str, target: Target, decode: Convert, encode: Convert) -> Any:
    @target.intrinsic
    def fetch(typing: Any, pointer: Any, offset: Any, value: Any) -> Any:
        """Update a 16-bit float stored as bits; return the old value."""
        f32 = types.float32

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            address = _address(context, builder, types.uint16, *values[:2])
            x = context.cast(builder, values[2], value, f32)
            old = exchange(builder, address, _I16, lambda seen: encode(
                context, builder, UPDATES[op](
                    builder, decode(context, builder, seen), x)), target.swap)
            return decode(context, builder, old)

        return f32(pointer, types.int64, value), codegen

    return fetch


def _compare_half(target: Target, decode: Convert, encode: Convert) -> Any:
    @target.intrinsic
    def fetch(typing: Any, pointer: Any, offset: Any, compare: Any, value: Any) -> Any:
        """Compare and store a 16-bit float; return the old value."""
        f32 = types.float32

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            address = _address(context, builder, types.uint16, *values[:2])
            seen, new = (encode(context, builder, context.cast(builder, v, t, f32))
                         for v, t in zip(values[2:], (compare, value), strict=True))
            return decode(context, builder, target.swap(builder, address, seen, new)[0])

        return f32(pointer, types.int64, compare, value), codegen

    return fetch


def namespace(target: Target) -> dict[str, Any]:
    """The atomic functions, by the names that kernel text uses."""
    return {
        **{f"fetch_{op}": _fetch(op, target) for op in (*INSTRUCTIONS, "min", "max")},
        "fetch_cas": _compare(target),
        **{f"fetch_{op}_{short}": _fetch_half(op, target, *convert)
           for op in UPDATES for short, convert in target.halves.items()},
        **{f"fetch_cas_{short}": _compare_half(target, *convert)
           for short, convert in target.halves.items()},
    }
