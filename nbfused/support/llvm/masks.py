"""Vectors of which some lanes are neither read nor written."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

__all__ = ["lanes_before", "masked_load", "masked_store"]

_I32 = ir.IntType(32)


def lanes_before(builder: Any, count: Any, lanes: int, first: int = 0) -> Any:
    """The mask of those of so many `lanes`, numbered from `first`, before a `count`."""
    kind = ir.VectorType(count.type, lanes)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), count, _I32(0))
    zeros = ir.Constant(ir.VectorType(_I32, lanes), [0]*lanes)
    return builder.icmp_signed("<", ir.Constant(kind, [*range(first, first + lanes)]),
                               builder.shuffle_vector(one, one, zeros))


def masked_load(builder: Any, place: Any, size: int, mask: Any, otherwise: Any) -> Any:
    """Load a vector of elements of `size` bytes; other lanes are those `otherwise`."""
    return _call(builder, "load", otherwise.type, otherwise.type, place, _I32(size),
                 mask, otherwise)


def masked_store(builder: Any, value: Any, place: Any, size: int, mask: Any) -> None:
    """Store the lanes of a mask, of a vector of elements of `size` bytes."""
    _call(builder, "store", value.type, ir.VoidType(), value, place, _I32(size), mask)


def _call(builder: Any, name: str, vector: Any, result: Any, *values: Any) -> Any:
    full = f"llvm.masked.{name}.v{vector.count}{vector.element.intrinsic_name}.p0"
    module = builder.module
    function = module.globals.get(full) or ir.Function(
        module, ir.FunctionType(result, [v.type for v in values]), full)
    return builder.call(function, values)
