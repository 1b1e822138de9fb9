"""Nodes whose pullback is Python code, and `Function`, the class for writing one.

User code sees Variables.  While a backward pass does not record they are detached;
under ``create_graph=True`` they are part of the graph, so that what is done with them
can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any, NamedTuple

import numpy as np

from ..arrays import (
    Library,
    byte_range,
    describe,
    dtype_of,
    is_array,
)
from ..arrays.traced import Traced, extents, find_traced
from ..errors import KernelTypeError, NotDifferentiableError, ShapeError, TapeError
from .graph import COPY, Edge, Node, Pass
from .nodes import Aval, is_floating, zeros
from .recording import grad_mode, recording
from .tape import apply, tracked_by_library
from .variable import RECORDING, Variable
from .versions import Saved

__all__ = [
    "CALL_WHOLE",
    "Argument",
    "CallNode",
    "Context",
    "Function",
    "as_outputs",
    "as_variables",
    "check_callable",
    "detach_all",
    "is_tracked",
]


#: Calls a function with a rule on arrays that their own library follows: of the name,
#: the function and its arguments.  It is that of `calls.tracked`.
CALL_WHOLE: list[Callable[[str, Callable[..., Any], Sequence[Any]], Any]] = []


def is_tracked(x: Any) -> bool:
    """Whether `x` is a Variable that requires grad."""
    return isinstance(x, Variable) and x.requires_grad


def as_variables(args: Sequence[Any]) -> tuple[Any, ...]:
    """Wrap arrays in Variables; leave everything else."""
    return tuple(Variable(x) if is_array(x) else x for x in args)


def detach_all(args: Sequence[Any]) -> tuple[Any, ...]:
    """Convert arrays and Variables to Variables that do not require grad."""
    return tuple(x.detach() if isinstance(x, Variable) else x
                 for x in as_variables(args))


def as_outputs(result: Any, name: str) -> tuple[Variable, ...]:
    """Wrap the results of a function in Variables, after checking their types."""
    values = result if isinstance(result, (tuple, list)) else (result,)
    for k, value in enumerate(values):
        if not isinstance(value, Variable) and not is_array(value):
            raise KernelTypeError(
                f"{name} returned a {type(value).__name__} as output {k}; expected an "
                "array, a Variable, or a tuple of them")
    return tuple(v if isinstance(v, Variable) else Variable(v) for v in values)


def check_callable(function: Any) -> None:
    """Raise `KernelTypeError` unless `function` is callable."""
    if not callable(function):
        raise KernelTypeError(f"expected a function of arrays to differentiate, got "
                              f"{function!r}; pass the function, not its result")


class Argument:
    """An argument saved for a second run, with its edge in the graph."""

    __slots__ = ("edge", "value", "variable")

    def __init__(self, x: Any, label: str) -> None:
        self.variable = isinstance(x, Variable)
        self.edge: Edge | None = x.edge if self.variable else None
        data = x.data if self.variable else x
        self.value = Saved(data, label) if is_array(data) else data

    def load(self) -> Any:
        """The argument as it was given."""
        value = self.value.load() if isinstance(self.value, Saved) else self.value
        return RECORDING.lift(value, self.edge) if self.variable else value


class GradientType(NamedTuple):
    """The shape, dtype and place that the gradient of an argument must have."""

    shape: tuple[int, ...]
    dtype: np.dtype
    place: tuple[Library, str] | None

    @classmethod
    def of(cls, x: Variable) -> GradientType:
        """The requirements for a gradient of `x`; a placeholder has no place yet."""
        if isinstance(x, Traced):
            return cls(x.extents, dtype_of(x), None)
        array = describe(x.data)
        return cls(array.shape, array.dtype, array.place)

    def check(self, value: Variable, what: str) -> None:
        """Check that a gradient has the argument's shape and place.

        Real arguments have real ones.
        """
        if extents(value) != self.shape:
            raise ShapeError(f"{what} has shape {value.shape}, expected {self.shape}, "
                             "that of the argument")
        if dtype_of(value).kind == "c" and self.dtype.kind != "c":
            raise KernelTypeError(f"{what} has dtype {value.dtype}, expected "
                                  f"{self.dtype}, that of the argument; return its "
                                  "real part")
        if self.place is None or isinstance(value, Traced):
            return
        place = describe(value.data, what).place
        if place != self.place:
            given, expected = (f"{p[0].name} on {p[1]}" for p in (place, self.place))
            raise KernelTypeError(f"{what} is an array of {given}; expected one of "
                                  f"{expected}, as the argument is: convert it")


class CallNode(Node):
    """The graph node of a call of a Python function on tracked arguments."""

    __slots__ = ("gives", "takes")

    def __init__(self, name: str, args: Sequence[Any]) -> None:
        super().__init__(name, (x.edge if is_tracked(x) else None for x in args), 1)
        self.takes = tuple(GradientType.of(x) if is_tracked(x) else None for x in args)
        self.gives: tuple[Aval, ...] = ()

    def attach(self, outputs: Sequence[Variable], single: bool,
               constant: Sequence[Any] = ()) -> Any:
        """Wrap outputs as results of this node, except the `constant` ones."""
        self.outputs = len(outputs)
        self.gives = tuple([_aval(v) for v in outputs])
        made = tuple(
            v.given_as(RECORDING.lift(v.data, None if not is_floating(dtype_of(v))
                       or any(v is c or v.data is c for c in constant) else (self, k)))
            for k, v in enumerate(outputs))
        return made[0] if single else made

    def rule_call(self) -> tuple[Callable[..., Any], list[Any]] | None:
        """The function and arguments of a call to check a rule at, or None."""
        return None

    def fill_zeros(self, cotangents: Sequence[Any | None]) -> tuple[Variable, ...]:
        """The cotangents as Variables, with zeros for missing ones."""
        some = next(c for c in cotangents if c is not None)
        native = some.data if isinstance(some, Variable) else some
        full = [zeros(*like[:2], native, like[2]) if c is None else c
                for c, like in zip(cotangents, self.gives, strict=True)]
        return as_variables(full)

    def check_returned(self, returned: Any, mode: Pass,
                       kept: Sequence[Saved] = ()) -> list[Any | None]:
        """Check gradients that user code returned, as cotangents of the arguments.

        An array that shares memory with one that was `kept` is copied.
        """
        values = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        count = len(self.takes)
        if len(values) < count or any(v is not None for v in values[count:]):
            raise ShapeError(
                f"the backward of {self.name} returned {len(values)} gradients, "
                f"expected {count}: one for each argument, None for those without")
        made: list[Any | None] = []
        for k, (value, like) in enumerate(zip(values, self.takes, strict=False)):
            if value is None or like is None:
                made.append(None)
                continue
            gradient = self._fit(value, like, mode,
                                 f"gradient {k} from the backward of {self.name}")
            made.append(gradient if mode.records else _own(gradient.data, kept))
        return made

    def _fit(self, value: Any, like: GradientType, mode: Pass, what: str) -> Variable:
        if not isinstance(value, Variable):
            if mode.records:
                raise NotDifferentiableError(
                    f"{what} is a {type(value).__name__}, which carries no graph for a "
                    "second derivative; compute it with operations on Variables, or go "
                    "without create_graph")
            value = Variable(value)
        like.check(value, what)
        if dtype_of(value) != like.dtype:
            (value,) = apply(COPY, (value,), dtypes=(like.dtype,))
        return value


def _aval(v: Variable) -> Aval:
    """Shape, dtype and device of an output."""
    if isinstance(v, Traced):
        return v.extents, dtype_of(v), ""
    return v.shape, v.dtype, v.device


def _own(gradient: Any, kept: Sequence[Saved]) -> Any:
    if isinstance(gradient, Traced):
        return gradient  # whoever ends the walk gives it memory of its own
    place = byte_range(describe(gradient))
    if any(saved.place.overlaps(place) for saved in kept):
        return apply(COPY, (gradient,), dtypes=(dtype_of(gradient),))[0]
    return gradient


class Context:
    """Storage that `Function.forward` fills for `Function.backward`.

    Attributes
    ----------
    needs_input_grad : tuple of bool
        For each argument, whether its gradient is wanted.
    """

    def __init__(self, needs: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs
        self._to_save: tuple[Variable | None, ...] = ()
        self._constant: tuple[Any, ...] = ()
        #: By thread: several may walk back over one graph.
        self._loaded: dict[int, tuple[Variable | None, ...]] = {}
        self._asks: dict[int, Sequence[bool]] = {}

    def save_for_backward(self, *arrays: Any) -> None:
        """Save arguments or results, unchanged until the backward pass.

        None stays None: an argument that was left out.
        """
        self._to_save = tuple(
            None if a is None else _saved(a, k) for k, a in enumerate(arrays))

    def mark_non_differentiable(self, *outputs: Any) -> None:
        """Declare results that have no gradient."""
        self._constant = outputs

    @property
    def asks(self) -> tuple[bool, ...]:
        """A flag for each argument: this backward pass goes on to it."""
        return tuple(self._asks.get(get_ident(), self.needs_input_grad))

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The saved arrays as Variables; inside `Function.backward` only."""
        loaded = self._loaded.get(get_ident())
        if loaded is None:
            raise TapeError("ctx.saved_tensors: to be read inside backward(); in "
                            "forward() the arrays are at hand")
        return loaded


