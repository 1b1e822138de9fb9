"""`fuse`: arguments that are changed in place, and what is refused."""

from __future__ import annotations

import math
import warnings
from contextlib import suppress
from functools import partial

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import (
    KernelTypeError,
    NbFusedPerformanceWarning,
    OverlapError,
    RangeError,
    ReadOnlyError,
    ShapeError,
    TapeError,
)

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore:fuse.*decorated again")]

X = np.random.default_rng(0).normal(size=(3, 4)).astype("f4")
Y = np.random.default_rng(1).normal(size=4).astype("f4")


def test_in_place_changes_the_argument():
    @nf.fuse
    def f(x, y):
        x += y
        y[...] = x * 2
        x -= 1
        return x, y + 1

    x, y = X.copy(), X * 3
    with nf.trace_launches() as found:
        same, after = f(x, y)
    assert same is x
    np.testing.assert_allclose(x, X * 4 - 1, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(y, X * 8, rtol=1e-5)
    np.testing.assert_allclose(after, X * 8 + 1, rtol=1e-5)
    assert [launch.kind for launch in found] == ["Map"]


def test_in_place_after_a_launch_that_still_reads():
    @nf.fuse
    def f(x):
        total = x.sum(0)
        np.multiply(x, 2, out=x)
        return total + x

    x = X.copy()
    np.testing.assert_allclose(f(x), X.sum(0) + X * 2, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(x, X * 2)


def _swapped(x, y):
    old = x + 0
    x[...] = y
    y[...] = old


def _copied_then_changed(x, y):
    x[...] = y
    y += 1
    return x * 2


def _named_then_changed(x, y):
    first = y
    x[...] = first
    y *= 3
    return first


@pytest.mark.parametrize(
    "program", [_swapped, _copied_then_changed, _named_then_changed])
def test_an_argument_stored_into_another_and_changed_after_that(program):
    given, expected = (X.copy(), X * 3 + 1), (X.copy(), X * 3 + 1)
    result, right = nf.fuse(program)(*given), program(*expected)
    for made, wanted in zip(given, expected, strict=True):
        np.testing.assert_allclose(made, wanted, rtol=1e-6)
    if right is not None:
        np.testing.assert_allclose(result, right, rtol=1e-6)


def test_in_place_refusals():
    x = X.copy()
    with pytest.raises(OverlapError, match="'x' is changed in place"):
        nf.fuse(_added)(x, x[::-1])
    with pytest.raises(KernelTypeError, match="same_kind"):
        nf.fuse(_added)(np.arange(4), Y)
    with pytest.raises(ShapeError):
        nf.fuse(_added)(Y.copy(), X)
    with pytest.raises(KernelTypeError, match="index has dtype float64"):
        nf.fuse(lambda x: x.__setitem__(np.array([0.5]), 1))(X.copy())


def _added(x, y):
    x += y
    return x


@pytest.mark.parametrize("sorts", [False, True])
def test_views_of_one_array_without_a_common_element_are_apart(sorts):
    @nf.fuse
    def relax(red, black):
        red += np.sort(black * 0.5) if sorts else black * 0.5
        black[...] = red - 1

    memory = np.arange(16.0)
    expected = memory.copy()
    relax(memory[:8].copy(), memory[8:].copy())
    for _ in range(4):
        relax(memory[::2], memory[1::2])
        expected[::2] += expected[1::2] * 0.5  # ascending: sorted already
        expected[1::2] = expected[::2] - 1
        np.testing.assert_allclose(memory, expected)
    with pytest.raises(OverlapError, match=r"'red' is changed .* with 'black'"):
        relax(memory[:8], memory[1::2])


def test_arguments_that_cannot_be_changed_are_named():
    @nf.fuse
    def step(state, x):
        state["w"] += x
        state["n"] += 1

    def state():
        return {"w": np.ones(3), "n": np.ones(3)}

    for _ in range(4):  # traced, run, planned, repeated
        for name in "wn":
            given = state()
            given[name].flags.writeable = False
            with pytest.raises(ReadOnlyError, match=f"state_{name} is read-only"):
                step(given, np.ones(3))
            np.testing.assert_array_equal(given["w"], 1)
        given = state() | {"n": np.lib.stride_tricks.as_strided(np.ones(1), (3,), (0,))}
        with pytest.raises(OverlapError, match=r"state_n of shape .* share memory"):
            step(given, np.ones(3))
        np.testing.assert_array_equal(given["w"], 1)
        step(state(), np.ones(3))


@pytest.mark.parametrize("dtype", ["O", "M8[s]", "g"])
@pytest.mark.parametrize("change", [nf.fuse, nf.grad])
def test_dtypes_without_kernels_are_refused_by_name(change, dtype):
    with pytest.raises(KernelTypeError, match=r"multiply: 'y': dtype .* astype"):
        change(lambda x, y: (x * y).sum())(np.ones(3), np.ones(3).astype(dtype))


def test_in_place_on_variables():
    x = nf.Variable(X.copy(), requires_grad=True)
    with pytest.raises(TapeError, match="nothing in place, or use no_grad"):
        nf.fuse(_added)(x, Y)
    with nf.no_grad():
        nf.fuse(_added)(x, Y)
    np.testing.assert_allclose(x.data, X + Y)


@pytest.mark.parametrize(("function", "message"), [
    (lambda x, n: x if x.sum() > 0 else -x, "nf.ops.where"),
    (lambda x, n: x if n > 0 else -x, "default"),
    (lambda x, n: x * math.exp(n), "float"),
    (lambda x, n: x[int(n)], "int"),
    (lambda x, n: x * float(x[0, 0]), "float"),
    (lambda x, n: np.array2string(x), "numpy.array2string needs values.*callback"),
    (lambda x, n: np.add(x, n, where=x > 0), "numpy.add: .*where"),
    (lambda x, n: np.asarray(x, order="C"), "NumPy array"),
    (lambda x, n: x.to_numpy(), "to_numpy"),
    (lambda x, n: x.item(), "item"),
])
def test_what_cannot_be_traced_is_named(function, message):
    with pytest.raises(KernelTypeError, match=message):
        nf.fuse(function)(X, 1.0)


def test_only_what_is_decorated_again_by_the_same_line_warns():
    def f(x):
        return (x * x).sum()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nf.fuse(f)
        nf.fuse(nf.grad(f))
        nf.fuse(nf.hessian(f), kernel_name="curvature")
    with pytest.warns(NbFusedPerformanceWarning, match="f is decorated again") as found:
        [nf.fuse(f) for _ in range(3)]
    assert [warning.filename for warning in found] == [__file__]


def test_bad_decorations():
    for wrong in (3, "name"):
        with pytest.raises(KernelTypeError, match="expected a function"):
            nf.fuse(wrong)
    for wrong in ("1x", "a b", 3):
        with pytest.raises(KernelTypeError, match="kernel_name"):
            nf.fuse(kernel_name=wrong)
    with pytest.raises(KernelTypeError, match=r"_added\(.*\): missing .* argument"):
        nf.fuse(_added)(X)


def test_values_are_checked_at_each_call():
    fused = nf.fuse(lambda t, i: nf.ops.take(t, i) * 2)
    np.testing.assert_array_equal(fused(X, np.array([2, 0])), X[[2, 0]] * 2)
    with pytest.raises(RangeError, match="indices"):
        fused(X, np.array([0, 3]))
    power = nf.fuse(lambda x, n: x ** n)
    assert power(np.arange(3), 2).tolist() == [0, 1, 4]
    with pytest.raises(RangeError, match="negative"):
        power(np.arange(3), -2)


class Growing(nf.Function):
    """Gives one element more at each call."""

    count = 0

    @staticmethod
    def forward(ctx, x):
        Growing.count += 1
        return nf.Variable(np.ones(Growing.count))


def test_a_custom_op_must_give_one_shape():
    with pytest.raises(KernelTypeError, match="another shape"):
        nf.fuse(lambda x: Growing.apply(x) * 2)(X)


class Halved(nf.Function):
    """Of every second element from the second call on."""

    step = 1

    @staticmethod
    def forward(ctx, x):
        return nf.Variable(x.to_numpy()[::Halved.step] / 2)


def test_a_custom_op_may_change_its_shape_for_good(monkeypatch):
    @nf.fuse
    def f(x):
        x += 1
        return Halved.apply(x) * 2

    for step in (1, 2):
        monkeypatch.setattr(Halved, "step", step)
        x = Y.copy()
        np.testing.assert_allclose(f(x), (Y + 1)[::step], rtol=1e-6)
        np.testing.assert_allclose(x, Y + 1)


@pytest.mark.parametrize("function", [
    lambda a, b: a + b, lambda a, b: np.subtract(b, a), lambda a, b: a * (b * 2),
    lambda a, b: nf.ops.maximum(a, b),
])
def test_a_number_that_the_dtype_does_not_hold(function):
    fused, x = nf.fuse(function), np.arange(3, dtype="u1")
    np.testing.assert_array_equal(fused(x, 3), function(x, 3))
    for number in (300, -1):
        with pytest.raises(RangeError, match="out of range for uint8"):
            fused(x, number)
    assert fused(x, 300.0).dtype == np.float64
    assert fused(x.astype("i8"), 300).dtype == np.int64


def test_a_stored_number_that_the_dtype_does_not_hold():
    @nf.fuse
    def f(a, b):
        a[...] = b

    x = np.arange(3, dtype="u1")
    f(x, 7)
    with pytest.raises(RangeError, match=r"x\[...\] = y: 'y' is the Python integer"):
        f(x, 300)
    assert x.tolist() == [7, 7, 7]


@pytest.mark.parametrize(("function", "words"), [
    (lambda a, b: np.expand_dims(b, 0) + a, "'b', Python float> has no axes"),
    (lambda a, b: np.broadcast_to(b, (3, 4)) + a, "has no axes"),
])
def test_what_numpy_does_and_fuse_does_not(function, words):
    with pytest.raises(KernelTypeError, match=words):
        nf.fuse(function)(X, 2.0)


@pytest.mark.parametrize("name", ["std", "var", "max", "min"])
def test_methods_that_mean_something_else_to_a_tensor(name):
    torch = pytest.importorskip("torch")
    method, op = nf.fuse(lambda x: getattr(x, name)(1)), getattr(nf.ops, name)
    torch.testing.assert_close(method(torch.tensor(X)),
                               getattr(torch.tensor(X), name)(1))
    expected = getattr(X, name)(1)
    np.testing.assert_allclose(method(X), expected, rtol=1e-5)
    found = nf.fuse(lambda x: op(x, axis=1))(torch.tensor(X))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("before", [(), (1,), (True,), (1, True)])
def test_a_flag_as_index_is_refused_alike_whatever_came_before(before):
    fused = nf.fuse(lambda x, c: x[c] + 1)
    for c in before:
        with suppress(KernelTypeError):
            fused(np.ones(3), c)
    with pytest.raises(KernelTypeError, match="a single truth value as index"):
        fused(np.ones(3), True)


def yields(x):
    for k in range(2):
        yield x*k


async def awaits(x):
    return x*2


async def yields_later(x):
    yield x*2


def scaled(x, by):
    return x*by


class Scale:
    def __call__(self, x, by=2.0):
        return x*by


@pytest.mark.parametrize("function", [
    yields, awaits, yields_later,
    lambda x: (x*k for k in range(2)), lambda x: (x, [map(abs, [x])]),
    lambda x: iter([x*2]), lambda x: lambda: x*2, lambda x: lambda y, by=x*2: y*by,
    lambda x: {"later": partial(scaled, x)}, lambda x: partial(scaled, by=[x + 1])])
def test_what_computes_when_the_call_is_over_is_refused(function):
    """Its symbols would fail wherever it runs."""
    fused = nf.fuse(function)
    for _ in range(2):
        with pytest.raises(KernelTypeError, match="returns what computes later"):
            fused(X)


def test_functions_of_other_things_are_returned():
    by, scale = 3.0, Scale()

    def later(x):
        def late():
            return by

        return x + 1, late, partial(scaled, by=by), scale.__call__, len

    y, late, part, method, function = nf.fuse(later)(X)
    np.testing.assert_array_equal(y, X + 1)
    np.testing.assert_array_equal(part(X), 3*X)
    np.testing.assert_array_equal(method(X), 2*X)
    assert (late(), function) == (3.0, len)
