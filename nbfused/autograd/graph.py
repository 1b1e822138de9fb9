"""The autograd graph: nodes of recorded operations, and the backward walk over it.

A node knows where the cotangents of its inputs go (`edges`) and how to make them
(`pull`).  The walk is a loop over a heap, newest node first: a node is made after
everything it reads, so when it is reached all its cotangents have arrived, and a
graph may be as deep as memory allows.
"""

from __future__ import annotations

import heapq
import itertools
import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..arrays import dtype_of
from ..arrays.traced import Traced
from ..errors import TapeError
from ..scalar.ir.nodes import Block, Function, Let, literal
from ..specs import Map, View
from ..support.records import record
from .recording import RECORDING

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
    "between",
    "collect",
    "reachable",
    "time_stamp",
    "walk_back",
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


#: Held for a comparison and an assignment.  Reentrant, as a signal's handler, or what
#: collects garbage, may run a backward pass in between.
_REPLACING = threading.RLock()


def _unlock() -> None:
    """Make a new lock in a forked child: its holder may not exist there."""
    global _REPLACING
    _REPLACING = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)


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


def collect(gradients: dict[Edge, Any], plain: bool,
            total: Callable[[Any, Any], Any]) -> None:
    """Add gradients to those of their leaves.

    Threads add to one leaf without a lock while they compute: who comes second adds
    again.

    Parameters
    ----------
    plain
        Whether they are arrays, which become a leaf's own.
    total
        ``total(old, gradient)``: the sum; of no `old` one an array of its own.
    """
    for (leaf, _), gradient in gradients.items():
        assert isinstance(leaf, Leaf)
        own = not plain or (type(gradient) is np.ndarray and gradient.base is None)
        while True:
            old = leaf.grad
            new = gradient if own and old is None else total(old, gradient)
            with _REPLACING:
                if leaf.grad is old:
                    leaf.grad = new
                    break


def reachable(seeds: Iterable[Edge], targets: Collection[Edge] = ()) -> list[Node]:
    """All nodes that the seeds depend on, oldest first, up to the targets."""
    found: set[Node] = set()
    stack = [edge for edge in seeds if edge not in targets]
    while stack:
        node, _ = stack.pop()
        if node not in found:
            found.add(node)
            stack.extend(e for e in node.edges if e is not None and e not in targets)
    return sorted(found, key=lambda node: node.order)


def between(seeds: Iterable[Edge], targets: Collection[Edge]) -> set[Node]:
    """The nodes on paths from the seeds to the targets."""
    leading: set[Node] = set()
    for node in reachable(seeds, targets):
        if any(e in targets or e[0] in leading for e in node.edges if e is not None):
            leading.add(node)
    return leading


def walk_back(seeds: Sequence[tuple[Edge, Any]], mode: Pass, *,
              targets: Collection[Edge] | None = None, keep: bool = False,
              finished: Callable[[Edge, Any], None] | None = None,
              ) -> dict[Edge, Any]:
    """Propagate the seeds' cotangents back to the targets (default: all leaves).

    Parameters
    ----------
    seeds
        Tracked arrays and their cotangents.
    mode
        How to compute.
    targets
        Where to stop.  Nothing behind a target, and nothing that leads to no target,
        is computed.  One that the seeds do not depend on is absent in the result.
    keep
        Leave the nodes usable (``retain_graph``).
    finished
        Called with a target and its cotangent once nothing more is added to it, while
        the walk goes on.
    """
    leading = None if targets is None else between([e for e, _ in seeds], targets)
    found: dict[Edge, Any] = {}
    heap: list[tuple[int, Node]] = []
    waiting: dict[Node, list[Any | None]] = {}
    sent: Iterable[tuple[Edge | None, Any]] = seeds
    passed: Sequence[Edge | None] = ()
    left = None if finished is None else Counter(
        e for node in leading or () for e in node.edges if e in (targets or ()))
    before = RECORDING.get()
    # None: this walk does not record, but a tape around a `vmap` does.
    RECORDING.set(mode.records or None)
    try:  # one loop, as each call of a function would be one for each node
        while True:
            for edge, cotangent in sent:
                if edge is None or cotangent is None:
                    continue
                node, index = edge
                if targets is None:
                    ends = node.collects
                else:
                    ends = edge in targets
                    if not ends and leading is not None and node not in leading:
                        continue
                if ends:
                    old = found.get(edge)
                    found[edge] = cotangent if old is None and \
                        type(cotangent) is not Ones else _total(old, cotangent, mode)
                    continue
                row = waiting.get(node)
                if row is None:
                    row = waiting[node] = [None] * node.outputs
                    heapq.heappush(heap, (-node.order, node))
                old = row[index]
                row[index] = cotangent if old is None else _total(old, cotangent, mode)
            if finished is not None:
                for edge in _last_uses(left, passed):
                    if edge in found:
                        finished(edge, found[edge])
            if not heap:
                return found
            node = heapq.heappop(heap)[1]
            cotangents = waiting.pop(node)
            if node.released:
                raise TapeError(
                    f"the graph was freed: {node.name} has been pulled back already; "
                    "call the first backward with retain_graph=True, or compute the "
                    "output again")
            if not node.takes_ones:
                cotangents = [c.array(mode) if type(c) is Ones else c
                              for c in cotangents]
            passed = edges = node.edges
            wanted = node.wants if leading is None else tuple([
                e is not None and (e[0] in leading or e in (targets or ()))
                for e in edges])
            sent = zip(edges, node.pull(cotangents, wanted, mode), strict=True)
            if not keep:
                node.release()
    finally:
        RECORDING.set(before)


def _last_uses(left: Counter[Edge | None] | None,
               passed: Sequence[Edge | None]) -> Iterator[Edge]:
    """The targets that no further node adds to, after one has sent to `passed`."""
    if left is None:
        return
    for edge in passed:
        if edge is not None and edge in left:
            left[edge] -= 1
            if not left[edge]:
                yield edge


def _total(old: Any | None, new: Any, mode: Pass) -> Any:
    """The sum of two cotangents, a new array: somebody else may hold either."""
    added = new.array(mode) if type(new) is Ones else new
    if old is None:
        return added
    kept = old.array(mode) if type(old) is Ones else old
    return mode.run(ADD, (kept, added))[0]
