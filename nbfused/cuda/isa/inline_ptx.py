"""Inline PTX as functions of kernel text.

Addresses of shared memory are integers, as the instructions take them.  The PTX
manual's sections are named by the instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

__all__ = ["MEMORY", "SHARED", "are_literals", "asm", "dynamic_shared", "instruction",
           "parts_of", "several", "tied", "tuple_of", "with_arity"]

#: Of a constraint: the instruction reads or writes memory.
MEMORY = "~{memory}"
#: The name of dynamic shared memory.
SHARED = "nbfused_shared"

_I8, _I32 = ir.IntType(8), ir.IntType(32)
_LETTERS = {_I32: "r", ir.FloatType(): "f", ir.DoubleType(): "d"}


def asm(builder: Any, result: Any, text: str, constraints: str, *values: Any,
        effect: bool = False) -> Any:
    """Inline PTX; with an `effect` it is neither moved nor dropped."""
    kind = ir.FunctionType(result, [v.type for v in values])
    return builder.asm(kind, text, constraints, values, effect)


def several(builder: Any, kind: Any, count: int, text: str, inputs: str,
            *values: Any) -> list[Any]:
    """Inline PTX with `count` results of one kind."""
    result = kind if count == 1 else ir.LiteralStructType([kind]*count)
    found = asm(builder, result, text,
                ",".join([f"={_LETTERS[kind]}"]*count + [inputs]), *values, effect=True)
    return [found] if count == 1 else parts_of(builder, found, count)


def tied(builder: Any, text: str, sums: Any, letters: Sequence[str],
         *more: Any) -> Any:
    """Inline PTX that reads and writes a tuple of float32 in place, ``$0`` and on.

    The operands that come after them, `more`, begin at twice their number.
    """
    count, kind = sums.type.count, ir.FloatType()
    constraints = ",".join([*["=f"]*count, *map(str, range(count)), *letters, MEMORY])
    result = asm(builder, ir.LiteralStructType([kind]*count), text, constraints,
                 *parts_of(builder, sums, count), *more, effect=True)
    return tuple_of(builder, parts_of(builder, result, count))


# --- tuples


def tuple_of(builder: Any, values: Sequence[Any]) -> Any:
    """Values of one type as Numba's tuple."""
    packed = ir.Constant(ir.ArrayType(values[0].type, len(values)), ir.Undefined)
    for k, value in enumerate(values):
        packed = builder.insert_value(packed, value, k)
    return packed


def parts_of(builder: Any, packed: Any, count: int = 0) -> list[Any]:
    """The inverse of `tuple_of`, of all values or of the first `count`."""
    return [builder.extract_value(packed, k)
            for k in range(count or packed.type.count)]


def are_literals(*given: Any) -> bool:
    """Whether Numba asks with the values of these arguments.

    An intrinsic returns None if not; Numba tries again then, with the literals.
    """
    return all(isinstance(g, types.IntegerLiteral) for g in given)


# --- intrinsics


def instruction(name: str, text: str, count: int = 0) -> Any:
    """An instruction on `count` 32-bit integers, without result."""
    constraints = ",".join(["r"]*count + [MEMORY])

    def typed() -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            asm(builder, ir.VoidType(), text, constraints,
                *(builder.trunc(v, _I32) for v in values), effect=True)
            return context.get_dummy_value()

        return types.void(*[types.int64]*count), codegen

    return intrinsic(with_arity(name, typed, count))


def with_arity(name: str, typed: Callable[[], Any], count: int) -> Any:
    """A function of the typing context and `count` more: Numba reads the signature."""
    parameters = "".join(f", a{k}" for k in range(count))
    scope: dict[str, Any] = {"typed": typed}
    exec(f"def {name}(typing{parameters}):\n    return typed()", scope)
    return scope[name]


def dynamic_shared(builder: Any, name: str, align: int) -> Any:
    """The beginning of dynamic shared memory: a byte pointer in its address space."""
    base = builder.module.globals.get(name)
    if base is None:
        base = ir.GlobalVariable(builder.module, ir.ArrayType(_I8, 0), name,
                                 addrspace=3)
        base.linkage, base.align = "external", align
    return base
