"""``python -m benchmarks.inside_jax``: fused functions in `jax.jit`, on JAX's device.

Each as one call, step by step by our operations, and by JAX alone; forward, and with
the gradients of a sum.  What is not JAX's result is not timed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import nbfused as nf
from nbfused.autograd.calls.tracked import on_placeholders

__all__ = ["PROGRAMS", "main"]

CALLS, TURNS = 10, 5


def spread(library: Any, x: Any, w: Any) -> Any:
    """A map, its mean along rows, and a sum of squares."""
    y = library.tanh(x*w + 1)
    return ((y - y.mean(axis=-1, keepdims=True))**2).sum(axis=-1)


def chain(library: Any, x: Any, w: Any) -> Any:
    """Twenty small operations and more, as between the products of a perceptron."""
    for _ in range(3):
        x = library.tanh(x*w + 0.1)
        x = x*0.5 + library.exp(-x*x)
    return x


#: Name → function of a library and two arrays, and the shape of the first.
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[int, int]]] = {
    "map and sums, 4096×1024": (spread, (4096, 1024)),
    "chain, 4096×1024": (chain, (4096, 1024)),
    "chain, 64×64": (chain, (64, 64)),
}


def _ways(function: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    import jax.numpy as jnp

    fused = nf.fuse(partial(function, np), kernel_name=function.__name__)
    return {"one call": fused,
            "steps": partial(on_placeholders, "steps", partial(function, np)),
            "jax": partial(function, jnp)}


def _times(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Median seconds of each call, in turns."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(TURNS):
        for name, call in calls.items():
            for _ in range(CALLS):
                begin = time.perf_counter()
                call()
                found[name].append(time.perf_counter() - begin)
    return {name: statistics.median(times) for name, times in found.items()}


def _calls(function: Callable[..., Any], x: Any, w: Any,
           gradients: bool) -> dict[str, Callable[[], Any]]:
    """A checked call by each way."""
    import jax

    runs = {way: jax.jit(jax.grad(partial(_total, f), (0, 1)) if gradients else f)
            for way, f in _ways(function).items()}
    for run in runs.values():
        for _ in range(3):  # the later ones are prepared
            found = run(x, w)
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-3), found,
                     runs["jax"](x, w))
    return {way: partial(_wait, run, x, w) for way, run in runs.items()}


def _total(function: Callable[..., Any], x: Any, w: Any) -> Any:
    return function(x, w).sum()


def _wait(run: Callable[..., Any], x: Any, w: Any) -> None:
    import jax

    jax.block_until_ready(run(x, w))


def main() -> None:
    """Measure and print."""
    import jax.numpy as jnp

    for name, (function, shape) in PROGRAMS.items():
        x = jnp.asarray(np.random.default_rng(0).standard_normal(shape, np.float32))
        w = jnp.linspace(0.5, 1.5, shape[1], dtype=np.float32)
        for kind in ("forward", "gradients"):
            times = _times(_calls(function, x, w, kind == "gradients"))
            text = "".join(f"  {way} {1e3*t:8.3f} ms" for way, t in times.items())
            print(f"{name:25} {kind:10}{text}", flush=True)


if __name__ == "__main__":
    main()
