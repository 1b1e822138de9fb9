"""How many Python functions one recorded operation calls, both ways.

A small program's time is that of its calls, and their number is the same in each run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops

RNG = np.random.default_rng(3)
LABELS, ROW = RNG.integers(0, 8, 16), np.ones(32, np.float32)


@nf.elementwise
def mish(x):
    return x * nf.tanh(nf.log1p(nf.exp(x)))

#: An operation of each family, shapes of its arguments, most calls by Variables and by
#: PyTorch's tape, 18 of which are PyTorch's own.  A product with bias launches four
#: kernels, none of them by functions of Python.
FAMILIES: dict[str, tuple[Callable[..., Any], Any, int, int]] = {
    "map": (ops.swish, ((16, 32),), 14, 34),
    "map with a number": (lambda x: ops.multiply(x, 2.0), ((16, 32),), 14, 32),
    "map with an integer": (lambda x: ops.multiply(x, 2), ((16, 32),), 14, 32),
    "map of two": (ops.multiply, ((16, 32), (16, 32)), 16, 34),
    "reduction": (lambda x: ops.sum(x, axis=1), ((16, 32),), 26, 38),
    "reduction to one": (ops.sum, ((16, 32),), 24, 33),
    "row": (ops.softmax, ((16, 32),), 22, 33),
    "product": (ops.matmul, ((16, 32), (32, 8)), 20, 34),
    "product with bias": (ops.linear, ((16, 32), (32, 8), (8,)), 20, 34),
    "labels": (lambda x: ops.cross_entropy(x, LABELS, reduction="none"), ((16, 8),),
               34, 57),
    "a custom function": (mish, ((16, 32),), 14, 34),
}


def count(call: Callable[[], Any]) -> int:
    """The number of Python functions that a call calls."""
    found, before = 0, sys.getprofile()

    def hook(frame: Any, event: str, _: Any) -> None:
        nonlocal found
        found += event == "call" and frame.f_code.co_filename != __file__

    sys.setprofile(hook)
    try:
        call()
    finally:
        sys.setprofile(before)
    return found


def both_ways(function: Callable[..., Any], leaves: list[Any], ones: Any) -> int:
    def step() -> None:
        function(*leaves).backward(ones)

    for _ in range(4):  # plans, kernels and direct calls are made
        step()
        for leaf in leaves:
            leaf.grad = None
    return count(step)


def arrays(shapes):
    return [RNG.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("family", FAMILIES)
def test_calls_by_variables(family):
    function, shapes, most, _ = FAMILIES[family]
    leaves = [nf.Variable(a, requires_grad=True) for a in arrays(shapes)]
    assert both_ways(function, leaves, np.ones_like(function(*leaves).data)) <= most


@pytest.mark.parametrize("family", FAMILIES)
def test_calls_through_the_tape_of_pytorch(family):
    torch = pytest.importorskip("torch")
    function, shapes, _, most = FAMILIES[family]
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        most += 30  # launches by Python: PyTorch before 2.10
    if family == "labels":
        labels = torch.tensor(LABELS)
        function = lambda x: ops.cross_entropy(x, labels, reduction="none")  # noqa: E731
    leaves = [torch.tensor(a, requires_grad=True) for a in arrays(shapes)]
    assert both_ways(function, leaves, torch.ones_like(function(*leaves))) <= most


@pytest.mark.parametrize("view", ["reshape", "transpose", "expand_dims", "slice",
                                  "steps"])
def test_a_view_between_two_maps(view):
    views = {"reshape": lambda x: ops.reshape(x, (32, 16)), "transpose": ops.transpose,
             "expand_dims": lambda x: ops.expand_dims(x, 1), "slice": lambda x: x[3:9],
             "steps": lambda x: x[::2, 1::3]}
    (x,) = [nf.Variable(a, requires_grad=True) for a in arrays([(16, 32)])]

    def bare(x: Any) -> Any:
        return ops.swish(ops.exp(x))

    def viewed(x: Any) -> Any:
        return ops.swish(views[view](ops.exp(x)))

    without = both_ways(bare, [x], np.ones_like(bare(x).data))
    with_view = both_ways(viewed, [x], np.ones_like(viewed(x).data))
    assert with_view - without <= 40


@pytest.mark.parametrize(("function", "most"), [
    (ops.sum, 60), (lambda x: ops.mean(x*x), 80), (lambda x: x + ROW, 25),
    (lambda x: ops.concatenate([x, x*2], axis=1), 75), (ops.transpose, 45),
    (lambda x: ops.clip(x, -1, 1), 40), (lambda x: ops.where(x.data > 0, x, 0), 25),
    (lambda x: x**3, 40), (lambda x: ops.take(x, nf.Variable(LABELS)), 45)], ids=[
        "loss", "mean of squares", "beside an array", "concatenate", "transpose",
        "clip", "where", "cube", "take by a Variable"])
def test_calls_of_small_programs(function, most):
    """As they are written: integers, no cotangent for a loss."""
    (x,) = [nf.Variable(a, requires_grad=True) for a in arrays([(16, 32)])]

    def step() -> None:
        y = function(x)
        y.backward(None if y.shape == () else cotangent)

    cotangent = np.ones(function(x).shape, np.float32)
    for _ in range(4):
        step()
        x.grad = None
    assert count(step) <= most


def test_calls_are_as_many_at_each_step():
    x = nf.Variable(arrays([(16, 32)])[0], requires_grad=True)

    def chain(length: int) -> int:
        def step() -> None:
            y = x
            for _ in range(length):
                y = ops.swish(y)
            y.backward(ones)

        for _ in range(4):
            x.grad = None
            step()
        x.grad = None
        return count(step)

    ones = np.ones_like(x.data)
    one, two, four = chain(1), chain(2), chain(4)
    assert four - two == 2 * (two - one)
