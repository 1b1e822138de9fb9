"""Scalars and arrays without dimensions inside `nf.fuse`, as NumPy tells them apart."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError
from tests.kernels.fusing.test_fuse_in_place import (
    LEFT,
    RIGHT,
    _array,
    _variable,
    agree,
)
from tests.variants import sampled

pytestmark = [pytest.mark.interpreted, pytest.mark.filterwarnings("ignore")]

#: How a value without dimensions comes about, and what changes it.
WITHOUT_DIMENSIONS = {
    "where": lambda x: np.where(x[0] > 1, x[0], x[1]),
    "zeros_like": lambda x: np.zeros_like(x.sum()),
    "full_like": lambda x: np.full_like(x.sum(), 3),
    "numpy.copy": lambda x: np.copy(x.sum()), "copy": lambda x: x.sum().copy(),
    "astype": lambda x: x.sum().astype("f4"),
    "a copy of where": lambda x: np.where(x[0] > 1, x[0], x[1]).copy(),
    "where, converted": lambda x: np.where(x[0] > 1, x[0], x[1]).astype("i2"),
    "an operator on where": lambda x: -np.where(x[0] > 1, x[0], x[1]),
    "sum": lambda x: x.sum(), "element": lambda x: x[0], "mean": lambda x: np.mean(x),
    "ufunc": lambda x: np.exp(x.sum()), "argmax": lambda x: x.argmax(),
    "dot": lambda x: x @ x, "clip": lambda x: np.clip(x.max(), 0, 1),
    "nf.ops.sum": lambda x: nf.ops.sum(x),
    "nf.ops.where": lambda x: nf.ops.where(x[0] > 1, x[0], x[1]),
    "out of a method": lambda x: x.sum(out=np.zeros_like(x.sum())),
    "out of a function": lambda x: np.sum(x, out=np.zeros_like(x.sum())),
    "out of a ufunc": lambda x: np.add(x[0], 1, out=np.zeros_like(x.sum())),
}


@pytest.mark.parametrize("name", WITHOUT_DIMENSIONS)
@pytest.mark.parametrize("dtype", sampled(["f4", "i4"], "i4"))
def test_arrays_without_dimensions_keep_what_scalars_do_not(name, dtype):
    """NumPy changes such an array; it replaces a scalar, also by a larger array."""
    for op, other in itertools.product((operator.iadd, operator.itruediv),
                                       (0.5, _array(1.5, "f8"), _array([1, 2], "f8"))):
        agree(lambda x, y, op=op: (op(WITHOUT_DIMENSIONS[name](x), y),),
              lambda other=other: (_array([1, 2, 3], dtype), other))


def test_scalars_of_numpy_are_not_changed():
    """``s += 1`` makes another; whoever has the old one under a name is told."""
    @nf.fuse
    def total(x, y):
        s = x.sum()
        for _ in range(3):
            s += y.sum()
        s *= 2
        return s

    x, y = _array(LEFT, "f8"), _array(RIGHT, "f8")
    assert total(x, y) == (x.sum() + 3 * y.sum()) * 2

    def two(x):
        s = x.sum()
        t = s
        s += 1
        return s, t

    with pytest.raises(KernelTypeError, match=r"write x = x \+ y"):
        nf.fuse(two)(x)
    s, t = nf.fuse(two)(_variable(LEFT, "f8"))
    assert s is t or s.item() == t.item() == 11


@pytest.mark.parametrize("view", [
    lambda x: x.reshape(()), lambda x: x.squeeze(), lambda x: x[0, ...]])
def test_a_view_without_dimensions_is_an_array(view):
    """The argument is changed through it; only scalars are replaced."""
    def changed(x):
        x = view(x)
        x += 3
        return x

    given = np.array([5.0])
    found = nf.fuse(changed)(given)
    assert (found.shape, found.item(), given.item()) == ((), 8.0, 8.0)


def test_an_element_is_a_scalar():
    def changed(x):
        s = x[1]
        s *= 2
        return s

    given = np.arange(3.0)
    assert nf.fuse(changed)(given) == changed(given) == 2
    assert np.array_equal(given, np.arange(3.0))


#: Numbers of NumPy's, and arrays without dimensions.
NUMBERS = {
    **WITHOUT_DIMENSIONS, "divmod": lambda x: np.divmod(x.sum(), 2)[0],
    "modf": lambda x: np.modf(x.sum() / 4)[0], "median": np.median, "norm":
    np.linalg.norm, "transposed": lambda x: x.sum().T,
    "tensordot": lambda x: np.tensordot(x, x, 1),
    "select": lambda x: np.select([x.sum() > 0], [x.sum()], 1.0),
    "apply_along_axis": lambda x: np.apply_along_axis(np.sum, 0, x),
    "array": lambda x: np.array(x.sum()), "asarray": lambda x: np.asarray(x.sum()),
}
VIEWS = {"reshape": lambda y: y.reshape(1), "None": lambda y: y[None],
         "expand_dims": lambda y: np.expand_dims(y, 0)}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_has_no_views(name, view):
    def f(x):
        y = NUMBERS[name](x)
        z = VIEWS[view](y)
        z += 1
        return y * 1, z

    x = np.array([1.0, 2.0, 4.5])
    for found, expected in zip(nf.fuse(f)(x), f(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("shape", [(1,), (1, 1)])
@pytest.mark.parametrize("given", [(), (1,)])
def test_axes_given_to_a_number_are_reduced(shape, given):
    """Where all that is combined has no dimensions, the axes were lost."""
    def f(x):
        y = (x * 2).reshape(shape)
        axes = tuple(range(len(shape)))
        return np.nanmax(y, axis=axes), np.nanmin(y[None], axis=0)

    x = np.full(given, 2.5)
    for found, expected in zip(nf.fuse(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(found, expected)
