"""Python integers that the arrays' dtype does not hold."""

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import RangeError

pytestmark = pytest.mark.interpreted


@pytest.mark.parametrize(("call", "name"), [
    (lambda u: nf.ops.add(u, 256), "'y' is the Python integer 256"),
    (lambda u: nf.ops.maximum(u, -1), "'y' is the Python integer -1"),
    (lambda u: nf.ops.clip(u, 300, 400), "'low' is the Python integer 300"),
    (lambda u: nf.ops.clip(u, None, -1), "'high' is the Python integer -1"),
    (lambda u: nf.fuse(lambda x, n: x + n)(u, 300), "'y' is the Python integer 300"),
    (lambda u: nf.ops.add(u, 300, out=u), "'y' is the Python integer 300"),
    (lambda u: nf.Variable(u).__iadd__(300), "'y' is the Python integer 300"),
    (lambda u: nf.ops.where(u > 1, u, 300), "where: 'y' is the Python integer 300"),
    (lambda u: nf.ops.power(-1, u), "power: 'x' is the Python integer -1"),
    (lambda u: nf.ops.matmul(u, u, bias=300), "'bias' is the Python integer 300"),
    (lambda u: nf.ops.fmod(u, 300), "fmod: 'x1' is the Python integer 300"),
    (lambda u: nf.Variable(u) & -1, "and: 'x1' is the Python integer -1"),
    (lambda u: nf.ops.gcd(u, 300), "gcd: 'an argument' is the Python integer 300"),
    (lambda u: np.insert(nf.Variable(u), 1, -1), "insert: .* Python integer -1"),
    (lambda u: nf.ops.max(u, initial=300), "'initial' is the Python integer 300"),
    (lambda u: np.putmask(nf.Variable(u), u > 1, 300), "'values' is the Python integer"
                                                       " 300"),
    (lambda u: nf.fuse(lambda x, n: nf.ops.set_at(x, n, 0))(u, 300),
     "'value' is the Python integer 300"),
    (lambda u: nf.fuse(lambda x: np.full_like(x, 300))(u),
     "'fill_value' is the Python integer 300"),
])
def test_an_integer_out_of_range_is_refused(call, name):
    given = np.array([1, 2, 3], np.uint8)
    with pytest.raises(RangeError, match=f"{name}, out of range for uint8") as caught:
        call(given)
    assert isinstance(caught.value, OverflowError)  # as NumPy's
    assert given.tolist() == [1, 2, 3]


@pytest.mark.parametrize("dtype", ["uint8", "int64"])
@pytest.mark.parametrize("name", ["divide", "arctan2", "hypot", "copysign",
                                  "nextafter"])
def test_integers_become_floats_where_ufuncs_compute_in_them(name, dtype):
    given = np.array([1, 2, 3], dtype)
    for number in (-1, 300, 2**64):
        with np.errstate(over="ignore"):
            found = getattr(nf.ops, name)(given, number)
            expected = getattr(np, name)(given, number)
        np.testing.assert_allclose(found, expected, rtol=2e-3)
        assert found.dtype == expected.dtype


def test_a_fused_division_takes_an_integer_out_of_range():
    given = np.array([1, 2, 3], np.uint8)
    fused = nf.fuse(lambda x, n: x / n)
    np.testing.assert_allclose(fused(given, 256), given / 256)


@pytest.mark.parametrize("exponent", [2**63, np.uint64(2**63)])
def test_exponents_of_64_bits_are_refused(exponent):
    with pytest.raises(RangeError, match=r"2\*\*63 or more .* below 2\*\*63"):
        nf.ops.power(np.array([1, 3], np.uint64), exponent)


def test_a_huge_integer_is_not_printed_in_full():
    with pytest.raises(RangeError, match="integer of 1329 bits, which fits no float"):
        nf.ops.add(np.ones(2), 10**400)


def test_integers_in_range_pass():
    np.testing.assert_array_equal(nf.ops.add(np.array([1], np.uint8), 254), [255])
    np.testing.assert_array_equal(nf.ops.add(np.array([True]), 300), [301])
    both = nf.ops.clip(np.array([1]), np.array([2], np.uint64), 5)  # in float64
    np.testing.assert_array_equal(both, [2.0])
    np.testing.assert_array_equal(nf.ops.add(np.ones(1, np.float32), 10**9), [1e9])


INTEGERS = [0, 1, 127, 128, 255, 256, -1, -128, -129, 2**31, -2**63, 2**63, 2**70]


def outcome(op, *args):
    """The result, or the name of the error."""
    try:
        found = op(*args)
    except RangeError as error:
        return str(error)
    return found.dtype, str(found.tolist())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "uint64", "int64",
                                   "float16", "float32", "complex64"])
@pytest.mark.parametrize("name", ["multiply", "maximum", "less", "divide", "where",
                                  "clip"])
def test_calls_with_integers_do_not_depend_on_those_before(name, dtype):
    """A call is repeated without checks where its integers fit, and only there."""
    if dtype == "complex64" and name in ("maximum", "less", "clip"):
        pytest.skip("complex numbers have no order")
    op, x = getattr(nf.ops, name), np.array([1, 0, 1, 3], dtype)
    arguments = {"where": lambda n: (x > 0, x, n), "clip": lambda n: (x, None, n)}.get(
        name, lambda n: (x, n))
    first = {}
    for number in INTEGERS:  # each as if it were the first of its kind
        kept = dict(op._known) if hasattr(op, "_known") else None
        if kept is not None:
            op._known.clear()
        first[number] = outcome(op, *arguments(number))
    for number in [3, *INTEGERS, *reversed(INTEGERS)]:
        assert outcome(op, *arguments(number)) == first.setdefault(
            number, outcome(op, *arguments(number)))
