"""Fused functions on Numba's CUDA simulator: what the kernels' text computes."""

from __future__ import annotations

import warnings

import numpy as np

import nbfused as nf
from tests.cuda.simulation import simulated

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 37)).astype(np.float32)
Y = RNG.normal(size=37).astype(np.float32)
LABELS = np.array([3, 0, 36, 7, 7, 21])


def softmax(x, y, s):
    e = np.exp((x - x.max(-1, keepdims=True)) * s)
    return e / e.sum(-1, keepdims=True) * y, x.max(-1, keepdims=True) * 2


def loss(x, y, s):
    """A loss, its gradient and what a bias would receive, which are one Row."""
    value, (dx,) = nf.value_and_grad(
        lambda x: nf.ops.cross_entropy(x, LABELS), argnums=(0,))(x)
    return value, dx * s, nf.ops.sum(dx, axis=0)


def rows_and_maps(x, y, s):
    total = x * y
    return total, nf.ops.softmax(total) * s, nf.ops.mean(nf.ops.softmax(total))


FUNCTIONS = {
    "map": lambda x, y, s: (np.where(x > y, x * s, np.exp(y)), x ** 2 + s),
    "sum": lambda x, y, s: np.sqrt(np.sum(x * x * s, axis=-1)) + 1,
    "several": lambda x, y, s: (x.max(1), x.min(1) * s, (x * y).sum(1), x.std(1)),
    "columns": lambda x, y, s: (x.mean(0), (x * x).mean(0) - x.mean(0) ** 2 + y),
    "row": softmax,
    "loss": loss, "rows and maps": rows_and_maps,
    "product": lambda x, y, s: (np.maximum(x @ x.T * s, y[:6]), x @ x.T),
}


def main() -> None:
    warnings.simplefilter("ignore")
    for dtype, tolerance in (("f4", 1e-4), ("f2", 2e-2)):
        x, y = X.astype(dtype), Y.astype(dtype)
        for name, function in FUNCTIONS.items():
            expected = function(x, y, 0.5)
            with nf.use_backend(simulated.simulate()):
                found = nf.fuse(function)(x, y, 0.5)
            single = not isinstance(expected, tuple)
            for f, e in zip([found] if single else found,
                            [expected] if single else expected, strict=True):
                assert (f.dtype, f.shape) == (e.dtype, e.shape), (name, dtype)
                np.testing.assert_allclose(f.astype("f8"), e.astype("f8"),
                                           rtol=tolerance, atol=tolerance,
                                           err_msg=f"{name} {dtype}")
    print(f"{len(set(simulated.LAUNCHED))} kernels agree")


if __name__ == "__main__":
    main()
