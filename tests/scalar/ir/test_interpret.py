from __future__ import annotations

import numpy as np
import pytest

from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.ir.nodes import Block, For, Function, Let, While, literal
from nbfused.scalar.language.names import atomic_add, load, sigmoid
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.typing.types import Weak, specialize

X = np.array([-2.0, -0.5, 0.0, 1.0, 3.0, 7.0])


def both_ways(pyfunc, *args):
    """The polymorphic function on arrays, and Python on each element."""
    got = evaluate(parse(pyfunc), *args)
    rows = np.broadcast(*args)
    each = [pyfunc(*(a.item() for a in row)) for row in rows]
    each = [e if isinstance(e, tuple) else (e,) for e in each]
    for k, column in enumerate(got):
        expected = np.array([e[k] for e in each]).reshape(rows.shape)
        np.testing.assert_allclose(np.broadcast_to(column, rows.shape), expected,
                                   rtol=1e-14)
    return got


def test_branches_are_taken_by_element():
    def f(x, y):
        if x > 0:
            if y > x:
                return y - x, 1
            return x*x, 2
        return y, 3

    both_ways(f, X[:, None], np.array([0.5, 2.0, 6.0]))


def test_the_other_branch_does_no_harm():
    (got,) = evaluate(parse(lambda x: 1/x if x != 0 else 0.0), X)
    assert np.isfinite(got).all()


def test_loops_with_a_count_of_each_element_s_own():
    def f(x, n):
        total = 0.0
        for k in range(n):
            if k == 3:
                continue
            total = total + x*k
            if total > 20.0:
                break
        return total

    both_ways(f, X, np.array([0, 1, 2, 5, 6, 7]))


def test_a_while_loop_stops_each_element_when_it_is_done():
    def f(x):
        steps = 0
        while x > 0.1:
            x = x/2
            steps += 1
        return x, steps

    both_ways(f, X)


def test_nested_loops():
    def f(n):
        total = 0
        for i in range(n):
            for j in range(i):
                total += i*j
        return total

    both_ways(f, np.arange(7))


def test_an_inactive_element_reads_nothing_outside():
    def f(table, i):
        return load(table, i) if i < 3 else -1.0

    (got,) = evaluate(parse(f), np.array([1.0, 2.0, 3.0]), np.array([0, 2, 99]))
    assert got.tolist() == [1, 3, -1]
    (got,) = evaluate(parse(f), np.empty(0), np.array([5, 7]))
    assert got.tolist() == [-1, -1]


def test_atomic_additions_repeat_and_obey_branches():
    def f(target, i, x):
        if x > 0:
            atomic_add(target, i, 1, x)
        return x

    target = np.zeros((2, 3))
    evaluate(parse(f), target, np.array([0, 1, 1, 0]), np.array([1.0, 2.0, 3.0, -9.0]))
    assert target.tolist() == [[0, 1, 0], [0, 5, 0]]


def test_a_polymorphic_function_computes_in_the_dtype_of_its_arguments():
    f = parse(lambda x: sigmoid(x)*2 + 1)
    for dtype in (np.float32, np.float64):
        assert evaluate(f, X.astype(dtype))[0].dtype == dtype


def test_a_typed_function_rounds_every_value():
    f = parse(lambda x: (x + 1e-4) - x)
    x = np.float32(1000.0)
    (single,) = evaluate(specialize(f, (np.dtype(np.float32),)), x)
    assert single == (x + np.float32(1e-4)) - x == np.float32(2.0**-13)
    (double,) = evaluate(specialize(f, (np.dtype(np.float64),)), x)
    assert double == pytest.approx(1e-4, rel=1e-6)


def test_integers_wrap_around():
    t = specialize(parse(lambda a, b: a*b + a), (np.dtype(np.int8),)*2)
    (got,) = evaluate(t, np.int8(100), np.int8(3))
    assert got == (400 + 128) % 256 - 128
    assert got.dtype == np.int8


def test_carried_values_move_together():
    body = Block((), ("b", "a"))
    loop = For(("x", "y"), "k", "n", ("a", "b"), (literal(1), literal(2)), body)
    f = Function("swap", ("n",), Block((loop,), ("x", "y")))
    x, y = evaluate(f, np.arange(4))
    assert x.tolist() == [1, 2, 1, 2]
    assert y.tolist() == [2, 1, 2, 1]


def test_a_loop_that_never_runs():
    condition = Block((Let(("c",), "lt", ("a", literal(0))),), ("c",))
    loop = While(("x",), ("a",), (literal(5),), condition, Block((), ("a",)))
    (got,) = evaluate(Function("f", (), Block((loop,), ("x",))))
    assert got == 5


def test_call_time_numbers():
    t = specialize(parse(lambda x, rate: x*rate), (np.dtype(np.float32), Weak("float")))
    (got,) = evaluate(t, X.astype(np.float32), 0.1)
    np.testing.assert_array_equal(got, X.astype(np.float32)*np.float32(0.1))
