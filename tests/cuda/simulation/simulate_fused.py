"""Fused functions on Numba's CUDA simulator: what the kernels' text computes.

``python -m tests.cuda.simulation.simulate_fused [name ...]``, all if none is named.
"""

from __future__ import annotations

import sys
import warnings
from functools import partial
from unittest.mock import patch

import numpy as np

import nbfused as nf
from nbfused.backend import NumberOf
from nbfused.cuda.graphs import sequence as sequences
from nbfused.cuda.graphs import workspaces
from nbfused.cuda.graphs.waits import all_before, waits_of
from nbfused.cuda.runtime.notes import Address
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
    "elements": lambda x, y, s: (x * y, (x * y).sum(), x - y * s, (x * x).max()),
    "row": softmax,
    "loss": loss, "rows and maps": rows_and_maps,
    "joined": lambda x, y, s: np.stack([x * s, x + y, x * x], axis=1)[:, :, 1:],
    "rows of a table": lambda x, y, s: nf.ops.take(x, LABELS % 6, axis=0) * s + y,
    "product": lambda x, y, s: (np.maximum(x @ x.T * s, y[:6]), x @ x.T),
}


def sequence(self, calls):
    """A start of calls as a graph's nodes, one after the other.

    Small kernels are put together as in a graph.
    """
    def run(addresses, numbers, stream):
        where = simulated.SimulatedDevice()
        memory = workspaces.Workspaces(where, stream, len(addresses))
        given, waits = (*addresses, workspaces.UNKNOWN), list(waits_of(calls))
        parts = [sequences._Part(k, call, before, where, memory, (given, numbers))
                 for k, (call, before) in enumerate(zip(
                     calls, all_before(waits), strict=True))]
        LENT.append(memory.lent)
        with where.workspace(memory.lent, stream) as base:
            for some, launches in sequences._joined(parts, waits, where):
                JOINED.append(len(some))
                for one in launches:
                    values = [_value(v, (*addresses, base), numbers)
                              for v in one.values]
                    simulated._run(one.program.kernel, one.grid, one.block, values,
                                   one.shared)
        return True

    return run


def _value(v, addresses, numbers):
    if isinstance(v, NumberOf):
        return numbers[v.position]
    if isinstance(v, Address) and v.index is not None:
        return addresses[v.index] + v.offset
    return int(v) if isinstance(v, int) else v


JOINED: list[int] = []
LENT: list[int] = []


def step(parameters, moments, gradients, rate, count):
    norm = np.sqrt(sum((g * g).sum() for g in gradients))
    factor = np.minimum(1.0, 1.0 / norm)
    for p, g, (m, v) in zip(parameters, gradients, moments, strict=True):
        nf.ops.adam_step(p, g * factor, m, v, lr=rate, step=count)
    return norm


def trained(fused, count=4):
    """Parameters and moments after some steps of a plan."""
    rng = np.random.default_rng(0)
    p, g, m, v = ([rng.random(s).astype(np.float32) for s in (
        (9, 20), (20,), (6, 6), (5,), (3, 20))] for _ in range(4))
    norms = [nf.to_numpy(fused(p, list(zip(m, v, strict=True)), g, 1e-2, k + 1))
             for k in range(count)]
    return [*norms, *p, *m, *v]


def steps() -> None:
    """Clipping and Adam of a tree, its kernels side by side."""
    expected = trained(step)
    with nf.use_backend(simulated.simulate()), patch.object(
            simulated.SimulatedBackend, "sequence", sequence):
        found = trained(nf.fuse(step))
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-5, atol=1e-6)
    assert max(JOINED) >= 4, JOINED


def normed(x, y, s):
    """Gradients of two norms of rows, each summed over blocks."""
    def value(x, scale, shift):
        inner = nf.ops.layer_norm(x, scale, shift)
        return nf.ops.sum(nf.ops.layer_norm(inner * x, shift, scale) * s)

    return nf.value_and_grad(value, argnums=(0, 1, 2))(x, y, y * 0.5)


def lent() -> None:
    """Workspaces that each run is lent, which calls use one after the other."""
    x, y = X.repeat(20, axis=0), Y
    found = []
    for most in (workspaces._MOST_BYTES, 0):
        with nf.use_backend(simulated.simulate()), patch.object(
                simulated.SimulatedBackend, "sequence", sequence), patch.object(
                workspaces, "_MOST_BYTES", most):
            fused = nf.fuse(normed)
            LENT.clear()
            with patch.object(simulated, "_run"):  # until there is a plan
                fused(x, y, 0.5)
                fused(x, y, 0.5)
            assert not LENT
            value, gradients = fused(x, y, 0.5)
            found.append([value, *gradients])
            assert (max(LENT) > 0) == (most == 0), LENT
    value, gradients = normed(x, y, 0.5)
    for pair in zip(*found, [value, *gradients], strict=True):
        for f in pair[:2]:
            np.testing.assert_allclose(f, pair[2], rtol=1e-4, atol=1e-4)


