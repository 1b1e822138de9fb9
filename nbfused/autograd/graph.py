"""The autograd graph: nodes of recorded operations, and arrays with a place in it.

A node knows where the cotangents of its inputs go (`edges`) and how to make them
(`pull`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..arrays import dtype_of
from ..arrays.traced import Traced
from ..scalar.ir.nodes import Block, Function, Let, literal
from ..specs import Map, View
from ..support.records import record

__all__ = [
    "ADD",
    "COPY",
    "FULL",
    "ONE",
    "ORDER",
    "ZERO",
    "Edge",
    "GraphArray",
    "Leaf",
    "Node",
    "Ones",
    "Pass",
    "Target",
    "time_stamp",
]

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
        like = self.like
        if isinstance(like, Traced) and like.depth:  # all samples share it
            like = like.zeros((), self.dtype)
        made = mode.run(ONE, (like,), dtypes=(self.dtype,))[0]
        for kind, params in (("reshape", ()), ("broadcast", self.shape)):
            if tuple(made.shape) != self.shape:
                made = mode.run(View(kind, params), (made,), dtypes=None)[0]
        return made


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
