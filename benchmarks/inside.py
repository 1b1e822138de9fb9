"""``python -m benchmarks.inside``: ops inside the compilers of PyTorch and JAX.

Each is measured beside the same outside of the compiler, or beside the library's own.
What is not the other's result is not timed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import nbfused as nf
from benchmarks.clock import Call, clock

__all__ = ["MEASURES", "main"]

#: Elements of a memory bound call; rows and columns of a block; ops of a chain.
ELEMENTS, ROWS, COLUMNS, CHAIN = 1 << 26, 8192, 2048, 20
#: Rounds of what is compared, one after the other.
TURNS = 5


def _block() -> tuple[Callable[..., Any], list[Any]]:
    """A perceptron's block of our ops, and its arrays."""
    import torch

    def block(x: Any, a: Any, b: Any, c: Any) -> Any:
        hidden = nf.ops.linear(nf.ops.layer_norm(x), a, b, activation="gelu")
        return nf.ops.matmul(hidden, c) + x

    shapes = ((ROWS, COLUMNS), (COLUMNS, 4*COLUMNS), (4*COLUMNS,), (4*COLUMNS, COLUMNS))
    return block, [torch.randn(s, device="cuda", dtype=torch.bfloat16)*0.02
                   for s in shapes]


def compiled_block(both: bool) -> tuple[Call, Call]:
    """A block compiled by PyTorch, and as it is."""
    import torch

    block, arrays = _block()
    compiled = torch.compile(block, fullgraph=True)
    if not both:
        return (lambda: compiled(*arrays)), (lambda: block(*arrays))
    for a in arrays:
        a.requires_grad_(True)
    back = torch.randn_like(arrays[0])

    def train(f: Callable[..., Any]) -> Call:
        return lambda: torch.autograd.grad(f(*arrays), arrays, back)[0]

    return train(compiled), train(block)


def host_of_an_op() -> tuple[Call, Call]:
    """A chain of our swish in compiled code, and one of a product of PyTorch's."""
    import torch

    x = torch.randn((64, 64), device="cuda")

    def ours(x: Any) -> Any:
        for _ in range(CHAIN):
            x = nf.ops.swish(x)
        return x

    def aten(x: Any) -> Any:
        y = x
        for _ in range(CHAIN):
            y = torch.mm(y, x)
        return y

    chains = [torch.compile(f, fullgraph=True) for f in (ours, aten)]
    return (lambda: chains[0](x)), (lambda: chains[1](x))


def _of_jax() -> tuple[Any, Any]:
    import jax
    import jax.numpy as jnp

    return jax, jnp.asarray(np.linspace(-4, 4, ELEMENTS, dtype=np.float32))


def jit_swish() -> tuple[Call, Call]:
    """Our swish in `jax.jit`, and the op on the same array."""
    jax, x = _of_jax()
    jitted = jax.jit(nf.ops.swish)
    return (lambda: jitted(x).block_until_ready()), (
        lambda: nf.ops.swish(x).block_until_ready())


def jit_gradient(fused: bool) -> tuple[Call, Call]:
    """The gradient of the sum of swish in `jax.jit`: our ops, and JAX's."""
    jax, x = _of_jax()

    def total(x: Any) -> Any:
        return nf.ops.sum(nf.ops.swish(x))

    ours, own = (jax.jit(jax.grad(f)) for f in (
        nf.fuse(total) if fused else total, lambda x: jax.nn.silu(x).sum()))
    return (lambda: ours(x).block_until_ready()), (lambda: own(x).block_until_ready())


#: Name → what makes two calls, how they are timed, and the least that the second's time
#: over the first's should be.
MEASURES: dict[str, tuple[Callable[[], tuple[Call, Call]], str, float]] = {
    "block, compiled": (lambda: compiled_block(False), "events", 0.98),
    "block, compiled, both ways": (lambda: compiled_block(True), "events", 0.98),
    "swish, host": (host_of_an_op, "host", 0.67),
    "jax.jit(swish)": (jit_swish, "profile", 0.97),
    "jax.jit(grad(sum(swish)))": (lambda: jit_gradient(False), "profile", 0.9),
    "jax.jit(grad(fuse(sum(swish))))": (lambda: jit_gradient(True), "profile", 0.9),
}


def _host(call: Call) -> float:
    """Seconds of the host for a call; the GPU is ahead."""
    import torch

    call()
    times = []
    for _ in range(100):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def _check(name: str, calls: tuple[Call, Call]) -> None:
    """Refuse results that differ; the chains of `host_of_an_op` do."""
    found, wanted = (nf.to_numpy(call()).astype(float)
                     for call in calls)
    if name != "swish, host":
        np.testing.assert_allclose(found, wanted, atol=0.02*np.abs(wanted).max())


def main(arguments: list[str] | None = None) -> None:
    """Measure, print and store the ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.inside")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args(arguments)
    timer, found = clock("cuda"), {}
    for name, (make, how, bar) in MEASURES.items():
        calls = make()
        _check(name, calls)

        def seconds(call: Call, how: str = how) -> float:
            return _host(call) if how == "host" else statistics.median(
                timer.samples(call, own_streams=how == "profile"))

        turns = [[seconds(call) for call in calls] for _ in range(TURNS)]
        first, second = (statistics.median(times) for times in zip(*turns, strict=True))
        found[name] = {"seconds": first, "beside": second, "ratio": second/first,
                       "bar": bar}
        print(f"{name:30} {1e6*first:9.1f} us  beside {1e6*second:9.1f}  ratio "
              f"{second/first:.2f}  bar {bar}", flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