class Function:
    """An operation with a backward of its own, written as for PyTorch.

    Subclasses define two static methods, ``forward(ctx, *args)`` and ``backward(ctx,
    *cotangents)``, and are called by `apply`.  Both get Variables for arrays, and may
    return Variables or arrays.  The backward gets one cotangent for each result, zeros
    where there is none, and returns one gradient for each argument, or None.

    Examples
    --------
    >>> import nbfused as nf
    >>> class Square(nf.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return 2.0 * x * g
    >>> x = nf.Variable([3.0, 4.0], requires_grad=True)
    >>> Square.apply(x).sum().backward()
    >>> x.grad
    array([6., 8.])
    """

    @staticmethod
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the results of `args`; nothing in here is recorded."""
        raise NotImplementedError("a Function has to define forward(ctx, *args)")

    @staticmethod
    def backward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the gradients of the arguments from the cotangents `args`."""
        raise NotImplementedError("a Function has to define backward(ctx, *cotangents)")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Call the function: Variables give Variables, arrays give arrays."""
        unknown = find_traced(args)
        if unknown is not None:
            return unknown.record_call(cls.apply, args, cls._run)
        return cls._run(args)

    @classmethod
    def _run(cls, args: Sequence[Any], inputs: Sequence[Any] | None = None) -> Any:
        """Run it on arrays, or on what is traced; on `inputs` if these are given."""
        if any(map(tracked_by_library, args)):
            return CALL_WHOLE[0](cls.__name__, cls.apply, args)
        ctx = Context(tuple(recording() and is_tracked(x) for x in args))
        inputs = detach_all(args) if inputs is None else inputs
        with grad_mode(False):
            result = cls.forward(ctx, *inputs)
        single = not isinstance(result, (tuple, list))
        outputs = as_outputs(result, f"{cls.__name__}.forward")
        if any(ctx.needs_input_grad):
            node = FunctionNode(cls, ctx, args, inputs, outputs)
            return node.attach(outputs, single, ctx._constant)
        if not any(isinstance(x, Variable) for x in args):
            outputs = tuple(v.data for v in outputs)
        return outputs[0] if single else outputs


def _saved(x: Any, k: int) -> Variable:
    if not isinstance(x, Variable) and not is_array(x):
        raise KernelTypeError(f"save_for_backward: argument {k} is a "
                              f"{type(x).__name__}; expected arrays, Variables or "
                              "None: make anything else an attribute of ctx")
    return x if isinstance(x, Variable) else Variable(x)


def _place(x: Variable, inputs: Sequence[Any],
           outputs: Sequence[Variable]) -> tuple[str, int] | None:
    """Find the argument or result that `x` is: by identity, else by its array."""
    named = [("input", k, v) for k, v in enumerate(inputs) if isinstance(v, Variable)]
    named += [("output", k, v) for k, v in enumerate(outputs)]
    found = [(kind, k) for kind, k, v in named if v is x]
    found += [(kind, k) for kind, k, v in named if v.data is x.data]
    return found[0] if found else None


class FunctionNode(CallNode):
    """The graph node of a call of a `Function`."""

    __slots__ = ("ctx", "function", "saved")

    def __init__(self, function: type[Function], ctx: Context, args: Sequence[Any],
                 inputs: Sequence[Any], outputs: Sequence[Variable]) -> None:
        super().__init__(function.__name__, args)
        self.function = function
        self.ctx = ctx
        self.saved = tuple(
            None if v is None else (Saved(v.data, f"array {k} saved by {self.name}"),
                                    _place(v, inputs, outputs))
            for k, v in enumerate(ctx._to_save))
        ctx._to_save = ()

    def pull(self, cotangents: Sequence[Any | None], wanted: Sequence[bool],
             mode: Pass) -> Sequence[Any | None]:
        """Call `Function.backward`."""
        thread = get_ident()
        self.ctx._loaded[thread] = tuple(
            None if kept is None else self._load(*kept, mode) for kept in self.saved)
        self.ctx._asks[thread] = wanted
        try:
            returned = self.function.backward(self.ctx, *self.fill_zeros(cotangents))
        finally:
            self.ctx._loaded.pop(thread, None)
            self.ctx._asks.pop(thread, None)
        return self.check_returned(returned, mode,
                                   [kept[0] for kept in self.saved if kept is not None])

    def _load(self, saved: Saved, place: tuple[str, int] | None,
              mode: Pass) -> Variable:
        if not mode.records:
            return RECORDING.lift(saved.load(), None)
        if place is None:
            raise NotDifferentiableError(
                f"{saved.label} is neither an argument nor a result, so that a second "
                "derivative through it would be lost; compute it in backward(), or "
                "return it from forward()")
        kind, k = place
        edge = self.edges[k] if kind == "input" else (self, k)
        return RECORDING.lift(saved.load(), edge)

    def release(self) -> None:
        """Drop the saved arrays."""
        super().release()
        self.saved = ()
