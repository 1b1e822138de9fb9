"""The order of calls in a graph: which wait for which, by what they read and write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...backend import SequencedCall, SequencedExchange

__all__ = ["all_before", "waits_of"]


def waits_of(calls: Sequence[SequencedCall | SequencedExchange],
             ) -> Iterator[list[int]]:
    """The calls that each one waits for, those left out that these wait for.

    Calls between processes wait for one another, to be in one order everywhere.
    """
    behind: list[set[int]] = []  # all that each one waits for
    exchanges: set[int] = set()
    used: dict[int, list[_Use]] = {}
    for k, call in enumerate(calls):
        first = len(call.spans) - call.outputs
        uses = [(index, _Use(low, high, k, at >= first))
                for at, (index, low, high) in enumerate(call.spans)]
        conflicts = {other.call for index, use in uses for other in used.get(index, ())
                     if use.conflicts(other)}
        if isinstance(call, SequencedExchange):
            conflicts |= exchanges
            exchanges.add(k)
        direct, known = list[int](), set[int]()
        for j in sorted(conflicts, reverse=True):
            if j not in known:
                direct.append(j)
                known |= behind[j] | {j}
        behind.append(known)
        for index, use in uses:
            kept = [other for other in used.get(index, ()) if not use.hides(other)]
            used[index] = [*kept, use]
        yield direct


def all_before(waits: Sequence[list[int]]) -> list[set[int]]:
    """All calls that each one waits for, through others too."""
    found: list[set[int]] = []
    for direct in waits:
        found.append({*direct}.union(*(found[j] for j in direct)))
    return found


class _Use(NamedTuple):
    """The use of bytes of one address by a call."""

    low: int
    high: int
    call: int
    written: bool

    def conflicts(self, other: _Use) -> bool:
        """Whether one writes what the other one reads or writes."""
        return (self.written or other.written) and (
            self.low < other.high and other.low < self.high)

    def hides(self, other: _Use) -> bool:
        """Whether what conflicts with an earlier one conflicts with this one."""
        return self.written and other.call != self.call and (
            self.low <= other.low and other.high <= self.high)
