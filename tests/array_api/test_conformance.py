"""The namespace beside `array_api_strict`: signatures, values, dtypes, promotion."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError
from tests.variants import sampled

from .cases import ELEMENTWISE, OTHERS, SPECIAL
from .oracle import Case, compare, function, host, names, parameters, strict, xp

pytestmark = pytest.mark.interpreted

#: Names of the standard 2025.12, which come after the one that is here.
LATER = {"broadcast_shapes", "isin", "linalg.eig", "linalg.eigvals"}
DTYPES = xp.__array_namespace_info__().dtypes()
#: One dtype of each function at once; the other kernels are as those that others try.
USUAL = ("float64", "int64", "bool", "complex128")
ONCE = {key.split()[0]: key for key in reversed(ELEMENTWISE) if key.endswith(USUAL)}


@pytest.mark.parametrize("name", sorted({*names()} - LATER))
def test_parameters_are_those_of_the_standard(name):
    ours, theirs = (parameters(function(m, name)) for m in (xp, strict))
    if name != "expand_dims":  # 2025.12 has its axis without a default, and positional
        assert [p[:2] for p in ours] == [p[:2] for p in theirs]
    defaults = [(a[2], b[2]) for a, b in zip(ours, theirs, strict=True)
                if "Undef" not in str(b[2]) and name != "expand_dims"]
    assert all(a == b for a, b in defaults)


@pytest.mark.parametrize("key", sampled(ELEMENTWISE, *ONCE.values()))
def test_elementwise(key):
    for case in ELEMENTWISE[key]:
        compare(case)


@pytest.mark.parametrize("dtype", sampled(("float64", "float32"), "float64"))
@pytest.mark.parametrize("name", SPECIAL)
def test_special_cases(name, dtype):
    for case in SPECIAL[name]:
        compare(Case(name, tuple(x.astype(dtype) for x in case.arrays), {}), zeros=True)


@pytest.mark.parametrize("chapter", OTHERS)
def test_chapter(chapter):
    wrong = {}
    for case in OTHERS[chapter]:
        try:
            compare(case)
        except Exception as error:
            wrong[f"{case.name} {case.options} {case.arrays}"] = repr(error)
    assert not wrong


def test_every_function_has_a_case():
    tried = {case.name for cases in (*ELEMENTWISE.values(), *OTHERS.values())
             for case in cases}
    known = {"__array_namespace_info__", "asarray", "can_cast", "empty", "empty_like",
             "finfo", "from_dlpack", "iinfo", "isdtype", "result_type", "linalg.matmul"}
    assert {*names()} - LATER - tried == known


@pytest.mark.parametrize("first", DTYPES)
def test_promotion_is_that_of_the_standard(first):
    for second in DTYPES:
        pair = [getattr(strict, name) for name in (first, second)]
        ours = DTYPES[first], DTYPES[second]
        assert xp.can_cast(*ours) == strict.can_cast(*pair)
        try:
            expected = strict.result_type(*pair)
        except TypeError:
            with pytest.raises(KernelTypeError, match="does not mix kinds"):
                xp.result_type(*ours)
            with pytest.raises(KernelTypeError, match="no common dtype"):
                xp.equal(*(xp.zeros(1, dtype=x) for x in ours))
            continue
        assert xp.result_type(*ours) == expected._np_dtype


@pytest.mark.parametrize(("name", "number"), [*product(DTYPES, (
    True, 1, 1.5, 1j))])
def test_python_numbers_are_of_their_kind(name, number):
    one, theirs = xp.ones(1, dtype=DTYPES[name]), strict.ones(
        1, dtype=getattr(strict, name))
    try:
        expected = theirs == number
    except TypeError:
        with pytest.raises(KernelTypeError, match="another kind"):
            xp.equal(one, number)
        return
    assert xp.equal(one, number).to_numpy().tolist() == np.asarray(
        expected._array).tolist()


@pytest.mark.parametrize("kind", ["bool", "signed integer", "unsigned integer",
                                  "integral", "real floating", "complex floating",
                                  "numeric", ("bool", "integral")])
def test_isdtype(kind):
    for name, dtype in DTYPES.items():
        assert xp.isdtype(dtype, kind) == strict.isdtype(getattr(strict, name), kind)


def test_limits():
    for name in ("float32", "float64", "complex64", "complex128"):
        ours, theirs = xp.finfo(DTYPES[name]), strict.finfo(getattr(strict, name))
        for field in ("bits", "eps", "max", "min", "smallest_normal"):
            assert getattr(ours, field) == getattr(theirs, field)
            assert type(getattr(ours, field)) in (int, float)
        assert ours.dtype == theirs.dtype._np_dtype
    for name in ("int8", "uint64"):
        ours, theirs = xp.iinfo(DTYPES[name]), strict.iinfo(getattr(strict, name))
        assert (ours.bits, ours.max, ours.min) == (theirs.bits, theirs.max, theirs.min)
    assert xp.finfo(xp.bfloat16).eps == 2.0**-7
    with pytest.raises(KernelTypeError, match="expected an integer dtype"):
        xp.iinfo(xp.float32)
    with pytest.raises(KernelTypeError, match="expected a floating dtype"):
        xp.finfo(xp.asarray([1]))


@pytest.mark.compiled
def test_information():
    info, theirs = xp.__array_namespace_info__(), strict.__array_namespace_info__()
    assert info.capabilities() == theirs.capabilities()
    assert info.default_device() == "cpu"
    assert "cpu" in info.devices()
    for kind in (None, "integral", ("bool", "real floating")):
        assert info.dtypes(kind=kind).keys() == theirs.dtypes(kind=kind).keys()
    assert {k: v.name for k, v in info.default_dtypes().items()} == {
        k: v._np_dtype.name for k, v in theirs.default_dtypes().items()}


@pytest.mark.parametrize(("name", "args", "message"), [
    ("sum", (True,), "sum: got a bool, expected an array"),
    ("sum", (xp.asarray([True]),), "numeric dtypes; convert with astype"),
    ("sin", (xp.asarray([1]),), "defines it for floating dtypes"),
    ("where", (xp.asarray([1]), 1, 2), "boolean dtypes"),
    ("add", (1, 2), "Python numbers only"),
    ("concat", ([xp.ones(1), xp.asarray([1])],), "no common dtype"),
    ("matmul", (xp.ones((1, 1)), xp.ones((1, 1), dtype=xp.int8)), "no common dtype"),
    ("astype", (xp.asarray([1j]), xp.float64), "take real"),
])
def test_what_the_standard_leaves_undefined_is_refused(name, args, message):
    with pytest.raises(KernelTypeError, match=message):
        function(xp, name)(*args)


@pytest.mark.parametrize(("name", "args", "message"), [
    ("take", (xp.ones((2, 2)), xp.asarray([0])), "name it"),
    ("cumulative_sum", (xp.ones((2, 2)),), "name it"),
    ("nonzero", (xp.asarray(1),), "without dimensions"),
    ("reshape", (xp.ones((2, 3)).T, (6,)), "no view"),
    ("reshape", (np.ones((2, 3)).T, (6,)), "no view"),
    ("vecdot", (xp.ones((2, 1)), xp.ones((2, 3))), "vectors of 1 and 3 elements"),
    ("vecdot", (xp.ones(0), xp.ones(1)), "vectors of 0 and 1 elements"),
])
def test_shapes_that_are_not_defined(name, args, message):
    options = {"copy": False} if name == "reshape" else {}
    with pytest.raises(ValueError, match=message):
        function(xp, name)(*args, **options)


def test_reshape_of_an_array_of_numpy_is_a_view():
    x = np.zeros((2, 3))
    made = xp.reshape(x, (3, 2), copy=False)
    made[0, 0] = 1.0
    assert type(made) is np.ndarray
    assert x[0, 0] == 1.0


def test_each_matrix_has_a_tolerance():
    x = np.stack([np.diag([1.0, 0.1, 0.01]), np.eye(3)])
    cut = np.array([0.05, 0.5])
    np.testing.assert_array_equal(
        host(xp.linalg.matrix_rank(xp.asarray(x), rtol=xp.asarray(cut))), [2, 3])
    np.testing.assert_allclose(
        host(xp.linalg.pinv(xp.asarray(x), rtol=xp.asarray(cut))),
        np.stack([np.diag([1.0, 10.0, 0.0]), np.eye(3)]), atol=1e-12)
    np.testing.assert_array_equal(
        host(np.linalg.matrix_rank(nf.Variable(x), cut)), [2, 3])


def test_the_page_lists_the_functions():
    page = Path(__file__).parents[2] / "docs/reference/array_api.md"
    if not page.exists():
        pytest.skip("the documents are not installed")
    listed = re.findall(r"`([\w.]+)`", page.read_text().partition("## Names")[2])
    prefixed = {f"{prefix}{name}" for prefix, module in (
        ("", xp), ("linalg.", xp.linalg), ("fft.", xp.fft), ("special.", xp.special))
        for name in module.__all__} - {"linalg", "fft", "special"}
    assert sorted(listed) == sorted(prefixed)
