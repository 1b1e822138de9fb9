"""Compares derivatives: of the first order with differences of NumPy's run, of the
second with differences of the first, and each way of taking them with the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import nbfused as nf
from nbfused.errors import TapeError
from tests.fuzz.oracles import ORACLES
from tests.fuzz.program import Program
from tests.fuzz.values import Outcome
from tests.fuzz.ways import WAYS, quietly, to_numpy

__all__ = ["check_derivatives"]

_STEPS = (1e-4, 2e-5)
Arrays = tuple[np.ndarray, ...]


@dataclass
class Problem:
    """A program as a differentiable function of some of its arguments.

    Attributes
    ----------
    wrt
        Positions of the arguments that are differentiated by.
    kept
        Positions of the results that have a cotangent.
    """

    program: Program
    wrt: list[int]
    kept: list[int]
    cotangents: Arrays
    directions: Arrays
    along: Arrays
    numpy: Callable[..., Any] = field(init=False)

    def __post_init__(self) -> None:
        self.numpy = self.program.function(ops=ORACLES)

    def of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The kept results of `function`, from the arguments differentiated by."""
        def call(*moving: Any) -> tuple[Any, ...]:
            given = self.program.values()
            for k, x in zip(self.wrt, moving, strict=True):
                given[k] = x
            found = function(*given)
            return tuple(found[k] for k in self.kept)

        return call

    def point(self) -> list[Any]:
        """The arguments that are differentiated by."""
        given = self.program.values()
        return [given[k] for k in self.wrt]

    def loss(self, moving: Sequence[Any]) -> float:
        """NumPy's results, weighted by the cotangents."""
        found = self.of(self.numpy)(*moving)
        return sum(float(np.sum(r * c)) for r, c in zip(found, self.cotangents,
                                                        strict=True))


def problem(program: Program, python_numbers: bool = True) -> Problem | None:
    """The derivatives that a program has, by such arguments; None if it has none."""
    given = program.values()
    wrt = [k for k, x in enumerate(given) if np.asarray(x).dtype.kind == "f"
           and (python_numbers or hasattr(x, "dtype"))]
    function = program.function(ops=ORACLES)
    results = function(*program.values())
    kept = [k for k, r in enumerate(results) if isinstance(r, (np.ndarray, np.floating))
            and r.dtype.kind == "f"]
    if not wrt or not kept:
        return None
    rng = np.random.default_rng(len(program.text))
    like = [np.asarray(given[k]) for k in wrt]
    draw = [tuple(np.asarray(rng.uniform(-1, 1, x.shape)).astype(x.dtype) for x in xs)
            for xs in ([results[k] for k in kept], like, like)]
    return Problem(program, wrt, kept, *draw)


def check_derivatives(program: Program, orders: int, differences: bool,
                      outcome: Outcome) -> None:
    """Compare derivatives up to an order; `differences` too, in float64."""
    with quietly():
        # Python's numbers would become float64 beside what is narrower.
        p = problem(program, python_numbers=differences)
        if p is None:
            outcome.counts["nothing to differentiate"] += 1
            return
        first = _first(p, differences, outcome)
        if orders > 1 and not outcome.wrong and first:
            _second(p, outcome)


def _expected_error(error: Exception, program: Program, way: str) -> bool:
    """In-place changes of what the tape follows are refused by its own error."""
    writes = {"in-place", "in-place-bits", "out", "store"} & program.features
    return (bool(writes) and isinstance(error, TapeError)) or \
        WAYS[way].refuses_it(program, error)


def _attempt(call: Callable[[], Any], what: str, way: str, program: Program,
             outcome: Outcome) -> Any:
    """The result, or None after an error that is noted, or counted if expected."""
    try:
        found = call()
    except Exception as error:
        if _expected_error(error, program, way):
            outcome.counts[f"{what}, refused"] += 1
        else:
            outcome.note(what, type(error).__name__, str(error))
        return None
    outcome.counts[what] += 1
    return found


def _first(p: Problem, differences: bool, outcome: Outcome) -> bool:
    found: dict[str, Any] = {}
    for way in ("eager", "fused"):
        function = p.of(WAYS[way].made(p.program))
        found[f"vjp {way}"] = _attempt(lambda f=function: _pulled(p, f), f"vjp {way}",
                                       way, p.program, outcome)
        if differences:
            pushed = _attempt(lambda f=function: _pushed(p, f), f"jvp {way}", way,
                              p.program, outcome)
            _directional(p, found[f"vjp {way}"], pushed, f"jvp {way}", outcome)
        found[f"backward {way}"] = _attempt(
            lambda w=way: _backward(p, WAYS[w].made(p.program)), f"backward {way}",
            way, p.program, outcome)
    known = [(name, g) for name, g in found.items() if g is not None]
    for name, g in known:
        _shapes(p, name, g, outcome)
    if not known or outcome.wrong:
        return bool(known)
    for name, g in known[1:]:
        _same(known[0], (name, g), outcome)
    if differences:
        _against(known[0][0], known[0][1], p.directions, [
            _difference(p, p.loss, k) for k in range(len(p.wrt))], outcome)
    return True


def _pulled(p: Problem, function: Callable[..., Any]) -> Arrays:
    _, pull = nf.vjp(function, *p.point())
    return tuple(pull(*p.cotangents))


def _pushed(p: Problem, function: Callable[..., Any]) -> float:
    _, tangents = nf.jvp(function, p.point(), p.directions)
    return sum(float(np.sum(to_numpy(t) * c)) for t, c in zip(tangents, p.cotangents,
                                                              strict=True))


