"""The index of watched objects, by ranges of addresses."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import nbfused as nf
from nbfused.arrays import ByteRange
from nbfused.arrays.watched import RangeIndex
from nbfused.autograd import versions
from nbfused.autograd.versions import Saved


class Thing:
    pass


def ranges(count, seed):
    rng = np.random.default_rng(seed)
    lows = rng.integers(0, 10_000, count)
    sizes = rng.choice([1, 3, 4, 64, 100, 4096], count)
    devices = rng.choice(["cpu", "cuda:0"], count)
    return [ByteRange(str(d), int(a), int(a + n))
            for d, a, n in zip(devices, lows, sizes, strict=True)]


@pytest.mark.parametrize("seed", range(5))
def test_it_finds_what_overlaps(seed):
    index: RangeIndex[Thing] = RangeIndex()
    things = [(Thing(), place) for place in ranges(200, seed)]
    for thing, place in things:
        index.add(place, thing)
    for asked in ranges(100, seed + 100):
        expected = {id(t) for t, place in things if place.overlaps(asked)}
        assert {*map(id, index.overlapping(asked))} == expected


def test_what_is_taken_is_watched_no_longer():
    index: RangeIndex[Thing] = RangeIndex()
    places = ranges(50, 7)
    things = [Thing() for _ in places]
    for place, thing in zip(places, things, strict=True):
        index.add(place, thing)
    for asked in places:
        index.take(asked)
        assert index.overlapping(asked) == []
    assert len(index) == 0
    assert not index


def test_what_is_gone_leaves_nothing_behind():
    index: RangeIndex[Thing] = RangeIndex()
    kept = Thing()
    index.add(ByteRange("cpu", 0, 4), kept)
    for place in ranges(50, 3):
        index.add(place, Thing())
    gc.collect()
    assert index.overlapping(ByteRange("cpu", 0, 4)) == [kept]
    assert len(index) == 1


def test_empty_ranges_are_not_watched():
    index: RangeIndex[Thing] = RangeIndex()
    thing = Thing()
    index.add(ByteRange("cpu", 5, 5), thing)
    assert not index
    assert index.overlapping(ByteRange("cpu", 0, 10)) == []


def test_a_write_looks_at_few_saved_arrays(monkeypatch):
    """However many there are: a chain of kernels is linear in its length."""
    looked = 0
    overlaps = ByteRange.overlaps

    def counted(self, other):
        nonlocal looked
        looked += 1
        return overlaps(self, other)

    monkeypatch.setattr(ByteRange, "overlaps", counted)
    block = np.zeros((2000, 16))
    kept = [Saved(row, "row") for row in block[:-1]]
    out = block[-1]
    nf.ops.negative(np.ones(16), out=out)
    looked = 0
    for _ in range(10):
        nf.ops.negative(np.ones(16), out=out)
    assert looked <= 100
    assert not any(saved._changed for saved in kept)
    nf.ops.negative(np.ones(16), out=block[7])
    assert [k for k, saved in enumerate(kept) if saved._changed] == [7]


def test_an_array_saved_often_is_marked_once():
    x = np.ones(4)
    kept = [Saved(x, "x") for _ in range(100)]
    nf.ops.negative(np.ones(4), out=x)
    assert all(saved._changed for saved in kept)
    before = versions.watched()
    nf.ops.negative(np.ones(4), out=x)
    assert versions.watched() == before
