"""The array object: operators, indices, conversions, DLPack, creation."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.array_api import make_strategies_namespace

import nbfused as nf
from nbfused.errors import KernelTypeError, TapeError

from .cases import array
from .oracle import as_ours, as_theirs, host, parameters, strict, xp

pytestmark = pytest.mark.interpreted

strategies = make_strategies_namespace(xp)
F, WHOLE, B = array("float64", 2, 3), array("int64", 2, 3), array("bool", 2, 3)

OPERATORS = {
    "f": "add sub mul truediv floordiv mod pow lt le gt ge eq ne",
    "i": "add sub mul floordiv mod and_ or_ xor lshift rshift lt le gt ge eq ne",
    "b": "and_ or_ xor eq ne",
}
IN_PLACE = {"f": "iadd isub imul itruediv ifloordiv imod",
            "i": "iadd isub imul ifloordiv imod iand ior ixor ilshift irshift",
            "b": "iand ior ixor"}
SECOND = {"f": np.abs(F) + 0.5, "i": np.abs(WHOLE) + 1, "b": ~B}
FIRST = {"f": np.abs(F) + 1.0, "i": WHOLE, "b": B}


def test_one_integer_without_dimensions_is_an_index():
    assert [10, 11][xp.asarray(1)] == 11
    with pytest.raises(TypeError, match=r"shape \(1,\) is no index"):
        [10, 11][xp.asarray([1])]
    assert np.ones((1, 1))[xp.asarray([0]), 0] == 1  # integers have no gradient
    with pytest.raises(TypeError, match="does not become a NumPy array"):
        np.asarray(xp.asarray([0.0]))


@pytest.mark.parametrize(("kind", "name"), [
    (kind, name) for table in (OPERATORS, IN_PLACE) for kind, names in table.items()
    for name in names.split()])
def test_operators(kind, name):
    op = getattr(operator, name)
    number = {"f": 1.5, "i": 2, "b": True}[kind]
    for other in (SECOND[kind], SECOND[kind][0], number):
        ours, theirs = (op(make(FIRST[kind].copy()), make(other))
                        for make in (as_ours, as_theirs))
        assert ours.dtype == theirs.dtype._np_dtype
        np.testing.assert_allclose(host(ours), host(theirs))
    if not name.startswith("i"):
        ours, theirs = (op(number, make(SECOND[kind])) for make in (as_ours, as_theirs))
        np.testing.assert_allclose(host(ours), host(theirs))


@pytest.mark.parametrize("op", [operator.neg, operator.pos, operator.abs])
def test_unary_operators(op):
    for x in (F, WHOLE):
        np.testing.assert_array_equal(host(op(xp.asarray(x))), op(x))
    np.testing.assert_array_equal(host(~xp.asarray(B)), ~B)
    product = xp.asarray(F) @ xp.asarray(F).T
    np.testing.assert_allclose(host(product), F @ F.T)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_indices(data):
    """Strategies of Hypothesis, which make arrays by the namespace alone."""
    shape = data.draw(strategies.array_shapes(min_dims=0, max_dims=3, min_side=0,
                                              max_side=4))
    x = data.draw(strategies.arrays(xp.int64, shape))
    key = data.draw(strategies.indices(shape, allow_newaxis=True))
    expected = host(x)[key]
    assert x[key].shape == expected.shape
    np.testing.assert_array_equal(host(x[key]), expected)
    copied, wanted = xp.asarray(x, copy=True), host(x).copy()
    copied[key], wanted[key] = 7, 7
    np.testing.assert_array_equal(host(copied), wanted)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_masks(data):
    shape = data.draw(strategies.array_shapes(max_dims=2, max_side=4))
    x = data.draw(strategies.arrays(xp.float64, shape, elements=st.integers(-5, 5)))
    mask = data.draw(strategies.arrays(xp.bool, shape))
    np.testing.assert_array_equal(host(x[mask]), host(x)[host(mask)])
    copied, wanted = xp.asarray(x, copy=True), host(x).copy()
    copied[mask], wanted[host(mask)] = 1.0, 1.0
    np.testing.assert_array_equal(host(copied), wanted)


def test_attributes():
    x = xp.asarray(F)
    assert (x.shape, x.ndim, x.size, x.device, x.dtype) == (
        (2, 3), 2, 6, "cpu", xp.float64)
    assert x.T.shape == x.mT.shape == (3, 2)
    assert x.__array_namespace__() is x.__array_namespace__(api_version="2024.12") is xp
    assert xp.__array_api_version__ == "2024.12"
    with pytest.raises(ValueError, match="pass one of these"):
        x.__array_namespace__(api_version="2019.01")
    with pytest.raises(AttributeError, match=r"2024\.12"):
        xp.einsum  # noqa: B018
    assert x.to_device("cpu") is x
    with pytest.raises(KernelTypeError, match="leave it out"):
        x.to_device("cpu", stream=3)


def test_python_numbers():
    assert complex(xp.asarray(1 + 2j)) == 1 + 2j
    assert (bool(xp.asarray(0.0)), int(xp.asarray(3)), float(xp.asarray(1.5))) == (
        False, 3, 1.5)
    assert [10, 20][xp.asarray(1)] == 20
    with pytest.raises(TypeError):
        operator.index(xp.asarray(1.0))
    with pytest.raises(ValueError, match="expected one"):
        bool(xp.ones(2))


def test_dlpack_both_ways():
    x = xp.asarray(F.copy())
    assert x.__dlpack_device__() == (1, 0)
    shared = np.from_dlpack(x)
    np.testing.assert_array_equal(shared, F)
    assert np.shares_memory(shared, x.data)
    assert np.shares_memory(xp.from_dlpack(shared).data, shared)
    assert not np.shares_memory(xp.from_dlpack(x, copy=True).data, shared)
    with pytest.raises(BufferError, match="detach"):
        np.from_dlpack(nf.Variable(F, requires_grad=True))


@pytest.mark.parametrize("name", ["__array_namespace__", "__dlpack__", "to_device"])
def test_methods_show_the_names_of_their_options(name):
    ours, theirs = ([p[0] for p in parameters(getattr(type(m.asarray(0)), name))]
                    for m in (xp, strict))
    assert ours == theirs


def test_placeholders_are_not_exported():
    for run in (nf.fuse, nf.vmap):
        with pytest.raises(BufferError, match="export it outside"):
            run(lambda x: np.from_dlpack(x))(F)


def test_transforms_and_fused_functions():
    def entropy(x):
        space = x.__array_namespace__()
        shares = space.exp(x) / space.sum(space.exp(x))
        return -space.sum(shares * space.log(shares))

    value, gradient = nf.fuse(nf.value_and_grad(entropy))(F)
    shares = np.exp(F) / np.exp(F).sum()
    np.testing.assert_allclose(value, -(shares * np.log(shares)).sum())
    np.testing.assert_allclose(gradient, -shares * (np.log(shares) + value))
    np.testing.assert_allclose(nf.vmap(entropy)(F), [
        float(entropy(xp.asarray(row))) for row in F])


def test_asarray_of_a_real_dtype_takes_the_real_part_with_a_warning():
    with pytest.warns(np.exceptions.ComplexWarning, match="without its imaginary"):
        made = xp.asarray(xp.asarray([1.5 + 2j]), dtype=xp.float32)
    assert (made.dtype, made.tolist()) == (xp.float32, [1.5])


def test_asarray():
    data = F.copy()
    assert np.shares_memory(xp.asarray(data).data, data)
    assert not np.shares_memory(xp.asarray(data, copy=True).data, data)
    assert xp.asarray(data, dtype=xp.float32).dtype == xp.float32
    for obj, dtype in ((True, "bool"), (1, "int64"), (1.5, "float64"),
                       (1j, "complex128"), ([[1, 2]], "int64"), ([1, 2.5], "float64")):
        assert xp.asarray(obj).dtype == getattr(xp, dtype)
    x = xp.asarray(1.5)
    assert xp.asarray(x) is x
    np.testing.assert_array_equal(host(xp.asarray([[x, 2.0], [3.0, x]])),
                                  [[1.5, 2.0], [3.0, 1.5]])
    np.testing.assert_array_equal(host(xp.asarray(memoryview(b"ab"))), [97, 98])
    for obj, options in ((data, {"dtype": xp.float32}), ([1.0], {})):
        with pytest.raises(ValueError, match="copy=False"):
            xp.asarray(obj, copy=False, **options)
    with pytest.raises(OverflowError):
        xp.asarray(2**100, dtype=xp.int64)


def test_arrays_of_numpy_give_arrays_of_numpy():
    assert isinstance(xp.sum(F, axis=0), np.ndarray)
    assert isinstance(xp.linalg.qr(F.T).Q, np.ndarray)
    assert isinstance(xp.add(F, xp.asarray(F)), nf.Variable)


def loss(x):
    """Written for any library."""
    space = x.__array_namespace__()
    scaled = space.exp(x - space.max(x, axis=-1, keepdims=True))
    shares = scaled / space.sum(scaled, axis=-1, keepdims=True)
    order = space.sort(shares, axis=-1, descending=True)
    return space.sum(space.where(order > 0.2, order**2, 0.0) * space.arange(
        1.0, 1.0 + x.shape[-1]))


def test_gradient_of_a_function_for_any_library():
    found = nf.grad(loss)(F)
    step = 1e-6
    for at in np.ndindex(F.shape):
        ends = [F.copy(), F.copy()]
        ends[0][at] += step
        ends[1][at] -= step
        numeric = (float(loss(xp.asarray(ends[0]))) - float(loss(
            xp.asarray(ends[1])))) / (2 * step)
        np.testing.assert_allclose(np.asarray(found)[at], numeric, 1e-6, 1e-8)


def test_gradients_do_not_cross_devices():
    w = nf.Variable(F, requires_grad=True)
    assert w.to_device("cpu") is w
    with pytest.raises((TapeError, nf.errors.DeviceError)):
        w.to_device("cuda:0")


def test_decompositions_without_a_rule_refuse_gradients():
    w = nf.Variable(np.eye(3, 2) + 1, requires_grad=True)
    assert xp.linalg.svd(w.detach()).U.shape == (3, 3)
    with pytest.raises(KernelTypeError, match="full_matrices"):
        xp.linalg.svd(w)
    with pytest.raises(KernelTypeError, match="no rule"):
        xp.linalg.qr(w, mode="complete")
    with pytest.raises(np.linalg.LinAlgError):  # it cuts what is no rounding
        xp.linalg.pinv(w, rtol=0.9).sum().backward()


def test_special_functions_without_a_rule_refuse_gradients_when_asked():
    w = nf.Variable(np.abs(F) + 1.0, requires_grad=True)
    made = xp.special.gammainc(w, 2.0)
    with pytest.raises(nf.errors.NotDifferentiableError, match="argument 0"):
        made.sum().backward()
    with pytest.raises(AttributeError, match="to_numpy"):
        xp.special.nothing  # noqa: B018


def test_array_api_compat():
    compat = pytest.importorskip("array_api_compat")
    x = xp.asarray(F)
    assert compat.array_namespace(x) is xp
    assert compat.is_array_api_obj(x)
    assert (compat.size(x), compat.device(x)) == (6, "cpu")
    assert compat.to_device(x, "cpu") is x


def test_array_api_extra():
    extra = pytest.importorskip("array_api_extra")
    x = nf.Variable(F, requires_grad=True)
    y = extra.at(x, (0, 1)).set(4.0, copy=True)
    y = extra.at(y)[x > 1].multiply(2.0)
    expected = F.copy()
    expected[0, 1] = 4.0
    expected[F > 1] *= 2.0
    np.testing.assert_array_equal(host(y), expected)
    made = extra.apply_where(x > 0, x, lambda v: v**2, lambda v: -v)
    np.testing.assert_allclose(host(made), np.where(F > 0, F**2, -F))
    np.testing.assert_allclose(host(extra.cov(x)), np.cov(F))
    np.testing.assert_allclose(host(extra.kron(x, x)), np.kron(F, F))
    np.testing.assert_array_equal(host(extra.isclose(x, x + 1e-12)), F == F)
    assert int(extra.nunique(xp.asarray(WHOLE))) == len(np.unique(WHOLE))
    np.testing.assert_array_equal(host(extra.one_hot(xp.asarray([1, 0]), 3)),
                                  np.eye(3)[[1, 0]])
    (y.sum() + made.sum()).backward()
    slope = np.where(F > 1, 2.0, 1.0)
    slope[0, 1] = 0.0
    np.testing.assert_allclose(x.grad, slope + np.where(F > 0, 2*F, -1.0))
