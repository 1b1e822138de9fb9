"""``python -m benchmarks.programs``: training steps by nbfused and its peers.

A step is forward, backward and Adam of a multilayer perceptron (gelu, cross entropy).
Everybody starts from the same numbers; a way whose losses of six steps are not those of
float64 is not timed.  What is timed is wall time, the host's work included: many steps,
then a wait.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import nbfused as nf

__all__ = ["main"]

RATE = 1e-3
CHECKED = 6  # steps of which the losses are compared
TURNS = 7  # in each of which every way has its own

#: Runs one step and returns the loss, not yet waited for.
Step = Callable[[], Any]


class Program(NamedTuple):
    """A perceptron and its batch."""

    name: str
    rows: int
    widths: tuple[int, ...]
    dtype: str = "float32"

    def numbers(self) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
        """Weights and biases, the batch, its labels, in float64 and int64."""
        rng = np.random.default_rng(0)
        parameters = []
        for fan_in, width in pairwise(self.widths):
            parameters += [rng.normal(size=(fan_in, width)) / np.sqrt(fan_in),
                           np.zeros(width)]
        return (parameters, rng.normal(size=(self.rows, self.widths[0])),
                rng.integers(self.widths[-1], size=self.rows))


PROGRAMS = {
    "cuda": (Program("mlp 64 rows of 64, 256, 256, 10", 64, (64, 256, 256, 10)),
             Program("mlp 4096 rows of 1024, 4096, 1000 bfloat16", 4096,
                     (1024, 4096, 1000), "bfloat16")),
    "cpu": (Program("mlp 16 rows of 16, 32, 32, 10", 16, (16, 32, 32, 10)),
            Program("mlp 64 rows of 64, 256, 256, 10", 64, (64, 256, 256, 10))),
}


def _logits(parameters: Sequence[Any], x: Any) -> Any:
    for weight, bias in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
        x = nf.ops.linear(x, weight, bias, activation="gelu")
    return nf.ops.linear(x, *parameters[-2:])


def _loss(x: Any, labels: Any, *parameters: Any) -> Any:
    return nf.ops.cross_entropy(_logits(parameters, x), labels)


def _step(parameters: Any, moments: Any, x: Any, labels: Any, rate: float,
          count: int) -> Any:
    """One step on arrays, which `nf.fuse` makes one plan of."""
    numbers = range(2, 2 + len(parameters))
    loss, gradients = nf.value_and_grad(_loss, argnums=tuple(numbers))(
        x, labels, *parameters)
    for parameter, gradient, (m, v) in zip(parameters, gradients, moments, strict=True):
        nf.ops.adam_step(parameter, gradient, m, v, lr=rate, step=count)
    return loss


def _arrays(program: Program, device: str) -> tuple[list[Any], Any, Any]:
    """Arrays of NumPy on the cpu, tensors of PyTorch on a GPU."""
    parameters, x, labels = program.numbers()
    if device == "cpu":
        return [p.astype(program.dtype) for p in parameters], x.astype(
            program.dtype), labels
    import torch

    dtype = getattr(torch, program.dtype)
    return ([torch.tensor(p, dtype=dtype, device=device) for p in parameters],
            torch.tensor(x, dtype=dtype, device=device),
            torch.tensor(labels, device=device))


def plan(program: Program, device: str) -> Step:
    """One plan by `nf.fuse`."""
    return _of_arrays(nf.fuse(_step), program, device)


def _of_arrays(step: Callable[..., Any], program: Program, device: str) -> Step:
    parameters, x, labels = _arrays(program, device)
    moments = [(p * 0, p * 0) for p in parameters]
    count = 0

    def run() -> Any:
        nonlocal count
        count += 1
        return step(parameters, moments, x, labels, RATE, count)

    return run


def eager(program: Program, device: str) -> Step:
    """Variables and `backward`."""
    parameters, x, labels = _arrays(program, device)
    tracked = [nf.Variable(p, requires_grad=True) for p in parameters]
    moments = [(p * 0, p * 0) for p in parameters]
    count = 0

    def run() -> Any:
        nonlocal count
        count += 1
        loss = _loss(x, labels, *tracked)
        loss.backward()
        for p, (m, v) in zip(tracked, moments, strict=True):
            nf.ops.adam_step(p, p.grad, m, v, lr=RATE, step=count)
            p.grad = None
        return loss.data

    return run


def _torch_step(program: Program, device: str, loss_of: Callable[..., Any],
                **options: Any) -> tuple[Step, Any]:
    import torch

    parameters, x, labels = program.numbers()
    dtype = getattr(torch, program.dtype)
    tensors = [torch.tensor(p, dtype=dtype, device=device, requires_grad=True)
               for p in parameters]
    batch = torch.tensor(x, dtype=dtype, device=device)
    targets = torch.tensor(labels, device=device)
    adam = torch.optim.Adam(tensors, lr=RATE, fused=True, **options)

    def run() -> Any:
        adam.zero_grad(set_to_none=True)
        loss = loss_of(batch, targets, *tensors)
        loss.backward()
        adam.step()
        return loss.detach()

    return run, torch


def _torch_loss(x: Any, labels: Any, *parameters: Any) -> Any:
    import torch.nn.functional as F

    for weight, bias in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
        x = F.gelu(x @ weight + bias)
    return F.cross_entropy(x @ parameters[-2] + parameters[-1], labels)


def torch_eager(program: Program, device: str) -> Step:
    """PyTorch, its fused Adam."""
    return _torch_step(program, device, _torch_loss)[0]


def torch_tape(program: Program, device: str) -> Step:
    """Our ops on tensors that PyTorch's tape records, PyTorch's Adam."""
    return _torch_step(program, device, _loss)[0]


def torch_graph(program: Program, device: str) -> Step:
    """PyTorch's step captured whole as a CUDA graph."""
    run, torch = _torch_step(program, device, _torch_loss, capturable=True)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    losses = []
    with torch.cuda.stream(side):
        losses += [run() for _ in range(3)]
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = run()

    def replay(kept: Step = run) -> Any:  # which has the arrays that the graph reads
        if losses:
            return losses.pop(0)  # the steps of the warm-up
        graph.replay()
        return loss

    return replay


