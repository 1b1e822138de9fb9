"""The ways in which a program is run: what makes a step of it, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import nbfused as nf

from .program import RATE, Program, rounded

__all__ = ["WAYS", "Step"]

#: Runs one step; gives the value and, of a program that does not train, the gradients.
Step = Callable[[], tuple[Any, Sequence[Any]]]


def _tensors(program: Program, device: str, dtype: str = "",
             ) -> tuple[list[Any], list[Any], Any]:
    import torch

    parameters, given, cotangent = program.numbers()
    floats = getattr(torch, dtype or program.dtype)

    def tensor(x: np.ndarray) -> Any:
        if x.dtype.kind == "f":
            x = rounded([x], program.dtype)[0]
        return torch.tensor(x, dtype=floats if x.dtype.kind == "f" else None,
                            device=device)

    return ([tensor(p) for p in parameters], [tensor(x) for x in given],
            None if cotangent is None else tensor(cotangent))


def _arrays(program: Program, device: str) -> tuple[list[Any], list[Any], Any]:
    """Arrays of NumPy on the cpu, tensors of PyTorch on a GPU."""
    if device != "cpu":
        return _tensors(program, device)
    parameters, given, cotangent = program.numbers()

    def array(x: np.ndarray) -> np.ndarray:
        return x.astype(program.dtype) if x.dtype.kind == "f" else x

    return ([array(p) for p in parameters], [array(x) for x in given],
            None if cotangent is None else array(cotangent))


def _both(ours: Any, parameters: Any, given: Any, cotangent: Any) -> Any:
    """The value and its gradients."""
    def value(*parameters: Any) -> Any:
        return ours(parameters, *given)

    if cotangent is not None:
        found, pull = nf.vjp(value, *parameters)
        return found, pull(cotangent)
    return nf.value_and_grad(value, argnums=tuple(range(len(parameters))))(*parameters)


def _train(ours: Any, parameters: Any, moments: Any, given: Any, rate: float,
           count: int) -> Any:
    """One step on arrays."""
    loss, gradients = _both(ours, parameters, given, None)
    for p, g, (m, v) in zip(parameters, gradients, moments, strict=True):
        nf.ops.adam_step(p, g, m, v, lr=rate, step=count)
    return loss


_BOTH, _TRAIN = nf.fuse(_both, kernel_name="step"), nf.fuse(_train, kernel_name="step")


def plan(program: Program, device: str) -> Step:
    """One plan by `nf.fuse`."""
    parameters, given, cotangent = _arrays(program, device)
    if not program.trains:
        return lambda: _BOTH(program.ours, parameters, given, cotangent)
    moments, count = [(p * 0, p * 0) for p in parameters], 0

    def run() -> tuple[Any, Sequence[Any]]:
        nonlocal count
        count += 1
        return _TRAIN(program.ours, parameters, moments, given, RATE, count), ()

    return run


def eager(program: Program, device: str) -> Step:
    """Variables and `backward`."""
    parameters, given, cotangent = _arrays(program, device)
    tracked = [nf.Variable(p, requires_grad=True) for p in parameters]
    moments, count = [(p * 0, p * 0) for p in parameters], 0

    def run() -> tuple[Any, Sequence[Any]]:
        nonlocal count
        count += 1
        value = program.ours(tracked, *given)
        value.backward() if cotangent is None else value.backward(cotangent)
        gradients = [p.grad for p in tracked]
        for p, (m, v) in zip(tracked, moments, strict=True):
            if program.trains:
                nf.ops.adam_step(p, p.grad, m, v, lr=RATE, step=count)
            p.grad = None
        return value.data, () if program.trains else gradients

    return run


def _torch_step(program: Program, device: str, value_of: Callable[..., Any],
                dtype: str = "", **options: Any) -> Step:
    import torch

    parameters, given, cotangent = _tensors(program, device, dtype)
    for p in parameters:
        p.requires_grad_(True)
    adam = torch.optim.Adam(parameters, lr=RATE, **({"fused": True} | options))

    def run() -> tuple[Any, Sequence[Any]]:
        adam.zero_grad(set_to_none=True)
        value = value_of(parameters, *given)
        value.backward(cotangent)
        if program.trains:
            adam.step()
            return value.detach(), ()
        return value.detach(), [p.grad for p in parameters]

    return run


def exact(program: Program, device: str) -> Step:
    """The program in float64, by PyTorch."""
    return _torch_step(program, device, program.exact, "float64", fused=False)


def torch_eager(program: Program, device: str) -> Step:
    """PyTorch, its fused attention and Adam."""
    return _torch_step(program, device, program.torch)


def torch_tape(program: Program, device: str) -> Step:
    """Our ops on tensors that PyTorch's tape records, PyTorch's Adam."""
    return _torch_step(program, device, program.ours)


def torch_compiled(program: Program, device: str) -> Step:
    """PyTorch's compiler; its fused Adam."""
    import torch

    return _torch_step(program, device, torch.compile(program.torch))


