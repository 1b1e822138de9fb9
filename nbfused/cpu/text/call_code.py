"""Calls of C functions by their address, as an LLVM intrinsic for generated text."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["CALLS"]

_I64 = ir.IntType(64)


@intrinsic
def called(typing: Any, function: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Call a C function of up to four integers or pointers; what it returns, as one.

    Of 64 bits each: one that takes fewer parameters passes over the last ones.
    """

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = ir.FunctionType(_I64, [_I64] * 4)
        return builder.call(builder.inttoptr(values[0], kind.as_pointer()), values[1:])

    return types.int64(*[types.int64] * 5), codegen


#: Text of a kernel calls it by name.
CALLS: dict[str, Any] = {"called": called}
