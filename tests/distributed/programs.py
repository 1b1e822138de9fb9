"""Programs of several ranks: each compares with one process, or with formulas."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest

import nbfused as nf
from nbfused import distributed as nd
from nbfused import ops
from nbfused.errors import DeviceError, DistributedError, KernelTypeError, NbFusedError
from tests.plugin.nbfused_interpreter import InterpreterBackend

__all__ = ["PROGRAMS", "Ranks"]

PROGRAMS = {}
#: One, so that what was prepared is found again.
INTERPRETER = InterpreterBackend()


def program(function):
    """Enter a program in the table."""
    PROGRAMS[function.__name__] = function
    return function


class Ranks:
    """This rank, among the others: its communicator, and where its arrays are made."""

    def __init__(self, comm, put):
        self.given, self.put = comm, put
        self.comm = nd.communicator(comm, timeout=20)
        self.rank, self.size = self.comm.rank, self.comm.size

    def numbers(self, *shape, seed=0, dtype="float64"):
        """The arrays of all ranks: the first axis is the rank."""
        drawn = np.random.default_rng(seed).standard_normal((self.size, *shape))
        return drawn.astype(nf.array([0], dtype=dtype).dtype)

    def part(self, x, axis):
        """This rank's part of an axis."""
        return self.put(np.split(x, self.size, axis)[self.rank].copy())


def alone():
    """For a ``with`` block of what one process computes of all data: interpreted.

    Compiled is what it is compared with.
    """
    return nf.use_backend(INTERPRETER)


def close(got, want, rtol=1e-12):
    """Compare an array of any library with one of NumPy."""
    got = nf.to_numpy(got.data if isinstance(got, nf.Variable) else got)
    assert got.shape == want.shape
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=rtol, atol=rtol)


def collectives(r):
    """Each with its value and its linear map's transpose, from all ranks' arrays."""
    n = r.size
    return {
        "all_reduce": (lambda x: nd.all_reduce(x, r.comm),
                       lambda a: a.sum(0), lambda g: g.sum(0)),
        "mean": (lambda x: nd.all_reduce(x, r.comm, "mean"),
                 lambda a: a.mean(0), lambda g: g.mean(0)),
        "all_gather": (lambda x: nd.all_gather(x, r.comm, axis=1),
                       lambda a: np.concatenate(a, axis=1),
                       lambda g: np.split(g.sum(0), n, axis=1)[r.rank]),
        "reduce_scatter": (lambda x: nd.reduce_scatter(x, r.comm),
                           lambda a: np.split(a.sum(0), n)[r.rank],
                           lambda g: np.concatenate(g)),
        "broadcast": (lambda x: nd.broadcast(x, r.comm, root=n - 1),
                      lambda a: a[-1], lambda g: g.sum(0)*(r.rank == n - 1)),
        "all_to_all": (lambda x: nd.all_to_all(x, r.comm, axis=0),
                       lambda a: np.concatenate([np.split(x, n)[r.rank] for x in a]),
                       lambda g: np.concatenate([np.split(x, n)[r.rank] for x in g])),
    }


@program
def values(r):
    for dtype in ("float64", "float32", "float16", "bfloat16"):
        a = r.numbers(2*r.size, 3, dtype=dtype)
        eps = {"float64": 1e-12, "float32": 1e-6, "float16": 4e-3, "bfloat16": 3e-2}
        for call, value, _ in collectives(r).values():
            got = call(r.put(a[r.rank]))
            assert type(got) is type(r.put(a[0]))
            close(got, value(a.astype(np.float64)), eps[dtype])


@program
def layouts(r):
    a = r.numbers(2*r.size, 2*r.size)
    for call, value, _ in collectives(r).values():
        close(call(r.put(a[r.rank]).T), value(a.transpose(0, 2, 1)))
        close(call(r.put(a[r.rank])[:0]), value(a[:, :0]))
        close(call(r.put(a[r.rank])[:, ::2]), value(a[:, :, ::2]))


@program
def gradients(r):
    """Of the sum over ranks of each rank's weighted result."""
    a = r.numbers(2*r.size, 3)
    for call, value, transposed in collectives(r).values():
        g = r.numbers(*value(a).shape, seed=1)

        def loss(x, call=call, g=g):
            return (call(x)*r.put(g[r.rank])).sum()

        close(nf.grad(loss)(r.put(a[r.rank])), transposed(g))


@program
def second_derivatives(r):
    a = r.numbers(2*r.size, 3)
    for call, value, transposed in collectives(r).values():
        def first(x, call=call):
            return (nf.grad(lambda x: (call(x)**3).sum())(x)**2).sum()

        got = nf.grad(first)(r.put(a[r.rank]))
        # y = A x; f = sum y^3; df = A^T 3y^2; (df^2)' = 12 A^T (y * A A^T y^2)·…
        y = np.stack([_as(r, k, value, a) for k in range(r.size)])
        df = np.stack([_as(r, k, transposed, 3*y**2) for k in range(r.size)])
        adf = np.stack([_as(r, k, value, 2*df) for k in range(r.size)])
        close(got, transposed(6*y*adf), 1e-10)


