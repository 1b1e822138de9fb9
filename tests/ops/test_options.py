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
