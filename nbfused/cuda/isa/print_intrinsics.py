"""C's printf for kernels: a text with numbers, printed by the driver."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

__all__ = ["PRINT"]

_I32, _TEXT = ir.IntType(32), ir.IntType(8).as_pointer()


@intrinsic
def printf(typing: Any, text: Any, *args: Any) -> Any:
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
        write = module.globals.get("vprintf") or ir.Function(
            module, ir.FunctionType(_I32, [_TEXT, _TEXT]), "vprintf")
        builder.call(write, [format_, builder.bitcast(memory, _TEXT)])
        return context.get_dummy_value()

    return types.void(text, types.StarArgTuple.from_types(args)), codegen


#: The text of kernels calls it by name.
PRINT: dict[str, Any] = {"printf": printf}
