"""Partition of a graph into launches.

A Map joins what reads it; one that several launches read, or that is a result, is
stored once.  Reductions over the same elements and axes are one, with the Maps that
they read and the Maps of what they give, and one of all elements stores those of Maps
that read the same arrays; a product takes the Maps of its elements;
reductions along the last axis and Maps around them are a Row, and Rows that follow one
another are one; a factor of a product's elements moves to the product that makes what
it needs.  Everything else runs by itself: nothing is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter
from typing import Any

from ...scalar.ir.clean import has_effects
from ..base import Shape
from ..contract import Contract
from ..map import Map
from ..reduce import Reduce
from ..shapes import normalize_axes
from .algebra import fuse_contract, fuse_maps, fuse_reduces, widens
from .element_joins import join_elements
from .graph import Launch, Node, Value, live, operands
from .moved_factors import move_factors
from .row_algebra import fuse_rows, row_kind
from .row_joins import join_rows, joins_row
from .slicing.contexts import fuse_windows, has_windows
from .slicing.joins import is_there, windows_fit
from .slicing.lowering import lower_slices
from .slicing.rolls import find_rolls

__all__ = ["READS", "partition"]

#: Arrays and numbers that a launch reads, values that it stores, and bytes of their
#: pointers and strides: a GPU takes 4 KiB of arguments.
READS, _STORES, _BYTES = 64, 16, 3072
#: The most columns of a row; a block of a GPU works on each.
_COLUMNS = 1 << 15


class Group:
    """The nodes of one launch; `shape` is the one that it runs over."""

    __slots__ = ("key", "kind", "nodes", "posts", "reads", "shape", "stored")

    def __init__(self, node: Node) -> None:
        self.nodes: list[Node] = [node]
        self.reads: set[Value] = {x for x in node.inputs if isinstance(x, Value)}
        self.posts: set[Node] = set()
        self.kind, self.key = _kind(node)
        self.shape: Shape = _extent(node)
        self.stored = node.outputs[0].shape if self.kind == "reduce" else self.shape


def _kind(node: Node) -> tuple[str, Any]:
    """The way a node runs, and what others must have in common to join it."""
    spec = node.spec
    if isinstance(spec, Map) and not spec.scatter_shapes \
            and not has_effects(spec.function.body):
        return "map", None
    if isinstance(spec, Contract) and spec.out_axes is None and not spec.saves:
        return "contract", None
    if not isinstance(spec, Reduce) or joins_row(node):
        return "alone", None
    combine = spec.combine
    extent = _extent(node)
    axes = tuple(sorted(normalize_axes(spec.axes, len(extent))))
    joins = not combine.indexed and (combine.saving or combine).cotangent is not None
    return "reduce", (widens(node), axes, spec.keepdims) if joins else object()


def _extent(node: Node) -> Shape:
    if not isinstance(node.spec, Reduce):
        return node.outputs[0].shape if node.outputs else ()
    return node.spec.extent(tuple(x.shape if isinstance(x, Value) else ()
                                  for x in node.inputs))


class Partition:
    """Nodes in groups whose graph has no cycle.

    What the nodes `apart` read is stored.
    """

    def __init__(self, nodes: Sequence[Node], outputs: Iterable[Value],
                 apart: Collection[Node] = ()) -> None:
        self.nodes, self.apart = nodes, apart
        self.results: set[Value] = set(outputs)
        self.group: dict[Node, Group] = {node: Group(node) for node in nodes}
        self.readers: dict[Node, list[Node]] = {node: [] for node in nodes}
        for node in nodes:
            for source in dict.fromkeys(node.sources):
                self.readers[source].append(node)

    def successors(self, group: Group) -> set[Group]:
        """The groups that read from `group`."""
        found = {self.group[r] for node in group.nodes for r in self.readers[node]}
        return found - {group}

    def may_merge(self, a: Group, b: Group) -> bool:
        """Whether one launch has room for both, and none must run between them."""
        return self._has_room(a, b) and not (
            self._through(a, b) or self._through(b, a))

    def _reads(self, a: Group, b: Group) -> set[Value]:
        return {v for v in a.reads | b.reads
                if v.node is None or self.group[v.node] not in (a, b)}

    def _has_room(self, a: Group, b: Group) -> bool:
        stores = {v for g in (a, b) for n in g.nodes for v in n.outputs
                  if v in self.results}
        return self._may_read(a, b) and len(stores) <= _STORES

    def _may_read(self, a: Group, b: Group) -> bool:
        """Whether one launch takes the arrays and numbers that both read."""
        reads = len(self._reads(a, b))
        each = 8*(1 + max(len(a.shape), len(b.shape)))
        return reads <= READS and (reads + _STORES)*each <= _BYTES

    def _through(self, a: Group, b: Group) -> bool:
        stack = [g for g in self.successors(a) if g is not b]
        seen = set(stack)
        while stack:
            after = self.successors(stack.pop())
            if b in after:
                return True
            stack += after - seen
            seen |= after
        return False

    def _independent(self, a: Group, b: Group) -> bool:
        """Whether neither reads from the other, at once or through others."""
        apart = a not in self.successors(b) and b not in self.successors(a)
        return apart and self.may_merge(a, b)

    def merge(self, a: Group, b: Group) -> None:
        """Move the nodes of `a` into `b`."""
        b.reads = self._reads(a, b)
        b.nodes += a.nodes
        b.posts |= a.posts
        for node in a.nodes:
            self.group[node] = b

    def stored(self, group: Group) -> list[Value]:
        """The values of a group that are read elsewhere."""
        return [v for node in self.ordered(group.nodes) for v in node.outputs
                if v in self.results or any(
                    v in r.inputs for r in self.readers[node]
                    if self.group[r] is not group)]

    def ordered(self, nodes: Iterable[Node]) -> list[Node]:
        """Nodes, each after what it reads."""
        chosen = set(nodes)
        return [node for node in self.nodes if node in chosen]

    def join_reductions(self) -> None:
        """One pass over the elements for all reductions of them."""
        found: dict[Any, list[Group]] = {}
        for node in self.nodes:
            group = self.group[node]
            if group.kind != "reduce":
                continue
            others = found.setdefault((group.key, group.shape), [])
            target = next((o for o in others if self._independent(group, o)), None)
            if target is None:
                others.append(group)
            else:
                self.merge(group, target)

    def join_posts(self) -> None:
        """Maps of reduced values, and of products, run where those are made."""
        for node in self.nodes:
            if self.group[node].kind != "map" or _indexes(node) \
                    or self._is_reduced(node):
                continue
            sources = dict.fromkeys(x.node for x, kind in operands(node)
                                    if isinstance(x, Value) and kind == "element")
            makers = dict.fromkeys(map(self._maker, sources))
            target = next((g for g in makers if g is not None
                           and node.outputs[0].shape == g.stored
                           and (g.kind == "contract" or len(makers) == 1)
                           and self.may_merge(self.group[node], g)), None)
            if target is not None:
                self.merge(self.group[node], target)
                target.posts.add(node)

    def _is_reduced(self, node: Node) -> bool:
        """Whether only reductions read a Map, of elements that are stored anyway."""
        readers = self.readers[node]
        return bool(readers) and self.results.isdisjoint(node.outputs) and all(
            self.group[r].kind == "reduce" and self.takes(self.group[r], node)
            for r in readers) and all(
                x in self.results or set(self.readers[x.node]) != {node}
                for x, kind in operands(node)
                if isinstance(x, Value) and x.node is not None and kind == "element")

    def _maker(self, node: Node | None) -> Group | None:
        """The reduction or the product that `node` is a result of."""
        group = None if node is None else self.group[node]
        if group is None or group.kind not in ("reduce", "contract") or not (
                isinstance(node and node.spec, (Reduce, Contract))
                or node in group.posts):
            return None
        return group

    def join_maps(self) -> None:
        """Each Map runs where it is read, or with others of its shape."""
        placed: dict[Group, None] = {}
        for node in reversed(self.nodes):
            if self.group[node].kind != "map":
                continue
            readers = dict.fromkeys(self.group[r] for r in self.readers[node])
            single = len(readers) == 1 and not self.results.intersection(node.outputs)
            target = next(iter(readers)) if single else None
            if target is None or not self.takes(target, node) or \
                    not self._may_read(self.group[node], target) or \
                    not windows_fit(self, self.group[node], target):
                target = self._beside(node, [*readers, *placed])
            if target is not None:
                self.merge(self.group[node], target)
            placed[self.group[node]] = None

    def _beside(self, node: Node, others: Iterable[Group]) -> Group | None:
        """A Map of the same shape that can store the results of `node`, too.

        Of several the one that reads most of what the node does.  Beside windows an
        element is computed only with what it shares its parts with, or of what is
        stored anyway.
        """
        group = self.group[node]
        there = has_windows([node]) or all(is_there(self, x) for x in group.reads)
        alike = sorted((o for o in dict.fromkeys(others) if o is not group
                        and o.kind == "map" and o.shape == group.shape
                        and (there or not o.reads.isdisjoint(group.reads)
                             or not has_windows(o.nodes))),
                       key=lambda o: -len(o.reads & group.reads))
        return next((o for o in alike if self.takes(o, node)
                     and self.may_merge(group, o)
                     and windows_fit(self, group, o)), None)

    def join_windows(self) -> None:
        """Launches with windows that read the same arrays, or one the other's elements.

        What they share is known when all their Maps are placed.
        """
        groups = [g for g in dict.fromkeys(self.group.values())
                  if g.kind == "map" and has_windows(g.nodes)]
        for k, a in enumerate(groups):
            target = next((b for b in groups[k + 1:] if self._may_join(a, b)), None)
            if target is not None:
                self.merge(a, target)

    def _may_join(self, a: Group, b: Group) -> bool:
        after = b in self.successors(a)
        return a.shape == b.shape and a not in self.successors(b) and (
            after or not a.reads.isdisjoint(b.reads)) and all(
                self.takes(b, n) for n in a.nodes if any(
                    self.group[r] is b for r in self.readers[n])) and \
            self.may_merge(a, b) and windows_fit(self, a, b)

    def takes(self, group: Group, node: Node) -> bool:
        """Whether the nodes of `group` can read `node` inside one function."""
        if group.kind == "alone" or (_indexes(node) and (group.kind != "map" or (
                node.spec.windows is None
                and group.shape != node.outputs[0].shape))):
            return False
        members = set(group.nodes)
        for reader in self.readers[node]:
            if reader not in members:
                continue
            if reader in self.apart:
                return False
            if group.kind == "reduce" and reader in group.posts:
                return False
            given = [kind for x, kind in operands(reader)
                     if isinstance(x, Value) and x.node is node]
            if not set(given) <= {"element", "window"} or len(given) < sum(
                    s is node for s in reader.sources):
                return False  # it is indexed, or multiplied
        return True

    def join_rows(self) -> None:
        """Join reductions along the last axis with what surrounds them."""
        for node in self.nodes:
            row = self.group[node]
            if not _fits_rows(row, row.shape) or not isinstance(node.spec, Reduce):
                continue
            while True:
                other = next((g for g in self.around(row) if self._joins(g, row)),
                             None)
                if other is None:
                    break
                self.merge(other, row)
                row.kind = "row"

    def around(self, group: Group) -> list[Group]:
        """The groups that read from `group`, and those that it reads from."""
        before = [self.group[s] for n in group.nodes for s in n.sources]
        after = [self.group[r] for n in group.nodes for r in self.readers[n]]
        return [g for g in dict.fromkeys([*before, *after]) if g is not group]

    def _joins(self, group: Group, row: Group) -> bool:
        reads = self._reads(group, row)
        return _fits_rows(group, row.shape) and all(
            row_kind(x, row.shape) for x in reads) and any(
            x.shape == row.shape for x in reads) and self.may_merge(group, row)

    def launches(self, name: str) -> list[Launch]:
        """The groups as specs, each after what it reads."""
        before: dict[Group, list[Group]] = {g: [] for g in self.group.values()}
        for group in before:
            for after in self.successors(group):
                before[after].append(group)
        return [launch for g in TopologicalSorter(before).static_order()
                for launch in self._launches(g, name)]

    def _launches(self, group: Group, name: str) -> list[Launch]:
        nodes = self.ordered(group.nodes)
        made = [self._launch(group, nodes, name)] if group.kind != "row" else fuse_rows(
            nodes, group.posts, self.stored(group), group.shape, name)
        return [replace(launch, nodes=tuple(nodes)) for launch in made]

    def _launch(self, group: Group, nodes: list[Node], name: str) -> Launch:
        if group.kind == "alone":
            (node,) = nodes
            return Launch(node.spec, node.inputs, node.outputs, node.asked)
        if group.kind == "map" and has_windows(nodes):
            return fuse_windows(nodes, self.stored(group), group.shape, name)
        if group.kind == "map":
            return fuse_maps(nodes, self.stored(group), name)
        if group.kind == "contract":
            made = next(n for n in nodes if isinstance(n.spec, Contract))
            return fuse_contract(made, [n for n in nodes if n is not made],
                                 self.stored(group), name)
        reduces = [n for n in nodes if isinstance(n.spec, Reduce)]
        posts = [n for n in nodes if n in group.posts]
        maps = [n for n in nodes if n not in group.posts and n not in reduces]
        return fuse_reduces(maps, reduces, posts, self.stored(group), name)


def _fits_rows(group: Group, extent: Shape) -> bool:
    """Whether a group can be part of a row over the last axis of `extent`."""
    if group.shape != extent or len(extent) < 2 or extent[-1] > _COLUMNS:
        return False
    if group.kind == "map":
        return not any(map(_indexes, group.nodes))
    if group.kind == "reduce" and isinstance(group.key, tuple):
        floats = all(v.type.kind in "fV" for n in group.nodes for v in n.outputs)
        return floats and group.key == (False, (len(extent) - 1,), True)
    return group.kind == "row"


def _indexes(node: Node) -> bool:
    """Whether a Map depends on more than the elements at its point."""
    return node.spec.windows is not None or not {"index", "size", "raw"}.isdisjoint(
        node.spec.kinds)


def partition(nodes: Sequence[Node], outputs: Sequence[Value], name: str,
              stores: Mapping[Value, Value] | None = None,
              changes: bool = True) -> list[Launch]:
    """Divide a graph into launches.

    Parameters
    ----------
    nodes
        Each after what it reads.
    outputs
        The values that are wanted.
    name
        Of the functions that are made.
    stores
        For each argument that is changed in place its new value, one of `outputs`.
    changes
        Whether nodes may be changed in place: they are not part of another graph.

    Returns
    -------
    list of Launch
        In an order in which they can run.
    """
    nodes, apart = live(nodes, outputs), set[Node]()
    if changes:
        nodes, apart = lower_slices(find_rolls(nodes, outputs), outputs)
    parts = Partition(live(nodes, outputs), outputs, apart)
    parts.join_reductions()
    parts.join_posts()
    parts.join_maps()
    parts.join_windows()
    parts.join_rows()
    join_elements(parts, stores or {})
    launches = join_rows(parts.launches(name), outputs, stores or {})
    return move_factors(launches, outputs, stores or {})
