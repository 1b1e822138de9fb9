"""Every operation has first and second derivatives, in both modes and mixed."""

from __future__ import annotations

from functools import cache

import mpmath
import numpy as np
import pytest

from nbfused.scalar.autodiff.differentiate import jvp, vjp
from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.language.vocabulary import OPS
from nbfused.scalar.typing.types import Weak, specialize
from tests.scalar.kernels import operation
from tests.scalar.language.test_vocabulary import BINARY, PAIRS, REAL

#: What has a derivative of zero, and what is not differentiated: complex numbers.
CONSTANT = [n for n, o in OPS.items() if o.partials and not any(o.partials)]
OF_COMPLEX = {"real", "imag", "conj", "complex_from"}.union(
    o.on_complex for o in OPS.values())
#: Operands that have no smooth neighbours.
BITS = ("and", "or", "xor", "lshift", "rshift", "invert")
#: Besides those of the tables of values: an operand that is an integer or a bool.
APART = {"powi": lambda a: a**3, "select": lambda a, b: a}
FIRST = {"powi": (), "select": (True,)}
LAST = {"powi": (3,), "select": ()}
FUNCTIONS = {**{n: f for n, (f, _) in REAL.items()}, **BINARY, **APART}
MODES = ("jvp of jvp", "vjp of vjp", "jvp of vjp", "vjp of jvp")


def points(op):
    """Where the function is smooth and of order one."""
    if op in BINARY:
        return [(abs(a), b) for a, b in PAIRS]
    if op == "select":
        return [(0.4, -1.2)]
    usual = REAL[op][1] if op in REAL else [-2.0, 0.7]
    return [(a,) for a in usual if 1e-3 <= abs(a) <= 10]


@cache
def exact(op, point):
    """The gradient and the Hessian, by mpmath."""
    at = tuple(mpmath.mpf(a) for a in point)
    unit = np.eye(len(at), dtype=int)

    def slope(order):
        return float(mpmath.diff(FUNCTIONS[op], at, tuple(map(int, order))).real)

    return (np.array([slope(e) for e in unit]),
            np.array([[slope(e + d) for d in unit] for e in unit]))


class Derivatives:
    """Of one operation, by its real operands, at a point."""

    def __init__(self, op, point):
        self.function = operation(op)
        first, last = FIRST.get(op, ()), LAST.get(op, ())
        self.at = (*first, *map(np.float64, point), *last)
        self.wrt = (*(False for _ in first), *(True for _ in point),
                    *(False for _ in last))
        self.count = len(point)

    def run(self, function, *more):
        return [float(r) for r in evaluate(function, *self.at, *map(np.float64, more))]

    def gradients(self):
        """By mode."""
        forward, reverse = jvp(self.function, self.wrt), vjp(
            self.function, self.wrt, (True,))
        return {"jvp": [self.run(forward, *e)[1] for e in np.eye(self.count)],
                "vjp": self.run(reverse, 1.0)}

    def hessians(self):
        """By mode."""
        n, units = self.count, np.eye(self.count)
        forward, reverse = jvp(self.function, self.wrt), vjp(
            self.function, self.wrt, (True,))
        still = (False,)*n
        twice = jvp(forward, (*self.wrt, *still))
        back = vjp(reverse, (*self.wrt, False), (True,)*n)
        onward = jvp(reverse, (*self.wrt, False))
        mixed = vjp(forward, (*self.wrt, *still), (False, True))
        found = ([[self.run(twice, *e, *d)[3] for d in units] for e in units],
                 [self.run(back, 1.0, *e) for e in units],
                 [self.run(onward, 1.0, *e)[n:] for e in units],
                 [self.run(mixed, *e, 1.0) for e in units])
        return dict(zip(MODES, found, strict=True))


@pytest.mark.parametrize("op", FUNCTIONS)
def test_derivatives_of_two_orders_in_both_modes(op):
    for point in points(op):
        gradient, hessian = exact(op, point)
        d = Derivatives(op, point)
        for expected, ways in ((gradient, d.gradients()), (hessian, d.hessians())):
            for mode, got in ways.items():
                np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-10,
                                           err_msg=f"{mode} at {point}")


@pytest.mark.parametrize("op", FUNCTIONS)
def test_derivatives_in_float32(op):
    """They exist, and are float32."""
    d = Derivatives(op, points(op)[0])
    types = [Weak(type(a).__name__) if type(a) in (bool, int) else np.dtype("f4")
             for a in d.at]
    reverse = vjp(d.function, d.wrt, (True,))
    forward = jvp(d.function, d.wrt)
    n = d.count
    for f, more in ((reverse, 1), (forward, n),
                    (vjp(reverse, (*d.wrt, False), (True,)*n), 1 + n),
                    (jvp(forward, (*d.wrt, *(False,)*n)), 2*n)):
        typed = specialize(f, (*types, *(np.dtype("f4"),)*more))
        assert set(typed.results) == {np.dtype("f4")}


