"""Arrays outside of a fused function: looked up at each call, and passed to it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import (
    KernelTypeError,
    NbFusedPerformanceWarning,
    OverlapError,
    ShapeError,
)

pytestmark = pytest.mark.interpreted

X = np.random.default_rng(0).normal(size=(6, 4))
W = np.random.default_rng(1).normal(size=(4, 3))
PAIR = {"w": W + 1, "b": [np.ones(3), 2.0]}


@pytest.fixture(autouse=True)
def own_globals(monkeypatch):
    monkeypatch.setitem(globals(), "W", W.copy())
    monkeypatch.setitem(globals(), "PAIR", {"w": W + 1, "b": [np.ones(3), 2.0]})
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "fuse.*traced at each call")
        warnings.filterwarnings("ignore", "fuse.*decorated again")
        yield


def product(x):
    return nf.ops.relu(x @ W)


def through_another(x):
    return product(x).sum() + (W * W).mean()


def from_a_container(x):
    return (x @ PAIR["w"] + PAIR["b"][0]) * PAIR["b"][1]


def of_a_default(x, w=W):
    return x @ w


def derivative(x):
    return nf.grad(lambda v: through_another(v))(x)


def plain_loss(x):
    return ((x @ W) ** 2).sum()


wrapped = nf.value_and_grad(plain_loss)
wrapped_twice = nf.grad(lambda x: nf.grad(plain_loss)(x).sum() * SCALE)
SCALE = 2.0


def derivative_made_before(x):
    loss, gradient = wrapped(x)
    return loss + gradient


def second_derivative_made_before(x):
    return wrapped_twice(x)


def only_outside():
    return W.sum(axis=0) * 2.0


def _same(fused, *args, times=2):
    for _ in range(times):
        found, expected = fused(*args), fused.function(*args)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


FUNCTIONS = [product, through_another, from_a_container, of_a_default, derivative,
             derivative_made_before, second_derivative_made_before]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_arrays_that_change_trace_nothing(function, monkeypatch):
    """In place, and another array by the same name; by the program and by its plan."""
    fused = nf.fuse(function)
    for k in range(5):
        _same(fused, X)
        W[...] += 0.5
        PAIR["w"] += 1
        if k % 2:
            monkeypatch.setitem(globals(), "W", W - 1)
            PAIR["w"], PAIR["b"][0] = PAIR["w"] * 2, np.full(3, float(k))
    assert fused.cache_info().misses == 1


def test_numbers_that_a_wrapped_function_reads(monkeypatch):
    fused = nf.fuse(second_derivative_made_before)
    for k in range(3):
        monkeypatch.setitem(globals(), "SCALE", k + 0.5)
        _same(fused, X, times=4)
    assert fused.cache_info().misses == 3


def test_what_is_read_only_from_outside_is_fused(monkeypatch):
    fused = nf.fuse(only_outside)
    for k in range(4):
        _same(fused)
        monkeypatch.setitem(globals(), "W", W * k)
    with nf.trace_launches() as launches:
        fused()
    assert len(launches) == 1


def test_other_shapes_dtypes_and_values_trace_anew(monkeypatch):
    fused = nf.fuse(lambda x: (x[:, :, None] * W).sum(-1))
    for other in (W[:, :2], W.astype("f4"), 2.0, W[:, ::-1], W):
        monkeypatch.setitem(globals(), "W", other)
        _same(fused, X, times=4)


def test_a_container_that_grows_or_is_another_one(monkeypatch):
    def total(x):
        for w in PAIR["b"]:
            x = x + w
        return x * len(PAIR)

    fused, x = nf.fuse(total), np.ones((2, 3))
    _same(fused, x, times=4)
    PAIR["b"].append(np.arange(3.0))
    _same(fused, x, times=4)
    PAIR["b"][1] = np.float32(4)
    _same(fused, x, times=4)
    PAIR["more"] = 1
    _same(fused, x, times=4)
    monkeypatch.setitem(globals(), "PAIR", {"b": (np.ones(3),)})
    _same(fused, x, times=4)


def test_cells_are_shared_among_functions():
    w = np.arange(4.0)

    def scaled(x):
        return x * w

    def both(x):
        return scaled(x) + w

    fused = nf.fuse(both)
    for k in range(4):
        _same(fused, X)
        w = np.arange(4.0) + k
    assert fused.cache_info().misses == 1


def test_two_names_of_one_array_that_part(monkeypatch):
    monkeypatch.setitem(globals(), "OTHER", W)
    fused = nf.fuse(lambda x: x @ W + x @ OTHER * 2)  # noqa: F821
    _same(fused, X, times=4)
    monkeypatch.setitem(globals(), "OTHER", W + 1)
    _same(fused, X, times=4)


def test_names_of_arguments_stay_theirs():
    def make(x):
        return lambda w: w * x + W.sum()

    x = np.ones(4)
    fused = nf.fuse(make(x))
    for k in range(4):
        x[...] = k
        _same(fused, X)


def test_arrays_outside_are_changed_in_place():
    w = np.zeros((4, 3))

    def descend(x, rate):
        gradient = nf.grad(lambda v: ((x @ v - 1) ** 2).sum())(w)
        np.subtract(w, rate * gradient, out=w)
        return w * 1.0

    fused, expected = nf.fuse(descend), np.zeros((4, 3))
    for k in range(1, 6):
        expected -= 0.01/k * 2*X.T @ (X @ expected - 1)
        np.testing.assert_allclose(fused(X, 0.01/k), expected, rtol=1e-10, atol=1e-12)
        np.testing.assert_array_equal(w, fused.function.__closure__[0].cell_contents)
        np.testing.assert_allclose(w, expected, rtol=1e-10, atol=1e-12)


def test_an_argument_that_is_changed_and_also_read_from_outside():
    def update(x):
        x += W.sum()
        return x + W[0, 0]

    fused = nf.fuse(update)
    with pytest.raises(OverlapError, match=r"'x'.*'W'"):
        fused(W)


@pytest.mark.parametrize("function", [
    lambda x: x * float(W.max()), lambda x: x * (2 if W[0, 0] > 0 else 3),
    lambda x: x + np.asarray(W, order="C")[0, 0]])
def test_what_is_no_argument_s_use_is_traced_at_each_call(function):
    fused = nf.fuse(function)
    with pytest.warns(NbFusedPerformanceWarning, match="traced at each call"):
        fused(X)
    for _ in range(5):
        _same(fused, X)
        W[...] *= -1.5


def test_functions_that_rebind_what_is_outside(monkeypatch):
    def counted(x):
        global W
        W = W + 1
        return x @ W

    fused = nf.fuse(counted)
    with pytest.warns(NbFusedPerformanceWarning, match="W"):
        fused(X)
    for _ in range(4):
        expected = X @ (W + 1)
        np.testing.assert_allclose(fused(X), expected, rtol=1e-12)
    assert type(W) is np.ndarray


def test_variables_outside_are_recorded():
    w = nf.Variable(W.copy(), requires_grad=True)
    fused = nf.fuse(lambda x: (x @ w).sum())
    for k in range(1, 4):
        fused(X).backward()
        np.testing.assert_allclose(w.grad, k * np.tile(X.sum(0)[:, None], (1, 3)))


def test_numbers_in_containers_outside_are_constants(monkeypatch):
    settings = {"w": W.copy(), "layers": 2, "name": "relu"}

    def layers(x):
        for _ in range(settings["layers"]):
            x = getattr(nf.ops, settings["name"])(x @ settings["w"]) @ settings["w"].T
        return x

    fused = nf.fuse(layers)
    _same(fused, X, times=4)
    settings["layers"] = 3
    _same(fused, X, times=4)
    settings["name"] = "tanh"
    _same(fused, X, times=4)
    assert fused.cache_info().misses == 3


def test_the_order_of_what_a_container_holds_is_part_of_the_key():
    fused = nf.fuse(lambda pair: pair[0] * 2 if pair[1] is None else pair[1] * 3)
    for pair in ([X, None], [None, X], [X, None], [None, X]) * 3:
        _same(fused, pair)


def test_an_error_of_the_caller_leaves_them_hidden():
    fused = nf.fuse(product)
    with pytest.raises(ShapeError):
        fused(np.ones((2, 5)))
    _same(fused, X)
    traced = fused.cache_info().misses
    for _ in range(3):
        W[...] += 1
        _same(fused, X)
    assert fused.cache_info().misses == traced
    assert len(fused.explain(X)) == 1


def test_explain_of_what_is_traced_at_each_call():
    fused = nf.fuse(lambda x: x * float(W.max()))
    assert len(fused.explain(X)) == 1


@pytest.mark.parametrize("other", [
    np.array([object(), None]), np.array(["a", "b"]), np.zeros(2, "M8[s]")],
    ids=["objects", "texts", "dates"])
def test_arrays_that_no_kernel_takes_are_themselves(other, monkeypatch):
    monkeypatch.setitem(globals(), "OTHER", other)
    fused = nf.fuse(lambda x: x * (2 if OTHER[1] is None else len(OTHER) + 1))  # noqa: F821
    with pytest.warns(NbFusedPerformanceWarning, match="OTHER"):
        fused(X)
    _same(fused, X, times=4)
    unread = nf.fuse(lambda x, other: x * 2)
    _same(unread, X, other, times=4)


def test_types_and_texts_of_arrays_outside():
    fused = nf.fuse(lambda x: x * (2 if isinstance(W, np.ndarray) else 3) @ W)
    _same(fused, X, times=4)
    assert fused.cache_info().misses == 1
    fused = nf.fuse(lambda x: x * len(f"{W[0, 0]:.3f}"))
    with pytest.warns(NbFusedPerformanceWarning, match="traced at each call"):
        fused(X)
    _same(fused, X, times=4)
    for text in (str, "{}".format, print):
        with pytest.raises(KernelTypeError, match=r"print\(\), str\(\)"):
            nf.fuse(lambda x, text=text: x * len(text(x) or ""))(X)
