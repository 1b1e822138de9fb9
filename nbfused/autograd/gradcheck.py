"""`gradcheck`: derivatives compared with finite differences in double precision."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arrays import to_numpy
from ..errors import DefinitionError, KernelTypeError
from ..registry.operations import OPS
from .nodes import is_floating
from .tape import PLAIN, backward
from .transforms.gradients import jvp, vjp
from .variable import Variable

__all__ = ["GradcheckError", "gradcheck", "gradients"]

Place = Callable[[np.ndarray], Any]


def identity(x: np.ndarray) -> Any:
    """The argument unchanged: the default way to place arguments for a check."""
    return x


class GradcheckError(AssertionError):
    """A derivative disagrees with finite differences.

    Attributes
    ----------
    argument : int
        Position of the argument that was differentiated by.
    index : tuple of int
        Where: in the argument (reverse mode) or in the output (forward mode).
    analytic, numeric : float or complex
        What the library gives, and finite differences.
    mode : str
        ``"reverse"`` or ``"forward"``.
    """

    def __init__(self, message: str, argument: int, index: tuple[int, ...],
                 analytic: complex, numeric: complex, mode: str) -> None:
        super().__init__(message)
        self.argument: int = argument
        self.index: tuple[int, ...] = index
        self.mode: str = mode
        self.analytic: complex = analytic
        self.numeric: complex = numeric


def _host(x: Any) -> np.ndarray:
    return np.asarray(to_numpy(x.data if isinstance(x, Variable) else x))


def gradients(function: Callable[..., Any], args: Sequence[Any], *,
              cotangent: np.ndarray | None = None, output: int = 0,
              place: Place = identity) -> list[np.ndarray | None]:
    """Cotangents of the floating arguments, computed by the tape.

    Parameters
    ----------
    function : callable
        Takes Variables and other arguments as `args` has them.
    args : sequence
        Floating NumPy arrays and scalars are differentiated by; the rest is passed on.
    cotangent : array, optional
        Of the output; ones by default.
    output : int
        Which of several outputs.
    place : callable
        Moves a NumPy array to the device.
    """
    inputs = [_on_device(a, place, requires_grad=True) for a in args]
    result = _all(function(*inputs))[output]
    if cotangent is None:
        cotangent = np.ones(result.shape, result.dtype)
    if isinstance(result, Variable) and result.requires_grad:
        backward(result, place(cotangent.astype(result.dtype)), PLAIN, False)
    return [None if not isinstance(x, Variable) else
            np.zeros(x.shape, x.dtype) if x.grad is None else _host(x.grad)
            for x in inputs]


@dataclass(frozen=True)
class _Constant:
    """An array that is held constant in a gradient check."""

    value: np.ndarray


def _is_active(x: Any) -> bool:
    return isinstance(x, (np.ndarray, np.generic)) and is_floating(x.dtype)


def _on_device(x: Any, place: Place, requires_grad: bool) -> Any:
    """An argument as the checked function takes it."""
    if _is_active(x):
        return Variable(place(x), requires_grad=requires_grad)
    x = x.value if isinstance(x, _Constant) else x
    return place(x) if isinstance(x, np.ndarray) else x


def _all(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def gradcheck(function: Callable[..., Any], args: Sequence[Any], *,
              reference: Callable[..., Any] | None = None, eps: float = 1e-6,
              tolerance: float = 1e-6, seed: int = 0, order: int = 1,
              modes: Sequence[str] = ("reverse",), samples: int | None = None,
              argnums: Sequence[int] | None = None,
              place: Place = identity) -> None:
    """Compare derivatives with central differences.

    Parameters
    ----------
    function : callable
        Of Variables: an op, an ``@nf.elementwise`` object, a `custom_vjp`, a function
        that calls them.  All of its floating outputs are checked.
    args : sequence
        float64 and complex128 NumPy arrays, and NumPy's scalars, are differentiated by;
        the rest is passed on.  Complex ones are moved both ways: along the real and
        along the imaginary axis.
    reference : callable, optional
        What is differenced, on NumPy arrays; `function` itself by default.
    eps : float
        Step of the differences.
    tolerance : float
        Of the difference, relative to the largest derivative and to 1.
    seed : int
        Of the random cotangents, directions and weights.
    order : int
        2 checks the derivative of a weighted sum of the gradients too, and so on.
    modes : sequence of {"reverse", "forward"}
        ``"reverse"``: the tape, for a random cotangent, at each element of each
        argument.  ``"forward"``: `nbfused.jvp`, along a random direction of each
        argument, at each element of the outputs.
    samples : int, optional
        Check at most so many elements of each argument, chosen at random.
    argnums : sequence of int, optional
        Which of the floating arrays to differentiate by; default: all.
    place : callable
        Moves a NumPy array to the device.

    Raises
    ------
    GradcheckError
        Names the argument, the index and both values.
    KernelTypeError
        An array of another floating dtype than float64 and complex128: too coarse for
        differences; or nothing to differentiate by.
    DefinitionError
        An option that is none.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> x = np.array([1.0, 2.0, 3.0])
    >>> nf.testing.gradcheck(nf.ops.square, [x], order=2, modes=("reverse", "forward"))
    """
    _check_functions(function, reference, place)
    _check_options(args, argnums, order, modes)
    _check_numbers(eps, tolerance, samples, seed)
    if argnums is not None:
        args = [_Constant(x) if _is_active(x) and k not in argnums else x
                for k, x in enumerate(args)]
    check = _Check(function, args, reference or function, eps, tolerance,
                   np.random.default_rng(seed), samples, place, reference is None)
    if "reverse" in modes:
        check.reverse()
    if "forward" in modes:
        check.forward()
    if order > 1:
        gradcheck(_gradient_sum(check), args, eps=1e-5, modes=modes, seed=seed,
                  tolerance=max(tolerance, 1e-5), samples=samples, place=place,
                  order=order - 1)


def _check_functions(function: Any, reference: Any, place: Any) -> None:
    for name, given in (("function", function), ("reference", reference or function),
                        ("place", place)):
        if not callable(given):
            raise KernelTypeError(f"gradcheck: '{name}' must be callable, got "
                                  f"{given!r}")


def _check_options(args: Any, argnums: Any, order: Any, modes: Any) -> None:
    if not isinstance(args, (tuple, list)):
        raise KernelTypeError("gradcheck: 'args' must be a list of the arguments, got "
                              f"{type(args).__name__}; write [x]")
    if not isinstance(order, (int, np.integer)) or order < 1:
        raise DefinitionError("gradcheck: 'order' must be an integer of 1 or more, got "
                              f"{order!r}")
    if not isinstance(modes, (tuple, list, set)) or not modes or not all(
            mode in ("reverse", "forward") for mode in modes):
        raise DefinitionError("gradcheck: 'modes' must be a tuple of 'reverse' and "
                              f"'forward', got {modes!r}")
    _check_arrays(args, argnums)


def _check_arrays(args: Sequence[Any], argnums: Any) -> None:
    for k, x in enumerate(args):
        if _is_active(x) and x.dtype not in (np.float64, np.complex128):
            raise KernelTypeError(
                f"gradcheck: argument {k} has dtype {x.dtype}, too coarse for finite "
                "differences; expected float64 or complex128")
    chosen = range(len(args)) if argnums is None else argnums
    if not isinstance(chosen, (tuple, list, range)) or not all(
            k in range(len(args)) for k in chosen):
        raise DefinitionError("gradcheck: 'argnums' must be a list of positions from 0 "
                              f"to {len(args) - 1}, got {argnums!r}")
    if not any(_is_active(args[k]) for k in chosen):
        raise KernelTypeError("gradcheck: there is nothing to differentiate by; pass a "
                              "NumPy array or scalar of float64 or complex128 in "
                              "'args'")


def _check_numbers(eps: Any, tolerance: Any, samples: Any, seed: Any) -> None:
    for name, value in (("eps", eps), ("tolerance", tolerance)):
        if not isinstance(value, (int, float, np.floating)) or not 0 < value < np.inf:
            raise DefinitionError(f"gradcheck: '{name}' must be a number above 0, got "
                                  f"{value!r}")
    if samples is not None and (not isinstance(samples, (int, np.integer))
                                or samples < 1):
        raise DefinitionError("gradcheck: 'samples' must be an integer of 1 or more, "
                              f"or None for all elements, got {samples!r}")
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise DefinitionError("gradcheck: 'seed' must be an integer of 0 or more, got "
                              f"{seed!r}")


@dataclass
class _Check:
    """The comparison of one function's derivatives at one point."""

    function: Callable[..., Any]
    args: Sequence[Any]
    reference: Callable[..., Any]
    eps: float
    tolerance: float
    rng: np.random.Generator
    samples: int | None
    place: Place
    placed: bool  # whether the reference takes what `function` does
    cotangents: list[np.ndarray | None] = field(init=False)

    def __post_init__(self) -> None:
        self.cotangents = [
            _weights(self.rng, y) if is_floating(y.dtype) else None
            for y in self.values(*self.args)]

    def values(self, *args: Any) -> list[np.ndarray]:
        """The outputs of the reference, on the host."""
        given = [_on_device(x, self.place, requires_grad=False) if self.placed else
                 x.value if isinstance(x, _Constant) else x for x in args]
        return [_host(y) for y in _all(self.reference(*given))]

    def active(self) -> list[int]:
        """Positions of the arguments that are differentiated by."""
        return [k for k, x in enumerate(self.args) if _is_active(x)]

    def moved(self, position: int, change: np.ndarray) -> list[Any]:
        """The arguments with `change` added to one of them."""
        return [x + change if k == position else x for k, x in enumerate(self.args)]

    def reverse(self) -> None:
        """Compare the gradient of a weighted sum of the outputs."""
        total = {k: np.zeros_like(self.args[k]) for k in self.active()}
        for output, cotangent in enumerate(self.cotangents):
            if cotangent is not None:
                found = gradients(self.function, self.args, cotangent=cotangent,
                                  output=output, place=self.place)
                for k in total:
                    total[k] += found[k]
        for k, gradient in total.items():
            self._compare_gradient(k, gradient)

    def _compare_gradient(self, position: int, gradient: np.ndarray) -> None:
        scale = max(1.0, float(np.abs(gradient).max(initial=0.0)))
        indices = list(np.ndindex(gradient.shape))
        if self.samples is not None and len(indices) > self.samples:
            chosen = self.rng.choice(len(indices), self.samples, replace=False)
            indices = [indices[k] for k in chosen]
        for index in indices:
            numeric: complex = self._slope(position, index, 1.0)
            if gradient.dtype.kind == "c":
                numeric -= 1j * self._slope(position, index, 1j)
            self._same(gradient[index].item(), numeric, scale, position, index,
                       "reverse")

    def _slope(self, position: int, index: tuple[int, ...], axis: complex) -> float:
        """The derivative of the loss as an element moves along the real axis, or 1j."""
        step = np.zeros_like(self.args[position])
        step[index] = self.eps * axis if step.dtype.kind == "c" else self.eps
        return (self._loss(position, step)
                - self._loss(position, -step)) / (2 * self.eps)

    def _loss(self, position: int, step: np.ndarray) -> float:
        values = self.values(*self.moved(position, step))
        return float(sum(np.sum(y * c).real for y, c in
                         zip(values, self.cotangents, strict=True) if c is not None))

    def forward(self) -> None:
        """Compare the derivative of each output along a direction."""
        for k in self.active():
            direction = _drawn(self.args[k], self.rng.standard_normal)
            _, tangents = jvp(self._partial(k), [self.place(self.args[k])],
                              [self.place(direction)])
            step = self.eps * direction
            sides = [self.values(*self.moved(k, s)) for s in (step, -step)]
            for tangent, high, low, cotangent in zip(
                    _all(tangents), *sides, self.cotangents, strict=True):
                if cotangent is not None:
                    self._compare_tangent(k, _host(tangent),
                                          (high - low) / (2 * self.eps))

    def _partial(self, position: int) -> Callable[[Any], Any]:
        def partial(x: Any) -> Any:
            given = [_on_device(a, self.place, requires_grad=False) for a in self.args]
            given[position] = x
            return self.function(*given)

        return partial

    def _compare_tangent(self, position: int, tangent: np.ndarray,
                         expected: np.ndarray) -> None:
        scale = max(1.0, float(np.abs(tangent).max(initial=0.0)))
        for index in np.ndindex(tangent.shape):
            self._same(tangent[index].item(), expected[index].item(), scale, position,
                       index, "forward")

    def _same(self, analytic: complex, numeric: complex, scale: float, position: int,
              index: tuple[int, ...], mode: str) -> None:
        if abs(numeric - analytic) <= self.tolerance * scale:
            return
        where = "the tape gives" if mode == "reverse" else \
            "in the output: forward mode gives"
        raise GradcheckError(
            f"{_name(self.function)}: derivative by argument {position} at {index}"
            f"{_parameter(self.function, position)}: {where} {analytic!r}, finite "
            f"differences {numeric!r}", position, index, analytic, numeric, mode)


