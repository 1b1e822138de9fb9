"""Options that must be integers."""

import numpy as np
import pytest

from nbfused import ops
from nbfused.errors import KernelTypeError

X = np.ones((2, 3))


@pytest.mark.parametrize(("call", "name"), [
    (lambda: ops.dropout(X, 0.5, 1.5), "dropout: 'seed'"),
    (lambda: ops.cross_entropy(X, np.array([0, 1]), ignore_index=1.5),
     "cross_entropy: 'ignore_index'"),
    (lambda: ops.adam_step(X, X, X, X, step=1.5), "adam_step: 'step'"),
])
def test_a_fraction_is_refused(call, name):
    with pytest.raises(KernelTypeError, match=f"{name} must be an integer, got 1.5"):
        call()


@pytest.mark.parametrize(("call", "text"), [
    (lambda: ops.transpose(None), "transpose: 'x' must be an array"),
    (lambda: ops.reshape(None, (2,)), "reshape: 'x' must be an array"),
    (lambda: ops.squeeze(None), "squeeze: 'x' must be an array"),
    (lambda: ops.expand_dims(3.0, 0), "expand_dims: 'x' must be an array, got 3.0"),
    (lambda: ops.getitem(None, 0), "getitem: 'x' must be an array"),
    (lambda: ops.reshape(X, "a"), "reshape: 'shape' must be an integer or a tuple"),
    (lambda: ops.reshape(X, (1.5,)), "reshape: 'shape' must be an integer, got 1.5"),
    (lambda: ops.concatenate(None), "concatenate: 'arrays' must be a sequence"),
    (lambda: ops.layer_norm(X, eps="a"), "layer_norm: 'eps' must be a number, got 'a'"),
])
def test_what_is_no_array_or_number_is_named(call, text):
    with pytest.raises(KernelTypeError, match=text):
        call()
