"""The autograd graph: nodes of recorded operations, and arrays with a place in it.

A node knows where the cotangents of its inputs go (`edges`) and how to make them
(`pull`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..arrays import dtype_of
from ..arrays.traced import Traced
from ..dispatch import direct_call
from ..scalar.ir.nodes import Block, Function, Let, literal
from ..specs import Map, Spec, View
from ..support.records import record

__all__ = [
    "ADD",
    "COPY",
    "FULL",
    "ONE",
    "ORDER",
    "ZERO",
    "Dtypes",
    "Edge",
    "GraphArray",
    "Leaf",
    "Node",
    "Ones",
    "Pass",
    "RepeatedCall",
    "Target",
    "time_stamp",
]

#: Dtypes of outputs; None for what NumPy would give.
Dtypes = tuple[np.dtype | None, ...]
#: A tracked array: output number `Edge[1]` of node `Edge[0]`.
Edge = tuple["Node", int]

ADD = Map(Function("add", ("a", "b"), Block((Let(("c",), "add", ("a", "b")),), ("c",))),
          ("element", "element"))
COPY, ONE, ZERO = (Map(Function(name, ("a",), Block((), (value,))), ("element",))
                   for name, value in (("copy", "a"), ("ones_like", literal(1.0)),
                                       ("zeros_like", literal(0.0))))
#: Stores the number; of `x` only the shape matters.
FULL = Map(Function("full_like", ("x", "value"), Block((), ("value",))),
           ("element", "scalar"))

class GraphArray:
    """An array with its place in the graph: what the tape reads of a `Variable`."""

    __slots__ = ("__weakref__", "_edge", "_of", "_seen_by", "_value")

    _value: Any
    _edge: Edge | None
    #: Of a view of what nothing is recorded of, that and by which view; else not set.
    _of: Any
    #: The views of it, where nothing is recorded of it.
    _seen_by: Any

    @staticmethod
    def at(data: Any, edge: Edge | None) -> GraphArray:
        """Wrap `data` with an edge of the graph, without checks."""
        made = object.__new__(GraphArray)
        made._value = data
        made._edge = edge
        return made

    @property
    def data(self) -> Any:
        """The array itself."""
        return self._value

    @property
    def edge(self) -> Edge | None:
        """The node that produced it, and the number of the output."""
        return self._edge

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient is wanted here or upstream."""
        return self._edge is not None

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the array."""
        return tuple(self._value.shape)

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype, whatever the library of the array."""
        return dtype_of(self._value)


#: Numbers of nodes, in the order in which they are made.
ORDER = itertools.count()


def time_stamp() -> int:
    """Take a time stamp: nodes made later have this `order` or a larger one."""
    return next(ORDER)


@record(frozen=True)
class Pass:
    """The mode of a backward pass: on plain arrays, or on Variables that record.

    Attributes
    ----------
    run
        ``run(spec, inputs, dtypes=...)`` -> outputs.
    lift
        ``lift(array, edge)`` -> the value that stands for a saved array.
    records
        Whether the pass can itself be differentiated (``create_graph=True``).
    """

    run: Callable[..., Sequence[Any]]
    lift: Callable[[Any, Edge | None], Any]
    records: bool


class RepeatedCall:
    """A call of a spec in backward passes, prepared for those on plain arrays.

    Attributes
    ----------
    spec, dtypes
        What runs, and the dtypes of its outputs.
    direct
        Repeats the call on plain arrays, once there was one.
    """

    __slots__ = ("direct", "dtypes", "spec")

    def __init__(self, spec: Spec, dtypes: Dtypes | None) -> None:
        self.spec, self.dtypes = spec, dtypes
        self.direct: Callable[..., Sequence[Any] | None] | None = None

    def run(self, inputs: Sequence[Any], mode: Pass) -> Sequence[Any]:
        """Run the spec as the pass does; later calls on plain arrays are direct."""
        made = mode.run(self.spec, tuple(inputs), dtypes=self.dtypes)
        if self.direct is None and not mode.records:
            self.direct = direct_call(self.spec, inputs, None, dtypes=self.dtypes)
        return made


