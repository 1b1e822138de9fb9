"""Programs for ranks, run as often as it takes until they are plans."""

from __future__ import annotations

import numpy as np

import nbfused as nf
from nbfused import distributed as nd
from nbfused import ops
from nbfused.kernels.fusing.plans.plan import Plan
from tests.distributed.programs import alone, close, program

#: Calls: traced, planned, captured, and some more with other data.
CALLS = 7


def loss(p, x, y):
    hidden = ops.linear(x, p["w"], p["b"], activation="gelu")
    return ops.cross_entropy(hidden @ p["v"], y)


def is_whole(r, fused):
    """Whether it is one CUDA graph with its collectives, where there is CUDA."""
    (plan,) = fused._plans._states.values()
    return not r.put.device or (isinstance(plan, Plan) and plan.sequence._possible)


@program
def planned_steps(r):
    """Training on all ranks is that of one on all data, whatever the buckets are."""
    for bucket in (1, 200, 1 << 22):
        rng, n = np.random.default_rng(bucket), 4*r.size
        params = {"w": rng.standard_normal((3, 8)), "b": np.zeros(8),
                  "v": rng.standard_normal((8, 5)).astype("f4")}
        own = {k: r.put(v) for k, v in params.items()}
        gradients = nd.value_and_grad(loss, r.comm, bucket=bucket)

        def step(p, x, y, gradients=gradients):
            value, found = gradients(p, x, y)
            ops.sgd_step(p, found, lr=0.1)
            return value

        fused = nf.fuse(step)
        for _ in range(CALLS):
            x, y = rng.standard_normal((n, 3)), rng.integers(0, 5, n)
            with alone():
                value, found = nf.value_and_grad(loss)(params, x, y)
            params = {k: (p - 0.1*found[k]).astype(p.dtype) for k, p in params.items()}
            close(fused(own, r.part(x, 0), r.part(y, 0)), np.asarray(value), 1e-5)
        for name, p in params.items():
            close(own[name], p, 1e-5)
        assert is_whole(r, fused)


@program
def planned_collectives(r):
    """Results are those of each call, also when later calls have run."""
    comm = r.comm

    @nf.fuse
    def f(x):
        y = x*2.0
        rows = nd.all_reduce(y, comm)
        return (rows, nd.all_gather(y + rows, comm), nd.reduce_scatter(x, comm, 1),
                nd.all_reduce(x, comm, "max"), y)

    found = [(a := r.numbers(3, 2*r.size, seed=k), f(r.put(a[r.rank])))
             for k in range(CALLS)]
    for a, (rows, gathered, part, most, y) in found:
        total = 2*a.sum(0)
        close(rows, total)
        close(gathered, np.concatenate([2*b + total for b in a]))
        close(part, a.sum(0)[:, 2*r.rank:2*r.rank + 2])
        close(most, a.max(0))
        close(y, 2*a[r.rank])
    assert is_whole(r, f)
