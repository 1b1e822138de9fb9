"""Random training steps: gradients inside, clipping, updates in place, objects.

A step is a text that runs fused and as it is, on parameters of their own, several times
with other data and other numbers.  The gradient of its loss is compared with that of
PyTorch's autograd in float64, which runs the same text.
"""

from __future__ import annotations

import copy
import itertools
import textwrap
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

import nbfused as nf

__all__ = ["Step", "check_step", "draw_step"]

_FILES = itertools.count()
_CALLS = 6

ACTIVATIONS = ("np.tanh({h})", "np.sin({h})", "{h} * np.exp(-{h} * {h} / 8)",
               "np.sqrt({h} * {h} + 1)", "{h} / (1 + {h} * {h})", "{h}",
               "np.maximum({h}, 0.1 * {h})", "{h} - {h}.mean(1, keepdims=True)",
               "{h} / np.sqrt(({h} * {h}).sum(1, keepdims=True) + 1)")
LOSSES = ("((h - y) ** 2).mean()", "(h * h).sum() / 8 + (h * y).mean()",
          "np.sqrt(((h - y) ** 2).sum() + 1)", "np.exp(-(h * y).mean())")
CLIPS = ("", "", "gs = [np.clip(g, -0.1, 0.1) for g in gs]",
         "norm = np.sqrt(sum((g * g).sum() for g in gs))\n"
         "gs = [g * np.minimum(1.0, 0.5 / (norm + 1e-6)) for g in gs]",
         "norm = sum((g * g).sum() for g in gs)\n"
         "gs = [np.where(norm > 1.0, g / np.sqrt(norm + 1e-6), g) for g in gs]",
         "gs = [g + 0.01 * w for g, w in zip(gs, ws)]",
         "gs = [*gs]\nnf.ops.clip_by_global_norm(gs, 0.5)")
UPDATES = ("w -= rate * g", "w[...] = w - rate * g", "np.subtract(w, rate * g, out=w)",
           "m *= 0.9\nm += g\nw -= rate * m",
           "m[...] = 0.9 * m + 0.1 * g\nw -= rate * m",
           "nf.ops.adam_step(w, g, m, v, lr=rate, step=count)",
           "w *= 1 - 0.1 * rate\nw -= rate * g / (1 + count)")
#: Of all parameters at once.
TREES = ("nf.ops.adam_step(ws, [*gs], ms, vs, lr=rate, step=count, weight_decay=0.1)",
         "nf.ops.sgd_step({'w': ws}, {'w': [*gs]}, {'w': ms}, lr=rate, momentum=0.9, "
         "nesterov=True)",
         "nf.ops.adam_step(ws, tuple(gs), ms, vs, lr=rate, step=count, "
         "weight_decay=rate, decoupled=False)")
GRADIENTS = (
    "value, gs = nf.value_and_grad(loss, argnums=tuple(range(2, 2 + len(ws))))"
    "(x, y, *ws)",
    "gs = nf.grad(loss, argnums=tuple(range(2, 2 + len(ws))))(x, y, *ws)\n"
    "value = loss(x, y, *ws)",
    "leaves = [nf.Variable(w, requires_grad=True) for w in ws]\n"
    "made = loss(x, y, *leaves)\nmade.backward()\nvalue = made.detach()\n"
    "gs = [v.grad for v in leaves]",
    "value, pull = nf.vjp(lambda *ws: loss(x, y, *ws), *ws)\ngs = pull(1.0)")
EXTRAS = ("", "", "", "value = value + 0 * np.sort(gs[0].reshape(-1)).sum()",
          "value = value * 1 + np.cumsum(gs[-1].reshape(-1))[-1]",
          "value = np.concatenate([(value * 1).reshape(1), gs[0].reshape(-1)])")
OBJECTS = ("", "", "", "state.count += 1\nstate.last = gs[0] * 2",
           "state.items['value'] = value * 2\nstate.count += 1")


@dataclass(frozen=True)
class Step:
    """A training step.

    Attributes
    ----------
    loss, step
        Texts of the two functions.
    shapes
        Of the parameters.
    """

    loss: str
    step: str
    shapes: tuple[tuple[int, ...], ...]
    batch: int
    dtype: str
    outputs: int

    @property
    def text(self) -> str:
        """Both functions."""
        return f"{self.loss}\n\n{self.step}"

    def functions(self, numpy: Any = np) -> dict[str, Any]:
        """The functions; `numpy` is what they call so."""
        scope: dict[str, Any] = {"np": numpy, "nf": nf, "sum": sum}
        exec(compile(self.text, f"<step {next(_FILES)}>", "exec"), scope)
        return scope


