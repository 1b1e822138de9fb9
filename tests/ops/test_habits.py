"""What people bring from PyTorch: an error that names the way, never another result."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.errors import (
    KernelTypeError,
    ScalarSyntaxError,
    TapeError,
)
from nbfused.registry.operations import OPS
from tests.refusal import refused
from tests.variants import sampled

X = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("given", [3, 3.0, np.int64(3), (3,), [3]])
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "add_rms_norm"])
def test_a_normalised_shape_is_no_weight(name, given):
    args = (X, X) if name == "add_rms_norm" else (X,)
    with refused(KernelTypeError, f"{name}: 'weight'", repr(given), "one number for "
                 "each column", "normalized_shape", "left out"):
        OPS[name](*args, given)


def test_an_eps_is_no_bias():
    with refused(KernelTypeError, "layer_norm: 'bias'", "1e-05"):
        ops.layer_norm(X, np.ones(3), 1e-5)
    with refused(KernelTypeError, "linear: 'bias'", "True", "array"):
        ops.linear(X, X.T, True)


@pytest.mark.parametrize("training", [True, False])
def test_a_flag_is_no_seed(training):
    with refused(KernelTypeError, "dropout: 'seed'", repr(training), "training"):
        ops.dropout(X, 0.5, training)


#: Ops that take their axis by name only.
ALONG = sorted(n for n, op in OPS.items() if "axis" in getattr(
    getattr(op, "parameters", None), "options", ()))


def test_which_ops_have_an_axis():
    assert {"softmax", "log_softmax", "sum", "max", "argmin", "logsumexp"} <= set(ALONG)


@pytest.mark.parametrize("name", ALONG)
def test_an_axis_is_given_by_its_name(name):
    with refused(KernelTypeError, f"{name}(x)", "by name: axis=-1"):
        OPS[name](X, -1)
    with refused(KernelTypeError, "'axis' is what PyTorch calls 'dim'"):
        OPS[name](X, dim=-1)
    if "keepdims" in OPS[name].parameters.options:
        with refused(KernelTypeError, "'keepdims' is what PyTorch calls 'keepdim'"):
            OPS[name](X, axis=-1, keepdim=True)


def test_a_leaf_is_not_assigned_to_in_parts():
    weights, mask = nf.Variable(np.ones(3), requires_grad=True), np.array([1, 0, 1]) > 0
    with refused(TapeError, "x[index] = y", "nf.ops.set_at", "no_grad()"):
        weights[mask] = 0.0
    scaled = weights * 2.0
    scaled[mask] = 0.0
    scaled.sum().backward()
    np.testing.assert_array_equal(weights.grad, [0, 2, 0])


@nf.rawkernel(differentiable=True)
def scaled(factor, x, y):
    i = nf.grid(1)
    if i < x.shape[0]:
        y[i] = factor * x[i]


def test_a_variable_for_a_kernels_number():
    factor, y = nf.Variable(2.0, requires_grad=True), np.empty(6)
    run = scaled.as_op(outputs={"y": "x"}, grid=1, block=32)
    for call in (lambda: scaled((1,), (32,), (factor, X.ravel(), y)),
                 lambda: run(factor, nf.Variable(X.ravel()))):
        with refused(ScalarSyntaxError, "expected a number here", "x.reshape(1)",
                     "x[0]"):
            call()


@pytest.mark.parametrize("dtype", sampled(["int8", "uint8", "int64", "bool"], "int8"))
def test_numpys_scalars_compute_in_their_dtype(dtype):
    """Squares of int8 would wrap around."""
    x = np.dtype(dtype).type(100)
    for ord in (1, 2, float("inf")):
        found = ops.norm(x, ord)
        assert found.dtype == np.float64
        assert float(found) == float(x)
    assert float(ops.mean(x)) == float(x)
