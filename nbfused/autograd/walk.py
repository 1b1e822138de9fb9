"""The backward walk over the autograd graph, and the nodes that it will meet.

It is a loop over a heap, newest node first: a node is made after everything it reads,
so when it is reached all its cotangents have arrived, and a graph may be as deep as
memory allows.
"""

from __future__ import annotations

import heapq
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import TapeError
from ..support.forks import free_in_child
from .graph import ADD, Edge, Leaf, Node, Ones, Pass
from .recording import RECORDING

__all__ = ["between", "collect", "reachable", "walk_back"]

#: Held for a comparison and an assignment.  Reentrant, as a signal's handler, or what
#: collects garbage, may run a backward pass in between.
_REPLACING = free_in_child(threading.RLock())


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