def test_every_operation_is_in_one_table():
    assert OPS.keys() - OF_COMPLEX == {*FUNCTIONS, *CONSTANT} - OF_COMPLEX


@pytest.mark.parametrize("op", [op for op in CONSTANT if op not in (*BITS, "detach")])
def test_what_has_no_derivative_does_not_move(op):
    at = np.array([0.3, 1.7, 2.6])[:OPS[op].arity]
    here, near = (evaluate(operation(op), *map(np.float64, at + step))[0]
                  for step in (0.0, 1e-9))
    assert here == near


@pytest.mark.parametrize("op", CONSTANT)
def test_constant_operations(op):
    f = operation(op)
    assert not any(OPS[op].partials)
    for d in (vjp(f, (True,)*len(f.params), (True,)), jvp(f, (True,)*len(f.params))):
        assert all(r.value == 0 for r in d.results[-1:])


SMOOTH = [("logaddexp", (0.0, 0.0)), ("logaddexp", (1.5, 1.5)),
          ("logaddexp", (-40.0, -40.0)), ("pow", (2.0, 0.0)), ("pow", (0.3, 0.0)),
          ("pow", (1.0, 0.0)), ("pow", (2.0, 1.0)), ("hypot", (0.0, 2.0)),
          ("atan2", (0.0, 2.0)), ("atan2", (2.0, 0.0)), ("softplus", (0.0,)),
          ("sigmoid", (0.0,)), ("log_sigmoid", (0.0,)), ("silu", (0.0,)),
          ("mish", (0.0,)), ("gelu_tanh", (0.0,)), ("gelu_erf", (0.0,)),
          ("digamma", (1.0,)), ("lgamma", (1.0,)), ("tanh", (0.0,)), ("powi", (0.0,)),
          ("square", (0.0,)), ("asinh", (0.0,)), ("expm1", (0.0,)), ("log1p", (0.0,)),
          ("erf", (0.0,)), ("copysign", (2.0, -1.0)), ("mul", (0.0, 0.0)),
          ("fmod", (0.5, 2.0)), ("mod", (0.5, 2.0))]


@pytest.mark.parametrize(("op", "point"), SMOOTH)
def test_no_derivative_is_cut_where_operands_tie_or_vanish(op, point):
    """A case of its own in a formula must not hide what the function does around."""
    gradient, hessian = exact(op, point)
    d = Derivatives(op, point)
    for expected, ways in ((gradient, d.gradients()), (hessian, d.hessians())):
        for mode, got in ways.items():
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9,
                                       err_msg=mode)


@pytest.mark.parametrize(("op", "point", "gradient"), [
    ("hypot", (0.0, 0.0), (0.0, 0.0)), ("atan2", (0.0, 0.0), (0.0, 0.0)),
    ("sqrt", (0.0,), (0.0,)), ("abs", (0.0,), (0.0,)), ("relu", (0.0,), (0.0,)),
    ("max", (1.0, 1.0), (0.5, 0.5)), ("min", (1.0, 1.0), (0.5, 0.5)),
    ("copysign", (0.0, 1.0), (0.0, 0.0)), ("pow", (0.0, 0.0), (0.0, 0.0)),
    ("pow", (-2.0, 0.0), (0.0, 0.0)),
    ("pow", (np.nan, 0.0), (0.0, 0.0)), ("logaddexp", (-np.inf, -np.inf), (0.5, 0.5)),
    ("logaddexp", (np.inf, np.inf), (0.5, 0.5))])
def test_conventions_hold_at_two_orders(op, point, gradient):
    """Where there is no derivative, what is said instead is a constant."""
    d = Derivatives(op, point)
    for mode, got in d.gradients().items():
        np.testing.assert_array_equal(got, gradient, err_msg=mode)
    for mode, got in d.hessians().items():
        np.testing.assert_array_equal(got, np.zeros_like(got), err_msg=mode)


@pytest.mark.parametrize("point", [(-2.0, 2.0), (0.0, 1.0), (-1.5, 3.0)])
def test_a_power_of_a_base_that_is_not_positive_is_symmetric(point):
    """By the exponent it has no derivative, nor has its derivative by the base."""
    a, b = point
    curve = b*(b - 1)*a**(b - 2) if a else 0.0
    for mode, got in Derivatives("pow", point).hessians().items():
        np.testing.assert_allclose(got, [[curve, 0.0], [0.0, 0.0]], err_msg=mode)
