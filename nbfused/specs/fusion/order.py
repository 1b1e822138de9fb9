"""Orders in which launches can run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from graphlib import TopologicalSorter

from .graph import Launch, Value

__all__ = ["begun_early", "in_order", "lies_between"]


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


def begun_early(launches: Sequence[Launch], begins: Callable[[Launch], bool],
                awaits: Callable[[Launch], bool],
                last: Collection[Value]) -> list[Launch]:
    """The launches, each after what it reads, so that some begin as early as they can.

    Parameters
    ----------
    launches
        Each after what it reads.
    begins
        Tells what begins early: only what it needs comes before it.
    awaits
        Tells what waits for that, and is put off while there is something else to do.
    last
        Values that are computed after all of these, if none of them needs them.
    """
    sources = _sources(launches)
    if not any(map(begins, launches)):
        return list(launches)
    order: dict[int, None] = {}

    def run(chosen: Iterable[int]) -> None:
        needed, stack = set[int](), list(chosen)
        while stack:
            k = stack.pop()
            if k not in needed and k not in order:
                needed.add(k)
                stack += sources[k]
        order.update(dict.fromkeys(sorted(needed)))

    for k, one in enumerate(launches):
        if begins(one):
            run([k])
    ends = [k for k, one in enumerate(launches) if k not in order and awaits(one)]
    behind = set(ends)
    for k, one in enumerate(launches):
        if not (behind.isdisjoint(sources[k]) and set(last).isdisjoint(one.outputs)):
            behind.add(k)
    run(k for k in sources if k not in behind)
    run(ends)
    run(sources)
    return [launches[k] for k in order]


def lies_between(launches: Sequence[Launch], first: Launch, second: Launch) -> bool:
    """Whether a third launch reads from `first` and `second` from that."""
    sources = _sources(launches)
    begin, end = launches.index(first), launches.index(second)
    behind: set[int] = {begin}  # what reads from `first`, through others too
    for k, one in enumerate(launches):
        if one is not second and not behind.isdisjoint(sources[k]):
            behind.add(k)
    return not (behind - {begin}).isdisjoint(sources[end])
