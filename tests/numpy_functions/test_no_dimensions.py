"""Axes of arrays without dimensions: 0 and -1 where NumPy takes them, else an error."""

from __future__ import annotations

import inspect
import warnings
from functools import reduce
from typing import Any

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, NbFusedPerformanceWarning
from tests.numpy_functions.test_namespace import FOUND

pytestmark = pytest.mark.interpreted

ONE = np.array(2.5)
#: Further arguments of functions that need some.
FURTHER: dict[str, tuple[Any, ...]] = {
    "append": (1.0,), "array_split": (1,), "delete": ([0],), "insert": (0, 1.0),
    "percentile": (40.0,), "nanpercentile": (40.0,), "quantile": (0.4,),
    "nanquantile": (0.4,), "partition": (0,), "argpartition": (0,), "repeat": (2,),
    "roll": (1,), "split": (1,), "take": (0,), "take_along_axis": (np.array(0),),
    "linalg.vecdot": (ONE,), "linalg.cross": (ONE,), "cross": (ONE,), "vecdot": (ONE,),
    "linspace": (3.0,), "logspace": (3.0,), "geomspace": (3.0,),
}
#: Functions of several arrays, of bits, or of functions.
OTHERS = {"apply_along_axis", "compress", "concat", "concatenate", "lexsort",
          "packbits", "put_along_axis", "rollaxis", "stack", "unpackbits"}
NAMES = sorted(name for name, function in FOUND.items() if name not in OTHERS and (
    name == "vecdot" or not isinstance(function, np.ufunc))
    and "axis" in inspect.signature(function).parameters)


def outcome(call: Any, *args: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call(*args, **options)
        except Exception as error:
            return error


def compare(found: Any, wanted: Any) -> None:
    """Results, of which some are lists, or errors of one kind."""
    if isinstance(wanted, Exception):
        kind = np.exceptions.AxisError if isinstance(
            wanted, np.exceptions.AxisError) else Exception
        assert isinstance(found, kind), (found, wanted)
    elif isinstance(wanted, (list, tuple)):
        for one, other in zip(found, wanted, strict=True):
            compare(one, other)
    else:
        assert not isinstance(found, Exception), found
        found = np.asarray(found.data if isinstance(found, nf.Variable) else found)
        assert (found.shape, found.dtype) == (np.shape(wanted), np.asarray(
            wanted).dtype)
        np.testing.assert_allclose(found, wanted, 1e-9)


@pytest.mark.parametrize("axis", [0, -1, 1])
@pytest.mark.parametrize("name", NAMES)
def test_axes(name, axis):
    function, further = FOUND[name], FURTHER.get(name, ())
    wanted = outcome(function, ONE, *further, axis=axis)
    ours = reduce(getattr, name.split("."), nf.ops)
    compare(outcome(ours, ONE, *further, axis=axis), wanted)
    compare(outcome(function, nf.Variable(ONE), *further, axis=axis), wanted)


@pytest.mark.parametrize("name", ["sum", "max", "any", "argmin", "cumsum", "argsort",
                                  "take", "repeat", "squeeze", "mean", "sort"])
def test_axes_in_fuse(name):
    function, further = FOUND[name], FURTHER.get(name, ())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NbFusedPerformanceWarning)
        traced = nf.fuse(lambda x: function(x, *further, axis=0))
    compare(outcome(traced, ONE), outcome(function, ONE, *further, axis=0))


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "logaddexp", "gcd"])
def test_methods_of_ufuncs(name):
    one = ONE if name != "gcd" else np.array(-4)
    wanted = getattr(np, name).reduce(one)
    compare(getattr(np, name).reduce(nf.Variable(one)), wanted)


def test_gradients():
    for function in (lambda x: np.sum(x * x, axis=0), lambda x: np.max(x * x, axis=-1),
                     lambda x: np.cumsum(x * x, axis=0)[0]):
        assert float(nf.grad(function)(ONE)) == 5.0
        assert float(nf.grad(nf.grad(function))(ONE)) == 2.0
    np.testing.assert_array_equal(
        nf.vmap(lambda x: np.sum(x * x, axis=0))(np.arange(3.0)), [0.0, 1.0, 4.0])


@pytest.mark.parametrize(("shape", "axis"), [
    ((0, 0), 1), ((3, 0), 1), ((3, 0), 0), ((0,), None), ((0, 3), (0, 1))], ids=str)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_median_of_nothing_is_nan(shape, axis):
    x = np.zeros(shape)
    wanted = np.median(x, axis=axis, keepdims=True)
    for found in (np.median(nf.Variable(x), axis=axis, keepdims=True).data,
                  nf.ops.median(x, axis=axis, keepdims=True)):
        np.testing.assert_array_equal(found, wanted, strict=True)


@pytest.mark.parametrize("ufunc", [np.add, np.maximum], ids=lambda u: u.__name__)
def test_accumulate_over_no_axis_named_takes_one(ufunc):
    x = nf.Variable(np.array([3.0, 1.0, 2.0]))
    np.testing.assert_array_equal(ufunc.accumulate(x, axis=None).data,
                                  ufunc.accumulate(x.data, axis=None))
    with pytest.raises(KernelTypeError, match="'axis' is None"):
        ufunc.accumulate(nf.Variable(np.ones((2, 2))), axis=None)


def test_numbers_are_stacked_as_columns():
    x = nf.Variable(ONE)
    np.testing.assert_array_equal(np.column_stack([x, x]).data,
                                  np.column_stack([ONE, ONE]))
