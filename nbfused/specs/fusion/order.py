"""Orders in which launches can run."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import TopologicalSorter

from .graph import Launch, Value

__all__ = ["in_order", "lies_between"]


def _sources(launches: Sequence[Launch]) -> dict[int, list[int]]:
    """Find the launches that each one reads from, by number."""
    makers = {v: k for k, one in enumerate(launches) for v in one.outputs}
    return {k: [makers[x] for x in dict.fromkeys(one.inputs)
                if isinstance(x, Value) and x in makers]
            for k, one in enumerate(launches)}


def in_order(launches: Sequence[Launch]) -> list[Launch]:
    """The launches, each after what it reads."""
    return [launches[k] for k in
            TopologicalSorter(_sources(launches)).static_order()]


def lies_between(launches: Sequence[Launch], first: Launch, second: Launch) -> bool:
    """Whether a third launch reads from `first` and `second` from that."""
    sources = _sources(launches)
    begin, end = launches.index(first), launches.index(second)
    behind: set[int] = {begin}  # what reads from `first`, through others too
    for k, one in enumerate(launches):
        if one is not second and not behind.isdisjoint(sources[k]):
            behind.add(k)
    return not (behind - {begin}).isdisjoint(sources[end])
