"""Numbers of derived classes, sizes beyond 64 bits, misaligned indices."""

from __future__ import annotations

import enum

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, ShapeError
from nbfused.scalar.typing.python_numbers import number_type, plain_number

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore")]


class Mode(enum.IntEnum):
    """Integers with names."""

    FIRST = 2


class Flags(enum.IntFlag):
    """Others."""

    A = 2


class Real(float):
    """A float that prints as a program."""

    def __repr__(self):
        return "__import__('os')"


class Whole(int):
    """An integer."""


class Complex(complex):
    """A complex number."""


NUMBERS = [Mode.FIRST, Flags.A, Real(2.5), Whole(2), True, np.float64(2.5), np.int16(2),
           np.bool_(True)]
X = np.arange(6.0).reshape(2, 3) - 1


@nf.elementwise
def scaled(x, s):
    """Of an array and a number."""
    return x * s + Mode.FIRST


@nf.row
def row(x, s):
    """Along the last axis."""
    return x * s


KERNEL = nf.ElementwiseKernel("float64 x, T s", "float64 y", "y = x * s", "kernel")
REDUCTION = nf.ReductionKernel("float64 x, float64 s", "float64 y", "x * s", "a + b",
                               "y = a", "0", "reduction")

#: What takes a number, and the same in NumPy.
PLACES = {
    "op": (lambda s: nf.ops.multiply(X, s), lambda s: X * s),
    "op by name": (lambda s: nf.ops.multiply(X, y=s), lambda s: X * s),
    "where": (lambda s: nf.ops.where(X > 0, s, X), lambda s: np.where(X > 0, s, X)),
    "out": (lambda s: nf.ops.add(X, s, out=np.zeros((2, 3))), lambda s: X + s),
    "elementwise": (lambda s: scaled(X, s), lambda s: X * s + 2),
    "row": (lambda s: row(X, s), lambda s: X * s),
    "Variable": (lambda s: (nf.Variable(X) * s).data, lambda s: X * s),
    "reflected": (lambda s: (s - nf.Variable(X)).data, lambda s: s - X),
    "ufunc": (lambda s: np.add(nf.Variable(X), s).data, lambda s: X + s),
    "fused": (lambda s: nf.fuse(lambda x, n: x * n + n)(X, s), lambda s: X * s + s),
    "fused on the host": (lambda s: nf.fuse(lambda x, n: x * (n + 1))(X, s),
                          lambda s: X * (s + 1)),
    "closure": (lambda s: nf.fuse(lambda x: x * s)(X), lambda s: X * s),
    "gradient": (lambda s: nf.grad(lambda x: (x * s).sum())(X),
                 lambda s: np.full((2, 3), s, "f8")),
    "full_like": (lambda s: nf.ops.full_like(X, s), lambda s: np.full_like(X, s)),
    "vocabulary": (lambda s: nf.square(s), lambda s: np.square(s * 1.0)),
    "kernel": (lambda s: KERNEL(X, s), lambda s: X * s),
    "reduction": (lambda s: REDUCTION(X, s), lambda s: (X * s).sum()),
    "specialised": (lambda s: nf.elementwise(lambda x: x * s)(X), lambda s: X * s),
    "clip": (lambda s: nf.ops.clip(X, 0, s), lambda s: np.clip(X, 0, s)),
    "assigned": (lambda s: nf.fuse(lambda x, n: x.__setitem__(..., n) or x)(
        X.copy(), s), lambda s: np.full((2, 3), s, "f8")),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("number", NUMBERS, ids=lambda n: type(n).__name__)
def test_numbers_of_derived_classes(place, number):
    run, reference = PLACES[place]
    found = np.asarray(run(number))
    expected = np.asarray(reference(plain_number(number)))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    if place != "vocabulary":
        assert found.dtype == expected.dtype


def test_an_option_of_a_fused_function():
    """Members of enumerations are constant, so that `is` compares them."""
    other = enum.IntEnum("Other", {"A": 1, "B": 2})
    fused = nf.fuse(lambda x, mode: x * 3 if mode is other.B else x)
    np.testing.assert_array_equal(fused(X, other.B), X * 3)
    np.testing.assert_array_equal(fused(X, other.A), X)


def test_plain_numbers():
    for number, kind, name in ((Mode.FIRST, int, "int"), (Real(2), float, "float"),
                               (Whole(2), int, "int"), (True, bool, "bool"),
                               (Complex(2), complex, "complex")):
        assert type(plain_number(number)) is kind
        assert plain_number(number) == kind(2) or number is True
        assert number_type(number).kind == name
    assert number_type(np.float64(2)) == np.float64
    assert plain_number("x") == "x"


ONE = np.ones((1,), "f4")


@pytest.mark.parametrize("call", [
    lambda: nf.ops.add(np.broadcast_to(ONE, (2**40, 1)),
                       np.broadcast_to(ONE, (1, 2**40))),
    lambda: nf.fuse(lambda x, y: x + y)(
        np.broadcast_to(ONE, (2**40, 1)), np.broadcast_to(ONE, (1, 2**40))),
    lambda: nf.ops.multiply.outer(*[np.broadcast_to(ONE, (2**40,))] * 2),
    lambda: nf.ops.broadcast_to(ONE, (2**62, 4)),
    lambda: nf.ops.matmul(np.broadcast_to(ONE, (2**40, 1)),
                          np.broadcast_to(ONE, (1, 2**40))),
    lambda: nf.ops.concatenate([nf.ops.broadcast_to(ONE, (2**58,))] * 8),
    lambda: nf.ops.stack([nf.ops.broadcast_to(ONE, (2**58,))] * 8),
    lambda: nf.ops.take(np.broadcast_to(ONE, (1, 2**56)), np.zeros(64, int), axis=0),
    lambda: REDUCTION(np.broadcast_to(ONE.astype("f8"), (2**40, 1)),
                      np.broadcast_to(ONE.astype("f8"), (1, 2**40))),
    lambda: nf.empty((2**40, 2**40)), lambda: nf.full((2**62, 4), 1.0)])
def test_more_elements_than_an_array_can_have(call):
    with pytest.raises(ShapeError, match=r"at most 2\*\*59|less than 2\*\*59"):
        call()


def test_a_misaligned_index_is_named():
    bad = np.zeros(33, "u1")[1:].view("i8")
    for call, name in ((lambda: nf.ops.take(X, bad), "indices"),
                       (lambda: nf.ops.take(bad, np.array([0])), "x"),
                       (lambda: nf.ops.embedding(X, bad), "indices"),
                       (lambda: nf.fuse(lambda x, i: nf.ops.take(x, i))(X, bad),
                        "indices"),
                       (lambda: nf.ops.cross_entropy(np.zeros((4, 3)), bad), "labels"),
                       (lambda: nf.ops.power(np.arange(4), bad), "y")):
        with pytest.raises(KernelTypeError, match=f"^{name}: its elements do not lie"):
            call()
