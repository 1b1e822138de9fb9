"""The trace of `fuse`: the operations of a function on arrays, as a graph."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NoReturn
from weakref import WeakSet

import numpy as np

from ...arrays import check_dtype, describe, dtype_of, is_array
from ...arrays.creation import array_like
from ...arrays.traced import Traced
from ...autograd import Variable
from ...autograd.nodes import is_floating
from ...autograd.recording import grad_mode, recording
from ...autograd.tape import record_traced
from ...dispatch.calls import ZERO
from ...dispatch.outputs import check_shape
from ...errors import KernelTypeError
from ...scalar.typing.python_numbers import number_type, plain_number
from ...scalar.typing.types import Type
from ...specs import View
from ...specs.base import Shape
from ...specs.fusion.graph import Node, Value, type_of
from ...support.trees import leaves_of
from .arguments import is_tracked
from .constants import Constants
from .outside.lines import is_library, is_ours, user_frame, with_line
from .outside.memories import Memories, Site, site_of
from .outside.snapshots import Snapshots
from .outside.watching import Watch
from .parts import is_view
from .program import HostCall, Opaque, Program, data_of, detach
from .pytorch.functions import torch_recording, torch_records
from .results import results_of
from .stores import assign, check_contiguous
from .symbols.arrays import Symbol
from .symbols.numbers import Number
from .symbols.tensors import Tensor

__all__ = ["Trace"]


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
    traced_sites
        Where arrays are made that are arrays of the program.
    asked_sites
        Those that have to be so, which the function was not yet traced with.
    """

    def __init__(self, name: str, tensors: bool = False,
                 traced_sites: Collection[Site] = ()) -> None:
        self.name, self.tensors = name, tensors
        self.traced_sites, self.asked_sites = traced_sites, set[Site]()
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
        #: Results of calls between processes, in their order.
        self.exchanges: list[Value] = []
        #: Symbols that are views, by what they are views of.
        self.views: dict[object, WeakSet[Symbol]] = {}
        #: Whether an array without dimensions may be a NumPy scalar to the function.
        self.scalars = False
        #: Whether an element of an array is one, as of NumPy's arrays in Variables too.
        self.elements = False
        #: Whether an array that it reads requires grad, on any tape.
        self.tracked = False
        #: The type of the first array that is given.
        self.kind: type | None = None
        self.sample: Any = None
        #: Names of numbers passed by value that the function needs while it is traced.
        self.asked_numbers: set[str] = set()
        self.watch = Watch()
        #: What was refused; some of it may have been caught.
        self.refused: list[KernelTypeError] = []
        self._seen: dict[Any, Node] = {}
        self._computed: dict[Any, Value] = {}
        self._constant: dict[Value, Value] = {}
        self._known = Constants()
        #: Values in memory of their own, by the values and what stands for the memory.
        self.copies: dict[tuple[Value, object], Value] = {}
        self.snapshots = Snapshots()

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
        if self.tensors:
            describe(data_of(x), name)  # it refuses tensors that no kernel takes
        value = Value(tuple(x.shape), dtype_of(x), name)
        self.tracked |= is_tracked(x)
        self.given[value] = x
        self.scalars |= isinstance(x, np.ndarray)
        self.elements |= isinstance(data_of(x), np.ndarray)
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
        self.tracked |= is_tracked(x)
        return self._read(x)

    def _read(self, x: Any, known: bool = False) -> Value:
        """The value of an array that is no argument, as it is now."""
        value, self.constants[value], known = self.snapshots.take(x, known, self.given)
        if known:
            self.known.add(value)
            self.exact = True  # it may follow from shapes
        return value

    @property
    def memories(self) -> Memories:
        """The memory of the arrays that the function makes."""
        return self.snapshots.memories

    def made(self, x: Any) -> Any:
        """Note an array that the function has made of what is known.

        Where traced values are going to be stored into it, a symbol takes its place.
        """
        if self.memories.find(x) is not None:
            return x
        site = site_of()
        if site not in self.traced_sites:
            self.memories.add(x, site)
            return x
        plain = x.any() or (isinstance(x, np.ndarray) and np.signbit(x.real).any())
        return self.same(x) if plain else self.zeros(tuple(x.shape), dtype_of(x))

    def made_by_user(self, x: Any) -> Any:
        """The symbol for an array of numbers; `x` where a library's code asks for it.

        Called by the function that has made the array.
        """
        asking = sys._getframe(2)
        library = is_ours(asking) or is_library(asking.f_code.co_filename)
        return x if library else self.same(x)

    def same(self, x: Any) -> Symbol:
        """The symbol for an array that is made of numbers, the same in each call."""
        return self.symbol(self, self._read(x, known=True))

    def ask_to_trace(self, x: Any) -> NoReturn:
        """Have an array be one of the program, as traced values are stored into it.

        Raises
        ------
        KernelTypeError
            In any case: what is traced so far does not hold.
        """
        memory = self.memories.find(x)
        if memory is not None and memory.site is not None:
            self.asked_sites.add(memory.site)
        self.refuse(f"a traced array is stored into a {type(x).__name__} that is no "
                    "argument; make it with np.zeros_like(x), or pass it as one")

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Symbol:
        """The symbol for zeros."""
        (one,) = self.run(ZERO, (), None, {"dtypes": (dtype,)})
        (made,) = self.run(View("broadcast", shape), (one,), None, {})
        return self.symbol(self, made.value)

    def constant(self, host: np.ndarray, given: Sequence[Any] = ()) -> Symbol:
        """The symbol for an array that follows from shapes, and from `given`."""
        like = next(x for x in self.given.values() if not np.isscalar(x))
        array = array_like(host, like.data if isinstance(like, Variable) else like)
        value = Value(tuple(host.shape), dtype_of(array), "constant")
        self.constants[value] = array
        if all(self.memories.knows(x) for x in leaves_of(given) if is_array(x)):
            self.known.add(value)
        self.exact = True
        return self.symbol(self, value)

    def _current_value(self, x: Symbol | Number) -> Value:
        """The value; `KernelTypeError` if it is not known whether it has changed."""
        if isinstance(x, Symbol) and x.replaced:
            raise KernelTypeError(f"{x.name} is used after += or the like {x.replaced}")
        if isinstance(x, Symbol) and x.lies_as:
            check_contiguous(self, x.lies_as)
        return x.value

    def record(self, spec: Any, inputs: Sequence[Any], out: Sequence[Any] | None,
               options: dict[str, Any]) -> tuple[Any, ...]:
        """Record a call of an operation; symbols for its outputs.

        They have their place in the graph of a transform that is inside the function.
        """
        inputs = [self.symbol(self, self.operand(x)) if _is_plain(x) and not isinstance(
            x, (Variable, Traced)) else x for x in inputs]  # as a derivative does
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
        types = list(spec.result_types(tuple(map(type_of, values))))
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
        return (self.nodes, self.numbers, self.checks, self.refused, self.effects,
                self.exchanges)

    def restore(self, before: Any) -> None:
        """Forget what was recorded since `state`."""
        counts, held, self.exact = before
        for have, count in zip(self._lists(), counts, strict=True):
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
        assign(self, target, new, casting, where)

    def program(self, result: Any) -> Program:
        """The program that computes the result of the function from its arguments."""
        if self.refused:  # and caught
            raise self.refused[0]
        self.snapshots.check()
        return Program.from_trace(self, results_of(self, result), self.stores,
                                  self.effects)


def _check_array(x: Any) -> None:
    if isinstance(x, Number) and x.python is not None:
        x.ask()  # it may be an index
        x.tracer.refuse(f"{x.name} has no axes, which nf.fuse could change; make an "
                        "array with nf.full outside of the fused function")


def _is_plain(x: Any) -> bool:
    return is_array(x) and not isinstance(x, np.generic)


def _key(function: Callable[..., Any], values: Sequence[Any]) -> Hashable:
    """The key that equal calls of functions of numbers have in common."""
    same: Any = function
    if isinstance(function, partial):
        same = function.func, repr(function.args), repr(function.keywords)
    return same, *[v if isinstance(v, Value) else (type(v), repr(v)) for v in values]


def _shape(x: Any) -> Shape:
    return x.shape if isinstance(x, Value) else ()
