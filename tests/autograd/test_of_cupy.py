"""CuPy's functions on Variables, and in functions that are traced or differentiated."""

from __future__ import annotations

import sys
import threading
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import nbfused as nf
from nbfused.autograd.numpy_api.of_cupy import looking_at_arguments
from nbfused.errors import KernelTypeError

pytestmark = pytest.mark.interpreted


def named(name):
    """One of CuPy's ufuncs or reductions, of which Variables see the name."""
    return SimpleNamespace(name=name)


@pytest.fixture
def x():
    return np.linspace(0.1, 0.9, 6).reshape(2, 3)


@pytest.fixture
def stand_in(monkeypatch):
    """A module in CuPy's place, whose functions take NumPy's arrays."""
    made = ModuleType("cupy")

    def only_arrays(a, axis=0):
        assert all(type(part) is np.ndarray for part in a)
        return np.concatenate(a, axis)

    made.concatenate, made.zeros, made.empty = only_arrays, np.zeros, np.empty
    made.get_array_module = lambda *args: np
    made.hanning_window = lambda a: a
    made.float64 = np.float64
    monkeypatch.setitem(sys.modules, "cupy", made)
    return made


def test_ufuncs_ask_their_arguments(x):
    v = nf.Variable(x, requires_grad=True)
    y = v.__cupy_override_elementwise_kernel__(named("cupy_exp"), v)
    z = v.__cupy_override_elementwise_kernel__(
        named("cupyx_scipy_special_erf"), y)
    z.sum().backward()
    np.testing.assert_allclose(y.data, np.exp(x))
    e = np.exp(x)
    np.testing.assert_allclose(v.grad, 2/np.sqrt(np.pi)*np.exp(-e*e)*e)
    chosen = v.__cupy_override_elementwise_kernel__(named("cupy_where"), v > 0.5, v, 0)
    np.testing.assert_array_equal(chosen.data, np.where(x > 0.5, x, 0))


def test_reductions_ask_their_argument(x):
    v = nf.Variable(x, requires_grad=True)
    y = v.__cupy_override_reduction_kernel__(named("cupy_sum"), 1, None, None, True)
    np.testing.assert_allclose(y.data, x.sum(1, keepdims=True))
    whole = v.__cupy_override_reduction_kernel__(
        named("cupy_max"), None, None, None, False)
    assert float(whole) == x.max()


def test_names_that_numpy_lacks_are_refused(x):
    v = nf.Variable(x, requires_grad=True)
    with pytest.raises(KernelTypeError, match=r"cupy\.scatter_far has no op"):
        v.__cupy_override_elementwise_kernel__(named("cupy_scatter_far"), v)


def test_elementwise_kernels_are_ours(x):
    def param(name, dtype=None, raw=False):
        return SimpleNamespace(name=name, dtype=dtype and np.dtype(dtype), raw=raw,
                               ctype="T")

    kernel = SimpleNamespace(
        in_params=(param("x"), param("w", "float64", raw=True)),
        out_params=(param("y"),), operation="y = x*x*w[i % 3]", name="weighted",
        reduce_dims=True, preamble="", no_return=False, return_tuple=False, kwargs={})
    v, w = nf.Variable(x, requires_grad=True), np.array([1., 2., 3.])
    y = v.__cupy_override_elementwise_kernel__(kernel, v, w)
    y.sum().backward()
    np.testing.assert_allclose(y.data, x*x*w)
    np.testing.assert_allclose(v.grad, 2*x*w)


def test_functions_of_the_module_in_transforms(stand_in, x):
    def f(v):
        return stand_in.concatenate([v, v*2], axis=-1).sum()

    np.testing.assert_allclose(nf.grad(f)(x), np.full((2, 3), 3.0))
    np.testing.assert_allclose(nf.fuse(nf.grad(f))(x), np.full((2, 3), 3.0))
    np.testing.assert_allclose(nf.vmap(f)(x), 3*x.sum(1))
    assert type(stand_in) is ModuleType


def test_other_arrays_go_to_cupy(stand_in, x):
    with looking_at_arguments():
        np.testing.assert_array_equal(stand_in.concatenate([x, x]),
                                      np.concatenate([x, x]))
        assert stand_in.float64 is np.float64
    assert stand_in.concatenate.__name__ == "only_arrays"


def test_arrays_made_in_a_trace_are_constants(stand_in, x):
    @nf.fuse
    def f(v):
        out = stand_in.zeros(3)
        out[1] = v.sum()
        return out + v

    expected = x + np.array([0, x.sum(), 0])
    np.testing.assert_allclose(f(x), expected)
    np.testing.assert_allclose(f(2*x), 2*expected)
    assert len(f._programs) == 1


def test_a_function_that_numpy_lacks_in_a_transform(stand_in, x):
    with pytest.raises(KernelTypeError, match=r"cupy\.hanning_window has no operation"):
        nf.grad(lambda v: stand_in.hanning_window(v).sum())(x)


def test_the_array_module_of_what_is_traced(stand_in, x):
    seen = []

    def f(v):
        seen.append(stand_in.get_array_module(v))
        return v.sum()

    nf.grad(f)(x)
    assert seen == [stand_in]


def test_other_threads_see_the_module_as_it_is(stand_in):
    found = []
    with looking_at_arguments():
        thread = threading.Thread(target=lambda: found.append(stand_in.concatenate))
        thread.start()
        thread.join()
        assert stand_in.concatenate is not found[0]
    assert found == [stand_in.concatenate]


def test_without_cupy_nothing_is_done(monkeypatch):
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    with looking_at_arguments():
        assert "cupy" not in sys.modules


def test_arrays_that_our_own_code_makes_in_a_trace_are_plain(stand_in, x):
    inside = {"__name__": "nbfused.inside", "cupy": stand_in, "np": np}
    exec("def library(v):\n    assert type(cupy.zeros(3)) is np.ndarray\n"
         "    return v*2", inside)
    library = inside["library"]
    np.testing.assert_array_equal(nf.fuse(lambda v: library(v))(x), 2*x)
