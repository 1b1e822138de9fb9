"""Elementwise functions have the habits of NumPy's ufuncs; NumPy is the oracle."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, OverlapError, ShapeError

pytestmark = pytest.mark.interpreted

X = np.random.default_rng(0).uniform(-3, 3, (3, 4))
Y = np.random.default_rng(1).uniform(-3, 3, (3, 4))
MASK = X > Y
PAIRS = [(nf.ops.add, np.add), (nf.ops.multiply, np.multiply),
         (nf.ops.maximum, np.maximum), (nf.ops.minimum, np.minimum),
         (nf.ops.logical_and, np.logical_and), (nf.ops.logical_or, np.logical_or)]


@nf.elementwise
def divided(a, b):
    return a / b


@nf.fuse
def squared_in(a, dtype):
    return np.multiply(a, a, dtype=dtype)


@nf.elementwise
def both(a, b):
    return a + b, a * b


def on(device, *arrays):
    return tuple(nf.array(a, device=device) for a in arrays)


def same(found, expected):
    found = nf.to_numpy(found)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize(("op", "ufunc"), [
    (nf.ops.add, np.add), (nf.ops.divide, np.divide), (nf.ops.exp, np.exp),
    (nf.ops.less, np.less), (nf.ops.logical_or, np.logical_or),
    (nf.ops.maximum, np.maximum)])
def test_types_are_numpys(op, ufunc):
    known = {t for t in ufunc.types if not set(t) & set("OmMgGqQFD")}
    for entry in op.types:
        inputs, result = entry.split("->")
        expected = ufunc(*(np.ones(1, c) for c in inputs)).dtype
        assert np.dtype(result) == expected, entry
    assert {t for t in known if len(set(t.split("->")[0])) == 1} <= set(op.types)
    assert op.ntypes == len(op.types)


@pytest.mark.parametrize(("op", "ufunc"), PAIRS)
@pytest.mark.parametrize("options", [{}, {"axis": 1}, {"axis": None},
                                     {"axis": (0, 1), "keepdims": True}])
def test_reduce(op, ufunc, options, device):
    (x,) = on(device, X)
    same(op.reduce(x, **options), np.asarray(ufunc.reduce(X, **options)))
    assert op.identity == ufunc.identity


def test_reduce_of_a_users_function(device):
    @nf.elementwise
    def plus(u, v):
        return v + u

    (x,) = on(device, X.astype("f4"))
    out = nf.zeros(4, "float32", device=device)
    assert plus.reduce(x, out=out) is out
    np.testing.assert_allclose(nf.to_numpy(out), X.sum(0), rtol=1e-6)
    assert nf.to_numpy(plus.reduce(x, dtype="float64")).dtype == np.float64
    v = nf.Variable(x, requires_grad=True)
    plus.reduce(v * v, axis=None).backward()
    np.testing.assert_allclose(nf.to_numpy(v.grad), 2 * X, rtol=1e-6)


@pytest.mark.parametrize("op", [nf.ops.subtract, nf.ops.exp, nf.ops.where, both])
def test_what_combines_nothing_says_so(op):
    assert op.identity is None
    with pytest.raises(KernelTypeError, match=r"reduce.*nbfused\.reduction"):
        op.reduce(X)
    with pytest.raises(KernelTypeError, match=r"accumulate.*nbfused\.reduction"):
        op.accumulate(X)


@pytest.mark.parametrize("dtype", ["f4", "i4", "?", "f8"])
@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum",
                                  "logical_and", "logical_or"])
@pytest.mark.parametrize("shape", [(5, 3), (1, 3), (0, 2)])
def test_accumulate(name, dtype, shape):
    x = np.random.default_rng(3).integers(0, 3, shape).astype(dtype)
    for axis in (0, -1):
        found = getattr(nf.ops, name).accumulate(x, axis=axis)
        expected = getattr(np, name).accumulate(x, axis=axis)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert found.dtype == expected.dtype
        assert not np.shares_memory(found, x)


def test_outer(device):
    x, y = on(device, X, Y[0])
    same(divided.outer(x, y), np.divide.outer(X, Y[0]))
    same(divided.outer(x, 2.0), X / 2)
    v = nf.Variable(y, requires_grad=True)
    nf.ops.multiply.outer(x, v).sum().backward()
    np.testing.assert_allclose(nf.to_numpy(v.grad), np.full(4, X.sum()))
    with pytest.raises(KernelTypeError, match="two arguments, not 1"):
        nf.ops.exp.outer(X, X)
    with pytest.raises(KernelTypeError, match="'b'"):
        divided.outer(X, [1.0])


def test_where_keeps_what_out_has(device):
    x, y, mask = on(device, X, Y, MASK)
    out, expected = nf.full((3, 4), 7.0, device=device), np.full((3, 4), 7.0)
    assert divided(x, y, out=out, where=mask) is out
    same(out, np.divide(X, Y, out=expected, where=MASK))


@pytest.mark.parametrize("where", [1, 0.5, np.ones(4, int)])
def test_where_is_bool(where):
    with pytest.raises(KernelTypeError, match=r"'where' has dtype .*, expected bool"):
        divided(X, Y, where=where)


def test_where_without_out_is_zero_elsewhere(device):
    x, y, mask = on(device, X, Y, MASK)
    same(divided(x, y, where=mask), np.where(MASK, X / Y, 0))
    same(nf.ops.less(x, y, where=mask), np.where(MASK, X < Y, False))
    same(divided(x, y, where=True), X / Y)
    same(divided(x, y, where=False), np.zeros((3, 4)))
    same(divided(x, y, where=mask, dtype="float32"),
         np.where(MASK, X / Y, 0).astype("f4"))


@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_dtype_is_what_is_computed_in(dtype, device):
    x, flags = np.array([100, -100, 7], np.int8), np.array([True, True, False])
    a, b = on(device, x, flags)
    square, total = np.multiply(x, x, dtype=dtype), np.add(flags, flags, dtype=dtype)
    same(nf.ops.multiply(a, a), x * x)
    same(nf.ops.multiply(a, a, dtype=dtype), square)
    same(nf.ops.multiply(a, np.int8(100), dtype=dtype), x * np.dtype(dtype).type(100))
    same(nf.ops.multiply(a, a, dtype=dtype, where=b), square * flags)
    same(np.multiply(*[nf.Variable(a)] * 2, dtype=dtype).data, square)
    same(squared_in(a, dtype), square)
    same(nf.ops.add(b, b, dtype=dtype), total)
    same(nf.ops.subtract(b, b, dtype=dtype), total * 0)
    same(nf.ops.equal(a, a, dtype=dtype), (x == x).astype(dtype))
    same(nf.ops.multiply(a, a), x * x)


def test_the_derivative_of_what_is_computed_in_another_dtype(device):
    x = np.array([1.0, 1e30], np.float32)
    v = nf.Variable(nf.array(x, device=device), requires_grad=True)
    y = nf.ops.square(v, dtype="float64")
    same(y.data, x.astype(float) ** 2)
    y.sum().backward()
    same(v.grad, 2 * x)


def test_where_broadcasts(device):
    x, row = on(device, X, MASK[0])
    same(nf.ops.square(x, where=row), np.where(MASK[0], X * X, 0))
    first, mask = on(device, X[0], MASK)
    same(nf.ops.square(first, where=mask), np.where(MASK, X[0] ** 2, 0))


def test_where_of_several_outputs_in_place(device):
    x, y, mask, second = on(device, X, Y, MASK, Y)
    both(x, y, out=(x, second), where=mask)
    same(x, np.where(MASK, X + Y, X))
    same(second, np.where(MASK, X * Y, Y))


def test_where_is_not_computed_nor_differentiated_elsewhere(device):
    (x,) = on(device, np.array([0.0, 4.0]))
    v = nf.Variable(x, requires_grad=True)
    nf.ops.sqrt(v, where=v > 0).sum().backward()
    np.testing.assert_array_equal(nf.to_numpy(v.grad), [0, 0.25])
    nf.testing.gradcheck(lambda a, b: divided(a, b, where=MASK), [X, Y], order=2)


def test_casting(device):
    (x,) = on(device, X)
    whole = nf.zeros((3, 4), "int32", device=device)
    with pytest.raises(KernelTypeError, match="same_kind"):
        nf.ops.square(x, out=whole)
    nf.ops.square(x, out=whole, casting="unsafe")
    np.testing.assert_array_equal(nf.to_numpy(whole), (X * X).astype("i4"))
    single = nf.zeros((3, 4), "float32", device=device)
    with pytest.raises(KernelTypeError, match="safe"):
        nf.ops.square(x, out=single, casting="safe")
    with pytest.raises(KernelTypeError, match="'casting' must be one of"):
        nf.ops.square(x, casting="maybe")


@pytest.mark.parametrize("where", [np.ones((3, 4)), np.ones(4, "i8"), [True], "all"])
def test_a_where_that_is_no_bool_array(where):
    with pytest.raises(KernelTypeError, match="'where'"):
        nf.ops.square(X, where=where)


def test_shapes_and_memory_are_checked_with_where():
    with pytest.raises(ShapeError):
        nf.ops.square(X, where=np.ones(5, bool))
    x = X.copy()
    with pytest.raises(OverlapError):
        nf.ops.square(x[:-1], out=x[1:], where=MASK[1:])
    np.testing.assert_array_equal(x, X)


def test_parameters_of_these_names_are_the_functions(device):
    @nf.elementwise
    def chosen(x, where, casting=2.0):
        return x * where + casting

    x, y = on(device, X, Y)
    same(chosen(x, where=y, casting=3.0), X * Y + 3)
