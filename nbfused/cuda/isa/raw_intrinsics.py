"""Atomics that give the old value, shuffles and printf, for kernels of users.

Addresses are generic: an array may lie in global or in shared memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

from ...support.llvm.atomics import (
    INSTRUCTIONS,
    UPDATES,
    Target,
    Update,
    exchange,
    namespace,
    updated,
)
from .inline_ptx import asm

__all__ = ["in_word", "raw_namespace"]

_I8, _I16, _I32, _I64 = (ir.IntType(n) for n in (8, 16, 32, 64))
_F32 = ir.FloatType()

#: A 16-bit float from its bits, or to them.
Convert = Callable[[Any, Any], Any]


def _narrow(op: str, signed: bool) -> Update:
    """A change of integers of 8 or 16 bits inside their word."""
    order = "<" if op == "min" else ">"

    def update(builder: Any, old: Any, x: Any) -> Any:
        if op == "exch":
            return x
        if op in ("min", "max"):
            compare = builder.icmp_signed if signed else builder.icmp_unsigned
            return builder.select(compare(order, old, x), old, x)
        return getattr(builder, {"and": "and_", "or": "or_"}.get(op, op))(old, x)

    return update


def _swap(builder: Any, address: Any, seen: Any, new: Any) -> tuple[Any, Any]:
    """Compare and exchange: what was there, and whether it was `seen`."""
    if seen.type.width >= 32:
        answer = builder.cmpxchg(address, seen, new, "monotonic", "monotonic")
        return builder.extract_value(answer, 0), builder.extract_value(answer, 1)
    if seen.type.width == 16:
        old = asm(builder, _I16, "atom.cas.b16 $0, [$1], $2, $3;",
                  "=h,l,h,h,~{memory}", builder.ptrtoint(address, _I64), seen, new,
                  effect=True)
    else:
        old = in_word(builder, address, _I8, lambda old: builder.select(
            builder.icmp_signed("==", old, seen), new, old))
    return old, builder.icmp_signed("==", old, seen)


def in_word(builder: Any, address: Any, bits: Any, update: Callable[[Any], Any]) -> Any:
    """Update 8 or 16 bits by the 32-bit word around them; the old ones."""
    place = builder.ptrtoint(address, _I64)
    word = builder.inttoptr(builder.and_(place, _I64(-4)), _I32.as_pointer())
    shift = builder.trunc(builder.shl(builder.and_(place, _I64(3)), _I64(3)), _I32)
    others = builder.not_(builder.shl(_I32((1 << bits.width) - 1), shift))

    def part(whole: Any) -> Any:
        return builder.trunc(builder.lshr(whole, shift), bits)

    def replaced(whole: Any) -> Any:
        new = builder.shl(builder.zext(update(part(whole)), _I32), shift)
        return builder.or_(builder.and_(whole, others), new)

    return part(exchange(builder, word, _I32, replaced, _swap))


def _integer(builder: Any, address: Any, x: Any, op: str, signed: bool) -> Any:
    if x.type.width >= 32:
        name = INSTRUCTIONS.get(op) or ("" if signed else "u") + op
        return builder.atomic_rmw(name, address, x, "monotonic")
    update = _narrow(op, signed)
    if x.type.width == 8:
        return in_word(builder, address, _I8, lambda old: update(builder, old, x))
    return updated(builder, address, x, update, _swap)


def _floating(builder: Any, address: Any, x: Any, op: str) -> Any:
    if op != "add":
        return updated(builder, address, x, UPDATES[op], _swap)
    code, letter = ("f32", "f") if x.type == _F32 else ("f64", "d")
    return asm(builder, x.type, f"atom.add.{code} $0, [$1], $2;",
               f"={letter},l,{letter},~{{memory}}", builder.ptrtoint(address, _I64), x,
               effect=True)


def _in_context(convert: Convert) -> Callable[[Any, Any, Any], Any]:
    return lambda context, builder, value: convert(builder, value)


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


# --- printing


@intrinsic
def _printf(typing: Any, text: Any, *args: Any) -> Any:
    """Print by ``vprintf``, which reads the values from memory of the thread's own."""
    if not isinstance(text, types.StringLiteral):
        return None  # Numba then asks again with the literal

    def codegen(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        module = builder.module
        words = [builder.extract_value(given[1], k) for k in range(len(args))]
        packed = ir.LiteralStructType([w.type for w in words])
        with builder.goto_entry_block():
            memory = builder.alloca(packed)
        for k, w in enumerate(words):
            builder.store(w, builder.gep(memory, [_I32(0), _I32(k)]))
        format_ = context.insert_string_const_addrspace(builder, text.literal_value)
        pointer = _I8.as_pointer()
        write = module.globals.get("vprintf") or ir.Function(
            module, ir.FunctionType(_I32, [pointer, pointer]), "vprintf")
        builder.call(write, [format_, builder.bitcast(memory, pointer)])
        return context.get_dummy_value()

    return types.void(text, types.StarArgTuple.from_types(args)), codegen


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
    target = Target(intrinsic, _integer, _floating, _swap, {
        name: (_in_context(decode), _in_context(encode))
        for name, (decode, encode) in halves.items()})
    return {
        **namespace(target),
        **{f"shuffle_{mode}": _shuffle(mode, words, number)
           for mode in ("idx", "up", "down", "xor")},
        "printf": _printf,
    }
