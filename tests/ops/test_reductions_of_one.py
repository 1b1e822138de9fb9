"""Reductions along axes of extent 1: each result is of one element."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.specs import Map, Reduce, Row
from tests.plugin.nbfused_interpreter import InterpreterBackend
from tests.variants import sampled

pytestmark = pytest.mark.interpreted

NAMES = ["sum", "mean", "max", "min", "prod", "any", "all", "var", "std", "argmax",
         "argmin"]
SHAPES = [((5, 1, 7), 1), ((300, 1), 1), ((1, 300), 0), ((1, 1), None), ((), None),
          ((0, 1), 1)]
DTYPES = sampled(["float32", "float64", "int8", "uint64", "bool", "complex64"],
                 "float32")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_is_numpys(name, shape, axis, dtype, device):
    x = np.asarray(np.random.default_rng(3).normal(scale=9, size=shape)).astype(dtype)
    if x.dtype.kind == "f" and x.size > 3:
        x.flat[:4] = np.nan, np.inf, -np.inf, -0.0
    for keepdims in (False, True):
        expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
        found = nf.to_numpy(getattr(nf.ops, name)(
            nf.array(x, device=device), axis=axis, keepdims=keepdims))
        np.testing.assert_allclose(found, expected, rtol=1e-6, strict=True)
        if name == "sum" and x.dtype.kind == "f":
            assert not np.signbit(found[found == 0]).any()


@pytest.mark.parametrize("name", ["sum", "max", "var", "logsumexp", "prod"])
def test_gradients_are_those_of_more_elements(name, device):
    """Of a row and neutral elements, where there are any."""
    x = np.random.default_rng(3).normal(size=(6, 1))
    op = getattr(nf.ops, name)
    found = nf.grad(lambda x: (op(x, axis=1) ** 2).sum())(nf.array(x, device=device))
    value = {"prod": x, "max": x, "sum": x, "logsumexp": x, "var": 0*x}[name]
    np.testing.assert_allclose(nf.to_numpy(found), 2*value, atol=1e-14)


def test_of_half_precision_is_computed_in_float32(device):
    """The square of 300 is more than float16's largest number."""
    x = np.full((4, 1), 300, np.float16)
    found = nf.ops.norm(nf.array(x, device=device), axis=1)
    np.testing.assert_array_equal(nf.to_numpy(found), x[:, 0], strict=True)


ROWS = {
    "softmax": lambda x: (nf.ops.softmax(x, axis=1), 1.0),
    "log_softmax": lambda x: (nf.ops.log_softmax(x, axis=1), 0.0),
    "layer_norm": lambda x: (nf.ops.layer_norm(x, 2*x[0], 3*x[1]), 3.0),
    "rms_norm": lambda x: (nf.ops.rms_norm(x, 2*x[0], eps=0.0), 2.0)}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("dtype", sampled([np.float32, np.float16, np.float64],
                                          np.float32))
def test_rows_of_one_element(name, dtype, device):
    x = np.ones((70, 1), dtype)
    x[5:8, 0] = np.nan, np.inf, -np.inf
    x[9] = 1.5
    found, value = ROWS[name](nf.array(x, device=device))
    expected = np.where(np.isfinite(x), np.array(value, dtype), np.nan)
    np.testing.assert_array_equal(nf.to_numpy(found), expected.astype(dtype))


def test_no_loop_runs_over_one_element():
    kernels = []

    class Recording(InterpreterBackend):
        def build(self, spec, signature):
            kernels.append(type(spec))
            return super().build(spec, signature)

    with nf.use_backend(Recording()):
        nf.ops.max(np.ones((3, 1)), axis=1)
        nf.ops.max(np.ones((3, 2)), axis=1)
        nf.ops.softmax(np.ones((3, 1)), axis=1)
        nf.ops.softmax(np.ones((3, 2)), axis=1)
    assert kernels == [Map, Reduce, Map, Row]


@nf.reduction()
def _named_as_implicit(x, index, size):
    return x - 10*index + 100*size


@nf.reduction(combine="argmax")
def _place(x, index):
    return x - 10*index


