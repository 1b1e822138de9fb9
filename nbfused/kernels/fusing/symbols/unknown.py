"""The base of symbols for arrays and numbers: most of what needs values is refused.

NumPy's functions on either of them are traced, or recorded as calls.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ....arrays.traced import TracedNumber
from ....autograd.numpy_api.of_cupy import CupyProtocols
from ....autograd.numpy_api.ufuncs import method_name
from ....specs import View
from ....specs.fusion.graph import Value
from ....support.trees import leaves_of
from ..calling.calls import known_or_called
from ..calling.exchange import Exchange, record_exchange
from ..calling.rules import record_rule
from ..calling.steps import record_callback, record_step
from ..functions import GIVE_ARRAYS, traced_function
from ..outside.lines import user_frame
from ..parts import memory_of
from ..ufuncs import trace_ufunc

if TYPE_CHECKING:
    from ..trace import Trace

__all__ = ["WAY_OUT", "Unknown", "mark_scalar", "part_made", "refuse"]

_UNKNOWN = "not known while nf.fuse traces a function; "

#: The end of a refusal.
WAY_OUT = (f"which is {_UNKNOWN}choose between values with nf.ops.where, or do this "
           "outside of the fused function")
_FUNCTIONS = (f"which are {_UNKNOWN}write NumPy's functions or those of nf.ops, "
              "numpy.stack([x, y]) in place of a list of what is computed, name the "
              "function by nf.callback, or call it outside of the fused one")
_CONSTANT = ("; a number that is to be constant is one of the enclosing scope, a "
             "default, or in a tuple")

#: Views that have all elements of an array, and no others.
_WHOLE = frozenset({"reshape", "transpose", "expand", "squeeze"})


def refuse(what: str, way_out: str = WAY_OUT) -> Callable[[Any], NoReturn]:
    """Make a method that refuses what needs a value not known yet."""
    def raise_error(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        hint, trace = "", self.tracer
        if isinstance(self, TracedNumber):
            hint = _CONSTANT
            self.ask()
        raise trace.refuse(f"{self.name}: {what}, {way_out}{hint}")

    return raise_error


class Unknown(CupyProtocols):
    """Base of the symbols: what arrays and numbers have in common."""

    __slots__ = ()

    def zeros(self: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        """A symbol for zeros of another shape and dtype."""
        return self.tracer.zeros(shape, dtype)

    __bool__ = refuse("if, while, and, or, not need its truth")
    __int__ = refuse("int() needs its value")
    __float__ = refuse("float(), or a function of math, needs its value")
    __complex__ = refuse("complex() needs its value")
    __index__ = refuse("an axis, an index, a shape or range() needs its value")
    __array__ = refuse("a NumPy array needs its values", _FUNCTIONS)
    __jax_array__ = property(refuse("a function of JAX needs its values", _FUNCTIONS))
    item = refuse("item() needs its value")
    __str__ = refuse("print(), str() and a text with it need its value")
    __reduce_ex__: Any = refuse("pickle needs its value")

    def __repr__(self) -> str:
        """A text for messages; `repr`, or the print of a list, is refused."""
        if user_frame(sys._getframe(1), behind_ours=False) is not None:
            self.__str__()
        return self.name

    def __format__(self, spec: str) -> str:
        return str(self)  # which is refused

    tracer: Trace
    value: Value

    @property
    def name(self) -> str:
        """A text for messages."""
        raise NotImplementedError

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape."""
        return self.value.shape

    def record(self, spec: Any, inputs: Sequence[Any], out: Sequence[Any] | None,
               options: dict[str, Any]) -> tuple[Any, ...]:
        """Record that `spec` is run."""
        return self.tracer.record(spec, inputs, out, options)

    def run(self, spec: Any, inputs: Sequence[Any], out: Sequence[Any] | None,
            options: dict[str, Any]) -> tuple[Any, ...]:
        """Record that `spec` is run, and nothing of what a transform needs."""
        return self.tracer.run(spec, inputs, out, options)

    def record_call(self, function: Callable[..., Any], args: Sequence[Any],
                    inline: Callable[[Sequence[Any]], Any]) -> Any:
        """Record a call of a function with a derivative of its own."""
        return record_rule(self.tracer, function, args, inline)

    def record_native(self, function: Callable[..., Any], args: Sequence[Any],
                      name: str) -> tuple[Any, ...]:
        """Record a call of a function of arrays; its rule joins what is traced."""
        return record_step(self.tracer, function, args, name, has_rule=True)

    def record_callback(self, callback: Any, args: Sequence[Any]) -> tuple[Any, ...]:
        """Record a call of a callback."""
        record = record_exchange if isinstance(callback, Exchange) else record_callback
        return record(self.tracer, callback, args)

    @property
    def differentiated(self) -> bool:
        """Whether a derivative is wanted, here or of the whole program."""
        return self.tracer.tracked or getattr(self, "requires_grad", False)

    def placeholder(self, array: Any) -> Any:
        """A symbol for an array, which functions of the library are then called of."""
        return self.tracer.symbol(self.tracer, self.tracer.operand(array))

    def constant(self, host: np.ndarray, given: Sequence[Any] = ()) -> Any:
        """A symbol for an array that follows from shapes, and from `given`."""
        return self.tracer.constant(host, given)

    def record_check(self, check: Callable[[Any], Any]) -> None:
        """Record that `check` is to see the elements of the value.

        Those of an argument are looked at before anything runs.
        """
        value = self.value
        while (node := value.node) is not None and isinstance(node.spec, View) \
                and node.spec.kind in _WHOLE:
            value = node.inputs[0]
        self.tracer.checks.append((check, value))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any,
                        **kwargs: Any) -> Any:
        known = partial(trace_ufunc, self.tracer, ufunc, method, inputs, kwargs)
        called = ufunc if method == "__call__" else getattr(ufunc, method)
        return mark_scalar(known_or_called(
            self.tracer, known, method_name(ufunc, method), called, inputs, kwargs),
            inputs, kwargs)

    def __array_function__(self, function: Callable[..., Any], types: Any,
                           args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """NumPy's functions: those that there are operations for, or calls."""
        call = traced_function(function)
        known = None if call is None else partial(call, args, kwargs)
        made = known_or_called(
            self.tracer, known, f"{function.__module__}.{function.__name__}", function,
            args, kwargs)
        made = mark_scalar(made, args, kwargs)
        if function in GIVE_ARRAYS and _is_array(made):
            made.scalar = False
        return made


def _is_array(made: Any) -> bool:
    return isinstance(made, Unknown) and not isinstance(made, TracedNumber)


def mark_scalar(made: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Mark results that are NumPy scalars if 0-d: they are no view and no `out`."""
    part_made(made, args, kwargs)
    out = kwargs.get("out")
    given = (*args, *(out if isinstance(out, tuple) else (out,)))
    for one in made if isinstance(made, (tuple, list)) else (made,):
        if _is_array(one) and one.whole and not any(one is x for x in given):
            one.scalar = True
    return made


def part_made(made: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Part results from arrays that the function itself has made and nobody else has.

    A view of such a one is an array of its own to the caller.
    """
    for one in made if isinstance(made, (tuple, list)) else (made,):
        if not _is_array(one) or one.whole or one.root is None:
            continue
        memory = memory_of(one.value)
        if memory.node is not None and not any(
                x.array is one.array or memory_of(x.value) is memory
                for x in leaves_of([*args, *kwargs.values()]) if _is_array(x)):
            one.part(one.value)