@record
class Ones:
    """A cotangent that is 1 everywhere, not stored until something has to read it.

    Attributes
    ----------
    shape, dtype
        Of the array that it stands for.
    like
        An array whose library and device that one has.
    """

    shape: tuple[int, ...]
    dtype: Any
    like: Any

    def array(self, mode: Pass) -> Any:
        """The stored array: one element, repeated by strides of 0."""
        made = self.like
        if isinstance(made, Traced) and made.depth:  # all samples share it
            made = made.zeros((), self.dtype)
        one, *views = _calls_of_ones(type(made), self.shape, self.dtype)
        for call in (one, *views):
            if call is one or tuple(made.shape) != self.shape:
                direct = None if mode.records or call.direct is None else call.direct
                found = None if direct is None else direct(made)
                (made,) = call.run((made,), mode) if found is None else found
        return made


def _calls_of_ones(kind: type, shape: tuple[int, ...], dtype: Any,
                   ) -> tuple[RepeatedCall, ...]:
    """Calls that store an element, and repeat it by a view; for arrays of a type."""
    try:
        return _known_calls_of_ones(kind, shape, dtype)
    except TypeError:  # extents that a compiler of PyTorch leaves open have no hash
        return _known_calls_of_ones.__wrapped__(kind, shape, dtype)


@lru_cache(maxsize=256)
def _known_calls_of_ones(kind: type, shape: tuple[int, ...], dtype: Any,
                         ) -> tuple[RepeatedCall, ...]:
    return (RepeatedCall(ONE, (dtype,)), RepeatedCall(View("reshape", ()), None),
            RepeatedCall(View("broadcast", shape), None))


class Node:
    """The graph node of a recorded operation.

    Attributes
    ----------
    name
        The operation, for messages.
    edges
        For each input, where its cotangent goes; None for one that wants none.
    outputs
        How many outputs there are (saved state included).
    takes_ones
        Whether `pull` takes `Ones` for cotangents.
    collects
        Whether a walk without targets ends here.
    views
        The recorded views of its outputs, each with its node, as long as they live;
        not of a leaf.
    """

    takes_ones = False
    collects = False
    __slots__ = ("__weakref__", "edges", "name", "order", "outputs", "released",
                 "views")

    def __init__(self, name: str, edges: Iterable[Edge | None], outputs: int) -> None:
        self.name: str = name
        self.edges: tuple[Edge | None, ...] = tuple(edges)
        self.outputs: int = outputs
        self.order: int = next(ORDER)
        self.released: bool = False
        self.views: list[tuple[Any, Any]] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @property
    def wants(self) -> tuple[bool, ...]:
        """Mark the inputs whose cotangent goes somewhere."""
        return tuple([edge is not None for edge in self.edges])

    def pull(self, cotangents: Sequence[Any | None], wanted: Sequence[bool],
             mode: Pass) -> Sequence[Any | None]:
        """Compute the cotangents that `wanted` marks; None stands for zero."""
        raise NotImplementedError(f"{type(self).__name__} has to say how to pull back")

    def release(self) -> None:
        """Drop what was saved; pulling back again is then an error."""
        self.edges = ()
        self.released = True


class Leaf(Node):
    """The graph node of a user's Variable, in which gradients are collected."""

    collects = True
    __slots__ = ("grad",)

    def __init__(self, grad: Any | None = None) -> None:
        super().__init__("leaf", (), 1)
        self.grad = grad

    def __reduce__(self) -> tuple[Any, ...]:
        return Leaf, (self.grad,)  # a copy is younger: `order` is of this process


class Target(Leaf):
    """A leaf made by a transform, which differentiates with respect to it.

    Attributes
    ----------
    running
        Whether the function is: afterwards nobody asks for a gradient here.
    """

    __slots__ = ("running",)

    def __init__(self, running: bool) -> None:
        super().__init__()
        self.running: bool = running
