"""Calls of a fused function that PyTorch compiles or JAX traces: one op, or steps."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ...arrays.detect import is_symbolic, library_of
from ...autograd.compilers.dynamo import check_results, is_compiled, not_in_graph
from ...errors import KernelTypeError
from .arguments import Arguments
from .buffers.flat import FlatCall
from .buffers.tracing import trace_on_buffers
from .outside.scope import Outside, Scope

if TYPE_CHECKING:
    from ...autograd.compilers.jax.whole import WholeCalls
    from ...autograd.compilers.torch_whole import WholeOps
    from .fused import Fused

__all__ = ["CompiledCalls"]


class CompiledCalls:
    """The calls of a fused function on arrays that another compiler traces."""

    def __init__(self, fused: Fused, scope: Scope,
                 bind: Callable[..., inspect.BoundArguments]) -> None:
        self._fused, self._scope, self._bind = fused, scope, bind
        self._torch: WholeOps | None = None
        self._jax: WholeCalls | None = None

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any],
                 given: Arguments, outside: Outside) -> Any:
        """The result of a call with such arrays."""
        if any(library_of(x).name == "jax" for x in given.leaves if is_symbolic(x)):
            return self._in_jax(args, kwargs, given, outside)
        if is_compiled():
            return self._in_torch(args, kwargs, outside)
        return self._fused.function(*args, **kwargs)  # what traces it sees each step

    def _in_torch(self, args: tuple[Any, ...], kwargs: dict[str, Any],
                  outside: Outside) -> Any:
        from ...autograd.compilers.torch_whole import WholeOps

        name = self._fused.kernel_name
        if outside.arrays:
            raise not_in_graph(
                f"fuse: {name} reads {', '.join(outside.arrays)} from outside; in a "
                "program that PyTorch compiles whole, pass it as an argument")
        if self._torch is None:
            self._torch = WholeOps(re.sub(r"\W", "_", name), self._fused.function,
                                   self._fused, self._derived)
        whole = self._torch(args, kwargs)
        made = whole[0] if whole else self._fused.function(*args, **kwargs)
        check_results(name, made)
        return made

    def _in_jax(self, args: tuple[Any, ...], kwargs: dict[str, Any], given: Arguments,
                outside: Outside) -> Any:
        from ...autograd.compilers.jax.whole import WholeCalls, call_in_steps

        name = self._fused.kernel_name
        if self._jax is None:
            self._jax = WholeCalls(name, partial(trace_on_buffers, type(self._fused)))
        if not given.unstable and not outside.unstable:
            whole = self._jax(
                (tuple(given.constants), outside.keys), given.leaves,
                lambda: FlatCall(name, self._scope, self._bind(args, kwargs), given,
                                 outside))
            if whole is not None:
                return whole[0]
        return call_in_steps(name, self._fused.function, args, kwargs)

    def _derived(self, derivative: Callable[..., Any]) -> Callable[..., Any]:
        """A derivative of the function, fused; refused if it is of another each time.

        It computes the function again.
        """
        name = self._fused.kernel_name
        fused = type(self._fused)(derivative, f"{name}_derived")

        def call(*arrays: Any) -> Any:
            made = fused(*arrays)
            if fused.warned:
                raise KernelTypeError(
                    f"fuse: {name} reads arrays that may be others at the next call, "
                    "such as random ones, and its derivative in a compiled program "
                    "computes it again; pass them as arguments")
            return made

        return call
