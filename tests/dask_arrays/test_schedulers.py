"""Threads, processes and two workers of a cluster; limited memory; cost of graphs."""

from __future__ import annotations

import time

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops

from .lazy import da

X = np.random.default_rng(0).standard_normal((64, 32)).astype("float32")


@nf.elementwise
def curve(a):
    return a * a - 0.5


def whole(x):
    """Elements of a user's, rows and a sum in a tree, and their gradient."""
    v = nf.Variable(x, requires_grad=True)
    loss = (ops.layer_norm(curve(v)) ** 3).sum()
    loss.backward()
    return loss.data, v.grad


def check(compute):
    made = compute(whole(da.from_array(X, chunks=(16, 8))))
    for one, other in zip(made, whole(X), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_local_schedulers(scheduler):
    import dask

    check(lambda made: dask.compute(*made, scheduler=scheduler, num_workers=2))


def test_two_workers_of_a_cluster():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
            memory_limit="600MB") as cluster, distributed.Client(cluster) as client:
        check(lambda made: client.gather(client.compute(made)))
        # 1 GB by workers that have less than that.
        x = da.random.default_rng(1).standard_normal((125_000, 1000), chunks=(2000, -1))
        loss = ops.sum(ops.layer_norm(ops.swish(x)))
        assert abs(client.compute(loss).result()) < 1e-3 * x.size


@pytest.mark.parametrize("program", [
    lambda x: ops.sum(ops.layer_norm(ops.swish(x))), lambda x: ops.matmul(x, x),
    lambda x: ops.linear(x, x, x[0], activation="gelu")],
    ids=["rows", "product", "linear"])
def test_graphs_are_cheap(program):
    """Less than 1 ms a chunk, the graph written out for the scheduler included."""
    x = da.zeros((1000, 1000), chunks=(40, 40))
    took = []
    for _ in range(3):
        start = time.perf_counter()
        dict(program(x).__dask_graph__())
        took.append(time.perf_counter() - start)
    assert min(took) / x.npartitions < 1e-3
