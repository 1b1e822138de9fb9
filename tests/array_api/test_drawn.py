"""Functions of the standard on drawn arrays: shapes, dtypes, extreme numbers.

Minutes, as every dtype of every function is compiled: part of ``make variants``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as of_numpy

from nbfused.array_api.standard import BINARY, UNARY

from .cases import COUNTING, DIVIDING, OF_COMPLEX, dtypes
from .oracle import Case, compare

pytestmark = pytest.mark.variants
#: Many draws of one test share its kernels.
DRAWS = settings(max_examples=25, deadline=None, suppress_health_check=[
    HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much])
SHAPES = of_numpy.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)


def arrays(dtype: str, shape: Any = SHAPES, **limits: Any) -> st.SearchStrategy[Any]:
    """Arrays of any numbers of a dtype, with zeros, infinities and NaN."""
    return of_numpy.arrays(dtype, shape, elements=of_numpy.from_dtype(
        np.dtype(dtype), **limits) if limits else None)


NAMES = [(name, category, rows is BINARY) for rows in (UNARY, BINARY)
         for category, names in rows.items() for name in names.split()]
#: `test_complex_special_cases` has infinities and NaN in parts of complex numbers.
FINITE: dict[str, Any] = {"allow_nan": False, "allow_infinity": False}
#: Where these overflow on the way, C and NumPy differ.
OVERFLOWING = ("divide", "expm1", "multiply", "pow", "reciprocal", "square")


@pytest.mark.parametrize(("name", "category", "two"), NAMES,
                         ids=[name for name, *_ in NAMES])
@DRAWS
@given(st.data())
def test_elementwise(name, category, two, data):
    known = [d for d in dtypes(category) if name not in OF_COMPLEX or d[0] == "c"]
    dtype = data.draw(st.sampled_from(known))
    limits = dict(FINITE) if dtype[0] == "c" else {}
    if limits and name in OVERFLOWING:
        limits["max_magnitude"] = 8.0
    if not two:
        x = data.draw(arrays(dtype, **limits))
        compare(Case(name, (x,), {}))
        return
    shapes = data.draw(of_numpy.mutually_broadcastable_shapes(
        num_shapes=2, max_dims=3, min_side=0, max_side=4)).input_shapes
    x, y = (data.draw(arrays(dtype, shape, **limits)) for shape in shapes)
    if dtype[0] in "iu" and name in COUNTING:
        y = (np.abs(y.astype("int64")) % 5).astype(dtype)
    assume(not (name in DIVIDING and dtype[0] in "iu" and (y == 0).any()))
    compare(Case(name, (x, y), {}))


REDUCTIONS = {"sum": "fiu", "prod": "fiu", "max": "fiu", "min": "fiu", "mean": "f",
              "var": "f", "std": "f", "all": "fiub", "any": "fiub", "argmax": "fiu",
              "argmin": "fiu", "count_nonzero": "fiub", "cumulative_sum": "fiu",
              "cumulative_prod": "fiu", "sort": "fiu", "argsort": "fiu"}
ONE_AXIS = ("argmax", "argmin", "cumulative_sum", "cumulative_prod", "sort", "argsort")
SMALL: dict[str, Any] = {"f": {"allow_nan": False, "allow_infinity": False,
                               "min_value": -16.0, "max_value": 16.0}}


@pytest.mark.parametrize("name", REDUCTIONS)
@DRAWS
@given(st.data())
def test_along_axes(name, data):
    dtype = data.draw(st.sampled_from([d for d in dtypes("all")
                                       if d[0] in REDUCTIONS[name]]))
    x = data.draw(arrays(dtype, **(SMALL["f"] if dtype[0] == "f" else {})))
    empty = name in ("max", "min", "mean", "var", "std", "argmax", "argmin")
    assume(x.ndim and not (empty and x.size == 0))
    axes = st.integers(-x.ndim, x.ndim - 1)
    options: dict[str, Any] = {"axis": data.draw(
        axes if name in ONE_AXIS else axes | st.none() | st.just(
            tuple(range(x.ndim))))}
    if name in ("sort", "argsort"):
        options["descending"] = data.draw(st.booleans())
    elif not name.startswith("cumulative"):
        options["keepdims"] = data.draw(st.booleans())
    compare(Case(name, (x,), options), 1e-3)


@DRAWS
@given(st.data())
def test_moved(data):
    dtype = data.draw(st.sampled_from(dtypes("all")))
    x = data.draw(arrays(dtype, of_numpy.array_shapes(max_dims=4, max_side=4)))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    shift = data.draw(st.integers(-9, 9))
    order = tuple(data.draw(st.permutations(range(x.ndim))))
    for case in (
            Case("roll", (x, shift), {"axis": axis}), Case("roll", (x, shift), {}),
            Case("flip", (x,), {"axis": axis}), Case("permute_dims", (x, order), {}),
            Case("moveaxis", (x, axis, order[0]), {}), Case("unstack", (x,), {
                "axis": axis}), Case("expand_dims", (x,), {"axis": axis}),
            Case("concat", ([x, x],), {"axis": axis}), Case("stack", ([x, x],), {
                "axis": axis}), Case("repeat", (x, abs(shift) % 3), {"axis": axis}),
            Case("reshape", (x, (-1,)), {}), Case("diff", (x,), {"axis": axis})
            if dtype[0] not in "bu" else Case("flip", (x,), {}),
            *(Case(f"unique_{which}", (x,), {}) for which in (
                "all", "counts", "inverse", "values"))):
        compare(case)
