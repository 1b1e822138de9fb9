"""Functions that kernel text defines beside its kernel.

Each is compiled once for the types of its arguments, and its LLVM text is inlined
wherever it is called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba import types
from numba.cuda.compiler import compile_cuda
from numba.cuda.extending import intrinsic

__all__ = ["inlined"]

#: Compilations, by function and types of arguments.
Made = dict[tuple[Any, ...], Any]


@contextmanager
def inlined(names: dict[str, Any], kernel: str, target: tuple[Any, ...],
            ) -> Iterator[None]:
    """Let a kernel call the functions beside it, in a ``with`` block.

    Parameters
    ----------
    names
        The names of a kernel's text; of its functions those that Numba can call
        replace the Python functions.
    kernel
        The kernel's name.
    target
        The compute capability and its feature, as `numba.cuda.compile` takes them.
    """
    made: Made = {}
    for name, value in names.items():
        if inspect.isfunction(value) and name != kernel and \
                value.__globals__ is names:
            names[name] = _inlined(value, target, made)
    try:
        yield
    finally:
        # Numba keeps what can be called for as long as the process lasts.
        made.clear()
        names.clear()


def _inlined(function: Callable[..., Any], target: tuple[Any, ...], made: Made) -> Any:
    def typed(typing: Any, *arguments: Any) -> Any:
        key = function, *map(types.unliteral, arguments)
        if key not in made:
            made[key] = compile_cuda(function, None, key[1:], forceinline=True,
                                     nvvm_options={"opt": 3}, cc=target)
        callee = made[key].fndesc

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            context.active_code_library.add_linking_library(made[key].library)
            _, result = callee.call_conv.call_function(
                builder, callee.declare_function(builder.module), callee.restype,
                callee.argtypes, values)
            return result

        return callee.restype(*key[1:]), codegen

    # Numba takes `arguments` for one tuple; each is a parameter of its own.
    own = inspect.signature(function).parameters.values()
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    typed.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter("typing", kind), *own])
    return intrinsic(typed)
