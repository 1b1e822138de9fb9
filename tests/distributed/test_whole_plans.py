"""Plans that hold calls between processes: memory, order, what is left to segments.

The engine behaves like that of two ranks that do the same, and what is started is
started in any order that waiting allows, as by a GPU's graph.
"""

from __future__ import annotations

import random
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

import nbfused as nf
from nbfused import distributed, ops
from nbfused.backend import SequencedExchange
from nbfused.cpu.backend import CpuBackend
from nbfused.cuda.graphs.waits import waits_of
from nbfused.distributed.communicators import Communicator
from nbfused.kernels.fusing.plans.plan import Plan
from nbfused.kernels.fusing.plans.segments import SegmentedPlan

pytestmark = pytest.mark.filterwarnings("ignore:fuse.*decorated again")


class Twins:
    """An engine of two ranks with the same arrays; sums are there when awaited."""

    name, checks_all, rank, size = "twins", False, 0, 2

    def __init__(self):
        self.calls, self.under_way, self.fails_at = [], 0, None

    @contextmanager
    def on_stream(self, stream):
        yield

    def refuse(self, dtype, device, reduced):
        return None

    def tell(self, key, text, seconds):
        return None

    def all_reduce(self, source, target, op):
        self.calls.append(source.shape)
        target[...] = source*2 if op == "sum" else source

    def start_sum(self, source, target):
        if len(self.calls) == self.fails_at:
            raise RuntimeError("a rank is gone")
        self.calls.append(source.shape)
        self.under_way += 1

        def wait():
            self.under_way -= 1
            target[...] = source*2

        if source is not target:
            target[...] = np.nan
        return wait

    def all_gather(self, source, target):
        self.calls.append(source.shape)
        target[:] = source[None]

    def reduce_scatter(self, source, target):
        self.calls.append(source.shape)
        target[...] = source[0]*2


@pytest.fixture
def comm(monkeypatch):
    engine = Twins()
    monkeypatch.setattr("nbfused.distributed.communicators.engine_of",
                        lambda comm: engine)
    return Communicator(object())


@pytest.fixture
def shuffled(monkeypatch):
    """Sequences on the CPU that hold exchanges, in random orders; how many ran."""
    ran, draw = [], random.Random(0)

    def sequence(self, calls):
        waits = list(waits_of(calls))

        def run(addresses, numbers, stream):
            left, done = list(range(len(calls))), set()
            while left:
                k = draw.choice([k for k in left if done.issuperset(waits[k])])
                left.remove(k)
                done.add(k)
                one = calls[k]
                if isinstance(one, SequencedExchange):
                    one.enqueue(stream)
                else:
                    one.launcher(replace(
                        one.call, pointers=tuple(
                            [addresses[i] + more for i, more in one.places]),
                        scalars=tuple([numbers[n.position] if hasattr(n, "position")
                                       else n for n in one.numbers])))
            ran.append(len(calls))
            return True

        return run

    monkeypatch.setattr(CpuBackend, "sequence", sequence)
    return ran


def plans(fused):
    return list(fused._plans._states.values())


def parameters():
    rng = np.random.default_rng(0)
    return [rng.normal(size=s).astype("f4")*0.3
            for s in ((6, 40), (40,), (40, 5), (5,))]


def batch():
    rng = np.random.default_rng(1)
    return rng.normal(size=(12, 6)).astype("f4"), rng.integers(5, size=12)


def loss(p, x, labels):
    h = ops.linear(x, p[0], p[1], activation="gelu")
    return ops.cross_entropy(ops.linear(h, p[2], p[3]), labels)


@pytest.mark.parametrize("bucket", [1, 300, 1 << 20])
def test_a_step_is_one_plan(comm, shuffled, bucket):
    gradients = distributed.value_and_grad(loss, comm, bucket=bucket)

    @nf.fuse
    def step(p, x, labels):
        value, found = gradients(p, x, labels)
        ops.sgd_step(p, found, lr=0.1)
        return value

    ours, theirs = parameters(), parameters()
    for _ in range(6):
        got = step(ours, *batch())
        want, found = nf.value_and_grad(loss)(theirs, *batch())
        theirs = [p - np.float32(0.1)*g for p, g in zip(theirs, found, strict=True)]
        np.testing.assert_allclose(got, want, rtol=1e-5)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    (plan,) = plans(step)
    assert isinstance(plan, Plan)
    assert len(shuffled) == 4


def test_sums_that_are_returned_are_not_overwritten(comm, shuffled):
    f = nf.fuse(lambda x: distributed.all_reduce(x, comm))
    results = [f(np.full((3, 4), k, "f8")) for k in range(5)]
    for k, found in enumerate(results):
        np.testing.assert_array_equal(found, np.full((3, 4), 2.0*k))
    assert isinstance(plans(f)[0], Plan)