def jax_jit(program: Program, device: str) -> Step:
    """JAX, the whole step compiled, its arguments donated."""
    import jax
    import jax.numpy as jnp

    where = jax.devices("cpu" if device == "cpu" else "gpu")[0]
    parameters, x, labels = program.numbers()
    place = [jax.device_put(jnp.asarray(p, program.dtype), where) for p in parameters]
    batch = jax.device_put(jnp.asarray(x, program.dtype), where)
    targets = jax.device_put(jnp.asarray(labels), where)
    zeros = [jnp.zeros_like(p) for p in place]

    def loss_of(parameters: Any) -> Any:
        hidden = batch
        for weight, bias in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
            hidden = jax.nn.gelu(hidden @ weight + bias, approximate=False)
        scores = jax.nn.log_softmax(
            (hidden @ parameters[-2] + parameters[-1]).astype(jnp.float32))
        return -jnp.take_along_axis(scores, targets[:, None], 1).mean()

    def step(state: Any) -> Any:
        parameters, first, second, count = state
        loss, grads = jax.value_and_grad(loss_of)(parameters)
        count = count + 1
        first = [0.9 * m + 0.1 * g for m, g in zip(first, grads, strict=True)]
        second = [0.999 * v + 0.001 * g * g
                  for v, g in zip(second, grads, strict=True)]
        new = [p - (RATE * (m / (1 - 0.9 ** count)) / (
            jnp.sqrt(v / (1 - 0.999 ** count)) + 1e-8)).astype(p.dtype)
               for p, m, v in zip(parameters, first, second, strict=True)]
        return (new, first, second, count), loss

    compiled = jax.jit(step, donate_argnums=0)
    state = (place, zeros, [z.copy() for z in zeros],
             jax.device_put(jnp.float32(0), where))

    def run() -> Any:
        nonlocal state
        state, loss = compiled(state)
        return loss

    return run


#: Name → what makes the step, and where it can be made.
WAYS: dict[str, tuple[Callable[[Program, str], Step], str]] = {
    "nbfused plan": (plan, "cpu cuda"), "nbfused eager": (eager, "cpu cuda"),
    "nbfused on PyTorch's tape": (torch_tape, "cpu cuda"),
    "torch": (torch_eager, "cpu cuda"), "torch graph": (torch_graph, "cuda"),
    "jax": (jax_jit, "cpu cuda"),
}


