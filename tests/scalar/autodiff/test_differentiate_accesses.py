"""Derivatives of functions that index arrays: what is read, stored, added to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nbfused.cpu.text.intrinsics import INTRINSICS
from nbfused.errors import NotDifferentiableError
from nbfused.scalar.autodiff.differentiate import jvp, vjp
from nbfused.scalar.ir.clean import clean
from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.ir.nodes import (
    Block,
    Custom,
    For,
    Function,
    If,
    Let,
    Literal,
    literal,
    walk,
)
from nbfused.scalar.language.names import atomic_add, load, sin
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.typing.types import specialize
from tests.scalar.kernels import compiled

X = np.array([0.5, -1.5, 2.0, 0.25])


def kernel(*statements, params=("x", "y", "i"), yields=()):
    """A function of statements, in line 7 of a file."""
    return Function("kernel", params, Block(tuple(statements), yields), "page.py", 7)


def let(results, op, *args, attr=None):
    return Let(tuple(results.split()), op, args, attr, 8)


def gradient(pyfunc, x, *rest, raw="x"):
    """The cotangent of the raw array `raw`, the first parameter."""
    f = parse(pyfunc)
    d = vjp(f, (True, *(False for _ in rest)), (True,), raw=(raw,))
    bar = np.zeros_like(x)
    evaluate(d, x, *rest, 1.0, bar)
    return bar


def dot(x, b, n):
    s = 0.0
    for i in range(n):
        s += load(x, i)*load(b, i)
    return s


def test_dot():
    b = np.arange(4.0)
    d = vjp(parse(dot), (True, True, False), (True,), raw=("x", "b"))
    bars = np.zeros((2, 4))
    evaluate(d, X, b, 3, 2.0, *bars)
    np.testing.assert_array_equal(bars, [[0, 2, 4, 0], [1, -3, 4, 0]])


def product(x, n):
    p = 1.0
    for i in range(n):
        p *= load(x, i)
    return p


@pytest.mark.parametrize("n", [0, 1, 3, 40, 1100])
def test_product_loop(n):
    """Warp documents this one as wrong."""
    x = np.random.default_rng(0).uniform(0.9, 1.1, max(n, 1))
    expected = np.prod(x[:n])/x*(np.arange(len(x)) < n)
    np.testing.assert_allclose(gradient(product, x, n), expected, rtol=1e-10)


def largest(x, n):
    best = 0
    for i in range(n):
        if load(x, i) <= load(x, best):
            continue
        best = i
    return load(x, best)**2


def test_argmax_with_continue():
    np.testing.assert_array_equal(gradient(largest, X, 4), [0, 0, 4, 0])


def network(w, x, n):
    """Two layers of n units, in two nested loops; what a layer gives is summed."""
    total = 0.0
    for i in range(n):
        s = 0.0
        for j in range(n):
            s += load(w, i, j)*load(x, j)
        total += s*s if s > 0.0 else 0.1*s
    return total


def test_nested_loops_over_arrays():
    w = np.random.default_rng(1).normal(size=(3, 3))
    d = vjp(parse(network), (True, True, False), (True,), raw=("w", "x"))
    w_bar, x_bar = np.zeros((3, 3)), np.zeros(4)
    evaluate(d, w, X, 3, 1.0, w_bar, x_bar)
    s = w @ X[:3]
    slope = np.where(s > 0, 2*s, 0.1)
    np.testing.assert_allclose(w_bar, np.outer(slope, X[:3]))
    np.testing.assert_allclose(x_bar[:3], w.T @ slope)


def test_repeated_reads_accumulate():
    def f(x, i):
        return load(x, 0)*load(x, 0) + load(x, i % 2)

    np.testing.assert_array_equal(gradient(f, X, 2), [2, 0, 0, 0])


def test_forward_mode_reads_tangents():
    d = jvp(parse(dot), (True, False, False))
    b = np.arange(4.0)
    assert evaluate(d, X, b, 4, np.ones(4))[1] == 6.0


STORE = kernel(let("v", "load", "x", "i"), let("w", "mul", "v", "v"),
               let("", "store", "y", "i", "w"))


def test_store_takes_the_cotangent():
    d = vjp(STORE, (True, True, False), (), raw=("x", "y"))
    x_bar, y_bar = np.ones(4), np.array([1.0, 2.0, 3.0, 4.0])
    evaluate(d, X, np.zeros(4), np.array([1, 3]), x_bar, y_bar)
    np.testing.assert_array_equal(x_bar, [1, 1 + 2*2*-1.5, 1, 1 + 4*2*0.25])
    np.testing.assert_array_equal(y_bar, [1, 0, 3, 0])


def test_once_is_plain():
    once = kernel(let("v", "load", "x", "i", attr="once"), let("w", "mul", "v", "v"),
                  let("", "store", "y", "i", "w", attr="once"))
    d = vjp(once, (True, True, False), (), raw=("x", "y"))
    assert {s.op for s in walk(d.body) if s.results == ()} == {"store"}
    x_bar, y_bar = np.ones(4), np.ones(4)
    evaluate(d, X, np.zeros(4), 2, x_bar, y_bar)
    assert (x_bar[2], y_bar[2]) == (5.0, 0.0)


def test_forward_store():
    d = jvp(STORE, (True, True, False))
    y, y_dot = np.zeros(4), np.ones(4)
    evaluate(d, X, y, np.arange(4), np.full(4, 2.0), y_dot)
    np.testing.assert_array_equal(y, X*X)
    np.testing.assert_array_equal(y_dot, 4*X)


def test_a_cotangent_that_was_taken_away_is_not_read_again():
    """The second derivative of a kernel would need what the first one exchanged."""
    first = vjp(STORE, (True, True, False), (), raw=("x", "y"))
    arrays = tuple(p for p in first.params if p != "i")
    with pytest.raises(NotDifferentiableError, match="old value of an atomic"):
        vjp(first, tuple(p in arrays for p in first.params), (), raw=arrays)


def test_effects_inside_regions_run_once():
    """Running a loop again must not add twice."""
    def f(x, i, v):
        s = v
        for k in range(3):
            if k != 1:
                atomic_add(x, k, s*s)
            s = s*0.5
        return s

    f_vjp = vjp(parse(f), (True, False, True), (True,), raw=("x",))
    x, x_bar = np.zeros(4), np.array([1.0, 10.0, 100.0, 0.0])
    (v_bar,) = evaluate(f_vjp, x, 0, 3.0, 1.0, x_bar)
    np.testing.assert_array_equal(x, np.zeros(4))
    np.testing.assert_allclose(v_bar, 2*3.0*1 + 2*0.75*0.25*100 + 0.125)


def test_state_of_every_type_is_recorded():
    """An integer and a bool that decide what the next iteration does."""
    def f(x, n):
        k = 1
        up = True
        s = x
        for i in range(n):
            k = (k*7 + i) % 11
            s = sin(s)*1.2 + 0.1*k if up else s*0.8
            up = k > 4
        return s

    d = vjp(parse(f), (True, False), (True,))
    n, x = np.array([0, 1, 5, 12, 70]), np.full(5, 0.3)
    h = 1e-6
    slope = (evaluate(parse(f), x + h, n)[0] - evaluate(parse(f), x - h, n)[0])/(2*h)
    ones = np.ones(5)
    np.testing.assert_allclose(evaluate(d, x, n, ones)[0], slope, rtol=1e-6,
                               atol=1e-9)
    typed = specialize(d, tuple(a.dtype for a in (x, n, ones)))
    buffers = {str(typed.dtypes[s.results[0]]) for s in walk(typed.function.body)
               if isinstance(s, Let) and s.op == "buffer"}
    assert buffers == {"float64", "int64", "bool"}
    run = compiled({"d": typed}, [a.dtype for a in (x, n, ones)], **INTRINSICS)
    np.testing.assert_allclose(run(x, n, ones)["d"][0], slope, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("expected", [0, 3, 40, 5000])
def test_max_iters_is_a_hint(expected):
    f = parse(product)
    loop = next(s for s in f.body.statements if isinstance(s, For))
    hinted = replace(f, body=Block(tuple(
        replace(s, max_iters=expected) if s is loop else s
        for s in f.body.statements), f.body.yields))
    x = np.random.default_rng(0).uniform(0.9, 1.1, 70)
    bar = np.zeros_like(x)
    evaluate(vjp(hinted, (True, False), (True,), raw=("x",)), x, 70, 1.0, bar)
    np.testing.assert_allclose(bar, np.prod(x)/x)


def test_buffers_that_nobody_reads_are_dropped():
    f = vjp(parse(product), (True, False), (True,), raw=("x",))
    assert any(getattr(s, "op", "") == "buffer" for s in walk(f.body))
    recording = f.body.statements[:-1]  # all but the loop that goes backwards
    rest = clean(replace(f, body=Block(recording, ())))
    assert not any(getattr(s, "op", "") in ("buffer", "buffer_store")
                   for s in walk(rest.body))


REFUSED = {
    "both read and written": kernel(
        let("v", "load", "x", "i"), let("", "store", "x", "i", "v")),
    "an atomic max has no derivative": kernel(
        let("v", "load", "x", "i"), let("o", "atomic", "y", "i", "v", attr="max")),
    "old value of an atomic": kernel(
        let("v", "load", "x", "i"), let("o", "atomic", "y", "i", "v", attr="add"),
        let("w", "mul", "o", "v"), let("", "store", "z", "i", "w"),
        params=("x", "y", "z", "i")),
    "'s' is both read and written": kernel(
        let("s", "shared", Literal("int", "32"), attr="float32"),
        let("v", "load", "x", "i"), let("", "store", "s", "i", "v"),
        let("w", "load", "s", literal(0)), let("", "store", "y", "i", "w")),
}


@pytest.mark.parametrize("words", REFUSED)
def test_refused(words):
    f = REFUSED[words]
    raw = tuple(p for p in f.params if p != "i")
    with pytest.raises(NotDifferentiableError, match=f"page.py:8: kernel: .*{words}"):
        vjp(f, tuple(p in raw for p in f.params), (), raw=raw)


def test_an_array_that_is_overwritten_is_not_read_again():
    """The derivative would need what `z` held before."""
    f = kernel(let("v", "load", "x", "i"), let("w", "load", "z", "i"),
               let("p", "mul", "v", "w"), let("", "store", "y", "i", "p"),
               let("", "store", "z", "i", literal(0.0)), params=("x", "y", "z", "i"))
    with pytest.raises(NotDifferentiableError, match="element of 'z'"):
        vjp(f, (True, True, False, False), (), raw=("x", "y", "z"))


# Calls with rules of their own


def cube(x):
    return x*x*x


def cube_vjp(x, g):
    return 30.0*x*x*g


def calls(vjp_rule=None, jvp_rule=None):
    call = Custom(("y",), parse(cube), ("x",), vjp_rule and parse(vjp_rule),
                  jvp_rule and parse(jvp_rule), 8)
    return kernel(call, let("z", "mul", "y", "y"), params=("x",), yields=("z",))


@pytest.mark.parametrize("rules", [(cube_vjp,), (None, cube_vjp),
                                   (cube_vjp, cube_vjp)])
def test_rules_replace_the_derivative(rules):
    """A rule that is ten times too large, so that it is told from the true one."""
    f = calls(*rules)
    slope = 2*8.0*30*4
    assert evaluate(f, 2.0)[0] == 64.0
    assert evaluate(vjp(f, (True,), (True,)), 2.0, 1.0)[0] == slope
    assert evaluate(jvp(f, (True,)), 2.0, 1.0)[1] == slope
    second = vjp(vjp(f, (True,), (True,)), (True, False), (True,))
    # d/dx of 2*y*(30*x**2), y by its rule.
    assert evaluate(second, 2.0, 1.0, 1.0)[0] == 2*(30*4)**2 + 2*8*60*2


def test_without_rules_the_function_is_differentiated():
    assert evaluate(vjp(calls(), (True,), (True,)), 2.0, 1.0)[0] == 6*32.0


def box(x, bar, i):
    return load(x, i)


def box_vjp(x, bar, i, g):
    atomic_add(bar, i, g)
    return 0.0


def boxed(count):
    """The mean of neighbours, read by an accessor with a rule."""
    call = Custom(("v",), parse(box), ("x", "bar", "at"), parse(box_vjp), None, 8)
    inside = Block((let("at", "add", "i", "k"), call, let("t", "add", "s", "v")),
                   ("t",))
    loop = For(("total",), "k", literal(count), ("s",), (literal(0.0),), inside)
    return kernel(loop, let("m", "div", "total", literal(float(count))),
                  params=("x", "bar", "i"), yields=("m",))


def test_a_rule_may_write_where_nothing_is_active():
    d = vjp(boxed(3), (False, False, False), (True,), raw=("x", "bar"))
    bar = np.zeros(6)
    evaluate(d, np.zeros(6), bar, np.arange(4), np.ones(4))
    np.testing.assert_allclose(bar, np.array([1, 2, 3, 3, 2, 1])/3)


def test_a_rule_on_arrays_has_no_transpose():
    with pytest.raises(NotDifferentiableError, match="vjp rule only"):
        jvp(boxed(3), (True, False, False))


def test_a_branch_with_effects_only():
    f = kernel(let("v", "load", "x", "i"), let("c", "gt", "i", literal(1)),
               If((), "c", Block((let("", "store", "y", "i", "v"),), ()),
                  Block((), ())))
    d = vjp(f, (True, True, False), (), raw=("x", "y"))
    x_bar, y_bar = np.zeros(4), np.ones(4)
    evaluate(d, X, np.zeros(4), np.arange(4), x_bar, y_bar)
    np.testing.assert_array_equal(x_bar, [0, 0, 1, 1])
    np.testing.assert_array_equal(y_bar, [1, 1, 0, 0])
