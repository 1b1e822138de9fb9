"""Updates of elements that only one thread of the pool reaches: no atomics.

A thread that adds to ``x[i + 1, j]`` meets threads of neighbouring rows only.  Where
each access to an array is, along some axis, at the thread's place in the grid or a few
elements beside it, threads of the pool that run blocks far enough apart never meet.
They take pieces of the grid in two turns, every other piece in each; one turn is enough
where the place is the same in all accesses.  An atomic addition of floats takes some
twenty times as long as an addition: benchmarks/notes/cpu.md#updates-without-atomics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ...backend import Call
from ...scalar.ir.nodes import Let, rewrite
from ...specs.raw import TypedRaw
from ...support.records import record
from .accesses import Access, accesses_of

__all__ = ["Lonely", "find_lonely", "with_plain_updates"]

#: Ends the attribute of an atomic operation that nobody comes between.
_ALONE = "_alone"
#: The operations that have a plain form.
_UPDATES = frozenset({"add", "exch"})


@record(frozen=True)
class Lonely:
    """Arrays of a kernel whose updates need no atomics.

    Attributes
    ----------
    arrays
        The parameters.
    spreads
        For an axis of the grid, 0 to 2, if it has several blocks and slower ones have
        not: how many threads apart along it two threads have to be, not to meet.
    """

    arrays: frozenset[str]
    spreads: dict[int, int]

    @property
    def unordered(self) -> bool:
        """Whether threads of a row of a block never meet."""
        return self.spreads.get(0) == 0

    def size(self, call: Call, most: int) -> tuple[int, int] | None:
        """The blocks of a piece, about `most` at most, and the number of turns.

        None if pieces of the grid may meet.
        """
        axis = max((k for k in range(3) if call.grid[k] > 1), default=0)
        spread = self.spreads.get(axis)
        if spread is None:
            return None
        row = int(np.prod(call.grid[:axis]))
        rows = max(-(-most // row), -(-spread // call.block[axis]))
        return rows * row, 1 if spread == 0 else 2

    def apart(self, call: Call, places: Mapping[str, int], sizes: list[int]) -> bool:
        """Whether no memory of these arrays is reached by another index or name."""
        ranges = [_range(call, k, size) for k, size in enumerate(sizes)]
        for k in (places[a] for a in self.arrays):
            low, high = ranges[k]
            if _folded(call, k) or any(low < end and start < high for j, (
                    start, end) in enumerate(ranges) if j != k):
                return False
        return True


def _range(call: Call, k: int, size: int) -> tuple[int, int]:
    """The addresses that an array lies between."""
    steps = [(n - 1) * s * size for n, s in zip(call.extents[k], call.strides[k],
                                                strict=True)]
    start = call.pointers[k]
    return (start + sum(s for s in steps if s < 0),
            start + sum(s for s in steps if s > 0) + size)


def _folded(call: Call, k: int) -> bool:
    """True if two indices of an array may be one element."""
    axes = sorted((abs(s), n) for s, n in zip(call.strides[k], call.extents[k],
                                              strict=True) if n > 1)
    return any(s == 0 for s, _ in axes[:1]) or any(
        s * n > next_ for (s, n), (next_, _) in pairwise(axes))


def find_lonely(typed: TypedRaw) -> Lonely | None:
    """The arrays of a kernel whose updates need no atomics in some launches."""
    if typed.synchronizes or typed.shared:
        return None
    accesses = accesses_of(typed)
    updated = [a for a, found in accesses.items() if any(
        s.op == "atomic" and s.attr in _UPDATES for s, _ in found)]
    spreads = {k: {a: _spread(axis, accesses[a]) for a in updated}
               for k, axis in enumerate("xyz")}
    fitting = {k: {a: n for a, n in found.items() if n is not None}
               for k, found in spreads.items()}
    arrays = max((frozenset(f) for f in fitting.values()), key=len)
    return Lonely(arrays, {k: max(f.values()) for k, f in fitting.items()
                           if frozenset(f) == arrays}) if arrays else None


def _spread(axis: str, accesses: list[Access]) -> int | None:
    """The distance between accesses along an axis; None where it is not known."""
    columns = zip(*(index for _, index in accesses), strict=True)
    spreads = []
    for column in columns:
        steps = [w[1] for w in column if w is not None and w[0] == f"grid.{axis}"]
        if len(steps) == len(accesses):
            spreads.append(max(steps) - min(steps))
    return min(spreads, default=None)


def with_plain_updates(typed: TypedRaw, arrays: frozenset[str]) -> TypedRaw:
    """The kernel without atomics on some arrays."""

    def change(s: Let) -> tuple[Let, ...]:
        plain = s.op == "atomic" and s.attr in _UPDATES and s.args[0] in arrays
        return (replace(s, attr=f"{s.attr}{_ALONE}") if plain else s,)

    function = typed.function.function
    return replace(typed, function=replace(typed.function, function=replace(
        function, body=rewrite(function.body, change))))