def _as(r, rank, function, arrays):
    """What another rank would compute."""
    own, r.rank = r.rank, rank
    try:
        return function(arrays)
    finally:
        r.rank = own


@program
def forward_mode(r):
    a, t = r.numbers(2*r.size, 3), r.numbers(2*r.size, 3, seed=1)
    for call, value, _ in collectives(r).values():
        y, dy = nf.jvp(lambda x, call=call: call(x)**2, (r.put(a[r.rank]),),
                       (r.put(t[r.rank]),))
        close(y, value(a)**2)
        close(dy, 2*value(a)*value(t), 1e-11)


@program
def largest_and_smallest(r):
    a = np.stack([np.array([1.0, 5.0 + k, 7.0 - k]) for k in range(r.size)])
    for op, pick in (("max", np.max), ("min", np.min)):
        close(nd.all_reduce(r.put(a[r.rank]), r.comm, op), pick(a, 0))
        has = a == pick(a, 0)
        got = nf.grad(lambda x, op=op: nd.all_reduce(x, r.comm, op).sum())(
            r.put(a[r.rank]))
        close(got, r.size*has[r.rank]/has.sum(0))


@program
def fused(r):
    a, comm = r.numbers(4, 3), r.comm

    @nf.fuse
    def step(x):
        return nf.value_and_grad(lambda x: (nd.all_reduce(x*2.0, comm)**2).sum())(x)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            value, gradient = step(r.put(a[r.rank]))
    total = 2*a.sum(0)
    close(value, np.sum(total**2))
    close(gradient, 4*r.size*total)


@program
def data_parallel(r):
    rng, n = np.random.default_rng(0), 4*r.size
    params = {"w": rng.standard_normal((3, 5)), "b": np.zeros(5), "unused": np.ones(2),
              "scale": np.float32([2.0])}
    x, y = rng.standard_normal((n, 3)), rng.integers(0, 5, n)

    def loss(p, x, y):
        return ops.cross_entropy(x @ p["w"] + p["b"], y) + (p["scale"]**2).sum()

    with alone():
        value, gradient = nf.value_and_grad(loss)(params, x, y)
    own = {k: r.put(v) for k, v in params.items()}
    data = r.part(x, 0), r.part(y, 0)
    ways = [nd.value_and_grad(loss, r.comm, bucket=size) for size in (1, 64, 1 << 22)]
    ways += [nf.fuse(nd.value_and_grad(loss, r.comm)),
             lambda *a: nd.average(nf.value_and_grad(loss)(*a), r.comm)]
    for way in ways:
        got, found = way(own, *data)
        close(got, np.asarray(value))
        for name in params:
            close(found[name], np.asarray(gradient[name]), 1e-6)


@program
def auxiliary_results(r):
    def loss(x):
        return (x*x).sum(), {"rank": x[:1]*0.0 + float(r.rank)}

    a = r.numbers(3)
    (value, aux), gradient = nd.value_and_grad(loss, r.comm, has_aux=True)(
        r.put(a[r.rank]))
    close(value, np.mean(np.sum(a**2, 1)))
    close(gradient, 2*a.mean(0))
    close(aux["rank"], np.array([float(r.rank)]))


@program
def split_classes(r):
    rng = np.random.default_rng(0)
    logits, labels = rng.standard_normal((7, 4*r.size)), rng.integers(0, 4*r.size, 7)
    p = np.exp(logits)/np.exp(logits).sum(1, keepdims=True)
    own = r.part(logits, 1)
    close(nd.cross_entropy(own, r.put(labels), r.comm),
          -np.log(p[np.arange(7), labels]))
    got = nf.grad(lambda x: nd.cross_entropy(x, r.put(labels), r.comm).mean())(own)
    want = (p - np.eye(4*r.size)[labels])/7
    close(got, np.split(want, r.size, 1)[r.rank])


@program
def split_width(r):
    rng, n = np.random.default_rng(0), 4*r.size
    x, v = rng.standard_normal((2, 5, n))
    w, b = rng.standard_normal((2, n))
    parts = [r.part(a, -1) for a in (x, w, b, v)]

    def loss(x, w, b, v):
        return (nd.layer_norm(x, w, b, r.comm)*v).sum()

    normed = (x - x.mean(1, keepdims=True))/np.sqrt(x.var(1, keepdims=True) + 1e-5)
    close(nd.layer_norm(*parts[:3], r.comm), np.split(normed*w + b, r.size, 1)[r.rank])
    got = nf.grad(loss, (0, 1, 2))(*parts)
    with alone():
        want = nf.grad(lambda *a: (ops.layer_norm(*a)*v).sum(), (0, 1, 2))(x, w, b)
    for g, e in zip(got, want, strict=True):
        close(g, np.split(e, r.size, -1)[r.rank], 1e-9)


