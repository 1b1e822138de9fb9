"""Gradients against finite differences, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arrays import to_numpy
from ..autograd import Variable, vjp
from ..table import OPS

__all__ = ["GradcheckError", "gradcheck", "gradients"]


class GradcheckError(AssertionError):
    """A derivative disagrees with finite differences."""


def _host(x: Any) -> np.ndarray:
    return to_numpy(x.data if isinstance(x, Variable) else x)


def gradients(function: Callable[..., Any], args: Sequence[Any], *,
              cotangent: np.ndarray | None = None, output: int = 0,
              place: Callable[[np.ndarray], Any] = np.asarray,
              ) -> list[np.ndarray | None]:
    """Cotangents of the floating arguments by the tape.

    Parameters
    ----------
    function : callable
        Takes Variables and other arguments as `args` has them.
    args : sequence
        Floating NumPy arrays are differentiated by; the rest is passed on.
    cotangent : array, optional
        Of the output; ones by default.
    output : int
        Which of several outputs.
    place : callable
        Moves a NumPy array to the device.
    """
    inputs = [Variable(place(a), requires_grad=True) if _is_active(a) else
              place(a) if isinstance(a, np.ndarray) else a for a in args]
    result = function(*inputs)
    result = result[output] if isinstance(result, tuple) else result
    if cotangent is None:
        cotangent = np.ones(result.shape, result.dtype)
    if result.requires_grad:  # otherwise it depends on no argument
        result.backward(place(cotangent.astype(result.dtype)))
    return [None if not isinstance(x, Variable) else
            np.zeros(x.shape, x.dtype) if x.grad is None else _host(x.grad)
            for x in inputs]


def _is_active(x: Any) -> bool:
    return isinstance(x, np.ndarray) and (x.dtype.kind == "f" or x.dtype.name ==
                                          "bfloat16")


def gradcheck(function: Callable[..., Any], args: Sequence[Any], *,
              reference: Callable[..., Any] | None = None, eps: float = 1e-6,
              tolerance: float = 1e-6, seed: int = 0, order: int = 1,
              place: Callable[[np.ndarray], Any] = np.asarray) -> None:
    """Compare reverse-mode derivatives with central differences.

    Parameters
    ----------
    function : callable
        Of Variables; its first output is checked.
    args : sequence
        float64 NumPy arrays are differentiated by; the rest is passed on.
    reference : callable, optional
        What is differenced, on NumPy arrays; `function` itself by default.
    eps : float
        Step of the differences.
    tolerance : float
        Of the difference, relative to the largest derivative and to 1.
    seed : int
        Of the random cotangent and of the weights of order 2.
    order : {1, 2}
        2 checks the derivative of a weighted sum of the gradients too.
    place : callable
        Moves a NumPy array to the device.

    Raises
    ------
    GradcheckError
        Names the argument, the index and both values.
    """
    rng = np.random.default_rng(seed)
    plain = reference or (lambda *a: _first(function(*(
        Variable(place(x)) if _is_active(x) else
        place(x) if isinstance(x, np.ndarray) else x for x in a))))
    value = np.asarray(_host(_first(plain(*args))))
    cotangent = rng.uniform(0.5, 1.5, value.shape)
    found = gradients(function, args, cotangent=cotangent, place=place)

    def loss(*a: Any) -> float:
        return float(np.sum(np.asarray(_host(_first(plain(*a)))) * cotangent))

    for position, (arg, grad) in enumerate(zip(args, found, strict=True)):
        if grad is not None:
            _compare(loss, list(args), position, arg, grad, eps, tolerance)
    if order == 2:
        gradcheck(_gradient_sum(function, cotangent, rng, args, place), args,
                  eps=1e-5, tolerance=max(tolerance, 1e-5), place=place)


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


def _compare(loss: Callable[..., float], args: list[Any], position: int,
             arg: np.ndarray, grad: np.ndarray, eps: float, tolerance: float) -> None:
    scale = max(1.0, float(np.abs(grad).max(initial=0.0)))
    for index in np.ndindex(arg.shape):
        sides = []
        for step in (eps, -eps):
            moved = arg.copy()
            moved[index] += step
            sides.append(loss(*args[:position], moved, *args[position + 1:]))
        expected = (sides[0] - sides[1]) / (2 * eps)
        if not abs(expected - grad[index]) <= tolerance * scale:
            raise GradcheckError(
                f"derivative by argument {position} at {index}: the tape gives "
                f"{grad[index]!r}, finite differences {expected!r}")


def _gradient_sum(function: Callable[..., Any], cotangent: np.ndarray,
                  rng: np.random.Generator, args: Sequence[Any],
                  place: Callable[[np.ndarray], Any]) -> Callable[..., Any]:
    """A weighted sum of the gradients, as a function of Variables."""
    weights = {k: rng.uniform(0.5, 1.5, a.shape) for k, a in enumerate(args)
               if _is_active(a)}

    def total(*inputs: Any) -> Any:
        fresh = list(inputs)
        for k in weights:
            x = inputs[k]
            tracked = x if isinstance(x, Variable) else Variable(x, requires_grad=True)
            fresh[k] = OPS["multiply"](tracked, 1.0)

        def partial(*chosen: Any) -> Any:
            full = list(fresh)
            for k, c in zip(weights, chosen, strict=True):
                full[k] = c
            return _first(function(*full))

        _, pull = vjp(partial, *(fresh[k] for k in weights))
        grads = pull(Variable(place(cotangent)))
        result: Any = 0.0
        for weight, g in zip(weights.values(), grads, strict=True):
            result = OPS["sum"](OPS["multiply"](g, place(weight))) + result
        return result

    return total
