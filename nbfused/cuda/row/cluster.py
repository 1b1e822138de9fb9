"""Reductions of a row that the blocks of a cluster share."""

from __future__ import annotations

import numpy as np

from ...scalar.printing.numba import decode, encode
from ...support.dtypes import storage
from ..text.source import Source
from ..text.states import WARP, Reduced

__all__ = ["ClusterSlots", "slot_bytes"]


def slot_bytes(dtype: np.dtype, threads: int, cluster: int, turns: int) -> int:
    """Shared memory for one part of a state."""
    return -(-turns*threads//WARP*cluster*dtype.itemsize // 16)*16


class ClusterSlots:
    """Shared memory where every block finds the states of all warps of its cluster.

    Each warp stores its states to every block, which tells a barrier there how many
    bytes have come; nobody waits for more than that.  A warp reads what came for one
    row before it stores for the next, and nobody gets to the next but one without what
    it stores: so two places and two barriers for each reduction suffice, which take
    `turn`s, each with its own `phase`.  Where a warp stores for one row more before it
    reads, four do: who stores for row n + 4 has read n + 2, so all have stored that,
    and read n before.

    Parameters
    ----------
    threads, cluster
        Of a block; blocks of the cluster.
    reductions
        How often all threads meet for a row.
    turns
        2, or 4 where a warp is a row ahead.
    """

    def __init__(self, threads: int, cluster: int, reductions: int,
                 turns: int = 2) -> None:
        self.threads, self.cluster, self.warps = threads, cluster, threads // WARP
        self.slots, self.reductions, self.turns = self.warps*cluster, reductions, turns
        self.size = self.barriers(reductions, turns)  # bytes so far
        self._places: list[tuple[str, str, np.dtype]] = []
        self._done = 0

    @staticmethod
    def barriers(reductions: int, turns: int) -> int:
        """Bytes for the barriers."""
        return -(-8*turns*reductions // 16)*16

    def prepare(self, out: Source) -> None:
        """Set up the barriers and see that all blocks have begun."""
        out("rank = cluster_rank()", "arrived = shared_uint64(i64(0))",
            "phase = i64(0)")
        with out.block(f"if thread < {self.turns*self.reductions}:"):
            out("barrier_start(arrived, thread)")
        out("cluster_sync()")

    def turn(self, out: Source) -> None:
        """Go to the other place, for the next row."""
        out("turn = turn ^ 1", "phase = phase ^ (i64(1) - turn)")

    def across(self, out: Source, reduced: Reduced) -> None:
        """Every thread of the cluster gets the cluster's states."""
        self.send(out, reduced)
        self.receive(out, reduced, "turn")

    def send(self, out: Source, reduced: Reduced) -> None:
        """Store each warp's states to every block, at the place `turn`."""
        for states, names in reduced:
            states.across_lanes(out, names, WARP)
        places, size = [], 0
        for states, names in reduced:
            for n, d in zip(names, states.dtypes, strict=True):
                out(f"{n}_slots = shared_{storage(d)}(i64({self.size}))")
                self.size += slot_bytes(d, self.threads, self.cluster, self.turns)
                size += self.slots*d.itemsize
                places.append((n, f"{n}_slots", d))
        out(f"arrival = turn + {self.turns*self._done}")
        self._places = places
        self._done += 1
        with out.block("if thread == 0:"):
            out(f"barrier_bytes(arrived, arrival, i64({size}))")
        with out.block(f"if (thread & {WARP - 1}) < {self.cluster}:"):
            at = f"turn*{self.slots} + rank*{self.warps} + (thread >> 5)"
            out(*(f"cluster_store({s}, {at}, {encode(d, n)}, thread & {WARP - 1}, "
                  "arrived, arrival)" for n, s, d in places))

    def receive(self, out: Source, reduced: Reduced, turn: str) -> None:
        """Wait for what was last sent at a place, and merge it."""
        out(f"barrier_until(arrived, {turn} + {self.turns*(self._done - 1)}, phase)")
        lanes = min(self.slots, WARP)
        for more in range(0, self.slots, lanes):
            at = f"{turn}*{self.slots} + {more} + (thread & {lanes - 1})"
            tag = f"_m{more}" if more else ""
            out(*(f"{n}{tag} = {decode(d, f'{s}[{at}]')}" for n, s, d in self._places))
            for states, names in reduced if more else ():
                states.merge(out, names, names, [n + tag for n in names])
        for states, names in reduced:
            states.across_lanes(out, names, lanes)