@program
def split_products(r):
    """Columns, then rows, as in a network whose layers are split."""
    rng, n = np.random.default_rng(0), 4*r.size
    x, w, v, t = (rng.standard_normal(s) for s in ((6, 3), (3, n), (n, 2), (6, 2)))

    def whole(w, v, x):
        return ((ops.tanh(x @ w) @ v - t)**2).sum()

    def split(w, v, x):
        h = ops.tanh(nd.copy_to_ranks(x, r.comm) @ w)
        return ((nd.sum_over_ranks(h @ v, r.comm) - r.put(t))**2).sum()

    own = r.part(w, 1), r.part(v, 0), r.put(x)
    with alone():
        value, (dw, dv, dx) = nf.value_and_grad(whole, (0, 1, 2))(w, v, x)
    close(split(*own), np.asarray(value))
    want = np.split(dw, r.size, 1)[r.rank], np.split(dv, r.size)[r.rank], dx
    for g, e in zip(nf.grad(split, (0, 1, 2))(*own), want, strict=True):
        close(g, e, 1e-10)


@program
def refusals(r):
    x = r.put(np.ones(3))
    for call, error, part in (
            (lambda: nd.all_reduce(x, None), KernelTypeError, "'comm' is a NoneType"),
            (lambda: nd.all_reduce(x, r.comm, "prod"), NbFusedError, "'op' is 'prod'"),
            (lambda: nd.reduce_scatter(x[:r.size + 1][:1], r.comm), NbFusedError,
             f"multiple of the {r.size} ranks"),
            (lambda: nd.all_gather(x, r.comm, axis=1), NbFusedError, "'axis' is 1"),
            (lambda: nd.broadcast(x, r.comm, root=r.size), NbFusedError, "'root' is"),
            (lambda: nd.all_reduce([1.0], r.comm), KernelTypeError, "x is a list"),
            (lambda: nd.communicator(r.given, timeout=0), NbFusedError, "'timeout'")):
        with pytest.raises(error, match=part):
            call()


@program
def a_group_that_others_are_not_in(r):
    """What rank 0 makes for itself does not disturb what all make after it."""
    if r.comm.engine.name == "MPI":
        from mpi4py import MPI

        first = MPI.COMM_SELF
    else:
        import torch.distributed as dist

        first = dist.new_group([0])
    x = np.ones(3)
    if r.rank == 0:
        close(nd.all_reduce(r.put(x), nd.communicator(first)), x)
    later = nd.communicator(r.given, timeout=20)
    close(nd.all_reduce(r.put(x), later), r.size*x)


@program
def ranks_that_differ(r):
    """An error on every rank, which says what each one does."""
    with nf.config.override(debug=True):
        for x in (np.ones(3 + r.rank), np.ones(3, ["f4", "f8"][r.rank % 2])):
            with pytest.raises(DistributedError, match=r"rank 0: all_reduce.*rank 1"):
                nd.all_reduce(r.put(x), r.comm)
        parts = {"a": r.put(np.ones(2)), "b": r.put(np.ones((2, 3)))}
        trees = parts, dict(reversed(parts.items())), {"c": parts["a"], **parts}
        with pytest.raises(DistributedError, match=r"tree\['a'\] \(2,\)"):
            nd.average(trees[min(r.rank, 2)], r.comm)
        for way in (nd.value_and_grad, lambda *a: nf.fuse(nd.value_and_grad(*a))):
            with pytest.raises(DistributedError, match=r"argument 0\['a'\] \(2,\)"):
                way(lambda p: p["a"].sum() + p["b"].sum(), r.comm)(
                    trees[2*min(r.rank, 1)])
        logits, labels = np.ones((2, 3 + r.rank)), np.zeros(2, int)
        with pytest.raises(DistributedError, match=r"3 classes.*4 classes"):
            nd.cross_entropy(r.put(logits), r.put(labels), r.comm)
        with pytest.raises(DistributedError, match=r"3 columns.*4 columns"):
            nd.layer_norm(r.put(logits), None, None, r.comm)


@program
def labels_that_are_no_classes(r):
    logits = r.put(np.ones((3, 4)))
    for label in (-1, 4*r.size):
        labels = r.put(np.array([0, label, 2]))
        if r.put.device:
            loss = nf.to_numpy(nd.cross_entropy(logits, labels, r.comm))
            np.testing.assert_array_equal(np.isnan(loss), [False, True, False])
        else:
            with pytest.raises(NbFusedError, match=f"out of range: got {label}"):
                nd.cross_entropy(logits, labels, r.comm)


@program
def a_rank_that_does_not_come(r):
    comm = nd.communicator(r.given, timeout=1)
    if r.rank == 0:
        begin = time.monotonic()
        with pytest.raises(DistributedError, match="rank 1 did not come to it in 1 s"):
            nd.all_reduce(r.put(np.ones(11)), comm)
        assert time.monotonic() - begin < 10


@program
def another_device(r):
    x = np.ones(3) if r.put.device else None
    if x is not None:
        with pytest.raises(DeviceError, match="on cpu"):
            nd.all_reduce(x, r.comm)
