"""Reduce's candidates: each of them is right, repeats its bits, and does not spill."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import nbfused as nf
from nbfused import ops
from nbfused.cuda.reduce import launcher
from nbfused.cuda.reduce.text import counts
from nbfused.cuda.runtime import binding as bound
from nbfused.cuda.tuning.tuner import Tuner
from tests.cuda.recorded import assembled, needs_compiler, recording, registers
from tests.variants import sampled

COUNT = 6
CASES = [((1,), 0), ((1002,), 0), ((100_003,), 0), (((1 << 20) + 8,), 0),
         ((37, 1002), 1), ((33, 4099), 1), ((2, 40_008), 1), ((1002, 37), 0),
         ((4099, 260), 0), ((70_001, 4), 0), ((5, 7, 11), (0, 2))]


def forced(monkeypatch, number):
    """Take the candidate of this number; those that were taken."""
    taken = []

    def choose(self, key, call, device, outputs):
        found = self._candidates(call, device)
        taken.append(found[number % len(found)])
        return taken[-1]

    monkeypatch.setattr(Tuner, "__call__", choose)
    monkeypatch.setattr(bound.Bindable, "bind", lambda self, call: None)
    return taken


@pytest.mark.variants
def test_candidates_differ_and_do_not_spill(monkeypatch):
    x = np.ones((4096, 4096), np.float32)
    taken = []
    with recording() as kernels:
        for number in range(COUNT):
            for axis in (None, 0, 1):
                with monkeypatch.context() as patch:
                    ways = forced(patch, number)
                    ops.sum(x, axis=axis)
                    taken += map(str, ways)
    assert len(set(taken)) > 10
    for kernel in kernels.values():
        _, said = assembled(kernel)
        assert said is None or registers(said)[1] == 0


@pytest.mark.cuda
@pytest.mark.parametrize("number", range(COUNT))
@pytest.mark.parametrize("op", ["sum", "argmax", "var"])
def test_every_candidate(monkeypatch, number, op):
    taken = forced(monkeypatch, number)
    for shape, axis in CASES:
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        if op == "argmax" and not isinstance(axis, int):
            continue
        there = nf.array(x, device="cuda")
        got, again = (nf.to_numpy(getattr(ops, op)(there, axis=axis)) for _ in range(2))
        want = getattr(np, op)(x.astype(np.float64), axis=axis)
        scale = np.abs(x.astype(np.float64)).sum(axis=axis).max() if op == "sum" else 1
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=4e-7*scale)
        np.testing.assert_array_equal(got, again)
    assert len(taken) > len(CASES)


@pytest.mark.parametrize("op", sampled(["sum", "var", "argmax", "logsumexp"], "argmax"))
@pytest.mark.parametrize("shape", [(5000, 158), (200_000, 12), (200_000, 7),
                                   (700, 4096)])
def test_lanes_with_few_accesses_start_all_of_them_at_once(op, shape):
    needs_compiler()
    with recording() as kernels:
        getattr(ops, op)(np.zeros(shape, np.float32), axis=1)
    (kernel,) = kernels.values()
    assert not re.search(r"while (first|j) ", kernel.text)
    with recording() as small:  # which graphs merge, whatever their lengths
        for columns in (158, 166):
            getattr(ops, op)(np.zeros((50, columns), np.float32), axis=1)
    assert len(small) == 1
    _, said = assembled(kernel)
    assert said is None or registers(said)[1] == 0


@pytest.mark.parametrize("shape", [(3000, 3001), (3, 1_000_001)])
@pytest.mark.parametrize("dtype", sampled(
    [np.float16, np.float32, np.float64], np.float16))
def test_rows_that_begin_anywhere_are_read_by_whole_accesses(shape, dtype):
    needs_compiler()
    with recording() as kernels:
        ops.argmax(np.zeros(shape, dtype), axis=1)
        ops.argmax(np.zeros((20, 31), dtype), axis=1)  # of too few elements
    long, short = kernels.values()
    assert re.search(r"until_aligned\d", long.text)
    assert "load" not in short.text
    _, said = assembled(long)
    assert said is None or registers(said)[1] == 0


def test_places_in_several_loops_are_found_without_divisions():
    needs_compiler()
    with recording() as kernels:
        ops.sum(np.zeros((8, 6, 40), np.float32), axis=(0, 2))
        ops.sum(np.zeros((8, 30, 6, 64), np.float32), axis=(0, 2))
    for kernel in kernels.values():
        assert not re.search(r"\b(div|rem)\.[su]", assembled(kernel)[0])
    far = as_strided(np.zeros(40, np.float32), (3, 2, 5), (1 << 33, 4, 8))
    with recording() as kernels:
        ops.sum(far, axis=(0, 2))
    assert "divide_short" not in next(iter(kernels.values())).text


def test_elements_are_stored_as_wide_as_they_lie():
    """In a result that is given and not read they lie otherwise than in inputs."""
    needs_compiler()

    @nf.fuse
    def doubled(x, y):
        y[...] = x * 2
        return x.sum()

    x, y = np.zeros(4096, np.float32), np.zeros(4100, np.float32)
    with recording() as kernels:
        doubled(x, y[:4096])
        doubled(x, y[1:4097])
    assert ["store4(" in k.text for k in kernels.values()] == [True, False]


@pytest.mark.parametrize("rows", range(1, 40))
@pytest.mark.parametrize("most", [1, 2, 4, 8, 16])
def test_few_rows_are_loaded_in_the_fewest_steps(rows, most):
    def steps(ahead):
        return sum(1 for _ in loads(rows, counts(ahead)))

    found = launcher._in_few_steps(rows, most)
    assert 0 < found <= most
    if rows <= most:
        assert steps(found) == 1
    if rows <= launcher.SHORT*most:
        assert steps(found) == min(map(steps, range(1, most + 1)))
    else:
        assert found == most


def loads(rows, at_once):
    """The loads of a thread that are on their way together, one after the other."""
    while rows:
        count = next(n for n in at_once if n <= rows)
        yield count
        rows -= count


def test_seven_rows_of_many_columns_are_one_step():
    needs_compiler()
    with recording() as kernels:
        ops.sum(np.zeros((7, 100_001), np.float32), axis=0)
    (kernel,) = kernels.values()
    assert len(re.findall(r"^ *x0_\d+ = p0", kernel.text, re.MULTILINE)) == 7 + 1
