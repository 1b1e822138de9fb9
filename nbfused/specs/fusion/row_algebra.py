"""Reductions along the last axis, and Maps over the same elements, as one `Row`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ...scalar.ir.nodes import Block, Function, drop_params, used_params
from ..base import Shape
from ..reduce import Reduce
from ..row import Out, Row, Stage
from ..view import View
from ..vjp.functions import trim
from .algebra import Parameters, Writer
from .graph import Launch, Node, Value

__all__ = ["fuse_rows", "row_kind"]


def row_kind(x: Value, extent: Shape) -> str | None:
    """The kind of input that a value is to a row over `extent`; None if none."""
    if x.by_value:
        return "scalar"
    if x.shape == extent[-1:]:
        return "column"
    lead = len(extent) - len(x.shape)
    fits = lead >= 0 and x.shape and all(n in (1, whole) for n, whole in zip(
        x.shape, extent[lead:], strict=True))
    return "element" if fits else None


class Rows:
    """A Row under construction.

    `posts` are Maps of reduced values, which run once for each row.
    """

    def __init__(self, nodes: Sequence[Node], posts: Collection[Node],
                 name: str) -> None:
        self.nodes, self.posts, self.name = nodes, posts, name
        self.parameters: Parameters = Parameters(nodes, set(nodes))
        self.names = self.parameters.names  # of the inputs, then also of the stages
        self.stages: list[Stage] = []

    def write(self, wanted: Iterable[Node]) -> Writer:
        """The Maps that `wanted` depend on, written; what a stage gives has a name."""
        needed: set[Node] = set()
        stack = list(wanted)
        while stack:
            node = stack.pop()
            known = any((v, "element") in self.names for v in node.outputs)
            if node in self.nodes and node not in needed and not known:
                needed.add(node)
                stack.extend(node.sources)
        writer = Writer(self.parameters)
        writer.maps([n for n in self.nodes if n in needed])
        return writer

    def add(self, node: Node) -> None:
        """A reduction as the next stage, with the posts that it makes possible."""
        writer = self.write(node.sources)
        mapped = writer.call(node.spec.map, *writer.arguments(node))
        map_ = trim(writer.function(self.name, self.parameters.params, mapped))[0]
        state = [f"state{k}" for k in range(len(node.spec.combine.identity))]
        after = Writer(self.parameters, state)
        rest = [after.extra(node, p) for p in node.spec.post.params[len(state):]]
        after.store(node, after.call(node.spec.post, *state, *rest))
        values = list(node.outputs)
        for late in self.nodes:
            if late in self.posts and late not in self._done() and all(
                    s in self._done() or s.outputs[0] in values
                    for s in late.sources):
                after.maps([late])
                values += late.outputs
        scope = dict.fromkeys((*state, *self.parameters.params, "size"))
        post = after.function(self.name, tuple(scope), [after.round(v) for v in values])
        post = drop_params(post, (True,) * len(state) + used_params(post)[len(state):])
        names = tuple(f"{self.name}_{len(self.stages)}_{k}" for k in range(len(values)))
        self.stages.append(Stage(names, map_, node.spec.combine, post))
        self.names.update({(v, "element"): n
                           for v, n in zip(values, names, strict=True)})

    def _done(self) -> set[Node]:
        return {v.node for v, _ in self.names if v.node is not None}

    def out(self, x: Value) -> Out:
        """The output that stores a value."""
        name = self.names.get((x, "element"))
        if name is not None:
            return Out("row", Function(self.name, (name,), Block((), (name,))))
        assert x.node is not None
        writer = self.write([x.node])
        return Out("element", trim(writer.function(
            self.name, self.parameters.params, [writer.stored[x]]))[0])


def fuse_rows(nodes: Sequence[Node], posts: Collection[Node],
              outputs: Sequence[Value], extent: Shape, name: str) -> list[Launch]:
    """Reductions that keep the last axis, and Maps, as one Row.

    Parameters
    ----------
    nodes
        Reductions over the last axis of `extent` and Maps, each after what it reads.
    posts
        The Maps that have one value for each row.
    outputs
        The values that are stored.
    extent
        The shape of the elements.
    name
        Of the row.

    Returns
    -------
    list of Launch
        The Row, and views that give reduced values their axis back.
    """
    rows = Rows(nodes, posts, name)
    inputs = rows.parameters.inputs
    params = tuple(rows.names.values())
    for node in nodes:
        if isinstance(node.spec, Reduce):
            rows.add(node)
    outs = tuple(map(rows.out, outputs))
    kinds = tuple(row_kind(x, extent) or "" for x in inputs)
    stored = tuple(v if o.kind == "element" else Value(extent[:-1], v.type)
                   for v, o in zip(outputs, outs, strict=True))
    launches = [Launch(Row(name, params, kinds, tuple(rows.stages), outs), inputs,
                       stored)]
    expand = View("expand", (len(extent) - 1,))
    launches += [Launch(expand, (s,), (v,))
                 for s, v in zip(stored, outputs, strict=True) if s is not v]
    return launches