def draw_step(seed: int) -> Step:
    """A step."""
    rng = np.random.default_rng(seed)

    def choose(items: Any) -> Any:
        return items[int(rng.integers(len(items)))]

    lines, shapes = ["h = x"], []
    width = first = int(rng.integers(1, 7))
    for k in range(int(rng.integers(1, 6))):
        kind = choose(("matrix", "matrix", "bias", "scale", "number"))
        if kind == "matrix":
            following = int(rng.integers(1, 7))
            shapes.append((width, following))
            lines.append(f"h = h @ w{k}")
            width = following
        else:
            shapes.append(() if kind == "number" else (width,))
            lines.append(f"h = h {'+' if kind == 'bias' else '*'} w{k}")
        lines.append(f"h = {choose(ACTIVATIONS).format(h='h')}")
    names = ", ".join(f"w{k}" for k in range(len(shapes)))
    loss = f"def loss(x, y, {names}):\n" + textwrap.indent(
        "\n".join([*lines, f"return {choose(LOSSES)}"]), "    ")
    update = choose(TREES) if rng.random() < 0.25 else (
        "for w, g, m, v in zip(ws, gs, ms, vs):\n" + textwrap.indent(
            choose(UPDATES), "    "))
    parts = [choose(GRADIENTS), choose(CLIPS), choose(EXTRAS), choose(OBJECTS), update,
             choose(("return value", "return value, gs[0]", "return value, ws[0]"))]
    step = "def step(ws, ms, vs, x, y, rate, count, state):\n" + textwrap.indent(
        "\n".join(filter(None, parts)), "    ")
    return Step(loss, step, ((first, width), *shapes)[1:], int(rng.integers(1, 9)),
                choose(("float64", "float64", "float32")), width)


class State:
    """What a step may change besides arrays."""

    def __init__(self) -> None:
        self.count, self.last, self.items = 0, np.zeros(2), {"value": np.zeros(())}


def _data(step: Step, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    first = next((s[0] for s in step.shapes if s), 1)
    return (rng.normal(size=(step.batch, first)).astype(step.dtype),
            rng.normal(size=(step.batch, step.outputs)).astype(step.dtype))


def check_step(seed: int) -> str:
    """What is wrong with the fused step of a seed: a text, empty if nothing is."""
    step, rng = draw_step(seed), np.random.default_rng(seed + 10**6)
    ws = [rng.normal(size=s).astype(step.dtype) for s in step.shapes]
    mine = [ws, [np.zeros_like(w) for w in ws], [np.zeros_like(w) for w in ws]]
    theirs, states = copy.deepcopy(mine), (State(), State())
    plain, fused = step.functions(), nf.fuse(step.functions()["step"])
    x, y = _data(step, rng)
    found = _gradients(step, plain["loss"], x, y, ws)
    for k in range(_CALLS):
        rate, count = float(rng.uniform(0.01, 0.1)), k + 1
        x, y = _data(step, rng)
        try:
            expected = plain["step"](*theirs, x, y, rate, count, states[1])
            got = fused(*mine, x, y, rate, count, states[0])
        except Exception as error:  # the report names it, whatever it is
            return f"call {k}: {type(error).__name__}: {error}\n{step.text}"
        found += _differences(f"call {k}: ", [got, mine, vars(states[0])],
                              [expected, theirs, vars(states[1])], step.dtype)
        if found:
            break
    traced = fused.cache_info().misses
    if not found and traced > 1 + 2 * ("state.count" in step.step):
        found.append(f"traced {traced} times")
    return "\n".join([*found, step.text]) if found else ""


def _leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return [x for key in sorted(tree) for x in _leaves(tree[key])]
    if isinstance(tree, (list, tuple)):
        return [x for item in tree for x in _leaves(item)]
    return [tree.data if isinstance(tree, nf.Variable) else tree]


def _differences(what: str, got: Any, expected: Any, dtype: str) -> list[str]:
    found, right = _leaves(got), _leaves(expected)
    if len(found) != len(right):
        return [f"{what}{len(found)} values, expected {len(right)}"]
    made = []
    eps = 4096 * np.finfo(dtype).eps
    for k, (a, b) in enumerate(zip(found, right, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            made.append(f"{what}value {k} is {a.dtype} {a.shape}, expected {b.dtype} "
                        f"{b.shape}")
        elif not np.allclose(a, b, rtol=eps, atol=eps, equal_nan=True):
            made.append(f"{what}value {k} is\n{a}\nexpected\n{b}")
    return made


def _gradients(step: Step, loss: Any, x: Any, y: Any, ws: list[Any]) -> list[str]:
    """Compare the gradients of the loss with PyTorch's."""
    try:
        import torch
    except ImportError:
        return []
    names = {n: getattr(torch, n) for n in ("tanh", "sin", "exp", "sqrt", "maximum")}
    there = step.functions(SimpleNamespace(**names))["loss"]
    leaves = [torch.tensor(w, dtype=torch.float64, requires_grad=True) for w in ws]
    there(*(torch.tensor(v, dtype=torch.float64) for v in (x, y)), *leaves).backward()
    numbers = tuple(range(2, 2 + len(ws)))
    grads = nf.grad(loss, argnums=numbers)(x, y, *ws)
    expected = [np.zeros(w.shape) if v.grad is None else v.grad.numpy()
                for v, w in zip(leaves, ws, strict=True)]
    return _differences("PyTorch's gradient: ", [*grads], [
        e.astype(step.dtype) for e in expected], step.dtype)
