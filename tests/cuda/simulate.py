"""Run ops of each skeleton under Numba's CUDA simulator; a line for each failure.

A program of its own: Numba decides at import whether it simulates, and then compiles
nothing.  ``python -m tests.cuda.simulate [op ...]``.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

import nbfused as nf
from nbfused.cuda import map_tile_pairs
from nbfused.testing.conformance import Check, checks
from tests.cuda import simulated

#: Elements of an operand above which a simulated call takes seconds.
LARGE = 700
OPS = ("swish", "where", "sum", "argmax", "var", "softmax", "layer_norm", "linear",
       "take")


def chosen(ops: tuple[str, ...]) -> list[Check]:
    """The first check of each op, kind, dtype and layout; special values once."""
    found: dict[tuple[str, ...], Check] = {}
    for check in checks(ops):
        if max(map(np.prod, check.shapes), default=0) <= LARGE:
            key = (check.op, check.kind, check.dtype.name, check.layout)
            found.setdefault(key, check)
    return list(found.values())


def beyond() -> list[str]:
    """Sizes that the suite does not have: several blocks, chunks, whole accesses."""
    rng = np.random.default_rng(0)
    failures = []

    def check(name, found, expected):
        if not np.allclose(nf.to_numpy(found), expected, rtol=1e-4, atol=1e-4):
            failures.append(name)

    x = rng.standard_normal((300, 32)).astype(np.float32)
    check("chunks of columns", nf.ops.sum(x, axis=0), x.sum(0))
    check("chunks of rows", nf.ops.sum(x[:9].reshape(1, -1), axis=1), x[:9].sum())
    check("chunks that the last block merges", nf.ops.sum(x.ravel()[:4100]),
          x.ravel()[:4100].sum())
    check("again, in the same memory", nf.ops.max(x[:140].ravel()), x[:140].max())
    wide = rng.standard_normal((150, 40)).astype(np.float32)
    check("chunks of ragged columns", nf.ops.var(wide, axis=0), wide.var(0))
    check("columns that are not aligned", nf.ops.max(x[:, 1:], axis=0), x[:, 1:].max(0))
    check("misaligned", nf.ops.swish(x.ravel()[1:500]),
          x.ravel()[1:500]/(1 + np.exp(-x.ravel()[1:500])))
    map_tile_pairs.LEAST = 1
    half = x.astype(np.float16).reshape(80, 120)
    lines = half.ravel()[:5600].reshape(70, 80)
    check("across, in pairs", nf.ops.add(half.T[:70], lines), half.T[:70] + lines)
    w = rng.standard_normal((2, 36)).astype(np.float32)
    v = [nf.Variable(a, requires_grad=True) for a in (x[:20], *w[:, :32])]
    y = nf.ops.layer_norm(*v)
    y.backward(x[:20])
    mean, deviation = x[:20].mean(1, keepdims=True), x[:20].std(1, keepdims=True)
    check("sums over rows in registers", v[1].grad,
          (x[:20]*(x[:20] - mean)/deviation).sum(0))
    for columns in (31, 40, 100, 260):  # not aligned, lanes idle, several accesses
        data = rng.standard_normal((19, columns)).astype(np.float32)
        u = [nf.Variable(a, requires_grad=True) for a in (data, data[0], data[1])]
        nf.ops.layer_norm(*u).backward(data)
        scale = data - data.mean(1, keepdims=True)
        scale /= np.sqrt(data.var(1, keepdims=True) + 1e-5)
        check(f"sums over rows of {columns}", u[1].grad, (data*scale).sum(0))
        check(f"other sums over rows of {columns}", u[2].grad, data.sum(0))
        e = np.exp(data - data.max(1, keepdims=True))
        check(f"softmax of {columns}", nf.ops.softmax(data), e/e.sum(1, keepdims=True))
    long = rng.standard_normal((3, 1600)).astype(np.float32)
    g = [nf.Variable(a, requires_grad=True) for a in (long, long[0])]
    nf.ops.rms_norm(*g).backward(long)
    scale = np.sqrt((long**2).mean(1, keepdims=True))
    check("sums over rows in the workspace", g[1].grad, (long*long/scale).sum(0))
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((65, 40), (40, 70)))
    check("several tiles", nf.ops.matmul(a, b), a @ b)
    check("several tiles, transposed", nf.ops.matmul(b.T, a.T), (a @ b).T)
    for rows, columns in ((64, 64), (70, 33), (17, 100)):
        p = rng.standard_normal((rows, columns)).astype(np.float32)
        q = rng.standard_normal((columns, rows)).astype(np.float32)
        check("an input that lies across", nf.ops.subtract(p.T, q), p.T - q)
        result = np.full_like(p, np.nan)
        nf.ops.subtract(q, p.T, out=result.T)
        check("results that lie across", result, q.T - p)
    cube = rng.standard_normal((20, 3, 33)).astype(np.float32)
    other = rng.standard_normal((3, 33, 20)).astype(np.float32)
    check("inputs that lie across, of a rank above 2",
          nf.ops.subtract(cube.transpose(1, 2, 0), other),
          cube.transpose(1, 2, 0) - other)
    i, j = (np.rint(3*x).astype(np.int32) for x in (a, b))
    check("several tiles of integers", nf.ops.matmul(i, j), i @ j)
    check("packed factors", nf.ops.contract("mk,kn->mn", a, b, prologue_a="relu",
                                            prologue_b="swish"),
          np.maximum(a, 0) @ (b/(1 + np.exp(-b))))
    check("packed columns", nf.ops.contract("gmk,gnk->gmn", a[:60].reshape(3, 20, 40).T
          .swapaxes(0, 2)[:, ::-1], b[:36, :40].reshape(3, 12, 40), prologue_a="relu"),
          np.maximum(a[:60].reshape(3, 20, 40), 0)[:, ::-1]
          @ b[:36, :40].reshape(3, 12, 40).swapaxes(1, 2))
    return failures


def main(ops: tuple[str, ...]) -> None:
    warnings.simplefilter("ignore")
    failures = []
    with nf.use_backend(simulated.simulate()):
        for check in chosen(ops or OPS):
            try:
                check("cpu")
            except Exception as error:
                failures.append(f"{check}: {type(error).__name__}: {error}")
        failures += [] if ops else beyond()
    for failure in failures:
        print(failure.replace("\n", " "))
    launched = simulated.LAUNCHED
    print(f"{len(set(launched))} kernels, {len(launched)} launches, "
          f"{len(failures)} failures")


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