def torch_reduced(program: Program, device: str) -> Step:
    """PyTorch's compiler and its CUDA graphs."""
    import torch

    compiled = torch.compile(program.torch, mode="reduce-overhead")
    return _torch_step(program, device, compiled)


def torch_graph(program: Program, device: str) -> Step:
    """PyTorch's step captured whole as a CUDA graph."""
    import torch

    run = _torch_step(program, device, program.torch, capturable=True)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        done = [run() for _ in range(3)]
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = run()

    def replay(kept: Step = run) -> Any:  # which has the arrays that the graph reads
        if done:
            return done.pop(0)  # the steps of the warm-up
        graph.replay()
        return found

    return replay


def jax_jit(program: Program, device: str) -> Step:
    """JAX, the whole step compiled, its arguments donated."""
    import jax
    import jax.numpy as jnp

    where = jax.devices("cpu" if device == "cpu" else "gpu")[0]
    parameters, given, cotangent = program.numbers()

    def put(x: np.ndarray) -> Any:
        x = rounded([x], program.dtype)[0]
        return jax.device_put(jnp.asarray(
            x, program.dtype if x.dtype.kind == "f" else None), where)

    place, data = [put(p) for p in parameters], [put(x) for x in given]
    back = None if cotangent is None else put(cotangent)

    def both(parameters: Any, data: Any, back: Any) -> Any:
        value, pull = jax.vjp(lambda p: program.jax(p, *data), parameters)
        return value, pull(jnp.ones((), value.dtype) if back is None else back)[0]

    if not program.trains:
        fused = jax.jit(both)
        return lambda: fused(place, data, back)

    def train(state: Any, data: Any) -> Any:
        parameters, first, second, count = state
        loss, grads = both(parameters, data, None)
        count = count + 1
        first = [0.9 * m + 0.1 * g for m, g in zip(first, grads, strict=True)]
        second = [0.999 * v + 0.001 * g * g
                  for v, g in zip(second, grads, strict=True)]
        new = [p - (RATE * (m / (1 - 0.9 ** count)) / (
            jnp.sqrt(v / (1 - 0.999 ** count)) + 1e-8)).astype(p.dtype)
               for p, m, v in zip(parameters, first, second, strict=True)]
        return (new, first, second, count), loss

    step = jax.jit(train, donate_argnums=0)
    zeros = [jnp.zeros_like(p) for p in place]
    state = (place, zeros, [z.copy() for z in zeros],
             jax.device_put(jnp.float32(0), where))

    def run() -> tuple[Any, Sequence[Any]]:
        nonlocal state
        state, loss = step(state, data)
        return loss, ()

    return run


#: Name → what makes the step, and where it can be made.
WAYS: dict[str, tuple[Callable[[Program, str], Step], str]] = {
    "nbfused": (plan, "cpu cuda"), "nbfused eager": (eager, "cpu cuda"),
    "nbfused on PyTorch's tape": (torch_tape, "cpu cuda"),
    "torch": (torch_eager, "cpu cuda"), "torch.compile": (torch_compiled, "cpu cuda"),
    "torch.compile, reduce-overhead": (torch_reduced, "cuda"),
    "torch graph": (torch_graph, "cuda"), "jax": (jax_jit, "cpu cuda"),
}