def test_what_is_summed_can_be_read_again(comm, shuffled):
    @nf.fuse
    def f(x):
        y = x*3
        total = distributed.all_reduce(y, comm)
        return y + total, distributed.all_reduce(y - 1, comm), y[::2]

    for k in range(5):
        x = np.arange(6.0) + k
        for a, b in zip(f(x), (9*x, 6*x - 2, 3*x[::2]), strict=True):
            np.testing.assert_array_equal(a, b)
    assert isinstance(plans(f)[0], Plan)


def test_parts_of_transposed_arrays(comm, shuffled):
    @nf.fuse
    def f(x):
        return distributed.all_gather((x + 1).T, comm), distributed.reduce_scatter(
            x*2, comm, axis=1)

    for k in range(4):
        x = np.arange(12.0).reshape(3, 4) + k
        whole, part = f(x)
        np.testing.assert_array_equal(whole, np.concatenate([x.T + 1]*2))
        np.testing.assert_array_equal(part, 4*x[:, :2])


@pytest.mark.parametrize("captured", [True, False])
def test_collectives_are_made_in_one_order(comm, shuffled, monkeypatch, captured):
    """Every rank has to begin them in the same order, whatever else it runs first."""
    if not captured:
        monkeypatch.setattr(Twins, "on_stream", None)

    @nf.fuse
    def f(x):
        rows = distributed.all_reduce(ops.sum(x, axis=1), comm)  # made last
        columns = distributed.all_reduce(ops.sum(x*x, axis=0), comm)
        least = distributed.all_reduce(x[:2, :2].copy(), comm, "min")
        return ops.sum(columns) + ops.sum(least) + ops.sum(rows)

    for _ in range(5):
        comm.engine.calls.clear()
        f(np.ones((4, 7)))
        assert comm.engine.calls == [(4,), (7,), (2, 2)]
        assert comm.engine.under_way == 0
    assert isinstance(plans(f)[0], Plan if captured else SegmentedPlan)


def test_a_sum_is_awaited_before_it_is_read(comm, monkeypatch):
    """Where nothing is captured they are begun early and awaited late."""
    monkeypatch.setattr(Twins, "on_stream", None)
    seen = []
    look = nf.callback(lambda x: seen.append(comm.engine.under_way) or x.copy(),
                       lambda shape: shape, "f8")

    @nf.fuse
    def f(x):
        total = distributed.all_reduce(x*2, comm)
        return look(x + 1) + total

    for _ in range(4):
        np.testing.assert_array_equal(f(np.arange(3.0)), 5*np.arange(3.0) + 1)
    assert seen == [1]*4


def test_averages_begin_with_the_last_arrays(comm, monkeypatch):
    """Their gradients are the first; the small ones come before the last sum."""
    monkeypatch.setattr(Twins, "on_stream", None)
    monkeypatch.setattr("nbfused.distributed.gradients.BUCKET", 64)

    @nf.fuse
    def f(p):
        return distributed.average([x*2.0 for x in p], comm)

    given = [np.ones((3, 3)), np.ones(2), np.full((3, 5), 2.0), np.ones(4)]
    for _ in range(4):
        comm.engine.calls.clear()
        for a, b in zip(f(given), given, strict=True):
            np.testing.assert_array_equal(a, 2*b)
        assert comm.engine.calls == [(3, 5), (6,), (3, 3)]


def test_what_is_begun_is_awaited_though_nobody_reads_it(comm, monkeypatch):
    monkeypatch.setattr(Twins, "on_stream", None)

    @nf.fuse
    def f(x):
        distributed.all_reduce(x + 1, comm)
        return distributed.all_reduce(x + 2, comm)

    for _ in range(4):
        np.testing.assert_array_equal(f(np.arange(3.0)), 2*np.arange(3.0) + 4)
        assert comm.engine.under_way == 0


def test_nothing_is_stored_if_a_call_fails(comm, monkeypatch):
    monkeypatch.setattr(Twins, "on_stream", None)
    gradients = distributed.value_and_grad(loss, comm, bucket=1)

    @nf.fuse
    def step(p, x, labels):
        value, found = gradients(p, x, labels)
        ops.sgd_step(p, found, lr=0.1)
        return value

    ours = parameters()
    for _ in range(3):
        step(ours, *batch())
    before = [p.copy() for p in ours]
    comm.engine.calls.clear()
    comm.engine.fails_at = 3
    with pytest.raises(RuntimeError, match="gone"):
        step(ours, *batch())
    for a, b in zip(ours, before, strict=True):
        np.testing.assert_array_equal(a, b)
