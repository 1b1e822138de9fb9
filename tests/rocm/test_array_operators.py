"""Operators and the namespace of our own arrays on ROCm devices."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import nbfused as nf
from nbfused.arrays import DeviceArray
from nbfused.errors import KernelTypeError
from tests.refusal import refused

HOST = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

OPERATORS = [
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lt", "le",
    "gt", "ge", "eq", "ne", "iadd", "isub", "imul", "itruediv"]


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_numpys(name):
    op = getattr(operator, name)
    a, b = np.float32([[1, 2], [3, 4.5]]), np.float32([[2, 1], [0.5, 4.5]])
    for other in (b, 1.5) if name != "matmul" else (b,):
        x = nf.array(a, device="rocm")
        y = nf.array(other, device="rocm") if other is b else other
        found = op(x, y)
        assert isinstance(found, DeviceArray)
        assert (found is x) == name.startswith("i")
        np.testing.assert_allclose(nf.to_numpy(found), op(a.copy(), other), 1e-6)
    if name in ("sub", "truediv", "pow"):
        found = op(2.0, nf.array(a, device="rocm"))
        np.testing.assert_allclose(nf.to_numpy(found), op(np.float32(2), a), 1e-6)


@pytest.mark.parametrize("name", ["and_", "or_", "xor", "lshift", "iand", "ixor"])
def test_operators_of_bits(name):
    op, host = getattr(operator, name), np.int32([1, 2, 7])
    found = op(nf.array(host, device="rocm"), 3)
    np.testing.assert_array_equal(nf.to_numpy(found), op(host.copy(), 3))
    np.testing.assert_array_equal(nf.to_numpy(~nf.array(host, device="rocm")), ~host)


def test_parts_are_stored():
    host, x, part = HOST.copy(), nf.array(HOST, device="rocm"), np.float32([1, 2, 3])
    for stored, value in ((host, part), (x, nf.array(part, device="rocm"))):
        stored[0, 1] = 7
        stored[..., 2] = value
        stored[stored > 20] = -1.0
    np.testing.assert_array_equal(nf.to_numpy(x), host)
    np.testing.assert_array_equal(nf.to_numpy(x[x > 5]), host[host > 5])
    np.testing.assert_array_equal(nf.to_numpy(x[[1, 0]]), host[[1, 0]])
    np.testing.assert_array_equal(nf.to_numpy(x.mT), host.mT)


def test_one_element_is_a_number():
    one = nf.array([[3]], device="rocm")
    assert (bool(one), int(one), float(one), complex(one)) == (True, 3, 3.0, 3 + 0j)
    assert [0, 1, 2, 3][nf.array(3, device="rocm")] == 3
    with refused(KernelTypeError, "truth", "to_numpy"):
        bool(nf.array([1, 2], device="rocm"))
    with pytest.raises(TypeError, match="no index"):
        operator.index(nf.array(1.0, device="rocm"))
    with refused(KernelTypeError, "requires grad", "x = x op y"):
        operator.iadd(nf.array(1.0, device="rocm"), nf.Variable(
            nf.array(1.0, device="rocm"), requires_grad=True))


def test_the_namespace():
    x = nf.array(HOST, device="rocm")
    xp = x.__array_namespace__()
    assert xp is nf.array_api
    found = xp.sum(xp.where(x > 3, xp.exp(-x), 0.0), axis=-1)
    assert isinstance(found, DeviceArray)
    np.testing.assert_allclose(nf.to_numpy(found), np.where(
        HOST > 3, np.exp(-HOST), 0).sum(-1), 1e-6)
    made = xp.ones((2,), device="rocm") + 1.0
    assert made.device == "rocm:0"
    assert made.to_device("cpu").data.tolist() == [2.0, 2.0]
    assert x.to_device("rocm:0") is x
    assert "rocm:0" in xp.__array_namespace_info__().devices()
    gradient = nf.grad(lambda v: v.__array_namespace__().sum(v * v))(x)
    np.testing.assert_allclose(nf.to_numpy(gradient), 2 * HOST)


def test_what_is_added_may_be_in_the_same_memory():
    host = np.arange(1.0, 17.0, dtype=np.float32).reshape(4, 4)
    x = nf.array(host, device="rocm")
    x[1:] += x[:-1]
    x *= x[::-1]
    host[1:] += host[:-1]
    host *= host[::-1]
    np.testing.assert_allclose(nf.to_numpy(x), host, 1e-6)
