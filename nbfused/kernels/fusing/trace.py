"""The trace of `fuse`: the operations of a function on arrays, as a graph."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NoReturn
from weakref import WeakSet

import numpy as np

from ...arrays import check_dtype, dtype_of, is_array
from ...arrays.creation import array_like
from ...arrays.traced import Traced
from ...autograd import Variable
from ...autograd.graph import COPY, Leaf
from ...autograd.nodes import is_floating
from ...autograd.recording import grad_mode, recording
from ...autograd.tape import record_traced
from ...dispatch.outputs import check_shape
from ...errors import KernelTypeError, ShapeError
from ...op.base import check_integers
from ...registry.operations import OPS
from ...scalar.ir.nodes import Block, Function
from ...scalar.typing.python_numbers import number_type, plain_number
from ...scalar.typing.types import Type
from ...specs import Map
from ...specs.base import Shape
from ...specs.fusion.graph import Node, Value
from .arguments import is_tracked
from .constants import Constants
from .numbers import Number
from .outside.containers import holds_array, is_object
from .outside.lines import user_frame, with_line
from .outside.made import MadeArray
from .outside.watching import Watch
from .parts import made_of, overwritten
from .program import HostCall, Opaque, Program, detach, is_view, map_tree, memory_of
from .symbols import Symbol
from .tensors import Tensor
from .torch import torch_recording, torch_records

__all__ = ["Trace"]

#: An array stored into another: `x`, of the shape and dtype of `like`.
_ASSIGN = Map(Function("assign", ("x", "like"), Block((), ("x",))),
              ("element", "element"))


#: Why the reshape of a transposed array is not used after that has changed.
_MAY_BE_A_COPY = ("on the array that it is a reshape of: whether NumPy's is a view or "
                  "a copy depends on how that lies in memory; reshape afterwards, or "
                  "write .copy()")


class Trace:
    """One run of a function on symbols.

    Parameters
    ----------
    name
        What its kernels are called.
    tensors
        Whether arrays have the methods and the promotion of PyTorch.

    Attributes
    ----------
    exact
        Whether what was written down is for arrays of these very shapes.
    constants
        Arrays that it reads and that are no arguments.
    checks
        What is to look at values before anything is stored.
    """

    def __init__(self, name: str, tensors: bool = False) -> None:
        self.name, self.tensors = name, tensors
        self.symbol: type[Tensor] | type[Symbol] = Tensor if tensors else Symbol
        self.exact = False
        self.given: dict[Value, Any] = {}
        self.constants: dict[Value, Any] = {}
        #: Those of them that follow from the shapes of the arguments.
        self.known: set[Value] = set()
        self.nodes: list[Node] = []
        self.numbers: list[HostCall] = []
        self.checks: list[tuple[Callable[[Any], None], Value]] = []
        self.stores: dict[Value, Value] = {}
        #: Results of what is called for its effect.
        self.effects: list[Value] = []
        #: Symbols that are views, by what they are views of.
        self.views: dict[object, WeakSet[Symbol]] = {}
        #: Whether an array without dimensions may be a NumPy scalar to the function.
        self.scalars = False
        #: Whether an array that it reads requires grad, on any tape.
        self.tracked = False
        #: The type of the first array that is given.
        self.kind: type | None = None
        self.sample: Any = None
        #: Names of numbers passed by value that the function has asked for.
        self.asked_numbers: set[str] = set()
        self.watch = Watch()
        #: What was refused; some of it may have been caught.
        self.refused: list[KernelTypeError] = []
        self._seen: dict[Any, Node] = {}
        self._computed: dict[Any, Value] = {}
        self._constant: dict[Value, Value] = {}
        self._known = Constants()
        self._copies: dict[tuple[Value, object], Value] = {}

    def argument(self, x: Any, name: str) -> Symbol | Number:
        """The symbol for an argument."""
        if not isinstance(x, Variable) and isinstance(
                x, (bool, int, float, complex, np.generic)):
            value = Value((), number_type(x), name, by_value=True)
            self.given[value] = x
            return Number(self, value, x)
        if isinstance(x, np.matrix):
            raise KernelTypeError(f"'{name}' is a numpy.matrix, whose * is a matrix "
                                  "product; pass numpy.asarray(...) and use @")
        value = Value(tuple(x.shape), dtype_of(x), name)
        self.tracked |= is_tracked(x)
        self.given[value] = x
        self.scalars |= isinstance(x, np.ndarray)
        if self.kind is None:
            self.kind, self.sample = type(x), x
        return self.symbol(self, value, own=value)

    def operand(self, x: Any) -> Any:
        """The value of an input; a number that is constant stays itself."""
        if isinstance(x, (Symbol, Number)):
            if x.tracer is not self:
                raise KernelTypeError(f"{x.name} belongs to another call of a fused "
                                      "function; return it from there")
            return self._current_value(x)
        if not isinstance(x, Variable) and not _is_plain(x):
            return plain_number(x)
        made = isinstance(x, MadeArray) and x.pure
        if isinstance(x, MadeArray):
            x = np.array(x)  # the function may change it, and does so in no later call
        value = Value(tuple(x.shape), dtype_of(x), "constant")
        self.tracked |= is_tracked(x)
        self.constants[value] = x
        if made:
            self.known.add(value)
        return value

    def constant(self, host: np.ndarray) -> Symbol:
        """The symbol for an array that every call would make alike, from shapes."""
        like = next(x for x in self.given.values() if not np.isscalar(x))
        array = array_like(host, like.data if isinstance(like, Variable) else like)
        value = Value(tuple(host.shape), dtype_of(array), "constant")
        self.constants[value] = array
        self.known.add(value)
        self.exact = True
        return self.symbol(self, value)

    def _current_value(self, x: Symbol | Number) -> Value:
        """The value; `KernelTypeError` if it is not known whether it has changed."""
        if isinstance(x, Symbol) and x.replaced:
            raise KernelTypeError(f"{x.name} is used after += or the like {x.replaced}")
        return x.value

    def record(self, spec: Any, inputs: Sequence[Any], out: Sequence[Any] | None,
               options: dict[str, Any]) -> tuple[Any, ...]:
        """Record a call of an operation; symbols for its outputs.

        They have their place in the graph of a transform that is inside the function.
        """
        inputs = [self.symbol(self, self.operand(x)) if isinstance(x, MadeArray) else x
                  for x in inputs]  # which a transform may compute with, too
        made = record_traced(spec, inputs, out, options)
        if made is not None:
            for one in made if out is None else ():
                self._owned(one, spec, inputs)
            return made
        if self.records() or not self.tracked:
            return self.run(spec, inputs, out, options)
        detached = map(self.detached, inputs)  # whose symbols are gone when it runs
        made = self.run(spec, tuple([x.plain() if isinstance(x, Traced) else x
                                     for x in detached]), out, options)
        self._constant |= {v: v for x in made if isinstance(v := x.value, Value)}
        return made

    @staticmethod
    def _owned(made: Symbol, spec: Any, inputs: Sequence[Any]) -> None:
        """Let a recorded result be whole, or a view, like one that is not recorded."""
        base = inputs[0] if is_view(spec) else None
        if isinstance(base, Symbol):
            made.follow(base, spec if base.root is not None else None)
        else:
            made.whole, made.root = True, made

    def run(self, spec: Any, inputs: Sequence[Any], out: Sequence[Any] | None,
            options: Mapping[str, Any]) -> tuple[Any, ...]:
        """Record that `spec` is run; symbols for its outputs."""
        values = tuple(map(self.operand, inputs))
        scalar = spec.with_numbers([not isinstance(v, Value) or v.by_value
                                    for v in values])
        if scalar is None:
            _check_array(inputs[0])
        else:
            spec = scalar
        spec, values = self._known.inputs(spec, values)
        shapes = spec.out_shapes(tuple(map(_shape, values)))
        types = list(spec.result_types(tuple(map(_type, values))))
        asked = options.get("dtypes")
        for k, dtype in enumerate(asked or ()):
            types[k] = types[k] if dtype is None else check_dtype(dtype)
        self.exact |= spec.fixes_extents
        node = self._node(spec, values, tuple(zip(shapes, types, strict=True)), asked)
        base = inputs[0] if is_view(spec) and isinstance(inputs[0], Symbol) else None
        part = spec if base is not None and base.root is not None else None
        made = [self.symbol(self, v, base=base, part=part) for v in node.outputs]
        for k, target in enumerate(out or ()):
            if target is not None:
                self.store(target, made[k], options.get("casting", "same_kind"))
                made[k] = target
        return tuple(made)

    def _node(self, spec: Any, values: tuple[Any, ...],
              outputs: tuple[tuple[Shape, Type], ...], asked: Any) -> Node:
        """The node, or an equal one that is there already."""
        key = (spec, outputs, tuple(v if isinstance(v, Value) else (type(v), repr(v))
                                    for v in values))
        node = self._seen.get(key)
        if node is None:
            node = self._seen[key] = Node(spec, values, outputs, asked)
            self.nodes.append(node)
            self._known.note(node)
        return node

    def host(self, function: Callable[..., Any], args: Sequence[Any]) -> Number:
        """A number that is computed from numbers, in Python, at each call."""
        example = function(*(a.example if isinstance(a, Number) else a for a in args))
        values = tuple(map(self.operand, args))
        key = _key(function, values)
        value = self._computed.get(key)
        if value is None:
            value = Value((), number_type(example), "number", by_value=True)
            self.numbers.append(HostCall(value, function, values))
            self._computed[key] = value
        return Number(self, value, example)

    def recording(self) -> AbstractContextManager[None]:
        """The context to run the function in, without a `no_grad` around its call."""
        return torch_recording() if self.symbol is Tensor else grad_mode(True)

    def records(self) -> bool:
        """True if the function is outside of a `no_grad` of its own."""
        return torch_records() if self.symbol is Tensor else recording()

    def detached(self, x: Any) -> Any:
        """`x`, which nothing is differentiated through: a step of its own."""
        if not isinstance(x, Symbol):
            return x.detach() if isinstance(x, Variable) else x
        value = x.value
        if self.tracked and is_floating(dtype_of(x)) and value not in self._constant:
            self.exact = True
            node = Node(Opaque(detach, (value,), True, (0,)), (value,),
                        [(value.shape, value.type)])
            self.nodes.append(node)
            (made,) = node.outputs
            self._constant |= {value: made, made: made}
        return self.symbol(self, self._constant.get(value, value), base=x)

    def state(self) -> Any:
        """Note what is there now, to go back to."""
        return ([len(x) for x in self._lists()],
                [dict(x) for x in (self.constants, self.stores, self._seen,
                                   self._computed, self._constant)], self.exact)

    def _lists(self) -> tuple[list[Any], ...]:
        return self.nodes, self.numbers, self.checks, self.refused, self.effects

    def restore(self, before: Any) -> None:
        """Forget what was recorded since `state`."""
        counts, held, self.exact = before
        for have, count in zip(self._lists(),
                               counts, strict=True):
            del have[count:]
        self.constants, self.stores, self._seen, self._computed, self._constant = held

    def refuse(self, message: str) -> NoReturn:
        """Raise `KernelTypeError` with the line, now and when the trace ends.

        The function may catch it, and what it then does is not what a call does.
        """
        error = KernelTypeError(with_line(message, user_frame(
            sys._getframe(1), behind_ours=True)))
        error.has_line = True  # type: ignore[attr-defined]
        self.refused.append(error)
        raise error

    def store(self, target: Any, new: Symbol, casting: str = "same_kind") -> None:
        """`assign` of a result to an `out` of the same shape, as ops ask for."""
        if isinstance(target, Symbol):
            check_shape("out", target.extents, new.extents)
        self.assign(target, new, casting)

    def assign(self, target: Any, new: Any, casting: str = "same_kind",
               where: Any = None) -> None:
        """``target[...] = new``: from here on `target` is another value.

        Elements at which `where` is False keep what they have.
        """
        self._check_target(target)
        new = plain_number(new)
        _check_cast(target, new, casting)
        if where is not None:
            new = OPS["where"](_mask(where), self._cast_like(new, target), target)
        if not isinstance(new, Symbol) or new.extents != target.extents or \
                dtype_of(new) != dtype_of(target) or (
                    new is not target and memory_of(new.value) in self.given):
            # Also an argument, or a view of one: it may change before the program
            # stores at its end.
            new = self._cast_like(new, target)
        if new.extents != target.extents:
            raise ShapeError(f"{target.name} cannot hold an array of shape "
                             f"{new.extents}; make a new array")
        root = target.root
        self._part_scalars(target)
        new = overwritten(root, target.parts, new)
        if root.own is not None:
            self.stores[root.own] = new.value
        root.value = new.value
        if root._edge is None or not isinstance(root._edge[0], Leaf):
            root._edge = new._edge  # a leaf stays one, whatever it holds
        for view in [*self.views.get(root.array, ())]:
            if view.loose:
                view.replaced = _MAY_BE_A_COPY
                continue
            shown = made_of(root, view.parts)
            view.value, view._edge = shown.value, shown._edge

    def _part_scalars(self, target: Symbol) -> None:
        """Let NumPy's scalars of an array keep what they are when it changes."""
        if not self.scalars:
            return
        views = [*self.views.get(target.array, ())]
        scalars = {id(v): v for v in views
                   if v.scalar and not v.extents and v is not target}
        for view in scalars.values():
            (kept,) = self.run(COPY, (view,), None, {"dtypes": (dtype_of(view),)})
            view.part(kept.value)
        if scalars:
            self.views[target.array] = WeakSet(
                v for v in views if id(v) not in scalars)

    def _cast_like(self, new: Any, target: Symbol) -> Any:
        """`new` in the dtype of `target`, and its shape if it broadcasts to that."""
        return self.record(_ASSIGN, (new, target), None,
                           {"dtypes": (dtype_of(target),)})[0]

    def _check_target(self, target: Any) -> None:
        """Refuse to change in place a value that another symbol sees."""
        if not isinstance(target, Symbol):
            raise KernelTypeError(
                f"out: nf.fuse stores into its arguments only, got a "
                f"{type(target).__name__} that is none; pass it as an argument")
        if target.root is None or any(
                v.root is not target.root and not v.loose
                for v in self.views.get(target.array, ())):
            raise KernelTypeError(
                f"{target.name} is changed in place and is, or has, a view that "
                "nf.fuse does not follow; make a new array, as in x = x + y")

    def program(self, result: Any) -> Program:
        """The program that computes the result of the function from its arguments."""
        if self.refused:  # and caught
            raise self.refused[0]
        arrays: dict[Value, object] = {memory_of(new): own
                                       for own, new in self.stores.items()}
        return Program.from_trace(
            self, map_tree(result, lambda x: self._output(x, arrays)), self.stores,
            self.effects)

    def _output(self, x: Any, arrays: dict[Value, object]) -> Any:
        """An argument itself, changed or not; or the value of what was computed.

        What was computed once for two of the function's `arrays` is copied for one.
        """
        if isinstance(x, MadeArray):  # each call gives one of its own
            return self._copy(self.operand(x), object())
        if not isinstance(x, Symbol):
            if is_object(x) and holds_array(x):
                raise KernelTypeError(
                    f"fuse: {self.name} returns a {type(x).__name__} that holds "
                    "arrays of the call; return them in a dataclass, a tuple, a list "
                    "or a dictionary")
            return self.operand(x) if isinstance(x, Number) else x
        if x.own is not None:
            return x.own
        value = self.operand(x)
        if memory_of(value) in self.known:  # a constant: each call gives one of its own
            return self._copy(value, x.array)
        same = arrays.setdefault(memory_of(value), x.array) is x.array
        return value if same else self._copy(value, x.array)

    def _copy(self, value: Value, array: object) -> Value:
        """The value in memory of its own, which `array` stands for; views of that."""
        if (value, array) not in self._copies:
            spec, inputs, asked = COPY, (value,), (value.type,)
            if value.node is not None and is_view(value.node.spec):
                spec, asked = value.node.spec, value.node.asked
                inputs = (self._copy(value.node.inputs[0], array),)
            node = Node(spec, inputs, [(value.shape, value.type)], asked)
            self.nodes.append(node)
            (self._copies[value, array],) = node.outputs
        return self._copies[value, array]


