"""C's printf for kernels: a text with numbers, on the standard output."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["PRINT"]

_I32, _TEXT = ir.IntType(32), ir.IntType(8).as_pointer()


@intrinsic(prefer_literal=True)
def printf(typing: Any, text: Any, *args: Any) -> Any:
    """Print by the C library, at once: Python knows nothing of what that holds back."""
    def codegen(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        module = builder.module
        words = [builder.extract_value(given[1], k) for k in range(len(args))]
        format_ = context.insert_const_string(module, text.literal_value)
        write = _function(module, "printf", ir.FunctionType(_I32, [_TEXT], True))
        flush = _function(module, "fflush", ir.FunctionType(_I32, [_TEXT]))
        builder.call(write, [format_, *words])
        builder.call(flush, [ir.Constant(_TEXT, None)])
        return context.get_dummy_value()

    return types.void(text, types.StarArgTuple.from_types(args)), codegen


def _function(module: Any, name: str, signature: Any) -> Any:
    found = module.globals.get(name)
    return found or ir.Function(module, signature, name)


#: The text of kernels calls it by name.
PRINT: dict[str, Any] = {"printf": printf}
