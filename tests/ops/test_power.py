"""Integer powers."""

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import RangeError


@pytest.mark.parametrize("exponent", [-1, np.int32(-2), np.array([1, -1])])
def test_an_integer_to_a_negative_power_is_refused(exponent):
    with pytest.raises(RangeError, match="'y' is negative and 'x' an integer: got -"):
        nf.ops.power(np.array([2, 3]), exponent)


def test_other_powers_pass():
    x = np.array([2, 3])
    np.testing.assert_array_equal(nf.ops.power(x, 3), [8, 27])
    np.testing.assert_array_equal(nf.ops.power(x, np.array([0, 2])), [1, 9])
    np.testing.assert_allclose(nf.ops.power(x, -1.0), [0.5, 1 / 3])
    np.testing.assert_allclose(nf.ops.power(2.0, x), [4.0, 8.0])
    v = nf.Variable(np.array([2.0]), requires_grad=True)
    (v**3).backward()
    np.testing.assert_allclose(v.grad, [12.0])
