"""Maps and reductions of all elements that they share as one Reduce.

The sum of a loss's elements and their derivative read the same arrays: one launch reads
them once, and stores the derivative while it sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import TYPE_CHECKING

from ..base import Shape
from ..reduce import Reduce
from ..row import Row
from ..shapes import normalize_axes
from .graph import Node, Value, operands

if TYPE_CHECKING:
    from .partition import Group, Partition

__all__ = ["join_elements"]

#: Arrays of elements that a joined launch reads and stores.
_ELEMENTS = 8
#: Kinds of parameters that a reduction has, too.
_KINDS = {"element", "scalar", "index", "size"}
#: Elements up to which a launch less is worth more than the order of the loops, and
#: neighbours that make a loop long enough: alone, a Map and a sum of short rows find
#: loops across them, and a Map of a transposed array its own order beside a place of
#: the largest (benchmarks/notes/cpu.md#sums-beside-elements).
_FEW, _RUN = 1 << 12, 24


def join_elements(parts: Partition, stores: Mapping[Value, Value]) -> None:
    """Let reductions of all elements store those that Maps of the same arrays give.

    Parameters
    ----------
    parts
        In which Maps are where they are read, and rows are joined.
    stores
        For each argument that is changed in place its new value.
    """
    for group in _groups(parts):
        while group.kind == "reduce" and _is_total(group):
            other = next((g for g in _groups(parts) if _saves(parts, g, group)
                          and _may_join(parts, g, group, stores)), None)
            if other is None:
                break
            parts.merge(other, group)


def _groups(parts: Partition) -> list[Group]:
    return list(dict.fromkeys(parts.group.values()))


def _is_total(group: Group) -> bool:
    """Whether all axes are reduced, of which there is one at least."""
    spec = next(n.spec for n in group.nodes if isinstance(n.spec, Reduce))
    axes = normalize_axes(spec.axes, len(group.shape))
    return 0 < len(group.shape) == len(axes)


def _saves(parts: Partition, group: Group, reduce: Group) -> bool:
    """Whether a Map of as many elements reads what the reduction does, or gives it."""
    if group.kind != "map" or group.shape != reduce.shape:
        return False
    read = {x for x in _elements(reduce.nodes) if x.shape == reduce.shape}
    return any(x in read for x in _elements(group.nodes)) or any(
        v in read for n in group.nodes for v in n.outputs)


def _elements(nodes: Iterable[Node]) -> set[Value]:
    """Arrays that are read element by element."""
    return {x for n in nodes if hasattr(n.spec, "kinds") for x, kind in operands(n)
            if isinstance(x, Value) and kind == "element"}


def _may_join(parts: Partition, group: Group, reduce: Group,
              stores: Mapping[Value, Value]) -> bool:
    nodes = [*group.nodes, *reduce.nodes]
    if any(not _KINDS.issuperset(n.spec.kinds) for n in nodes) or any(
            _has_rows(g) for one in (group, reduce) for g in parts.around(one)):
        return False  # a Row's Map and sum are parts of it
    reads, inside = group.reads | reduce.reads, set(nodes)
    late = {n for n in reduce.nodes if n in reduce.posts or isinstance(n.spec, Reduce)}
    if group in parts.successors(reduce) or not parts.may_merge(group, reduce) or any(
            not parts.takes(reduce, n) for n in group.nodes
            if not set(parts.readers[n]).isdisjoint(reduce.nodes)):
        return False
    kept = [v for n in inside - late for v in n.outputs if v in parts.results or any(
        v in r.inputs for r in parts.readers[n] if r not in inside)]
    counted = [x for x in _elements(nodes) if x.node not in inside]
    if len(counted) + len(kept) > _ELEMENTS or any(
            v.shape != reduce.shape for v in kept):
        return False
    if prod(reduce.shape) > _FEW and (any(map(_is_ordered, nodes)) or _run(
            [x.shape for x in counted], reduce.shape) < _RUN):
        return False
    # What is reduced is not known where elements are stored in place of others.
    return not any(own in reads and new.node in late for own, new in stores.items())


def _is_ordered(node: Node) -> bool:
    """Whether elements have places, so that loops are in C order."""
    return "index" in node.spec.kinds or (
        isinstance(node.spec, Reduce) and node.spec.combine.indexed)


def _run(shapes: Iterable[Shape], extent: Shape) -> int:
    """Neighbours along the last axes, over all of which the same arrays are repeated.

    Of arrays that lie in C order these axes are one loop.
    """
    padded = [(1,) * (len(extent) - len(shape)) + shape for shape in shapes]
    run, repeated = 1, None
    for axis in reversed(range(len(extent))):
        here = [shape[axis] == 1 for shape in padded]
        if extent[axis] == 1:
            continue
        if repeated not in (None, here):
            return run
        run, repeated = run * extent[axis], here
    return prod(extent)


def _has_rows(group: Group) -> bool:
    return group.kind == "row" or any(isinstance(n.spec, Row) for n in group.nodes)
