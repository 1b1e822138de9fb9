"""Atomics that give the old value, and shuffles, for kernels that users write.

Addresses are generic: an array may lie in global or in shared memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

from .accesses import asm

__all__ = ["raw_namespace"]

_I8, _I16, _I32, _I64 = (ir.IntType(n) for n in (8, 16, 32, 64))
_F32, _F64 = ir.FloatType(), ir.DoubleType()
_INSTRUCTIONS = {"add": "add", "and": "and", "or": "or", "xor": "xor", "exch": "xchg"}

#: What a value becomes: (builder, old, operand) → new.
Update = Callable[[Any, Any, Any], Any]
Convert = Callable[[Any, Any], Any]
#: What bits become, where the builder is known.
Bits = Callable[[Any], Any]


def _extremum(order: str) -> Update:
    """NaN if either is, as NumPy has it."""

    def update(builder: Any, old: Any, x: Any) -> Any:
        keep = builder.or_(builder.fcmp_ordered(order, old, x),
                           builder.fcmp_unordered("uno", old, old))
        return builder.select(keep, old, x)

    return update


_FLOATING: dict[str, Update] = {
    "add": lambda builder, old, x: builder.fadd(old, x), "min": _extremum("<"),
    "max": _extremum(">"), "exch": lambda builder, old, x: x,
}


def _narrow(op: str, signed: bool) -> Update:
    """What integers of 8 or 16 bits become."""
    order = "<" if op == "min" else ">"

    def update(builder: Any, old: Any, x: Any) -> Any:
        if op == "exch":
            return x
        if op in ("min", "max"):
            compare = builder.icmp_signed if signed else builder.icmp_unsigned
            return builder.select(compare(order, old, x), old, x)
        return getattr(builder, {"and": "and_", "or": "or_"}.get(op, op))(old, x)

    return update


# --- compare and exchange


def _swap(builder: Any, address: Any, seen: Any, new: Any) -> tuple[Any, Any]:
    """What was there, and whether it was `seen` and is `new` now."""
    if seen.type.width == 16:
        old = asm(builder, _I16, "atom.cas.b16 $0, [$1], $2, $3;",
                  "=h,l,h,h,~{memory}", builder.ptrtoint(address, _I64), seen, new,
                  effect=True)
        return old, builder.icmp_signed("==", old, seen)
    answer = builder.cmpxchg(address, seen, new, "monotonic", "monotonic")
    return builder.extract_value(answer, 0), builder.extract_value(answer, 1)


def _loop(builder: Any, address: Any, bits: Any, update: Bits) -> Any:
    """Update the bits at an address until nobody came between; the old ones."""
    word = builder.bitcast(address, bits.as_pointer())
    first, entry = builder.load(word), builder.block
    again = builder.append_basic_block("atomic")
    done = builder.append_basic_block("atomic.end")
    builder.branch(again)
    builder.position_at_end(again)
    seen = builder.phi(bits)
    seen.add_incoming(first, entry)
    old, stored = _swap(builder, word, seen, update(seen))
    seen.add_incoming(old, builder.block)
    builder.cbranch(stored, done, again)
    builder.position_at_end(done)
    return seen


def _byte(builder: Any, address: Any, update: Bits) -> Any:
    """`_loop` on the 32-bit word around a byte; the old byte."""
    place = builder.ptrtoint(address, _I64)
    word = builder.inttoptr(builder.and_(place, _I64(-4)), _I32.as_pointer())
    shift = builder.trunc(builder.shl(builder.and_(place, _I64(3)), _I64(3)), _I32)
    others = builder.not_(builder.shl(_I32(255), shift))

    def part(whole: Any) -> Any:
        return builder.trunc(builder.lshr(whole, shift), _I8)

    def replaced(whole: Any) -> Any:
        new = builder.shl(builder.zext(update(part(whole)), _I32), shift)
        return builder.or_(builder.and_(whole, others), new)

    return part(_loop(builder, word, _I32, replaced))


def _bits(kind: Any) -> Any:
    if isinstance(kind, ir.IntType):
        return kind
    return _I32 if isinstance(kind, ir.FloatType) else _I64


def _updated(builder: Any, address: Any, x: Any, update: Update) -> Any:
    """Update an element of the type of `x`; the old one."""
    bits, kind = _bits(x.type), x.type
    if bits.width == 8:
        return _byte(builder, address, lambda old: update(builder, old, x))
    old = _loop(builder, address, bits, lambda seen: builder.bitcast(
        update(builder, builder.bitcast(seen, kind), x), bits))
    return builder.bitcast(old, kind)


def _float(builder: Any, address: Any, x: Any, op: str) -> Any:
    if op != "add":
        return _updated(builder, address, x, _FLOATING[op])
    code, letter = ("f32", "f") if x.type == _F32 else ("f64", "d")
    return asm(builder, x.type, f"atom.add.{code} $0, [$1], $2;",
               f"={letter},l,{letter},~{{memory}}", builder.ptrtoint(address, _I64), x,
               effect=True)


def _complex(builder: Any, address: Any, x: Any, op: str) -> Any:
    """Part by part: each is atomic, the pair is not."""
    found, part = x, builder.extract_value(x, 0).type
    base = builder.bitcast(address, part.as_pointer())
    for k in (0, 1):
        at = builder.gep(base, [_I64(k)], source_etype=part)
        found = builder.insert_value(
            found, _float(builder, at, builder.extract_value(x, k), op), k)
    return found


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
            if isinstance(kind, types.Complex):
                return _complex(builder, address, x, op)
            if isinstance(kind, types.Float):
                return _float(builder, address, x, op)
            if kind.bitwidth < 32:
                return _updated(builder, address, x, _narrow(op, kind.signed))
            name = _INSTRUCTIONS.get(op) or ("" if kind.signed else "u") + op
            return builder.atomic_rmw(name, address, x, "monotonic")

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
        bits = _bits(wanted.type)
        if bits.width == 8:
            return _byte(builder, address, lambda old: builder.select(
                builder.icmp_signed("==", old, wanted), x, old))
        old, _ = _swap(builder, builder.bitcast(address, bits.as_pointer()),
                       builder.bitcast(wanted, bits), builder.bitcast(x, bits))
        return builder.bitcast(old, wanted.type)

    return kind(pointer, types.int64, compare, value), codegen


def _fetch_half(op: str, decode: Convert, encode: Convert) -> Any:
    @intrinsic
    def fetch(typing: Any, pointer: Any, offset: Any, value: Any) -> Any:
        """`_fetch` of a 16-bit float, which is stored as its bits."""
        f32 = types.float32

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            address = _address(context, builder, types.uint16, *values[:2])
            x = context.cast(builder, values[2], value, f32)
            old = _loop(builder, address, _I16, lambda seen: encode(
                builder, _FLOATING[op](builder, decode(builder, seen), x)))
            return decode(builder, old)

        return f32(pointer, types.int64, value), codegen

    return fetch


def _cas_half(decode: Convert, encode: Convert) -> Any:
    @intrinsic
    def fetch(typing: Any, pointer: Any, offset: Any, compare: Any, value: Any) -> Any:
        """`fetch_cas` of a 16-bit float."""
        f32 = types.float32

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            address = _address(context, builder, types.uint16, *values[:2])
            seen, new = (encode(builder, context.cast(builder, v, t, f32))
                         for v, t in zip(values[2:], (compare, value), strict=True))
            return decode(builder, _swap(builder, address, seen, new)[0])

        return f32(pointer, types.int64, compare, value), codegen

    return fetch


# --- between the threads of a warp


def _shuffle(mode: str, words: Any, number: Any) -> Any:
    code, bound = {"idx": ("idx", 31), "up": ("up", 0), "down": ("down", 31),
                   "xor": ("bfly", 31)}[mode]
    text = f"shfl.sync.{code}.b32 $0, $1, $2, {bound}, -1;"

    @intrinsic
    def shuffle(typing: Any, value: Any, lane: Any) -> Any:
        """The value of another lane; all threads of the warp call it."""

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            where = builder.trunc(values[1], _I32)

            def exchange(x: Any) -> Any:
                return number(builder, [
                    asm(builder, _I32, text, "=r,r,r", w, where, effect=True)
                    for w in words(builder, x)], x.type)

            if not isinstance(value, types.Complex):
                return exchange(values[0])
            result = values[0]
            for part in (0, 1):
                result = builder.insert_value(
                    result, exchange(builder.extract_value(values[0], part)), part)
            return result

        return value(value, types.int64), codegen

    return shuffle


def raw_namespace(words: Any, number: Any,
                  halves: dict[str, tuple[Convert, Convert]]) -> dict[str, Any]:
    """The names that the text of a kernel may use.

    Parameters
    ----------
    words, number
        A value as 32-bit integers, and back.
    halves
        For each 16-bit float how its bits are read and made.
    """
    return {
        **{f"fetch_{op}": _fetch(op) for op in (*_INSTRUCTIONS, "min", "max")},
        **{f"fetch_{op}_{name}": _fetch_half(op, *convert)
           for op in _FLOATING for name, convert in halves.items()},
        "fetch_cas": fetch_cas,
        **{f"fetch_cas_{name}": _cas_half(*convert)
           for name, convert in halves.items()},
        **{f"shuffle_{mode}": _shuffle(mode, words, number)
           for mode in ("idx", "up", "down", "xor")},
    }
