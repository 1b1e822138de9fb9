"""What a rule has saved is as it was, where the array is changed in place later."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import nbfused as nf

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore::nbfused.errors.NbFusedWarning")]

X = np.array([0.3, 0.7, 1.1, -0.4])


@nf.custom_vjp
def squared(x):
    return x * x


squared.defvjp(lambda x: (x * x, {"x": x}), lambda saved, g: (2 * saved["x"] * g,))


@nf.custom_jvp
def cubed(x):
    return x**3


cubed.defjvp(lambda x, dx: (x[0]**3, 3 * x[0]**2 * dx[0]))


class Quartic(nf.Function):
    """The fourth power."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        """Save the argument."""
        ctx.save_for_backward(x)
        return x**4

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        """Multiply by the derivative."""
        (x,) = ctx.saved_tensors
        return 4 * x**3 * g


RULES = {"custom_vjp": squared, "custom_jvp": cubed, "Function": Quartic.apply,
         "cumsum": np.cumsum, "cumprod": np.cumprod, "sort": np.sort,
         "fft": lambda x: abs(np.fft.fft(x)), "checkpoint": nf.checkpoint(np.sin)}


def _all(x: Any) -> None:
    x *= 3


def _part(x: Any) -> None:
    x[1:] += x[:-1]


def _chosen(x: Any) -> None:
    x[x > 1] = 0.5


@pytest.mark.parametrize("change", [_all, _part, _chosen])
@pytest.mark.parametrize("name", RULES)
def test_gradients_are_those_of_what_was_saved(name, change):
    def f(x):
        t = x * 2 + 0.1
        y = RULES[name](t)
        change(t)
        return (y * t).sum()

    def by_tape(x):
        v = nf.Variable(x, requires_grad=True)
        f(v).backward()
        return v.grad

    step = 1e-6
    expected = [(f(X + step * e) - f(X - step * e)) / (2 * step) for e in np.eye(4)]
    for gradient in (nf.grad(f), nf.fuse(nf.grad(f)), nf.fuse(by_tape)):
        assert_allclose(gradient(X), expected, rtol=1e-7, atol=1e-7)