def _drawn(like: np.ndarray, draw: Callable[[tuple[int, ...]], np.ndarray],
           ) -> np.ndarray:
    """Random numbers of the shape and kind of `like`: both parts of complex ones."""
    found = draw(like.shape)
    return found + 1j * draw(like.shape) if like.dtype.kind == "c" else found


def _weights(rng: np.random.Generator, like: np.ndarray) -> np.ndarray:
    """Random weights, none of them small."""
    return _drawn(like, lambda shape: rng.uniform(0.5, 1.5, shape))


def _name(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    owner = getattr(function, "__self__", None)  # of a Function's apply
    return f"{owner.__name__}.{name}" if isinstance(owner, type) else name


def _parameter(function: Callable[..., Any], position: int) -> str:
    """The argument's name, if the function's signature has one."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return ""
    if position < len(parameters) and parameters[position].kind in (
            inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD):
        return f" ({parameters[position].name!r})"
    return ""


def _gradient_sum(check: _Check) -> Callable[..., Any]:
    """A weighted sum of the gradients, as a function of Variables."""
    weights = {k: _weights(check.rng, check.args[k]) for k in check.active()}
    floating = [k for k, c in enumerate(check.cotangents) if c is not None]
    cotangents = [check.place(c) for c in check.cotangents if c is not None]

    def total(*inputs: Any) -> Any:
        def partial(*chosen: Any) -> Any:
            given = list(inputs)
            for k, c in zip(weights, chosen, strict=True):
                given[k] = c
            results = _all(check.function(*given))
            return tuple(results[k] for k in floating)

        _, pull = vjp(partial, *(inputs[k] for k in weights))
        grads = pull(*map(Variable, cotangents))
        result: Any = 0.0
        for weight, g in zip(weights.values(), grads, strict=True):
            result = OPS["sum"](OPS["multiply"](g, check.place(weight))) + result
        return result

    total.__name__ = f"the gradient of {_name(check.function)}"
    return total
