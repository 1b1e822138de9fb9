"""Calls of a fused function that PyTorch compiles or JAX traces: one op, or steps."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ...arrays.detect import is_symbolic, library_of
from ...autograd.compilers.dynamo import check_results, is_compiled, not_in_graph
from ...errors import KernelTypeError, NbFusedError
from ...support.trees import leaves_of, map_tree
from .arguments import Arguments
from .buffers.flat import FlatCall
from .buffers.tracing import trace_on_buffers
from .outside.changes import Changed
from .outside.scope import Outside, Scope
from .program import Program

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
            return self._in_torch(args, kwargs, given, outside)
        return self._in_transform(args, kwargs, given)

    def _in_torch(self, args: tuple[Any, ...], kwargs: dict[str, Any],
                  given: Arguments, outside: Outside) -> Any:
        from ...autograd.compilers.torch_whole import WholeOps

        name = self._fused.kernel_name
        read = ", ".join(outside.arrays)
        elsewhere = f"fuse: {name} reads {read or 'tensors'} from outside; in a " \
            "program that PyTorch compiles whole, pass it as an argument"
        if outside.arrays:
            raise not_in_graph(elsewhere)
        if self._torch is None:
            self._torch = WholeOps(re.sub(r"\W", "_", name), self._fused.function,
                                   self._fused, self._derived)
        try:
            whole = self._torch(args, kwargs)
            made = whole[0] if whole else self._in_steps(args, kwargs, given)
        except AssertionError as error:  # PyTorch's, of those of a module
            if "FakeTensor" not in str(error):
                raise
            raise not_in_graph(elsewhere) from error
        check_results(name, made)
        return made

    def _in_transform(self, args: tuple[Any, ...], kwargs: dict[str, Any],
                      given: Arguments) -> Any:
        """The result inside of `torch.func` and of modes, which see each operation."""
        from ...autograd.compilers.torch_whole import outside_transforms

        with outside_transforms():
            if not any(map(is_symbolic, given.leaves)):  # no tensor is the transform's
                return self._fused(*args, **kwargs)
        return self._in_steps(args, kwargs, given)

    def _in_steps(self, args: tuple[Any, ...], kwargs: dict[str, Any],
                  given: Arguments) -> Any:
        """The result, of which PyTorch sees each operation.

        NumPy's functions fail there, as they ask tensors for their elements: a function
        that has such ones is traced, and its operations run on the tensors.
        """
        from ...autograd.compilers.torch_whole import is_open, present_number

        try:
            return self._fused.function(*args, **kwargs)
        except (AttributeError, RuntimeError, TypeError) as error:
            if isinstance(error, NbFusedError):
                raise
            if any(map(is_open, leaves_of((args, kwargs)))):
                args, kwargs = map_tree((args, kwargs), present_number)
                return self._fused(*args, **kwargs)
            program = self._traced(args, kwargs)
            if program is None:  # a change would be made twice
                raise KernelTypeError(
                    f"fuse: {self._fused.kernel_name} failed on tensors that PyTorch "
                    f"traces or transforms ({error}), and cannot be run again, as it "
                    "changes its arguments or reads what may change; call nf.ops, or "
                    "PyTorch's functions, in place of NumPy's") from error
        return program.run(given.leaves)

    def _traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program | None:
        """The program of the function; None if it does more than compute."""
        from ...autograd.compilers.torch_whole import outside_modes, stand_in

        with outside_modes():
            like = map_tree((args, kwargs), stand_in)
            program, unstable = self._fused.traced(*like[0], **like[1])
        computes = not (unstable or program.stores or
                        isinstance(program.outputs, Changed))
        return program if computes else None

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
