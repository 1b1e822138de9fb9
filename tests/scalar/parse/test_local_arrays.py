"""Local arrays, tuples and functions inside functions, against plain Python."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError
from nbfused.op import elementwise, func
from nbfused.scalar.autodiff.differentiate import jvp, vjp
from nbfused.scalar.ir.interpret import evaluate as evaluate_arrays
from nbfused.scalar.ir.nodes import If, Let, walk
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.source.static import local, unroll
from tests.scalar.evaluation import evaluate

WEIGHTS, SIZE = (0.2, 0.5, 0.3), 4
NUMBERS = [(-3, 2), (0, 0), (1, 5), (2.5, -1), (7, 3)]


def constant_index(x, y):
    v = local(3)
    v[0] = x
    v[-1] += y
    v[1] -= v[0] * v[2]
    return v[0], v[1], v[2], len(v)


def variable_index(x, y):
    v = local(SIZE)
    for i in range(SIZE):
        v[i] = x * i
        v[i - 1] += y
    return v[0], v[1], v[2], v[3]


def returned_early(x, y):
    """What is returned has no other name any more."""
    v = [x, y]
    if x > y:
        return v
    v[0] += 1
    for k in range(2):
        v[k] *= x
        if v[k] > 3:
            return v
    v = [v[1], v[0] - y]
    return v


def negative_variable(x, y):
    v = [x, y, x + y]
    total = 0
    for i in range(3):
        total += v[-1 - i] * (i + 1)
    return total


def two_axes(x, y):
    m = local((2, 3))
    for i in range(2):
        for j in range(3):
            m[i, j] = x * i + y * j
            m[i][j] += 1
    return m[0][0], m[1, 2], m[0, 1] + m[1][0]


def globals_by_index(x, y):
    total = 0.0
    for k in range(3):
        total += WEIGHTS[k] * x
    return total + y


def filled_in_branches(x, y):
    v = local(2)
    if x > y:
        v[0] = x
    elif x == y:
        v[1] = y
        v[0] = 1
    else:
        v = [y, x]
    return v[0], v[1]


def carried_while(x, y):
    v = [0, 1]
    n = 0
    while v[1] < 30 and n < abs(x):
        v[0], v[1] = v[1], v[0] + v[1]
        n += 1
    return v[0], v[1], n


def swapped(x, y):
    a, b = [x, 1], [y, 2]
    for _ in range(3):
        a, b = b, a
        a[0] += 1
    return a[0], b[0], a[1], b[1]


def sliced(x, y):
    v = [x, y, x * y, x + y]
    w = v[1:3]
    w[0] = 9
    return v[1], w[0], w[1], len(v[::2]), sum(v), min(v), max(v[:2])


@func
def largest(v):
    best = v[0]
    for x in v:
        best = max(best, x)
    return best


@func
def doubled(v):
    w = list(v)
    for k in unroll(range(len(v))):
        w[k] *= 2
    return w


def passed_on(x, y):
    v = doubled([x, y, 1])
    v[0] += 1
    return largest(v), v[0], v[1]


def broken_out(x, y):
    v = [x, y, 3, 4]
    found = -1
    for k, each in unroll(enumerate(v)):
        if each > 2:
            found = k
            break
        if each == 1:
            continue
        v[k] = 0
    return found, v[0], v[1]


def returned_out(x, y):
    for k in unroll(range(5)):
        if x == k:
            return k * 10
    return y


def zipped(x, y):
    total = 0
    for a, b in zip((x, y), (2, 3), strict=True):
        total += a * b
    for a in reversed([x, y]):
        total = total * 2 + a
    return total, all([x, y]), any([x, y])


def comprehensions(x, y):
    squares = [k * x for k in range(4)]
    return sum(squares), sum(s * y for s in squares), tuple(squares)[2]


def inner(x, y):
    scale = 2

    def weigh(a, b=y):
        low = a * scale
        return low + b

    scale = 3
    low = 1
    square = lambda a: a * a  # noqa: E731
    return weigh(x), weigh(1, b=2), square(x) + low


@func
def applied(f, v):
    return f(v) + 1


def functions_as_values(x, y):
    pick = largest
    return applied(abs, x), applied(lambda a: a * y, x), pick((x, y)), applied(abs, y)


def repeated(x, y):
    v = [0.0] * 3 + [x]
    v[1] = y
    pair, other = (x, y), (1, 2)
    t = pair + other
    return sum(v), t[2], len(t * 2)


def divided(x, y):
    q, r = divmod(x, 3)
    return q, r


def rows_that_move(x, y):
    rows = [[x, 1.0], [y, 2.0], [x * y, 3.0]]
    for last in (2, 1):
        for k in range(last):
            if rows[k][0] > rows[k + 1][0]:
                rows[k], rows[k + 1] = rows[k + 1], rows[k]
    rows[1][0] += 0.5
    chosen = rows[0] if x > y else rows[2]
    return rows[0][0], rows[1][0], rows[2][1], chosen[1]


PROGRAMS = [
    constant_index, variable_index, returned_early, negative_variable, two_axes,
    globals_by_index, filled_in_branches, carried_while, swapped, sliced, passed_on,
    broken_out, returned_out, zipped, comprehensions, inner, functions_as_values,
    divided, repeated, rows_that_move,
]


def plain(found):
    return tuple(found) if isinstance(found, (list, tuple)) else found


@pytest.mark.parametrize("pyfunc", PROGRAMS, ids=lambda f: f.__name__)
def test_as_plain_python(pyfunc):
    function = parse(pyfunc)
    for x, y in NUMBERS:
        assert evaluate(function, x, y) == pytest.approx(plain(pyfunc(x, y)))


@pytest.mark.parametrize("pyfunc", PROGRAMS, ids=lambda f: f.__name__)
def test_on_arrays(pyfunc):
    """As a kernel has it: every element at once."""
    x, y = (np.array(column, float) for column in zip(*NUMBERS, strict=True))
    for k, expected in enumerate(NUMBERS):
        found = evaluate_arrays(parse(pyfunc), x, y)
        values = plain(pyfunc(*map(float, expected)))
        for f, v in zip(found, np.atleast_1d(values), strict=True):
            assert np.broadcast_to(f, x.shape)[k] == pytest.approx(v)


def test_a_kernel_with_a_local_array(device):
    smooth = elementwise(variable_index)
    x = np.linspace(-2, 2, 7).astype("float32")
    found = smooth(nf.array(x, device=device), 2.0)
    expected = np.array([variable_index(float(v), 2.0) for v in x]).T
    for f, e in zip(found, expected, strict=True):
        assert nf.to_numpy(f).dtype == np.float32
        np.testing.assert_allclose(nf.to_numpy(f), e, rtol=1e-6)


def test_literal_indices_cost_nothing():
    assert not any(isinstance(s, If) or (isinstance(s, Let) and s.op == "select")
                   for s in walk(parse(constant_index).body))


def test_a_variable_index_is_an_integer(device):
    picked = elementwise(lambda x: (1, 2, 3)[x])
    assert nf.to_numpy(picked(nf.array([0, -1], device=device))).tolist() == [1, 3]
    with pytest.raises(KernelTypeError, match=r"expected an integer, got float64"):
        picked(nf.array([0.5], device=device))


def test_beyond_the_end():
    """Nothing is stored, and the last element is read."""
    def beyond(i):
        v = [1, 2, 3]
        v[i] = 9
        return v[0], v[1], v[2], v[i]

    assert evaluate(parse(beyond), 3) == (1, 2, 3, 3)
    assert evaluate(parse(beyond), -4) == (1, 2, 3, 3)
    assert evaluate(parse(beyond), -3) == (9, 2, 3, 9)


@pytest.mark.parametrize("pyfunc", [constant_index, variable_index, swapped, passed_on,
                                    functions_as_values], ids=lambda f: f.__name__)
def test_derivatives(pyfunc):
    """Both modes against differences, at points without kinks."""
    function = parse(pyfunc)
    x, y, step = np.array([0.7, -1.3]), np.array([1.9, 0.4]), 1e-6
    weights = [1.0 + k for k in range(len(function.results))]

    def loss(a, b):
        found = evaluate_arrays(function, a, b)
        return sum(w * np.asarray(f, float)
                   for w, f in zip(weights, found, strict=True))

    expected = [(loss(x + step, y) - loss(x - step, y)) / (2 * step),
                (loss(x, y + step) - loss(x, y - step)) / (2 * step)]
    pull = vjp(function, (True, True), (True,) * len(weights))
    found = evaluate_arrays(pull, x, y, *(np.full(2, w) for w in weights))
    push = jvp(function, (True, True))
    for e, f, dx in zip(expected, found, (1.0, 0.0), strict=True):
        np.testing.assert_allclose(np.broadcast_to(f, 2), e, atol=1e-6)
        tangents = evaluate_arrays(push, x, y, np.full(2, dx), np.full(2, 1 - dx))
        total = sum(w * np.asarray(t, float) for w, t in zip(
            weights, tangents[len(weights):], strict=True))
        np.testing.assert_allclose(np.broadcast_to(total, 2), e, atol=1e-6)
