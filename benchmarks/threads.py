"""``python -m benchmarks.threads``: a kernel of threads beside Numba and PyTorch.

A heat step of 2048² float32 on the processors of this machine, in turns: forward
beside a function of Numba with `prange`, reverse beside PyTorch's tape over slices.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numba
import numpy as np

import nbfused as nf

__all__ = ["main"]

SIDE, FACTOR = 2048, 0.2
TURNS, CALLS = 15, 50
#: Seconds, and calls, before each turn: OpenMP's threads, of Numba and PyTorch, spin
#: for milliseconds after their work, on processors that the other's threads need.
PAUSE, WARM = 0.1, 5


@nf.rawkernel(differentiable=True)
def heat(u, v, c):  # type: ignore[no-untyped-def]
    """A thread for each element, which it stores if it is inside."""
    j, i = nf.grid(2)
    n, m = u.shape
    if i > 0 and j > 0 and i < n - 1 and j < m - 1:
        v[i, j] = u[i, j] + c*(u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
                               - np.float32(4)*u[i, j])


@numba.njit(parallel=True, fastmath=False)
def by_numba(u, v, c):  # type: ignore[no-untyped-def]
    """The same by rows."""
    for i in numba.prange(1, u.shape[0] - 1):
        for j in range(1, u.shape[1] - 1):
            v[i, j] = u[i, j] + c*(u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
                                   - np.float32(4)*u[i, j])


def main() -> int:
    """Print the median times, and the peer's over ours."""
    rng, c = np.random.default_rng(0), np.float32(FACTOR)
    u, v, w, g = (rng.standard_normal((SIDE, SIDE)).astype(np.float32)
                  for _ in range(4))
    w[...] = v

    def ours() -> None:
        heat.launch(u, v, c, dim=(SIDE, SIDE))

    def numbas() -> None:  # into the same array: which pages it has decides as much
        by_numba(u, v, c)

    ours()
    by_numba(u, w, c)
    assert np.allclose(v, w, atol=1e-6)
    numbas()
    found = {"forward": _ratio(ours, numbas, "numba prange")}
    du = np.zeros_like(u)

    def both() -> None:
        heat.bwd.launch((u, du), (v, g), c, dim=(SIDE, SIDE))

    if find_spec("torch") is not None:
        both()
        found["reverse"] = _ratio(both, _torchs(u, g), "torch backward")
    print(json.dumps(found, indent=1))
    return 0


def _torchs(u: np.ndarray, g: np.ndarray) -> Callable[[], Any]:
    import torch

    x = torch.tensor(u, requires_grad=True)
    inner = x[1:-1, 1:-1]
    y = inner + FACTOR*(x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
                        - 4*inner)
    cotangent = torch.tensor(g[1:-1, 1:-1])
    return lambda: torch.autograd.grad(y, x, cotangent, retain_graph=True)


def _ratio(ours: Callable[[], Any], theirs: Callable[[], Any], peer: str,
           ) -> dict[str, Any]:
    """Median milliseconds in turns, and the ratio."""
    times: list[list[float]] = [[], []]
    for _ in range(TURNS):
        for call, row in zip((ours, theirs), times, strict=True):
            time.sleep(PAUSE)
            for _ in range(WARM):
                call()
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            row.append((time.perf_counter() - start)/CALLS)
    a, b = (statistics.median(row) for row in times)
    return {"ms": a*1e3, peer: b*1e3, "ratio": b/a,
            "least": min(times[1])/min(times[0])}


if __name__ == "__main__":
    raise SystemExit(main())