def moved(x, y):
    """Slices that are stored, rolls over every axis, a stencil of a roll."""
    made = x.copy()
    made[..., 1:-1, 2:-1] = np.roll(x, 1, -1)[..., 2:, 2:-1] * x[..., :-2, 3:] + y
    around = sum(np.roll(x, by, axis) * (axis + 2) for by in (1, -3)
                 for axis in range(x.ndim))
    return made, np.where(made > 0, around, np.roll(np.roll(made, 2, 0), 1, -1))


def around(x, y):
    """Rolls beside the array itself, by fewer columns than a thread has and by more."""
    rows = [np.roll(x, by, -2) for by in (1, 0, -1)] if x.ndim > 1 else [x]
    return sum(np.roll(row, by, -1) * (by + 7 * k + 9) for k, row in enumerate(rows)
               for by in (1, -1, 0, 2, -3, 3, 4, -8, 5)) + y * x


def beside(x, y):
    """Slices, and rolls of a slice, of one array."""
    c, made = x[..., 4:-4], x * y
    made[..., 1:-1, 1:-1] += 7 * x[..., :-2, 1:-1] - 3 * x[..., 2:, :-2]
    return made, sum(k * x[..., 4 + k:x.shape[-1] - 4 + k] + (k + 9) * np.roll(
        np.roll(c, k, -1), k, -2) for k in range(-3, 4))


def windows() -> None:
    """Windows in kernels of one column a thread, and of neighbours."""
    for shape in ((9, 136), (9, 134), (3, 5, 132), (7, 1024), (3, 3, 5, 128)):
        for dtype, tolerance in (("f4", 1e-4), ("f8", 1e-12)):
            x = RNG.normal(size=shape).astype(dtype)
            for slices in ((), np.s_[..., 1:-1], np.s_[..., 4:, :]):
                for program in (around, beside):
                    expected = program(x[slices], 0.5)
                    with nf.use_backend(simulated.simulate()):
                        found = nf.fuse(program)(x[slices], 0.5)
                    for f, e in zip(found, expected, strict=True):
                        np.testing.assert_allclose(f, e, rtol=tolerance,
                                                   atol=30 * tolerance)
    for shape in ((11, 136), (9, 133), (3, 5, 132), (2, 21), (150,)):
        for dtype, tolerance in (("f4", 1e-4), ("f8", 1e-12)):
            x = RNG.normal(size=shape).astype(dtype)
            program = moved if len(shape) > 1 else (
                lambda x, y: x * np.roll(x, -5) + np.roll(x, 1) * y)
            expected = program(x, 0.5)
            with nf.use_backend(simulated.simulate()):
                found = nf.fuse(program)(x, 0.5)
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    x = RNG.normal(size=(9, 136)).astype("f4")
    for program in (framed, lambda x, y: framed(x, y) * x[:1] + x[:, :1],
                    nf.grad(lambda x, y: (x[1:-1, 1:-1] * y).sum())):
        with nf.use_backend(simulated.simulate()):
            found = nf.fuse(program)(x, 0.5)
        np.testing.assert_allclose(found, program(x, 0.5), rtol=1e-5)


def framed(x, y):
    """Nothing is read of arrays but where they are."""
    made = np.zeros_like(x)
    made[1:-1, 1:-1] = y
    return made


def check(name) -> None:
    """Compare a fused function with its own values, in two dtypes."""
    function = FUNCTIONS[name]
    for dtype, tolerance in (("f4", 1e-4), ("f2", 2e-2)):
        x, y = X.astype(dtype), Y.astype(dtype)
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


#: What a command names: functions, and whole steps as sequences of launches.
PROGRAMS = {**{name: partial(check, name) for name in FUNCTIONS},
            "steps": steps, "lent": lent, "windows": windows}


def main(names) -> None:
    warnings.simplefilter("ignore")
    for name in names or PROGRAMS:
        PROGRAMS[name]()
    print(f"{len(set(simulated.LAUNCHED))} kernels agree")


if __name__ == "__main__":
    main(sys.argv[1:])
