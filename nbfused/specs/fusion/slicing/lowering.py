"""Slices in the form in which Maps merge with them.

Before a graph is divided into launches, what stores arrays into parts of others (the
cotangent of a slice, a concatenation) becomes a Map with windows, and a rearrangement
of what a Map gives becomes the same Map of rearranged arrays, where it costs little to
compute twice what two of them have in common.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from ....scalar.ir.clean import has_effects
from ....scalar.ir.nodes import Let, walk
from ....scalar.language.vocabulary import OPS
from ...base import Shape
from ...contract import Contract
from ...map import Map
from ...reduce import Reduce
from ...view import View
from ..graph import Node, Value, readers_of
from .pushed import Pushed, concatenated, placed
from .rearranged import Rearranged, is_alignment
from .rolls import is_roll

__all__ = ["is_pure_map", "lower_slices"]

#: Pieces of a concatenation that one kernel looks for at each point.
_PIECES = 16
#: Statements, and arrays read, that may be computed once for each of several views of a
#: Map, instead of storing it: a few loads that are in a cache and tens of operations
#: take less than the array's way to memory and back.
_STATEMENTS, _ARRAYS = 96, 24
#: Instructions that an operation of many counts as.
_MANY = 8


def _instructions(op: str) -> int:
    row = OPS.get(op)
    return 1 if row is None else row.cost or _MANY


def is_pure_map(node: Node | None) -> bool:
    """Whether a node is a Map without effects."""
    return node is not None and isinstance(node.spec, Map) \
        and not node.spec.scatter_shapes and not has_effects(node.spec.function.body)


def lower_slices(nodes: Sequence[Node], outputs: Iterable[Value],
                 ) -> tuple[list[Node], set[Node]]:
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
        All nodes in order.
    set of Node
        Concatenations of what takes too long to be computed at all their points.
    """
    lowering = _Lowering(nodes, set(outputs))
    return lowering.run(), lowering.apart


