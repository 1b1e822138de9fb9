"""Functions for 16-bit results over the whole range of their arguments."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.ops import activations
from nbfused.support.dtypes import BFLOAT16

pytestmark = pytest.mark.cuda

_erfc = np.vectorize(math.erfc, otypes=[np.float64])
_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x):
    return np.where(x < 0, np.exp(np.minimum(x, 0)), 1)/(1 + np.exp(-abs(x)))


def erfc(x):
    return math.erfc(x)


def user_swish(x):
    return x/(1 + math.exp(-x))


def user_gelu(x):
    return 0.5*x*(1 + math.erf(x*0.7071067811865476))


def user_gelu_tanh(x):
    return 0.5*x*(1 + math.tanh(0.7978845608028654*(x + 0.044715*x*x*x)))


def _gelu(x):
    return 0.5*x*_erfc(-x/math.sqrt(2))


def _gelu_tanh(x):
    return x*_sigmoid(2*math.sqrt(2/math.pi)*(x + 0.044715*x**3))


CASES = {
    "exp": (ops.exp, np.exp),
    "sqrt": (ops.sqrt, np.sqrt),
    "sigmoid": (ops.sigmoid, _sigmoid),
    "swish": (ops.swish, lambda x: x*_sigmoid(x)),
    "erfc": (nf.elementwise(erfc), _erfc),
    "gelu": (ops.gelu, _gelu),
    "gelu_tanh": (activations.gelu_tanh, _gelu_tanh),
    "x/(1+exp(-x))": (nf.elementwise(user_swish), lambda x: x*_sigmoid(x)),
    "1+erf": (nf.elementwise(user_gelu), _gelu),
    "1+tanh": (nf.elementwise(user_gelu_tanh), _gelu_tanh),
}


def ordered(x):
    """Integers in the order of the 16-bit floats, one for each."""
    bits = x.view(np.int16).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFF), bits)


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16])
@pytest.mark.parametrize("name", CASES)
def test_the_nearest_number_or_the_next(name, dtype):
    function, reference = CASES[name]
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    with np.errstate(all="ignore"):
        expected = reference(x.astype(np.float64)).astype(dtype)
    found = nf.to_numpy(function(nf.array(x, device="cuda:0")))
    finite = np.isfinite(x.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(found)[finite], np.isnan(expected)[finite])
    number = finite & ~np.isnan(expected)
    steps = abs(ordered(found) - ordered(expected))[number]
    assert steps.max() <= 1, x[number][steps.argmax()]
