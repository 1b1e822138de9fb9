"""Slices that are put together again: sums of stores, and rolls.

The cotangent of an array that is read slice by slice is a sum of arrays of zeros, each
with a slice stored: where the slices fill the array it is their concatenation.  A
concatenation of the two parts of an array in the other order is a window that wraps.
A slice of a single piece of a concatenation is one of the piece.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from ....scalar.ir.nodes import Block, Function, Let
from ...base import Shape
from ...map import Map
from ...view import View
from ...windows import Place, Windows, wrapped
from ..graph import Node, Value, live, readers_of

__all__ = ["COPY", "find_rolls", "is_roll"]

COPY = Function("slice", ("x",), Block((), ("x",)))


def find_rolls(nodes: Sequence[Node], outputs: Sequence[Value]) -> list[Node]:
    """Change nodes in place, and add those that they read.

    Parameters
    ----------
    nodes
        Each after what it reads.
    outputs
        The values that are wanted.

    Returns
    -------
    list of Node
        All nodes that are left, in order.
    """
    if not any(isinstance(n.spec, View) and n.spec.kind in ("unslice", "concatenate")
               for n in nodes):
        return list(nodes)
    search = _Search(nodes, set(outputs))
    return live(search.run(), outputs)


def is_roll(node: Node) -> bool:
    """Whether a node is an array read through one window that wraps."""
    return isinstance(node.spec, Map) and node.spec.function is COPY and \
        node.spec.windows is not None and node.spec.windows.places[0].wraps


class _Search:
    def __init__(self, nodes: Sequence[Node], results: set[Value]) -> None:
        self.nodes, self.results = nodes, results
        self.made: list[Node] = []
        self.readers = readers_of(nodes)

    def run(self) -> list[Node]:
        """All nodes in order."""
        for node in self.nodes:
            if _is_sum(node) and not self._is_summand(node):
                self._join(node)
            match node.spec:
                case View(kind="concatenate"):
                    self._roll(node)
                case View(kind="slice"):
                    self._take(node)
            self.made.append(node)
        return self.made

    def _is_summand(self, node: Node) -> bool:
        """Whether a sum is part of one other sum, and of nothing else."""
        readers = self.readers.get(node.outputs[0], [])
        return len(readers) == 1 and _is_sum(readers[0]) and \
            node.outputs[0] not in self.results

    def _terms(self, node: Node) -> list[Value]:
        """The arrays that a sum adds, from the first."""
        found: list[Value] = []
        left = list(reversed(node.inputs))
        while left:
            x = left.pop()
            if x.node is not None and _is_sum(x.node) and self._is_summand(x.node):
                left += reversed(x.node.inputs)
            else:
                found.append(x)
        return found

    def _join(self, node: Node) -> None:
        """Make slices that fill an array, among what is added, concatenations."""
        terms, result = self._terms(node), node.outputs[0]
        if len(set(terms)) < len(terms):
            return
        joined: list[tuple[int, list[Value]]] = []
        for axis, extent in enumerate(result.shape):
            parts = [p for x in terms if (p := _stored(x, axis)) is not None]
            chains = _chains(parts, extent)
            taken = {p for chain in chains for p in chain}
            pieces = [{p[:2]: p.piece for p in chain} for chain in chains]
            for p in parts:  # another one at the place of a piece is added to that
                if p not in taken and (own := next((
                        c for c in pieces if p[:2] in c), None)) is not None:
                    own[p[:2]] = self._new(node.spec, (own[p[:2]], p.piece), p.piece)
                    taken.add(p)
            joined += [(axis, list(c.values())) for c in pieces]
            terms = [x for x in terms if x not in {p.term for p in taken}]
        if not joined:
            return
        if len(joined) == 1 and not terms:
            ((axis, inputs),) = joined
            node.spec, node.inputs, node.asked = View(
                "concatenate", (axis,)), tuple(inputs), None
            return
        *others, last = [*terms, *(self._joined(axis, inputs, result)
                                   for axis, inputs in joined)]
        node.inputs = reduce(lambda a, b: self._new(node.spec, (a, b), result),
                             others), last

    def _joined(self, axis: int, pieces: Sequence[Value], like: Value) -> Value:
        """The concatenation of some pieces, or a roll."""
        made = self._new(View("concatenate", (axis,)), pieces, like)
        assert made.node is not None
        self._roll(made.node)
        return made

    def _new(self, spec: View | Map, inputs: Sequence[Value], like: Value) -> Value:
        """The result of a new node, of another's shape and dtype."""
        made = Node(spec, inputs, [(like.shape, like.type)], None)
        self.made.append(made)
        return made.outputs[0]

    def _roll(self, node: Node) -> None:
        """Make two parts of an array in the other order a window that wraps."""
        (axis,) = node.spec.params
        found = _turned(node, axis)
        if found is None:
            return
        x, cut = found
        box, origin = wrapped(tuple(-cut*(a == axis) for a in range(len(x.shape))),
                              x.shape)
        node.spec = Map(COPY, ("window",), (), Windows.of(
            [Place(0, origin, True)], [box], x.shape))
        node.inputs, node.asked = (x,), None

    def _take(self, node: Node) -> None:
        """Read a slice of a piece from the piece."""
        whole = node.inputs[0].node
        if whole is None or not isinstance(whole.spec, View) or \
                whole.spec.kind != "concatenate" or 0 in node.outputs[0].shape:
            return
        (axis,), slices, start = whole.spec.params, node.spec.params, 0
        places = range(*slices[axis])
        first, last = min(places), max(places)
        for x in whole.inputs:
            stop = start + x.shape[axis]
            if start <= first and last < stop and x.type == whole.outputs[0].type:
                begin, step = places[0] - start, slices[axis][2]
                end = begin + step*len(places)
                spec: View | Map = View("slice", tuple(
                    (begin, max(end, -1), step) if a == axis else one
                    for a, one in enumerate(slices)))
                if self._is_shown(node):  # of the copy that a concatenation is
                    x = self._new(spec, (x,), node.outputs[0])
                    spec = Map(COPY, ("element",))
                node.spec, node.inputs = spec, (x,)
                return
            start = stop

    def _is_shown(self, node: Node) -> bool:
        """Whether a view, or one of it, is a result."""
        return isinstance(node.spec, View) and node.spec.rearranges and (
            not self.results.isdisjoint(node.outputs) or any(
                map(self._is_shown, self.readers.get(node.outputs[0], ()))))


