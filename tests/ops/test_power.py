"""Integer powers."""

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import RangeError

pytestmark = pytest.mark.interpreted


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


@pytest.mark.parametrize("types", [("uint64", "int64"), ("int8", "uint64")])
def test_powers_of_integers_that_numpy_takes_as_floats(types):
    x = np.array([2, 3, 1], types[0])
    y = np.array([-1, 2, -3]).astype(types[1])
    y = y if types[1] == "int64" else np.array([2**63, 2, 0], types[1])
    with np.errstate(over="ignore"):
        expected = np.power(x, y)
    made = nf.ops.power(x, y)
    assert made.dtype == expected.dtype == np.float64
    np.testing.assert_allclose(made, expected)


def test_exponents_of_64_bits_are_not_taken_for_negative_ones(device):
    x, y = np.array([3, 1, 7], "uint8"), np.array([2**64 - 1, 2**63, 3], "uint64")
    raised = nf.elementwise(lambda x, y: x**y)
    for power in (nf.ops.power, raised):
        made = power(nf.array(x, device=device), nf.array(y, device=device))
        np.testing.assert_array_equal(nf.to_numpy(made), np.power(x, y))
    with pytest.raises(RangeError, match=r"'y' is 2\*\*63 or more"):
        nf.ops.power(x, 2**63)


@pytest.mark.parametrize("x", [True, np.bool_(True), np.array([True])])
def test_a_bool_to_a_negative_power_is_refused(x):
    with pytest.raises(RangeError, match="is negative"):
        nf.ops.power(x, np.array([-1]))
    assert nf.ops.power(x, np.array([3], "uint64")) == 1
    assert nf.ops.power(x, np.array([2**63], "uint64")) == 1
