"""Atomic operations on 64-bit words, as LLVM intrinsics for generated text."""

from __future__ import annotations

import os
import platform
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["SHARED_WORDS"]

_I64 = ir.IntType(64)
_I32 = ir.IntType(32)
_ORDER = "seq_cst"

#: LLVM's names, and operands, of instructions that say that a loop waits: ``pause`` on
#: x86, ``yield`` on Arm.
_PAUSES: dict[str, tuple[str, tuple[int, ...]]] = {
    **dict.fromkeys(("x86_64", "AMD64"), ("llvm.x86.sse2.pause", ())),
    **dict.fromkeys(("aarch64", "arm64"), ("llvm.aarch64.hint", (1,)))}


def _pointer(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, _I64.as_pointer())


def _function(module: Any, name: str, kind: Any) -> Any:
    return module.globals.get(name) or ir.Function(module, kind, name)


@intrinsic
def word_add(typing: Any, address: Any, number: Any) -> Any:
    """Add to a word atomically; return its old value."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.atomic_rmw("add", _pointer(builder, values[0]), values[1],
                                  _ORDER)

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def word_read(typing: Any, address: Any) -> Any:
    """Load a word atomically."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.load_atomic(_pointer(builder, values[0]), _ORDER, 8, typ=_I64)

    return types.int64(types.int64), codegen


@intrinsic
def word_write(typing: Any, address: Any, number: Any) -> Any:
    """Store a word atomically."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        builder.store_atomic(values[1], _pointer(builder, values[0]), _ORDER, 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@intrinsic
def word_take(typing: Any, address: Any, number: Any) -> Any:
    """Store a value if the word is 0; return whether it was."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        answer = builder.cmpxchg(_pointer(builder, values[0]), _I64(0), values[1],
                                 _ORDER, _ORDER)
        return builder.extract_value(answer, 1)

    return types.boolean(types.int64, types.int64), codegen


@intrinsic
def pause(typing: Any) -> Any:
    """Emit the processor's hint for a spin-wait loop."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        if platform.machine() in _PAUSES:
            name, operands = _PAUSES[platform.machine()]
            kind = ir.FunctionType(ir.VoidType(), [_I32] * len(operands))
            builder.call(_function(builder.module, name, kind),
                         [_I32(n) for n in operands])
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def give_way(typing: Any) -> Any:
    """Yield the processor to another thread, where the system can."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        if hasattr(os, "sched_yield"):
            kind = ir.FunctionType(_I32, [])
            builder.call(_function(builder.module, "sched_yield", kind), [])
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def this_processor(typing: Any) -> Any:
    """Number of the processor that runs the thread, by `sched_getcpu`."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = ir.FunctionType(_I32, [])
        number = builder.call(_function(builder.module, "sched_getcpu", kind), [])
        return builder.sext(number, _I64)

    return types.int64(), codegen


#: Text of a kernel calls these by name; a word is given by its address.
SHARED_WORDS: dict[str, Any] = {
    "word_add": word_add, "word_read": word_read, "word_write": word_write,
    "word_take": word_take, "pause": pause, "give_way": give_way,
    "this_processor": this_processor}