def _reference(program: Program) -> list[float]:
    """The losses in float64, by NumPy alone."""
    parameters, x, labels = program.numbers()
    moments = [(np.zeros_like(p), np.zeros_like(p)) for p in parameters]
    losses = []
    for count in range(1, CHECKED + 1):
        loss, gradients = _by_hand(parameters, x, labels)
        losses.append(loss)
        for p, g, (m, v) in zip(parameters, gradients, moments, strict=True):
            m += 0.1 * (g - m)
            v += 0.001 * (g * g - v)
            scale = np.sqrt(v / (1 - 0.999**count)) + 1e-8
            p -= RATE * m / (1 - 0.9**count) / scale
    return losses


def _by_hand(parameters: list[np.ndarray], x: np.ndarray, labels: np.ndarray,
             ) -> tuple[float, list[np.ndarray]]:
    """The loss and its gradients, written out."""
    from math import erf, pi, sqrt

    normal = np.vectorize(lambda t: 0.5 * (1 + erf(t / sqrt(2))), otypes=[float])
    inputs, sums = [x], []
    for k in range(0, len(parameters), 2):
        sums.append(inputs[-1] @ parameters[k] + parameters[k + 1])
        inputs.append(sums[-1] * normal(sums[-1]) if k + 2 < len(parameters)
                      else sums[-1])
    scores = inputs[-1] - inputs[-1].max(1, keepdims=True)
    scores -= np.log(np.exp(scores).sum(1, keepdims=True))
    rows = np.arange(len(labels))
    back = np.exp(scores)
    back[rows, labels] -= 1
    back /= len(labels)
    gradients: list[np.ndarray] = []
    for k in reversed(range(len(sums))):
        if k + 1 < len(sums):
            s = sums[k]
            back = back * (normal(s) + s * np.exp(-s * s / 2) / sqrt(2 * pi))
        gradients[:0] = [inputs[k].T @ back, back.sum(0)]
        back = back @ parameters[2 * k].T
    return float(-scores[rows, labels].mean()), gradients


def _wait(device: str, loss: Any) -> float:
    if hasattr(loss, "block_until_ready"):
        loss.block_until_ready()
    elif device != "cpu":
        import torch

        torch.cuda.synchronize()
    return float(np.asarray(loss) if hasattr(loss, "block_until_ready")
                 else loss.float().cpu() if hasattr(loss, "cpu")
                 else np.asarray(nf.to_numpy(loss), np.float64))


def _checked(program: Program, device: str, expected: Sequence[float],
             ) -> Iterator[tuple[str, Step]]:
    """The ways that are there and right."""
    bound = 0.03 if program.dtype == "bfloat16" else 1e-4
    for name, (make, where) in WAYS.items():
        if device not in where.split():
            continue
        try:
            start = time.perf_counter()
            step = make(program, device)
            losses = [_wait(device, step()) for _ in range(CHECKED)]
        except ImportError as error:
            print(f"  {name}: not there ({error})")
            continue
        first = time.perf_counter() - start
        if not np.allclose(losses, expected, rtol=bound, atol=bound):
            print(f"  {name}: WRONG, {losses}, expected {list(expected)}")
            continue
        print(f"  {name}: the first {CHECKED} steps took {first:.2f} s")
        yield name, step


def _measure(program: Program, device: str) -> dict[str, float]:
    """Microseconds a step: the median of the turns."""
    steps = dict(_checked(program, device, _reference(program)))
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(TURNS):
        for name, step in steps.items():
            times[name].append(_turn(step, device))
    return {name: statistics.median(found) * 1e6 for name, found in times.items()}


def _turn(step: Step, device: str, seconds: float = 0.15) -> float:
    """Seconds a step, of as many as take `seconds`."""
    _wait(device, step())
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        loss = step()
        count += 1
    _wait(device, loss)
    return (time.perf_counter() - start) / count


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.programs",
                                     description=__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args(argv)
    found = {}
    for program in PROGRAMS[given.device]:
        print(program.name)
        times = found[program.name] = _measure(program, given.device)
        for name, value in sorted(times.items(), key=lambda item: item[1]):
            best = times.get("torch", value) / value
            print(f"  {name:28} {value:9.1f} us   {best:5.2f} x torch eager")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