def _is_sum(node: Node) -> bool:
    """Whether a node adds two arrays of its own shape and dtype."""
    if not isinstance(node.spec, Map) or node.spec.kinds != ("element", "element"):
        return False
    function, (result,) = node.spec.function, node.outputs[:1]
    body = function.body
    alike = all(isinstance(x, Value) and not x.by_value and x.shape == result.shape
                and x.type == result.type for x in node.inputs)
    if not alike or len(body.statements) != 1:
        return False
    (added,) = body.statements
    return isinstance(added, Let) and added.op == "add" and \
        added.args == function.params and body.yields == added.results


class _Stored(NamedTuple):
    """A slice that is stored into zeros, where all of it is along the other axes.

    Attributes
    ----------
    start, stop
        Its place along the axis.
    term, piece
        The array of zeros with the slice, and the slice.
    source
        The array that the slice itself is a slice of; else the slice.
    """

    start: int
    stop: int
    term: Value
    piece: Value
    source: Value


def _stored(x: Value, axis: int) -> _Stored | None:
    """A slice that is stored along an axis, as one; None if `x` is none."""
    if x.node is None or not isinstance(x.node.spec, View) or \
            x.node.spec.kind != "unslice":
        return None
    (shape, slices), (piece,) = x.node.spec.params, x.node.inputs
    if 0 in piece.shape or any(
            one != (0, n, 1) for a, (one, n) in enumerate(zip(
                slices, shape, strict=True)) if a != axis):
        return None
    (start, stop, step), maker = slices[axis], piece.node
    if step != 1 or (start, stop) == (0, shape[axis]):
        return None
    taken = maker is not None and isinstance(maker.spec, View) and \
        maker.spec.kind == "slice"
    return _Stored(start, stop, x, piece, maker.inputs[0] if taken and maker else piece)


def _chains(parts: Sequence[_Stored], extent: int) -> list[list[_Stored]]:
    """Sequences of slices that fill an axis, those of one array together if they do."""
    found: list[list[_Stored]] = []
    left = sorted(parts, key=lambda p: -p.start)
    while chain := _next_chain(_leading(left, extent), extent):
        found.append(chain)
        left = [p for p in left if p not in chain]
    return found


def _leading(parts: Sequence[_Stored], extent: int) -> dict[int, list[_Stored]]:
    """The slices that lead to the end of an axis, by where they start."""
    after: dict[int, list[_Stored]] = {}
    for p in parts:  # the last first
        if p.stop == extent or p.stop in after:
            after.setdefault(p.start, []).append(p)
    return after


def _next_chain(after: Mapping[int, Sequence[_Stored]], extent: int) -> list[_Stored]:
    """The first sequence from one end to the other; nothing if there is none."""
    chain: list[_Stored] = []
    at = 0
    while at != extent:
        ready = after.get(at)
        if not ready:
            return []
        chain.append(next((p for p in ready if chain and p.source is chain[0].source),
                          ready[0]))
        at = chain[-1].stop
    return chain


def _turned(node: Node, axis: int) -> tuple[Value, int] | None:
    """The array whose parts before and after `cut` are concatenated, after first."""
    if len(node.inputs) != 2:
        return None
    makers = [x.node for x in node.inputs]
    if any(m is None or not isinstance(m.spec, View) or m.spec.kind != "slice"
           for m in makers) or makers[0].inputs != makers[1].inputs:
        return None
    (x,) = makers[0].inputs
    if x.type != node.outputs[0].type or x.shape != node.outputs[0].shape or \
            0 in x.shape:
        return None
    n, cut = x.shape[axis], makers[0].spec.params[axis][0]
    after, before = (_part(x.shape, axis, *ends) for ends in ((cut, n), (0, cut)))
    return (x, cut) if 0 < cut < n and [m.spec.params for m in makers] == [
        after, before] else None


def _part(shape: Shape, axis: int, start: int, stop: int,
          ) -> tuple[tuple[int, int, int], ...]:
    return tuple((start, stop, 1) if a == axis else (0, n, 1)
                 for a, n in enumerate(shape))
