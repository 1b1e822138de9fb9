"""Workspaces of a graph's calls: who may use whose."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from nbfused.cuda.graphs import workspaces
from nbfused.cuda.graphs.waits import all_before
from nbfused.cuda.graphs.workspaces import UNKNOWN, MisfitError, Workspaces
from nbfused.errors import AllocationError


class Memory:
    """A device of which only the memory is asked for."""

    ordinal = 7

    def __init__(self):
        self.top, self.dropped = 4096, []

    def allocate(self, size, stream):
        self.top += size
        return self.top - size

    def drop(self, address, busy=False):
        self.dropped.append(address)


@pytest.fixture(autouse=True)
def cleared(monkeypatch):
    """What is set to 0, in place of the driver."""
    done = []
    monkeypatch.setattr(workspaces, "check", lambda code: code)
    monkeypatch.setattr(workspaces, "cu", lambda: SimpleNamespace(
        cuMemsetD8Async=lambda at, value, size, stream: done.append((at, size))))
    return done


def _taken(memory, number, before, base, sizes):
    memory.begin(number, before, base)
    return [memory.workspace(size) if size > 0 else memory.counters(-size)[0]
            for size in sizes]


@pytest.mark.parametrize("most", [0, 3000, 1 << 20])
@pytest.mark.parametrize("seed", range(10))
def test_calls_that_may_run_at_once_share_nothing(seed, most, monkeypatch):
    monkeypatch.setattr(workspaces, "_MOST_BYTES", most)
    rng = np.random.default_rng(seed)
    waits = [sorted({int(j) for j in rng.integers(k, size=2)}) if k and
             rng.random() < 0.8 else [] for k in range(14)]
    sizes = [[int(x) for x in rng.integers(-900, 900, size=rng.integers(3)) if x]
             for _ in waits]
    before, memory = all_before(waits), Workspaces(Memory(), 0, 5)
    spans = []
    for k, own in enumerate(sizes):
        found = _taken(memory, k, before[k], UNKNOWN, own)
        spans.append([(int(a), int(a) + abs(s)) for a, s in zip(
            found, own, strict=True)])
        assert memory.borrows(k) == any(a.index == 5 for a in found)
        assert memory.borrows(k) <= (memory.lent > 0)
    for k, mine in enumerate(spans):
        for j, other in enumerate(spans[:k + 1]):
            if j not in before[k]:
                assert not any(
                    a < d and c < b for x, (a, b) in enumerate(mine)
                    for y, (c, d) in enumerate(other) if (j, y) != (k, x))
    for k, own in enumerate(sizes):  # noted again
        again = _taken(memory, k, before[k], UNKNOWN + 512, own)
        for a, (low, _) in zip(again, spans[k], strict=True):
            assert int(a) == low + (512 if a.index == 5 else 0)
            if a.index == 5:
                assert a.offset == low - UNKNOWN


def test_what_has_been_used_is_used_again(monkeypatch):
    monkeypatch.setattr(workspaces, "_MOST_BYTES", 0)
    memory = Workspaces(Memory(), 0, 1)
    for k in range(20):
        (address,) = _taken(memory, k, set(range(k)), 1 << 20, [1000])
        assert (int(address), memory.lent) == (1 << 20, 1024)
    _taken(memory, 20, set(), 1 << 20, [10])
    assert memory.lent == 1024 + 256


def test_counters_are_cleared_once_and_shared_with_nothing_else(cleared, monkeypatch):
    monkeypatch.setattr(workspaces, "_MOST_BYTES", 0)
    where = Memory()
    memory = Workspaces(where, 0, 1)
    counted = [_taken(memory, k, set(range(k)), 0, [-64])[0] for k in range(3)]
    assert len(set(counted)) == len(cleared) == 1
    assert [a.index for a in counted] == [None]*3
    assert _taken(memory, 3, {0, 1, 2}, 0, [64])[0].index == 1
    del memory
    assert where.dropped == [int(counted[0])]


def test_graphs_keep_so_many_arenas_together_and_are_lent_others(monkeypatch):
    monkeypatch.setattr(workspaces, "ARENAS", 1000)
    where = Memory()
    first, second, third = (Workspaces(where, k, 1) for k in range(3))
    kept = first.arena(600)
    assert (kept, first.lent) == (4096, 0)
    assert not workspaces.KEPT_ARENAS.has_room(600, where)
    assert (second.arena(600), second.lent) == (None, 768)
    assert third.arena(400) is not None
    assert int(_taken(second, 0, set(), UNKNOWN, [64])[0]) != UNKNOWN
    assert [a.index for a in _taken(first, 0, set(), UNKNOWN, [64])] == [None]
    del first
    assert kept in where.dropped
    assert workspaces.KEPT_ARENAS.has_room(600, where)
    del second, third
    assert workspaces.KEPT_ARENAS.has_room(1000, where)


def test_an_arena_that_there_is_no_memory_for_is_not_counted(monkeypatch):
    def allocate(size, stream):
        raise AllocationError("no room")

    where = Memory()
    where.allocate = allocate
    memory = Workspaces(where, 0, 1)
    with pytest.raises(AllocationError):
        memory.arena(1000)
    del memory
    assert workspaces.KEPT_ARENAS.has_room(workspaces.ARENAS, where)


def test_a_call_that_needs_more_than_it_did_does_not_fit():
    memory = Workspaces(Memory(), 0, 1)
    _taken(memory, 0, set(), 0, [100])
    _taken(memory, 0, set(), 0, [256])
    with pytest.raises(MisfitError):
        _taken(memory, 0, set(), 0, [257])