def _check_cast(target: Symbol, new: Any, casting: str) -> None:
    """`KernelTypeError` unless the dtype of `new` casts to that of `target`."""
    if isinstance(new, (Symbol, Variable)) or is_array(new):
        source = dtype_of(new)
    else:
        check_integers((target, new), "x[...] = y", ("x", "y"))
        source = np.result_type(dtype_of(target), getattr(new, "example", new))
    if not target.holds(source, casting):
        raise KernelTypeError(
            f"{target.name} cannot hold {source}, which does not cast to it under "
            f"'{casting}'; use astype, or make a new array")


def _mask(where: Any) -> Any:
    """A condition in the form of NumPy's ``where=``."""
    kind = np.dtype(bool) if isinstance(where, bool) else dtype_of(where)
    if kind != np.bool_:
        raise KernelTypeError(f"'where' has dtype {kind}, expected bool; compare it")
    return where


def _is_plain(x: Any) -> bool:
    return is_array(x) and not isinstance(x, np.generic)


def _check_array(x: Any) -> None:
    if isinstance(x, Number) and x.python is not None:
        raise KernelTypeError(f"{x.name} has no axes, which nf.fuse could change; make "
                              "an array with nf.full outside of the fused function")


def _key(function: Callable[..., Any], values: Sequence[Any]) -> Hashable:
    """The key that equal calls of functions of numbers have in common."""
    same: Any = function
    if isinstance(function, partial):
        same = function.func, repr(function.args), repr(function.keywords)
    return same, *[v if isinstance(v, Value) else (type(v), repr(v)) for v in values]


def _shape(x: Any) -> Shape:
    return x.shape if isinstance(x, Value) else ()


def _type(x: Any) -> Type:
    return x.type if isinstance(x, Value) else number_type(x)
