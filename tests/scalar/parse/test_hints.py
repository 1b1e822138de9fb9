"""`nf.max_iters`: a hint about loops that no result depends on."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import ScalarSyntaxError
from nbfused.scalar.ir.nodes import For, While, walk
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.source.static import max_iters
from tests.refusal import refused
from tests.variants import sampled

MOST = 40


def counted(x, n, most: nf.literal = MOST):
    y = 1.0
    for i in max_iters(range(n), most):
        y = y * (1.0 + x / ((i + 1.0) * (i + 1.0)))
    return y


def conditional(x, n, most: nf.literal = MOST):
    y, i = 1.0, 0
    while nf.max_iters(i < n, most):
        y = y * (1.0 + x / ((i + 1.0) * (i + 1.0)))
        i += 1
    return y


def left(x, n, most: nf.literal = MOST):
    y, i = 1.0, 0
    while nf.max_iters(True, most):
        if i == n:
            break
        for _ in nf.unroll(range(1)):
            y = y * (1.0 + x / ((i + 1.0) * (i + 1.0)))
        i += 1
    return y


@pytest.mark.parametrize("function", [counted, conditional, left])
@pytest.mark.parametrize("most", sampled([0, 1, 40, 5000], 0, 40))
def test_loops_that_run_longer_are_right(function, most, device):
    counts = np.array([0, 1, most, most + 1, 33, 1025, 5000])
    x = np.linspace(0.3, 0.7, counts.size)
    op = nf.elementwise(function)
    v = nf.Variable(nf.array(x, device=device), requires_grad=True)
    y = op(v, nf.array(counts, device=device), most)
    y.sum().backward()
    factors = [1.0 + a / (np.arange(n) + 1.0)**2
               for a, n in zip(x, counts, strict=True)]
    values = np.array([f.prod() for f in factors])
    slopes = [v * np.sum((f - 1.0) / a / f)
              for v, f, a in zip(values, factors, x, strict=True)]
    np.testing.assert_allclose(nf.to_numpy(y), values, rtol=1e-12)
    np.testing.assert_allclose(nf.to_numpy(v.grad), slopes, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(("function", "kind"), [
    (counted, For), (conditional, While), (left, While)])
def test_the_hint_is_part_of_the_loop_and_of_its_text(function, kind):
    f = parse(function, parameters={"most": MOST})
    loops = [s for s in walk(f.body) if isinstance(s, (For, While))]
    assert [(type(s), s.max_iters) for s in loops] == [(kind, MOST)]
    text = nf.elementwise(function).source()
    assert f"nf.max_iters({'range' if kind is For else ''}" in text
    scope = {"nf": nf, "np": np}
    exec(text, scope)
    assert scope[function.__name__](0.5, 3) == function(0.5, 3)


def test_a_hint_is_what_is_recorded():
    @nf.elementwise(prefer="recompute")
    def little(x, n):
        y = 1.0
        for _ in nf.max_iters(range(n), 500):
            y *= x
        return y

    types = "float64", "int64"
    assert little.checkpoint_bytes(*types) == {
        "checkpoint": (500 + 32) * 8, "recompute": (8 + 8) * 8}


def test_in_plain_python_it_is_its_argument():
    assert nf.max_iters(range(3), 2) == range(3)
    assert nf.max_iters(False, 2) is False
    assert counted(1.0, 3) == conditional(1.0, 3) == left(1.0, 3) == 2 * 1.25 * (10 / 9)


def dynamic(x, n):
    for _ in nf.max_iters(range(n), n):
        x *= 2.0
    return x


def fractional(x, n):
    for _ in nf.max_iters(range(n), 2.0):
        x *= 2.0
    return x


def truth(x, n):
    while nf.max_iters(x < n, True):
        x *= 2.0
    return x


def negative(x, n):
    while nf.max_iters(x < n, -1):
        x *= 2.0
    return x


def alone(x, n):
    for _ in nf.max_iters(range(n)):
        x *= 2.0
    return x


def keyword(x, n):
    for _ in nf.max_iters(range(n), most=4):
        x *= 2.0
    return x


def unrolled(x, n):
    for _ in nf.max_iters(nf.unroll(range(3)), 4):
        x *= 2.0
    return x


def unrolls(x, n):
    for _ in nf.unroll(nf.max_iters(range(3), 4)):
        x *= 2.0
    return x


def over_items(x, n):
    for a in nf.max_iters((x, n), 4):
        x *= a
    return x


def branch(x, n):
    return x if nf.max_iters(x < n, 4) else n


def part(x, n):
    while nf.max_iters(x < n, 4) and x > 0:
        x *= 2.0
    return x


@pytest.mark.parametrize(("function", "words"), [
    (dynamic, ("the number of iterations", "known")),
    (fractional, ("the number of iterations", "integer")),
    (truth, ("the number of iterations", "integer")),
    (negative, ("0 or more", "got -1")),
    (alone, ("max_iters() takes two arguments",)),
    (keyword, ("max_iters() takes two arguments",)),
    (unrolled, ("max_iters() takes range(...)", "nf.unroll(range(3))")),
    (unrolls, ("max_iters() stands around the range(...)",)),
    (over_items, ("max_iters() takes range(...)", "(x, n)")),
    (branch, ("max_iters() stands around", "the whole condition")),
    (part, ("max_iters() stands around", "the whole condition")),
], ids=lambda v: getattr(v, "__name__", ""))
def test_wrong_hints_are_refused(function, words):
    with refused(ScalarSyntaxError, *words):
        parse(function)