@nf.reduction(post=lambda total, size: total*(size - 2) // size)
def _unsigned(x):
    return x


@nf.row
def _before(x):
    return x*(nf.index - 1) + nf.size*300


@pytest.mark.parametrize("columns", [1, 3])
def test_inputs_named_as_the_index_and_the_size(columns, device):
    x, y, z = (np.random.default_rng(k).normal(size=(5, columns)) for k in range(3))
    given = [nf.array(a, device=device) for a in (x, y, z)]
    np.testing.assert_allclose(
        nf.to_numpy(_named_as_implicit(*given, axis=1)), (x - 10*y + 100*z).sum(1))
    np.testing.assert_array_equal(
        nf.to_numpy(_place(*given[:2], axis=1)), (x - 10*y).argmax(1), strict=True)


@pytest.mark.parametrize("columns", [1, 3])
def test_numbers_that_do_not_fit_wrap_around_in_any_extent(columns, device):
    """The index and the size are no literals, which would be refused."""
    x = np.array([[1], [3], [200]], np.uint8).repeat(columns, 1)
    found = nf.ops.sum(_before(nf.array(x, device=device)), axis=1)
    expected = x*np.arange(255, 255 + columns).astype(np.uint8) + \
        np.uint8(columns*300 % 256)
    np.testing.assert_array_equal(nf.to_numpy(found), expected.sum(1), strict=True)
    total = x.sum(1)
    np.testing.assert_array_equal(
        nf.to_numpy(_unsigned(nf.array(x, device=device), axis=1)),
        total*np.array(columns - 2).astype(np.uint64) // np.uint64(columns),
        strict=True)


#: The softmax of one element is 1 whatever it is, but for what its exponentials make of
#: infinite numbers and NaN; each with its derivative, from x and the cotangent.
_GRADIENTS = {
    "softmax": lambda x, g: 0.0*g*(x - x), "log_softmax": lambda x, g: 0.0*g*(x - x),
    "sum": lambda x, g: g, "mean": lambda x, g: g, "max": lambda x, g: g,
    "min": lambda x, g: g, "prod": lambda x, g: g*(x/x),
    "var": lambda x, g: 0.0*g*(x - x),
    "logsumexp": lambda x, g: g*np.where(np.isnan(x), np.nan, 1.0)}


@pytest.mark.parametrize("name", _GRADIENTS)
@pytest.mark.parametrize("dtype", sampled([np.float32, np.float16, np.float64],
                                          np.float32))
def test_gradients_of_rows_of_one_element(name, dtype, device):
    rng = np.random.default_rng(8)
    x, g = rng.normal(size=(2, 6, 1, 50)).astype(dtype)
    x[0, 0, :3] = np.nan, np.inf, -np.inf
    given = nf.Variable(nf.array(x, device=device), requires_grad=True)
    op = getattr(nf.ops, name)
    out = op(given, axis=1) if "softmax" in name else op(given, axis=1, keepdims=True)
    out.backward(nf.array(g, device=device))
    with np.errstate(invalid="ignore"):
        expected = _GRADIENTS[name](x.astype(float), g.astype(float))
    np.testing.assert_allclose(nf.to_numpy(given.grad), expected.astype(dtype),
                               rtol=2e-3 if dtype == np.float16 else 1e-6)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "max", "prod", "var"])
def test_nothing_is_saved_of_rows_of_one_element(name):
    kernels = []

    class Recording(InterpreterBackend):
        def build(self, spec, signature):
            kernels.append((type(spec), len(signature.outputs)))
            return super().build(spec, signature)

    with nf.use_backend(Recording()):
        x = nf.Variable(np.ones((3, 1)), requires_grad=True)
        out = getattr(nf.ops, name)(x, axis=1)
        out.backward(np.ones(out.shape))
    assert kernels == [(Map, 1), (Map, 1)]


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_a_softmax_of_one_element_takes_no_exponential(name):
    operations = set()

    class Recording(InterpreterBackend):
        def build(self, spec, signature):
            typed = spec.typed(signature.inputs, signature.outputs).function
            operations.update(s.op for s in typed.function.body.statements)
            return super().build(spec, signature)

    with nf.use_backend(Recording()):
        x = nf.Variable(np.ones((3, 1), np.float32), requires_grad=True)
        getattr(nf.ops, name)(x, axis=1).backward(np.ones((3, 1), np.float32))
    assert operations <= {"add", "sub", "neg", "mul"}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_second_derivative_of_a_large_element(dtype):
    """The square of a `logsumexp` of one element is x², whose 2nd derivative is 2."""
    def slope(x):
        return nf.ops.sum(nf.grad(lambda y: nf.ops.sum(
            nf.ops.logsumexp(y, axis=1)*nf.ops.logsumexp(y, axis=1)))(x))

    x = np.array([[1e25], [-1e25], [3.0], [-0.0]], dtype)
    assert np.array_equal(nf.grad(slope)(x), np.full_like(x, 2.0))
