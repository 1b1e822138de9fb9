"""CuPy's user-defined kernels, written with the decorators.

Each test is named for the line of the acceptance list that it holds.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numpy as np
import pytest

import nbfused as nf

F32 = np.float32
DIFFERENCE = np.array([[0] * 5, [25] * 5], F32)


@nf.elementwise
def squared_diff(x, y):
    return (x - y) * (x - y)


@nf.reduction(combine="sum", post=math.sqrt)
def l2norm(x):
    return x * x


@nf.reduction(combine=lambda a, b: a + b, identity=0)
def total(x):
    return x


@nf.reduction(combine=lambda a, b: max(a, b), identity=-math.inf)
def largest(x):
    return x


@nf.reduction(combine=lambda a, b: a * b, identity=1)
def product(x):
    return x


@nf.reduction(combine="argmin")
def argmin(x):
    return x


@pytest.fixture
def x(device):
    return nf.array(np.arange(10, dtype=F32).reshape(2, 5), device=device)


@pytest.fixture
def y(device):
    return nf.array(np.arange(5, dtype=F32), device=device)


def same(found, expected):
    """Equal values and equal dtypes."""
    found = nf.to_numpy(found)
    assert found.dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(found, expected)


def test_c03_call_broadcasts(x, y):
    same(squared_diff(x, y), DIFFERENCE)


def test_c04_call_with_a_python_scalar(x):
    same(squared_diff(x, 5), np.array([[25, 16, 9, 4, 1], [0, 1, 4, 9, 16]], F32))


def test_c05_outputs_are_given_by_position_or_keyword(x, y, device):
    for call in (lambda z: squared_diff(x, y, z), lambda z: squared_diff(x, y, out=z),
                 lambda z: squared_diff(x, y, out=(z,))):
        z = nf.full((2, 5), -1, "float32", device=device)
        assert call(z) is z
        same(z, DIFFERENCE)


def test_c05_several_outputs(x, device):
    @nf.elementwise
    def both(x):
        return x + 1, x * x

    outs = [nf.zeros((2, 5), "float32", device=device) for _ in range(2)]
    found = both(x, *outs)
    assert all(f is o for f, o in zip(found, outs, strict=True))
    same(outs[0], nf.to_numpy(x) + 1)
    same(outs[1], nf.to_numpy(x) ** 2)


def test_c06_no_parameter_name_is_reserved(x, y):
    """CuPy refuses n, i and a leading underscore; a Python function may use any."""

    @nf.elementwise
    def names(n, i, _x, begin, out0, f32, math, acc, x0):
        return n - i * _x + begin + out0 - f32 + math - acc + x0

    a = nf.to_numpy(x)
    expected = a - nf.to_numpy(y) * a + a + 1 - a + 2 - a + 3
    same(names(x, y, x, x, F32(1), x, F32(2), x, F32(3)), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_c07_one_function_serves_every_dtype(dtype, device):
    x = nf.array(np.arange(10, dtype=dtype).reshape(2, 5), device=device)
    y = nf.array(np.arange(5, dtype=dtype), device=device)
    same(squared_diff(x, y), DIFFERENCE.astype(dtype))


def test_c09_python_scalars_are_weak(device):
    narrow = nf.array(np.arange(3), "float32", device=device)
    assert squared_diff(narrow, 0.1).dtype == F32
    whole = nf.array(np.arange(3), "int8", device=device)
    same(squared_diff(whole, 2), np.array([4, 1, 0], np.int8))


def test_c09_arrays_promote_as_in_numpy(device):
    """One letter for two dtypes is CuPy's error; here NumPy's rules give the dtype."""
    for a, b in (("float32", "float64"), ("int8", "uint8"), ("int32", "float32")):
        x, y = (nf.array(np.arange(5), d, device=device) for d in (a, b))
        same(squared_diff(x, y), np.zeros(5, np.result_type(a, b)))
    x = nf.array(np.arange(5), "float32", device=device)
    assert squared_diff(x, np.float64(1)).dtype == np.float64


def test_c18_reduction_from_map_combine_and_post(x):
    norm = nf.to_numpy(l2norm(x))
    assert norm.shape == ()
    assert norm.dtype == F32
    np.testing.assert_allclose(norm, math.sqrt(285), rtol=1e-6)


def test_c19_axis(x):
    a = nf.to_numpy(x)
    np.testing.assert_allclose(nf.to_numpy(l2norm(x, axis=1)), [5.477226, 15.9687195],
                               rtol=1e-6)
    for axis in (0, 1, -1, (0, 1), (1, 0), None):
        expected = np.sqrt(np.sum(a * a, axis=axis))
        found = nf.to_numpy(l2norm(x, axis=axis))
        assert (found.dtype, found.shape) == (F32, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_c20_keepdims_out_and_dtype(x, device):
    a = nf.to_numpy(x)
    kept = l2norm(x, axis=1, keepdims=True)
    assert tuple(kept.shape) == (2, 1)
    np.testing.assert_allclose(nf.to_numpy(kept)[:, 0], [5.477226, 15.9687195],
                               rtol=1e-6)
    out = nf.zeros(2, "float32", device=device)
    assert l2norm(x, axis=1, out=out) is out
    np.testing.assert_allclose(nf.to_numpy(out), [5.477226, 15.9687195], rtol=1e-6)
    wide = nf.to_numpy(l2norm(x, axis=1, dtype="float64"))
    assert wide.dtype == np.float64
    np.testing.assert_allclose(wide, np.linalg.norm(a.astype(float), axis=1),
                               rtol=1e-15)


@pytest.mark.parametrize(("kernel", "reference"), [
    (total, np.sum), (largest, np.max), (product, np.prod), (argmin, np.argmin)],
    ids=["sum", "max", "prod", "argmin"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_c21_combines_of_two_values(kernel, reference, axis, device):
    a = np.random.default_rng(0).integers(-4, 5, (6, 7)).astype(F32)
    found = nf.to_numpy(kernel(nf.array(a, device=device), axis=axis))
    np.testing.assert_array_equal(found, reference(a, axis=axis))


@pytest.mark.parametrize("kernel", [l2norm, total, argmin])
def test_c21_wrong_axes(kernel, x):
    for axis in (2, -3, (0, 2)):
        with pytest.raises(np.exceptions.AxisError):
            kernel(x, axis=axis)
    for axis in ((0, 0), (1, -1)):
        with pytest.raises(ValueError, match="axis"):
            kernel(x, axis=axis)


def test_c22_accumulator_is_wider_than_the_elements(device):
    x = nf.array(np.full(300, 100), "int8", device=device)
    for add in (nf.ops.sum, nf.reduction(combine="sum")(lambda x: x)):
        same(add(x), np.int64(30000))
        same(add(x, dtype="int8"), np.full(300, 100, np.int8).sum(dtype=np.int8))
        same(add(x, dtype="float32"), F32(30000))


LAMBDA = """
import numpy as np
import nbfused as nf
square = nf.elementwise(lambda x: x * x)
print(square(np.arange(4, dtype=np.float32)).tolist())
print(nf.grad(square)(np.array([3.0])).tolist())
"""
BRANCH = """
import numpy as np
import nbfused as nf
f = nf.elementwise(lambda x: x if x > 0 else 0.0)
try:
    f(np.ones(3))
except nf.errors.ScalarSyntaxError as error:
    print(error)
"""


def python(*args, text=None):
    return subprocess.run([sys.executable, *args], input=text, capture_output=True,
                          text=True, timeout=120, cwd=os.getcwd(),
                          env={**os.environ, "NBFUSED_BACKEND": "cpu"})


@pytest.mark.parametrize("run", [lambda text: python("-c", text),
                                 lambda text: python("-", text=text),
                                 lambda text: python("-i", "-q", text=text)],
                         ids=["python-c", "stdin", "repl"])
def test_c30_lambda_without_source(run):
    done = run(LAMBDA)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["[0.0, 1.0, 4.0, 9.0]", "[6.0]"], done.stderr


def test_c30_what_needs_the_source_says_so():
    done = python("-", text=BRANCH)
    assert "where" in done.stdout, done.stderr
    assert "file" in done.stdout


def test_c30_lambda_with_source(device):
    square = nf.elementwise(lambda x: x * x)
    same(square(nf.array([1.0, 2.0], device=device)), np.array([1.0, 4.0]))
