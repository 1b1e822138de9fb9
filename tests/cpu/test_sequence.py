"""Sequences of launches by machine code: the same bits as one launch after another."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

import nbfused as nf
from nbfused.cpu.runtime import sequence as sequences
from tests.variants import sampled_together

pytestmark = pytest.mark.filterwarnings("ignore:fuse.*decorated again")


def _x(*shape, dtype="f4", seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def _product(x, y, n):
    return np.tanh(x @ y * n), x.T @ x, (y @ y.T).sum()


def _narrow(x, y, n):
    return x @ y, np.tanh(x @ y * n), x[0] * n, y[0] - n


def _of_columns(x, y, n):
    return x.T @ y, np.tanh(x.T @ y * n), x[0] * n, y[0] - n


def _of_copies(x, y, n):
    return x @ y.T, np.tanh(x @ y.T * n), y.sum(0) * n, y.sum(1) - n


def _into_columns(x, y, n):
    x[...] = y[:, 3:12] @ y[2:11] * n
    return y.sum(0), y.max(1)


def _turned(x, y, n):
    return (y.T @ x.T).T + n, nf.ops.linear(x, y, y[0], activation="gelu")


def _rows(x, y, n):
    s = nf.ops.softmax(x * n)
    return s, nf.ops.layer_norm(x, x[0], x[1]), (s * x).sum(0), s.max(1), y.mean()


def _summing(x, y, n):
    def loss(w, b):
        return nf.ops.layer_norm(x * n, w, b).sum()

    return nf.grad(loss, argnums=(0, 1))(x[0], x[1])


def _in_place(x, y, n):
    x *= n
    y += x.sum()
    return (x[:, 1:] + 1).sum(0)


def _whole_numbers(x, y, n):
    k = n + 1
    return x * k, (y // k).sum(0), np.where(x > n, x, y[0, 0])


#: Functions, the shapes of their arguments, and a number.
CASES = {
    "product": (_product, (16, 32), (32, 10), 1.5),
    "product of one row": (_product, (1, 7), (7, 3), 0.5),
    "small product": (_product, (2, 3), (3, 1), 0.5),
    "narrow product": (_narrow, (1000, 40), (40, 8), 0.5),
    "wide product": (_narrow, (8, 40), (40, 1000), 0.5),
    "narrow product of columns": (_of_columns, (40, 1000), (40, 8), 0.5),
    "wide product of columns": (_of_columns, (40, 8), (40, 1000), 0.5),
    "narrow product of copies": (_of_copies, (1000, 40), (8, 40), 0.5),
    "product into columns": (_into_columns, (20, 20), (20, 20), 0.5),
    "long sums": (_narrow, (8, 3000), (3000, 8), 0.5),
    "turned product": (_turned, (9, 20), (20, 30), 2.5),
    "rows": (_rows, (40, 12), (3, 3), 0.25),
    "long rows": (_rows, (3, 1000), (500, 70), 0.25),
    "many rows": (_rows, (800, 5), (9, 9), 1.25),
    "sums over rows": (_summing, (90, 11), (1, 1), 1.5),
    "sums over long rows": (_summing, (30, 300), (1, 1), 1.5),
    "in place": (_in_place, (30, 30), (4, 5), 1.5),
    "sums in chunks": (_in_place, (300, 40), (4, 5), 1.5),
    "whole numbers": (_whole_numbers, (6, 7), (8, 9), 3),
    "nothing": (_rows, (5, 4), (0, 3), 1.0),
}

#: Functions of other cases, on sizes that take another kernel of the same text.
ALIKE = ("narrow product of copies", "product into columns", "turned product",
         "long rows", "sums over long rows", "whole numbers")


def _planned(function, *args):
    fused = nf.fuse(function)
    for _ in range(3):
        fused(*args)
    (plan,) = (p for p in fused._plans._states.values() if not isinstance(p, bool))
    return plan


def _run(plan, args):
    """What the plan returns for copies of the arguments, and these afterwards."""
    own = [x.copy(order="K") if isinstance(x, np.ndarray) else x for x in args]
    made = plan.run(own, tuple(x.ctypes.data for x in own if isinstance(x, np.ndarray)))
    assert made is not None
    return [*(made[0] if isinstance(made[0], tuple) else made), *own]


def _same_bits(plan, args):
    alone = replace(plan, sequence=None)
    for found, expected in zip(_run(plan, args), _run(alone, args), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("case", "dtype"), sampled_together(
    [(case, dtype) for case in CASES for dtype in ("f4", "f8")]
    + [("whole numbers", "i4"), ("whole numbers", "u1")],
    *((case, "f4") for case in CASES if case not in ALIKE), ("whole numbers", "i4")))
def test_the_same_bits_as_one_by_one(case, dtype, monkeypatch):
    function, first, second, number = CASES[case]
    started = []
    python_run = sequences._python_run
    monkeypatch.setattr(sequences, "_python_run", lambda *one: started.append(one)
                        or python_run(*one))
    args = [(_x(*first) * 9).astype(dtype), (_x(*second) * 9).astype(dtype), number]
    if function is _into_columns:
        args[0] = np.asfortranarray(args[0])
    plan = _planned(function, *args)
    assert plan.sequence is not None
    assert len(started) < len(plan.steps) - 1
    _same_bits(plan, args)
    args = [args[0] * 3, args[1] * 2, type(number)(number * 2)]
    _same_bits(plan, args)


def test_launches_that_threads_share_and_others_between():
    def function(x, y, n):
        z = (y + n).sum(0) * 2
        big = np.sqrt(np.abs(x @ x + z.mean()))
        return big, (z @ y.T * n).sum(), x * z[0], np.exp(z)

    args = [_x(600, 600), _x(7, 5), 0.5]
    plan = _planned(function, *args)
    assert plan.sequence is not None
    _same_bits(plan, args)


def test_complex_numbers_are_started_by_python():
    args = [_x(4, 3), _x(5), 1 + 2j]
    plan = _planned(lambda x, y, n: (x.sum(0), (y * 2).max(), x * n, y * 3), *args)
    assert plan.sequence is not None
    _same_bits(plan, args)


def test_one_launch_is_no_sequence():
    assert _planned(lambda x, y: x * 2 + y, _x(4), _x(4)).sequence is None


def test_launches_are_recorded():
    fused = nf.fuse(_product)
    args = _x(16, 32), _x(32, 10), 1.5
    with nf.trace_launches() as first:
        fused(*args)
    for _ in range(3):
        fused(*args)
    with nf.trace_launches() as last:
        fused(*args)
    assert [x.name for x in last] == [x.name for x in first]


def test_threads_run_one_sequence_at_once():
    plan = _planned(_product, _x(16, 32), _x(32, 10), 1.5)
    alone, wrong = replace(plan, sequence=None), []
    inputs = [[_x(16, 32, seed=k), _x(32, 10, seed=k + 9), 0.1 * k] for k in range(4)]
    expected = [_run(alone, args) for args in inputs]

    def work(k):
        for _ in range(150):
            if not all(map(np.array_equal, _run(plan, inputs[k]), expected[k])):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_products_of_a_thread_before_and_after_keep_their_count():
    """The control words of blocked products are shared with those of sequences."""
    args = [_x(16, 32), _x(32, 10), 1.5]
    plan = _planned(_product, *args)
    x, y = _x(64, 64), _x(64, 64, seed=1)
    for _ in range(3):
        _same_bits(plan, args)
        np.testing.assert_allclose(nf.ops.matmul(x, y), x @ y, rtol=1e-3, atol=1e-4)
