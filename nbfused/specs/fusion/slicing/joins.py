"""Whether Maps with windows are one launch.

What is read through several windows is computed once for each, so that a launch with
windows must be short, and must not read more arrays than would be stored without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from ..graph import Node, Value
from .contexts import Demand, has_windows

if TYPE_CHECKING:
    from ..partition import Group, Partition

__all__ = ["is_there", "windows_fit"]

#: Arrays that a launch with windows reads, several parts of one counted, and its
#: statements: few enough for a GPU's arguments and a short compilation, not measured.
_WINDOWS, _STATEMENTS = 64, 1500


def windows_fit(parts: Partition, a: Group, b: Group) -> bool:
    """Whether `b` may have the Maps of `a`, if there are windows in them."""
    nodes = parts.ordered([*a.nodes, *b.nodes])
    if b.kind != "map" or a.kind != "map" or not has_windows(nodes):
        return not has_windows(a.nodes) or a is b
    if any(not {"index", "size", "raw"}.isdisjoint(n.spec.kinds) for n in nodes):
        return False
    inside = set(nodes)
    outputs = [v for n in nodes for v in n.outputs if v in parts.results or any(
        r not in inside for r in parts.readers[n] if v in r.inputs)]
    if any(v.shape != b.shape for v in outputs):
        return False
    demand = Demand(nodes, outputs, b.shape)
    return _is_short(demand) and (
        all(demand.root in demand.contexts[n] for n in a.nodes)
        or _saves_arrays(parts, a, b, outputs))


def is_there(parts: Partition, x: Value) -> bool:
    """Whether an array is stored anyway."""
    return x.node is None or x in parts.results or parts.group[x.node].kind != "map"


def _is_short(demand: Demand) -> bool:
    """Whether a launch with windows compiles soon and has few arguments."""
    return demand.possible and len(demand.parameters) <= _WINDOWS and \
        demand.weight <= _STATEMENTS


def _saves_arrays(parts: Partition, a: Group, b: Group,
                  outputs: Sequence[Value]) -> bool:
    """Whether fewer arrays go to memory and back if `a` is computed where it is read.

    What another launch has to store for that counts twice, unless all that `b` needs is
    short enough to be computed at its points.
    """
    read = {x for n in a.nodes for x in n.inputs if isinstance(x, Value)
            and 2*prod(x.shape) > prod(b.shape)}
    arrays = sum(1 if is_there(parts, x) else 2 for x in read
                 if x.node is None or parts.group[x.node] not in (a, b))
    saved = sum(1 if is_there(parts, x) else 2 for n in a.nodes for x in n.outputs)
    return arrays <= saved or _is_short(Demand(
        parts.ordered(_behind(parts, a, b)), [
            v for v in outputs if v.node is not None and parts.group[v.node] is b],
        b.shape))


def _behind(parts: Partition, *groups: Group) -> set[Node]:
    """The Maps of groups, and those that they need."""
    found = {n for group in groups for n in group.nodes}
    stack = list(found)
    while stack:
        before = {n for n in stack.pop().sources if parts.group[n].kind == "map"}
        stack += before - found
        found |= before
    return found
