"""Arrays that a function makes of numbers: constants of a fused function's program."""

from __future__ import annotations

import sysconfig
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, NbFusedPerformanceWarning, RangeError
from nbfused.kernels.fusing.outside.lines import is_library
from nbfused.kernels.fusing.plans.plan import Plan
from nbfused.kernels.fusing.plans.segments import SegmentedPlan

pytestmark = pytest.mark.interpreted

X = np.array([0.5, 1.0, 2.0, 3.5])
TABLE = SimpleNamespace(array=np.arange(4.0))


def check(function, *args):
    """As without `nf.fuse`, traced once, in arrays of its own each time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a function may be checked twice
        fused = nf.fuse(function)
    for _ in range(3):
        for made, expected in zip(fused(*args), function(*args), strict=True):
            assert type(made) is type(expected)
            assert made.dtype == expected.dtype
            exact = made.dtype == np.float64
            np.testing.assert_allclose(made, expected, 1e-12 if exact else 1e-6)
            made[...] = 77  # which no later call may see
    assert fused.cache_info().currsize == 1
    return fused


def test_masks_and_grids_are_constants():
    def f(x):
        n = len(x)
        mask = np.tril(np.ones((n, n), bool))
        grid = np.arange(n)[:, None]/n + np.linspace(0, 1, n)
        return np.where(mask, x*grid, -1.0), x + np.mgrid[0:4], np.r_[0:4]*x

    check(f, X)


def test_grids_by_steps_of_traced_numbers():
    """NumPy catches the refusal, and fails of what it tries then."""
    def f(x, n):
        return np.mgrid[0:1:1/n, 0:n] * x

    fused = nf.fuse(f)
    for n in 2, 3:
        np.testing.assert_allclose(fused(X[:1], n), f(X[:1], n))


def test_what_numpy_computes_from_them():
    def f(x):
        k = np.cos(np.outer(np.arange(4), np.arange(4))).T
        k = np.clip(k, -0.5, 0.5).round(3)
        k[1:, 0] += np.array([1, 2, 3]) @ np.eye(3)
        return k @ x, x[np.argsort(-np.arange(4))], k.sum(axis=0)*x

    check(f, X)


def test_what_is_returned_is_new_in_each_call():
    check(lambda x: (np.arange(3), np.eye(4).T, np.eye(4)[1:], x + 1), X)


def test_a_constant_is_what_it_was_when_it_was_read():
    def f(x):
        k = np.zeros(4)
        before = x + k
        k[0] = 5
        return before, x + k

    check(f, X)


def test_also_where_it_is_not_known():
    @nf.fuse
    def f(x):
        k = vars(TABLE)["array"]*0
        before = x + k
        k[0] = 5
        return before, x + k

    with pytest.warns(NbFusedPerformanceWarning, match="traced at each call"):
        before, after = f(X)
    np.testing.assert_array_equal(before, X)
    np.testing.assert_array_equal(after, np.add(X, [5, 0, 0, 0]))


def test_traced_values_are_stored_into_them():
    def f(x):
        out, total = np.empty((4, 2)), np.full(4, 2.0)
        out[:, 0] = x
        out[:, 1] = out[:, 0]**2
        for k in range(4):
            total[k] += x[k]
        total *= x
        out[3:].fill(x[0])
        np.multiply(total, 2, out=out[:, 0])
        return out, total

    check(f, X)


def test_gradients_through_what_is_stored():
    def f(x):
        out = np.zeros(6)
        out[1:-1] = x
        return (out[2:]*out[:-2]).sum()

    np.testing.assert_allclose(nf.fuse(nf.grad(f))(X), X[[2, 3, 0, 1]])


def test_lists_of_traced_values_are_arrays():
    def f(x):
        c, s = np.cos(x[0]), np.sin(x[0])
        turned = np.array([[c, -s], [s, c]]) @ np.array([x[:2], x[2:]])
        return turned, np.array([x.sum(), 1, 2.5]), np.array([x, x], "f4")

    check(f, X)
    check(f, X.astype("f4"))


def test_arrays_of_numbers_that_are_arguments():
    def f(x, n):
        return (np.full(3, n)*x[:3], np.full((2, 2), n, dtype=np.float32),
                np.full(shape=(), fill_value=n), np.full((2, 4), x), np.full(2, x[0]),
                np.array([[n, 1], [x[0], n]]), np.array([n, n]), np.asarray([n, x[1]]))

    fused = nf.fuse(f)
    for n in (1.5, 2, True, -0.0, np.float32(2.5)):
        for found, wanted in zip(fused(X, n), f(X, n), strict=True):
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)
            np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


def test_functions_that_store_take_numbers_that_are_arguments():
    def f(x, n):
        y, z, w = x*1, (x*1).reshape(2, 2), x*1
        np.put(y, [0, 2], n)
        np.putmask(y, y > 2.5, n)
        np.copyto(y, n, where=x < 0.5)
        np.fill_diagonal(z, n)
        np.place(w, w > 1, n)
        return y, z, w, nf.ops.full_like(x, n), nf.ops.full_like(x, n, "i4")

    fused = nf.fuse(f)
    for n in (1.5, 2, True, np.float32(2.5)):
        for found, wanted in zip(fused(X, n), f(X, n), strict=True):
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)


def test_a_table_is_read_at_traced_places():
    check(lambda x: (np.array([1.0, 5.0, 2.0])[np.clip(x, 0, 2).astype(int)],), X)


def test_rows_and_traced_columns_are_read_by_a_plan():
    def f(x, columns):
        table = np.outer(x, x)
        return table[np.arange(4), columns], table[1, columns], table[columns, -2]

    fused = check(f, X, np.array([3, 0, -1, 2]))
    assert [type(state) for state in fused._plans._states.values()] == [Plan]


def test_computed_places_are_looked_at_between_segments():
    def f(x, scale):
        return (np.array([1.0, 5.0, 2.0])[(x * scale).astype(int)],)

    fused = check(f, X, 0.7)
    assert [type(state) for state in fused._plans._states.values()] == [SegmentedPlan]
    for _ in range(2):
        with pytest.raises(RangeError, match="got 3"):
            fused(X, 1.0)


def test_methods_of_objects_make_them_as_well():
    class Model:
        def __init__(self):
            self.weight = np.ones(4)

        def forward(self, x):
            return np.tri(4) @ (x*self.weight)

    model, f = Model(), nf.fuse(lambda model, x: model.forward(x))
    np.testing.assert_allclose(f(model, X), np.cumsum(X))
    model.weight = 2*model.weight
    np.testing.assert_allclose(f(model, X), 2*np.cumsum(X))
    assert f.cache_info().currsize == 1


def test_other_arrays_are_not_known():
    @nf.fuse
    def f(x):
        k = np.zeros(4)
        k[:] = vars(TABLE)["array"]
        return x + k, x[np.argsort(vars(TABLE)["array"])][[0, 0]]

    with pytest.warns(NbFusedPerformanceWarning, match="traced at each call"):
        f(X)
    before = TABLE.array
    try:
        TABLE.array = before[::-1]*3
        made, chosen = f(X)
    finally:
        TABLE.array = before
    np.testing.assert_array_equal(made, np.add(X, [9, 6, 3, 0]))
    np.testing.assert_array_equal(chosen, [X[3], X[3]])


def test_indices_that_are_not_known_are_looked_up_again():
    @nf.fuse
    def f(x):
        index = vars(TABLE)["array"].astype(int)
        return x[index, index]

    x = np.arange(16.0).reshape(4, 4)
    with pytest.warns(NbFusedPerformanceWarning, match="traced at each call"):
        np.testing.assert_array_equal(f(x), [0, 5, 10, 15])
    before = TABLE.array
    try:
        TABLE.array = before[::-1]
        np.testing.assert_array_equal(f(x), [15, 10, 5, 0])
    finally:
        TABLE.array = before


def test_what_cannot_be_stored_is_refused_with_its_line():
    @nf.fuse
    def f(x):
        held = vars(TABLE)["array"].copy()
        held += x
        return held

    with pytest.raises(KernelTypeError, match=r"stores into its arguments(?s:.)*held"):
        f(X)


def test_many_threads_trace_at_once():
    fused = nf.fuse(lambda x: x*np.arange(4) + np.eye(4)[1])
    expected = X*np.arange(4) + np.eye(4)[1]

    def call(_):
        fused.clear_cache()
        return fused(X)

    with ThreadPoolExecutor(8) as pool:
        for made in pool.map(call, range(40)):
            np.testing.assert_array_equal(made, expected)
    assert type(np) is ModuleType


@pytest.mark.parametrize("function", [
    lambda x: np.min([x[0], x[1]]), lambda x: np.max((x[2], 1.0)),
    lambda x: np.sum([[x[0], 1.0], [x[1], x[3]]], axis=0),
    lambda x: np.mean([x, x * 2]), lambda x: np.dot([x[0], 2.0], [1.0, x[1]]),
    lambda x: np.linalg.solve([[x[1], 1.0], [0.0, x[2]]], x[:2])])
def test_lists_of_what_is_traced_are_operands_of_functions(function):
    check(lambda x: (x[:2] * function(x),), X)


@pytest.mark.parametrize("function", [
    lambda x: np.average(x, weights=np.arange(4.0)),
    lambda x: np.insert(x, 2, np.arange(2.0))], ids=["average", "insert"])
def test_made_arrays_are_of_the_library_of_the_arguments(function):
    torch = pytest.importorskip("torch")
    made = nf.fuse(function)(torch.from_numpy(X))
    assert isinstance(made, torch.Tensor)
    np.testing.assert_allclose(made.numpy(), function(X))


@pytest.mark.filterwarnings("ignore:.*decorated again")
@pytest.mark.parametrize("order", [np.ascontiguousarray, np.asfortranarray])
@pytest.mark.parametrize("x", [np.ones((2, 3)), np.arange(24.0).reshape(2, 3, 4).T,
                               np.ones((3, 4))[:, 1:]], ids=["C", "Fortran", "apart"])
def test_arrays_in_an_order_of_memory(order, x):
    """The argument itself where it lies so, else a copy, with NumPy's strides."""
    name = order.__name__
    fused = nf.fuse(lambda x: (getattr(np, name)(x), getattr(np, name)(x * 2),
                               getattr(np, name)(x.sum(), np.float32)))
    for _ in range(3):
        own, made, one = fused(x)
        assert own.strides == order(x).strides
        assert np.shares_memory(own, x) == np.shares_memory(order(x), x)
        np.testing.assert_array_equal(made, order(x * 2))
        assert one.shape == (1,)
        assert one.dtype == np.float32


def test_numpy_is_as_it_was():
    seen = []

    @nf.fuse
    def f(x):
        thread = threading.Thread(target=lambda: seen.append(type(np.zeros(3))))
        thread.start()
        thread.join()
        assert isinstance(np.ones(3), np.ndarray)
        return x + np.ones(4)

    f(X)
    assert seen == [np.ndarray]
    assert type(np) is ModuleType


@pytest.mark.parametrize(("file", "library"), [
    (np.__file__, True), (threading.__file__, True), ("<frozen importlib>", True),
    ("/home/me/.local/lib/python3.12/site-packages/scipy/special/_basic.py", True),
    ("/usr/lib/python3/dist-packages/numpy/core/numeric.py", True),
    (r"C:\\Users\\me\\site-packages\\numpy\\linalg.py", True),
    (f"{sysconfig.get_path('stdlib')}_of_mine/model.py", False),
    (__file__, False), ("/home/me/site-packages.py", False), ("<stdin>", False)])
def test_files_of_libraries_are_told_from_the_users(file, library):
    assert is_library(file) == library