def _backward(p: Problem, function: Callable[..., Any]) -> Arrays:
    leaves = [nf.Variable(x, requires_grad=True) for x in p.point()]
    found = p.of(function)(*leaves)
    terms = [(r * c).sum() for r, c in zip(found, p.cotangents, strict=True)
             if isinstance(r, nf.Variable) and r.requires_grad]
    for k, term in enumerate(terms):
        term.backward(retain_graph=k < len(terms) - 1)
    return tuple(np.zeros(v.shape, v.dtype) if v.grad is None else v.grad
                 for v in leaves)


def _directional(p: Problem, grads: Arrays | None, pushed: float | None, name: str,
                 outcome: Outcome) -> None:
    if grads is None or pushed is None:
        return
    terms = [float(np.sum(g * d)) for g, d in zip(grads, p.directions, strict=True)]
    if not np.isclose(pushed, sum(terms), rtol=1e-8,
                      atol=1e-9 * (1 + sum(map(_size, grads)))):
        outcome.note(name, "value", f"{pushed}, where the gradient gives {sum(terms)}")


def _size(g: np.ndarray) -> float:
    return float(np.sum(np.abs(g)))


def _shapes(p: Problem, name: str, grads: Arrays, outcome: Outcome) -> None:
    for k, (g, x) in enumerate(zip(grads, p.point(), strict=True)):
        x = np.asarray(x)
        if (np.shape(g), g.dtype) != (x.shape, x.dtype):
            outcome.note(name, "gradient's type", f"{k} is {g.dtype} {np.shape(g)}, "
                         f"not {x.dtype} {x.shape}")


def _same(one: tuple[str, Arrays], other: tuple[str, Arrays], outcome: Outcome) -> None:
    for k, (g, h) in enumerate(zip(one[1], other[1], strict=True)):
        eps = 512 * max(float(np.finfo(x.dtype).eps) for x in (*one[1], *other[1]))
        eps = max(eps, 1e-7)  # what is added up may be far larger than its sum
        scale = 1 + max(float(np.max(np.abs(x), initial=0)) for x in one[1])
        if not np.allclose(g, h, rtol=eps, atol=eps * scale):
            outcome.note(other[0], "value", f"gradient {k} is\n{h!r}, by {one[0]}\n"
                         f"{g!r}")


def _difference(p: Problem, function: Callable[[Sequence[Any]], float],
                k: int) -> float | None:
    """The central difference along a direction; None near a kink."""
    found = []
    for step in _STEPS:
        ends = []
        for sign in (1, -1):
            moving = p.point()
            moving[k] += sign * step * p.directions[k]  # in the same layout
            ends.append(function(moving))
        found.append((ends[0] - ends[1]) / (2 * step))
    wide, narrow = found
    smooth = np.isfinite(narrow) and np.isclose(wide, narrow, rtol=1e-4, atol=1e-5)
    return (25 * narrow - wide) / 24 if smooth else None


def _against(name: str, grads: Arrays, directions: Arrays,
             slopes: Sequence[float | None], outcome: Outcome) -> None:
    for k, (g, d, slope) in enumerate(zip(grads, directions, slopes, strict=True)):
        if slope is None:
            outcome.counts["near a kink"] += 1
            continue
        got = float(np.sum(g * d))
        if not np.isclose(got, slope, rtol=1e-5, atol=1e-6 * (1 + _size(g))):
            outcome.note(name, "difference", f"along argument {k}: {got}, by "
                         f"differences {slope}")
        outcome.counts["differences"] += 1


def _second(p: Problem, outcome: Outcome) -> None:
    found: dict[str, Any] = {}
    gradients = {}
    for way in ("eager", "fused"):
        function = p.of(WAYS[way].made(p.program))
        gradients[way] = _gradient_of(p, function)
        found[f"vjp of vjp {way}"] = _attempt(
            lambda g=gradients[way]: _pulled_again(p, g), f"vjp of vjp {way}", way,
            p.program, outcome)
        pushed = _attempt(
            lambda g=gradients[way]: _pushed_again(p, g), f"jvp of vjp {way}", way,
            p.program, outcome)
        _directional(p, found[f"vjp of vjp {way}"], pushed, f"jvp of vjp {way}",
                     outcome)
    known = [(name, g) for name, g in found.items() if g is not None]
    if not known or outcome.wrong:
        return
    for name, h in known:
        _shapes(p, name, h, outcome)
    for other in known[1:]:
        _same(known[0], other, outcome)
    gradient = gradients[known[0][0].split()[-1]]

    def slope(moving: Sequence[Any]) -> float:
        return sum(float(np.sum(np.asarray(g) * v)) for g, v in zip(
            gradient(*moving), p.along, strict=True))

    _against(known[0][0], known[0][1], p.directions,
             [_difference(p, slope, k) for k in range(len(p.wrt))], outcome)


def _gradient_of(p: Problem, function: Callable[..., Any]) -> Callable[..., Any]:
    def gradient(*moving: Any) -> tuple[Any, ...]:
        return nf.vjp(function, *moving)[1](*p.cotangents)

    return gradient


def _pulled_again(p: Problem, gradient: Callable[..., Any]) -> Arrays:
    return tuple(nf.vjp(gradient, *p.point())[1](*p.along))


def _pushed_again(p: Problem, gradient: Callable[..., Any]) -> float:
    _, tangents = nf.jvp(gradient, p.point(), p.directions)
    return sum(float(np.sum(to_numpy(t) * v)) for t, v in zip(tangents, p.along,
                                                              strict=True))