class _Lowering:
    def __init__(self, nodes: Sequence[Node], results: set[Value]) -> None:
        self.nodes, self.results = nodes, results
        self.made: list[Node] = []
        self.waiting: deque[Node] = deque()
        self.apart: set[Node] = set()
        self._views: dict[tuple[View, Value], Value] = {}
        self.readers = readers_of(nodes)

    def run(self) -> list[Node]:
        """All nodes in order."""
        self.joined = {node for node in self.nodes if self._is_joined(node)}
        for node in self.nodes:
            if isinstance(node.spec, View) and node not in self.joined:
                self._lower(node)
                self._push_waiting()
            self.made.append(node)
            if isinstance(node.spec, View) and len(node.inputs) == 1:
                self._views.setdefault((node.spec, node.inputs[0]), node.outputs[0])
        return _in_order(self.made)

    def view(self, spec: View, x: Value) -> Value:
        """A rearrangement of an array: a new one, unless there is one already."""
        if (spec, x) not in self._views:
            self._views[spec, x] = self._new_view(spec, x)
        return self._views[spec, x]

    def _new_view(self, spec: View, x: Value) -> Value:
        (shape,) = spec.out_shapes((x.shape,))
        node = Node(spec, (x,), [(shape, x.type)], None)
        self.readers.setdefault(x, []).append(node)
        self.waiting.append(node)
        self.made.append(node)
        return node.outputs[0]

    def _push_waiting(self) -> None:
        """Make new views of what Maps give those Maps again: that is decided.

        One after the other: a chain of Maps is longer than Python's stack.
        """
        while self.waiting:
            node = self.waiting.popleft()
            (x,) = node.inputs
            if is_pure_map(x.node) and x not in self.results:
                self._push(node, x.node)

    def _lower(self, node: Node) -> None:
        match node.spec.kind:
            case "unslice":
                self._unslice(node)
            case "concatenate" if len(node.inputs) <= _PIECES:
                self._concatenate(node)
            case kind if kind != "concatenate":
                source = node.inputs[0].node
                if is_pure_map(source) and self._pays(node, source):
                    self._push(node, source)

    def _unslice(self, node: Node) -> None:
        extent, slices = node.spec.params
        (x,) = node.inputs
        if 0 in x.shape:
            return
        if any(step < 0 for _, _, step in slices):
            flips = tuple((n - 1, -1, -1) if step < 0 else (0, n, 1)
                          for n, (_, _, step) in zip(x.shape, slices, strict=True))
            x = self.view(View("slice", flips), x)
        starts = tuple(start if step > 0 else start + (n - 1)*step
                       for n, (start, _, step) in zip(x.shape, slices, strict=True))
        steps = tuple(1 if n == 1 else abs(step)
                      for n, (_, _, step) in zip(x.shape, slices, strict=True))
        if max(steps, default=1) > 1:
            x = self._spread(x, steps, tuple(
                n - start for n, start in zip(extent, starts, strict=True)))
        self._become(node, *placed(x, starts, extent))

    def _spread(self, x: Value, steps: Shape, room: Shape) -> Value:
        """Elements with zeros between them, as far as there is room.

        They are the first of each row of a larger array, which is reshaped.
        """
        apart = self.view(View("reshape", tuple(
            k for n in x.shape for k in (n, 1))), x)
        wide = tuple(k for n, step in zip(x.shape, steps, strict=True)
                     for k in (n, step))
        spec, inputs = placed(apart, (0,)*len(wide), wide)
        filled = Node(spec, inputs, [(wide, x.type)], None)
        for v in inputs:
            self.readers.setdefault(v, []).append(filled)
        self.made.append(filled)
        whole_rows = tuple(n*step for n, step in zip(x.shape, steps, strict=True))
        flat = self.view(View("reshape", whole_rows), filled.outputs[0])
        return self.view(View("slice", tuple(
            (0, min(n, most), 1) for n, most in zip(whole_rows, room, strict=True))),
            flat)

    def _concatenate(self, node: Node) -> None:
        extent = node.outputs[0].shape
        if 0 in extent:
            return
        pieces = [x for x in node.inputs if 0 not in x.shape]
        seen: dict[Node, None] = {}
        statements = sum(self._size(x.node, seen)[0] for x in pieces
                         if is_pure_map(x.node) and x.node is not None)
        if statements*(len(pieces) - 1) > _STATEMENTS*len(pieces):
            self.apart.add(node)
        self._become(node, *concatenated(pieces, node.spec.params[0], extent))

    def _is_joined(self, node: Node) -> bool:
        """Whether a concatenation is stored piece by piece where these are computed.

        They are Maps over the same points, which take too long to be computed at all
        points of the whole, or wrap.
        """
        if not isinstance(node.spec, View) or node.spec.kind != "concatenate":
            return False
        (axis,) = node.spec.params
        made = [_aligned(x) for x in node.inputs]
        first, count = made[0].shape, len(set(made))
        if prod(node.outputs[0].shape[:axis]) != 1 or count < len(made) or any(
                x.shape != first or not is_pure_map(x.node) or x in self.results
                for x in made):
            return False
        seen: dict[Node, None] = {}
        statements = sum(self._size(x.node, seen)[0] for x in made if x.node)
        return statements*(count - 1) > _STATEMENTS*count or any(map(is_roll, seen))

    def _become(self, node: Node, spec: Map, inputs: tuple[Any, ...]) -> None:
        node.spec, node.inputs, node.asked = spec, inputs, None

    def _pays(self, node: Node, source: Node) -> bool:
        """Whether to compute what a Map gives where its views are read.

        A result that shows all of it costs nothing as a view, or is the order in which
        a product stores.
        """
        if node.spec.kind != "slice" and not self.readers.get(node.outputs[0]):
            return False
        views = [r for v in source.outputs for r in self.readers.get(v, ())]
        if not all(map(self._leads_to_maps, views)):
            return False
        if any(map(self._is_repeated, views)) and self._ends_product(source):
            return False  # its epilogue computes each element once
        if len(views) == 1 and not self.results.intersection(source.outputs):
            return True
        if self.results.intersection(source.outputs) and self._is_shown(node):
            return False  # which the result is a view of
        statements, arrays = self._size(source, {})
        plain = sum(1 for r in views if not isinstance(r.spec, View))
        count = len(views) - plain + bool(
            plain or self.results.intersection(source.outputs))
        apart = not plain and not self.results.intersection(source.outputs) and sum(
            prod(r.outputs[0].shape) for r in views) <= prod(source.outputs[0].shape)
        count = 1 if apart else count
        return count*statements <= _STATEMENTS and count*arrays <= _ARRAYS

    def _ends_product(self, node: Node) -> bool:
        """Whether a Map can be computed where a product stores its elements."""
        stack, seen = [node], {node}
        while stack:
            one = stack.pop()
            shape = one.outputs[0].shape
            for maker in [x.node for x in one.inputs if isinstance(x, Value)
                          and x.node is not None and x.shape == shape]:
                if isinstance(maker.spec, Contract):
                    return True
                if is_pure_map(maker) and maker not in seen:
                    seen.add(maker)
                    stack.append(maker)
        return False

    def _is_repeated(self, node: Node) -> bool:
        """Whether a Map reads a view for more points than the view has."""
        if not isinstance(node.spec, View):
            return False
        (x,) = node.outputs
        return any(self._is_repeated(r) or (
            isinstance(r.spec, Map) and prod(r.outputs[0].shape) > prod(x.shape))
            for r in self.readers.get(x, ()))

    def _is_shown(self, node: Node) -> bool:
        """Whether a view, or one of it, is a result."""
        return isinstance(node.spec, View) and (
            not self.results.isdisjoint(node.outputs) or any(
                self._is_shown(r) for r in self.readers.get(node.outputs[0], ())))

    def _leads_to_maps(self, node: Node) -> bool:
        """Whether all that read a view run at points, or nobody does."""
        if not isinstance(node.spec, View):
            return isinstance(node.spec, (Map, Reduce))
        if node.spec.kind == "concatenate":
            return node not in self.joined
        if node.spec.kind == "reshape" and not is_alignment(
                node.inputs[0].shape, node.outputs[0].shape):
            return False
        return all(self._leads_to_maps(r) for r in self.readers.get(
            node.outputs[0], ()))

    def _size(self, node: Node, seen: dict[Node, None]) -> tuple[int, int]:
        """Statements that a Map stands for, with those that it reads, and arrays."""
        statements = arrays = 0
        stack = [node]
        while stack:
            one = stack.pop()
            if one in seen:
                continue
            seen[one] = None
            statements += sum(_instructions(s.op) if isinstance(s, Let) else 4
                              for s in walk(one.spec.function.body))
            for x in dict.fromkeys(x for x in one.inputs if isinstance(x, Value)):
                if is_pure_map(x.node) and x not in self.results and x.node is not None:
                    stack.append(x.node)
                else:
                    arrays += bool(x.shape)
        return statements, arrays

    def _push(self, node: Node, source: Node) -> None:
        """Make a view of a Map's result the Map of views."""
        made = Rearranged(node.spec, source.outputs[0].shape, self.view)
        if made.parts is None or not {"index", "size", "raw"}.isdisjoint(
                source.spec.kinds):
            return
        spec, inputs = source.spec, source.inputs
        if node.spec.kind == "slice" and any(p.wraps for p in spec.places.values()):
            if not is_roll(source):
                return
            spec, inputs = self._unwrapped(source)
        pushed = Pushed(made, spec, inputs, source.outputs.index(node.inputs[0]),
                         node.outputs[0].shape)
        self._become(node, pushed.spec(), tuple(pushed.inputs))
        for x in pushed.inputs:
            if isinstance(x, Value):
                self.readers.setdefault(x, []).append(node)


    def _unwrapped(self, node: Node) -> tuple[Map, tuple[Value, ...]]:
        """A roll along one axis as the concatenation of the two parts."""
        (x,), (place,) = node.inputs, node.spec.windows.places
        axis = next(a for a, at in enumerate(place.origin) if at)
        n = x.shape[axis]
        cut = -place.origin[axis] % n
        parts = [self.view(View("slice", tuple(
            (*ends, 1) if a == axis else (0, m, 1) for a, m in enumerate(x.shape))), x)
            for ends in ((cut, n), (0, cut))]
        return concatenated(parts, axis, x.shape)


def _in_order(nodes: Iterable[Node]) -> list[Node]:
    """Nodes, each after what it reads of them, else in their order."""
    chosen = dict.fromkeys(nodes)
    order: dict[Node, None] = {}
    for last in chosen:
        stack = [last]
        while stack:
            before = [n for n in stack[-1].sources if n in chosen and n not in order]
            if before and stack[-1] not in order:
                stack += before
            else:
                order[stack.pop()] = None
    return list(order)


def _aligned(x: Value) -> Value:
    """The array of which another one only has more or fewer axes of extent 1."""
    while x.node is not None and isinstance(x.node.spec, View) and (
            x.node.spec.kind in ("expand", "squeeze") or (
                x.node.spec.kind == "reshape" and is_alignment(
                    x.node.inputs[0].shape, x.shape))):
        (x,) = x.node.inputs
    return x
