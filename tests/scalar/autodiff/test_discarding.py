"""What a result does not use must not reach its gradient, however singular it is."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import nbfused as nf
from nbfused.dispatch import execute
from nbfused.scalar.autodiff.differentiate import jvp, vjp
from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.language.names import acosh, asin, cbrt, exp, log, rsqrt, select
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.source.structure import Array
from nbfused.specs import Map
from tests.scalar.autodiff import discarding
from tests.variants import sampled

SEEDS = (0, 2, 4, 5, 9, 10, 11, 12, 13, 16)


@pytest.mark.parametrize("seed", sampled(SEEDS, *SEEDS[:5]))
def test_random_programs(seed):
    outcome = discarding.check(seed)
    assert not outcome.wrong, "\n".join(outcome.wrong)


def test_most_points_are_compared():
    """Otherwise the comparison would say little."""
    outcomes = [discarding.check(seed) for seed in SEEDS[:4]]
    assert sum(o.skipped for o in outcomes) <= 0.6*sum(o.points for o in outcomes)


def overflow(x):
    v = exp(x)
    if x > 80.0:
        v = 3.0*x
    return v


def reciprocal(x):
    v = 1.0/x
    return select(x == 0.0, 2.0*x, v)


def chosen(x):
    v, w = log(x), x**0.5
    u = v*w + x**-1 + cbrt(x)
    return u if x > 0.0 else 5.0*x


def remainder(x):
    v = x % (0.0*x)
    w = asin(2.0 + x) + acosh(x)
    return np.where(x > 2.0, v*w, -x)


def overwritten(x):
    """The value of the last iteration is not used."""
    total = v = 0.0
    for i in range(3):
        total = total + v
        v = 1.0/(x - i + 2.0)
    return total


def not_run(x):
    """A loop without iterations does not use what it captures."""
    v = rsqrt(x)
    total = 4.0*x
    for _ in range(int(x)):
        total += v
    return total


def some_iterations(x):
    """A captured value that an iteration uses under a condition."""
    v = 1.0/x
    total = x
    for i in range(3):
        if x > i:
            total = total + v*total
    return total


def twice(x):
    """The same value, discarded by two branches."""
    v = log(x)
    a = v if x > 1.0 else x
    b = v*v if x > 2.0 else 3.0*x
    return a + b


def inner(x):
    """By a condition that is computed in the branch."""
    v = 1.0/x
    y = x
    if x < 1.0:
        near = x*x > 0.5
        y = v if near else 7.0*x
    return y


def pair(x):
    a, b = (exp(x), 1.0/x) if x > 80.0 else (2.0*x, x)
    return a + b*0.0 + b


DISCARDED = [(overflow, 1000.0, 3.0), (reciprocal, 0.0, 2.0), (chosen, 0.0, 5.0),
             (chosen, -1.0, 5.0), (remainder, 0.0, -1.0),
             (overwritten, 0.0, -0.25 - 1.0), (not_run, 0.0, 4.0),
             (some_iterations, 0.0, 1.0), (twice, 0.0, 4.0), (inner, 0.0, 7.0),
             (pair, 0.0, 3.0)]


@pytest.mark.parametrize(("f", "x", "slope"), DISCARDED)
def test_first_order(f, x, slope, device):
    kernel = nf.elementwise(f)
    at = nf.array(np.array([x, x]), device=device)
    one = nf.array(np.ones(2), device=device)
    _, pullback = nf.vjp(kernel, at)
    (found,) = pullback(one)
    np.testing.assert_allclose(nf.to_numpy(found), slope)
    _, tangent = nf.jvp(kernel, (at,), (one,))
    np.testing.assert_allclose(nf.to_numpy(tangent), slope)


@pytest.mark.parametrize(("f", "x", "slope"), DISCARDED)
def test_second_order(f, x, slope):
    """By every mode; in forward mode over forward mode nothing is held back."""
    p = parse(f)
    x, one, zero = np.float64(x), np.float64(1.0), np.float64(0.0)
    forward, reverse = jvp(p, (True,)), vjp(p, (True,), (True,))
    *_, expected = evaluate(jvp(forward, (True, False)), x, one, one)
    assert math.isfinite(expected)
    back, (_, onward) = (evaluate(d(reverse, (True, False), *more), x, one, one)
                         for d, more in ((vjp, ((True,),)), (jvp, ())))
    (mixed,) = evaluate(vjp(forward, (True, False), (False, True)), x, one, one)
    np.testing.assert_allclose([back[0], onward, mixed], expected)
    (by_seed,) = evaluate(vjp(reverse, (False, True), (True,)), x, zero, one)
    np.testing.assert_allclose(by_seed, slope)


def used(x):
    v = 1.0/x
    return v*0.5 if x < 1.0 else x


def spoiled(x):
    return log(x)*(0.0*x + 1.0)


@pytest.mark.parametrize(("f", "x"), [(used, np.nan), (spoiled, -1.0),
                                      (overflow, np.nan), (chosen, np.inf)])
def test_what_is_used_is_not_hidden(f, x):
    """NaN and infinities on the path that runs are what forward mode has."""
    p = parse(f)
    (got,) = evaluate(vjp(p, (True,), (True,)), np.float64(x), np.float64(1.0))
    _, expected = evaluate(jvp(p, (True,)), np.float64(x), np.float64(1.0))
    np.testing.assert_array_equal(got, expected)


C_BODIES = [
    ("double v = exp(x); if (x > 80.0) v = 3.0*x; y = v;", 1000.0, 3.0),
    ("double v = 1.0/x; y = x == 0.0 ? 2.0*x : v;", 0.0, 2.0),
    ("double v = log(x)*sqrt(x) + pow(x, -1.0); y = x; if (x > 0.0) y = v;", 0.0, 1.0),
    ("double v = 0.0, s = 0.0; for (int k = 0; k < 3; ++k) "
     "{ s += v; v = 1.0/(x - k + 2.0); } y = s;", 0.0, -1.25),
]


@pytest.mark.parametrize(("body", "x", "slope"), C_BODIES)
def test_c_bodies(body, x, slope, device):
    kernel = nf.ElementwiseKernel("float64 x", "float64 y", body, "discards")
    at = nf.Variable(nf.array(np.array([x, x]), device=device), requires_grad=True)
    nf.ops.sum(kernel(at)).backward()
    np.testing.assert_allclose(nf.to_numpy(at.grad), slope)


@nf.func
def read(table, gradient, i):
    return log(table[i])


@read.defvjp
def read_vjp(table, gradient, i, g):
    nf.atomic_add(gradient, i, g/table[i])
    return 0.0


def reads(table, gradient, x):
    v = read(table, gradient, 0)
    return v if x > 0.0 else 2.0*x


@pytest.mark.parametrize(("x", "written", "slope"), [(1.0, np.inf, 0.0),
                                                     (-1.0, 0.0, 2.0)])
def test_a_rule_that_writes_does_so_where_it_is_reached(x, written, slope):
    f = parse(reads, parameters={"table": Array(1), "gradient": Array(1), "x": None})
    gradient = np.zeros(1)
    (got,) = evaluate(vjp(f, (False, False, True), (True,)), np.zeros(1), gradient,
                      np.float64(x), np.float64(1.0))
    assert (gradient[0], got) == (written, slope)


def recorded(x, n):
    """What a loop records is not always used."""
    v, total = x, 0.0
    for _ in range(n):
        if v > 0.7:
            total = total + v*v
        v = 1.0/(v + 0.3)
        if total > 2.0:
            v = v*total
    return total


@pytest.mark.interpreted
def test_the_reverse_of_a_recording_loop_in_reverse(device):
    """Buffers of bools say which records a cotangent reaches."""
    reverse = vjp(parse(recorded), (True, False), (True,))
    twice = vjp.__wrapped__(replace(reverse, origin=None), (True, False, False),
                            (True,))
    x, n = np.array([0.3, 0.9, 1.2, 2.0, -0.3]), np.array([0, 1, 3, 9, 1])
    one = np.ones(5)
    onward = jvp(reverse, (True, False, False))
    _, expected = evaluate(onward, x, n, one, one)
    found = execute(Map(twice, ("element",)*4), [
        nf.array(a, device=device) for a in (x, n, one, one)])[0]
    np.testing.assert_allclose(nf.to_numpy(found), expected, rtol=1e-9)
    assert expected[-1] == 0.0
