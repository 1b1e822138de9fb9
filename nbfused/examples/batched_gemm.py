"""A batched matrix product with bias and permuted store, in one launch.

``python -m nbfused.examples.batched_gemm VERIFY INIT TIME``, the arguments of
Composable Kernel's example 29 (``batched_gemm_bias_e_permute``)::

    E[G0,G1,M0,N0,M1,N1] = A[G0,G1,M0,M1,K] · B[G0,G1,N0,N1,K] + D[G0,G1,N0,N1]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

import nbfused as nf

__all__ = ["Problem", "main"]

INITS = {0: "zeros", 1: "integers", 2: "decimals"}


@dataclass(frozen=True)
class Problem:
    """The extents of a problem; by default those of the original program."""

    g: tuple[int, int] = (1, 2)
    m: tuple[int, int] = (4, 256)
    n: tuple[int, int] = (16, 128)
    k: int = 64

    @property
    def flops(self) -> int:
        """Number of multiplications and additions of the products."""
        return 2 * prod(self.g) * prod(self.m) * prod(self.n) * self.k

    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of A, B and D."""
        return [(*self.g, *self.m, self.k), (*self.g, *self.n, self.k),
                (*self.g, *self.n)]

    def bytes(self, itemsize: int) -> int:
        """Number of bytes to read and write: A, B, D and E, once each."""
        result = prod(self.g) * prod(self.m) * prod(self.n)
        return itemsize * (sum(map(prod, self.shapes())) + result)

    def arrays(self, init: int, dtype: str) -> list[np.ndarray]:
        """Make A, B and D: zeros, integers in [-5, 5) or numbers in [-0.5, 0.5)."""
        rng = np.random.default_rng(0)
        draws: dict[int, Callable[[tuple[int, ...]], np.ndarray]] = {
            0: lambda shape: np.zeros(shape),
            1: lambda shape: rng.integers(-5, 5, shape),
            2: lambda shape: rng.uniform(-0.5, 0.5, shape)}
        return [draws[init](shape).astype(dtype) for shape in self.shapes()]


def fused(a: Any, b: Any, d: Any) -> Any:
    """Compute E in one launch, stored permuted."""
    g0, g1, n0, n1 = d.shape
    return nf.ops.contract("GHmik,GHnjk->GHminj", a, b, out_axes=(0, 1, 2, 4, 3, 5),
                           bias=nf.ops.reshape(d, (g0, g1, 1, 1, n0, n1)))


def reference(a: np.ndarray, b: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Compute E in float64 on the host."""
    wide = [x.astype(np.float64) for x in (a, b, d)]
    product = np.einsum("GHmik,GHnjk->GHmnij", *wide[:2], optimize=True)
    return product + wide[2][:, :, None, :, None, :]


def agrees(found: np.ndarray, expected: np.ndarray) -> bool:
    """Whether two results are equal but for one rounding to the result's dtype."""
    eps = float(np.finfo(found.dtype).eps)
    return bool(np.allclose(found.astype(np.float64), expected, rtol=eps, atol=eps))


def seconds(function: Callable[[], Any], rounds: int = 10) -> float:
    """Measure the mean time of a call, after a warm-up."""
    function()
    nf.synchronize()
    start = time.perf_counter()
    for _ in range(rounds):
        function()
    nf.synchronize()
    return (time.perf_counter() - start) / rounds


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m nbfused.examples.batched_gemm",
        description="Batched GEMM, bias, permuted store, in one launch.")
    parser.add_argument("verify", type=int, choices=(0, 1), default=1, nargs="?",
                        help="compare with NumPy")
    parser.add_argument("init", type=int, choices=tuple(INITS), default=1, nargs="?",
                        help="0: zeros, 1: integers, 2: decimals")
    parser.add_argument("time", type=int, choices=(0, 1), default=0, nargs="?",
                        help="measure")
    parser.add_argument("--dtype", default="float16",
                        choices=("float16", "float32", "float64"))
    parser.add_argument("--device", default=None, help="cpu, cuda; default: the best")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None, problem: Problem | None = None) -> int:
    """Run the example; the exit status is 0 unless verification fails."""
    given = _arguments(argv)
    problem = problem or Problem()
    device = given.device or ("cuda" if nf.backends()["cuda"].enabled else "cpu")
    host = problem.arrays(given.init, given.dtype)
    arrays = [nf.array(x, device=device) for x in host]
    print(f"G={problem.g} M={problem.m} N={problem.n} K={problem.k}, {given.dtype}, "
          f"{INITS[given.init]}, {device}")
    passed = True
    if given.verify:
        passed = agrees(nf.to_numpy(fused(*arrays)), reference(*host))
        print("PASS" if passed else "FAIL")
    if given.time:
        t = seconds(lambda: fused(*arrays))
        moved = problem.bytes(host[0].itemsize)
        print(f"{1e3 * t:.3f} ms, {problem.flops / t / 1e12:.3f} TFLOP/s, "
              f"{moved / t / 1e9:.1f} GB/s ({problem.flops:.3g} flops, "
              f"{moved:.3g} bytes)")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
