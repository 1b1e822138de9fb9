"""Calls of a mapped function like earlier ones: computed without calling it, or not."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nbfused as nf
from nbfused.autograd.calls.replays import Replay
from nbfused.autograd.transforms.examination import examine

pytestmark = pytest.mark.interpreted

RNG = np.random.default_rng(5)
W, X, Y = RNG.normal(size=3), RNG.normal(size=(6, 3)), RNG.normal(size=6)
SCALE = 2.0
TABLE = np.array([1.0, 2.0, 3.0])
SEEN = []
COUNT = 0


@pytest.fixture
def replays(monkeypatch):
    """A list with an entry for each call that was a replay."""
    found, run = [], Replay.run

    def counted(self, arrays):
        made = run(self, arrays)
        found.append(made is not None)
        return made

    monkeypatch.setattr(Replay, "run", counted)
    return found


def loss(w, x, y):
    return nf.ops.square(nf.ops.sum(w * x) - y)


def gradient(w, x, y):
    return 2 * (x @ w - y)[:, None] * x


def calls(mapped, args, count=4):
    return [mapped(*args) for _ in range(count)]


def test_the_third_call_is_a_replay_with_the_same_bits(replays):
    mapped = nf.vmap(nf.grad(loss), in_axes=(None, 0, 0))
    found = calls(mapped, (W, X, Y))
    assert replays == [True, True]
    for one in found:
        np.testing.assert_array_equal(one, found[0])
    np.testing.assert_allclose(found[3], gradient(W, X, Y), rtol=1e-12)
    other = RNG.normal(size=3), RNG.normal(size=(6, 3)), RNG.normal(size=6)
    np.testing.assert_allclose(mapped(*other), gradient(*other), rtol=1e-12)
    assert replays == [True]*3
    first, second = mapped(*other), mapped(*other)
    first[...] = 0  # results are the caller's
    np.testing.assert_allclose(second, gradient(*other), rtol=1e-12)
    np.testing.assert_allclose(mapped(*other), gradient(*other), rtol=1e-12)


def test_other_shapes_dtypes_layouts_and_structures(replays):
    mapped = nf.vmap(nf.grad(lambda p, x, y: loss(p["w"], x, y)), in_axes=(None, 0, 0))
    calls(mapped, ({"w": W}, X, Y), 3)
    x = np.asfortranarray(X)
    for args, rtol in (((W, X[:4], Y[:4]), 1e-12), ((W, x, Y), 1e-12), (
            (W.astype("f4"), X.astype("f4"), Y.astype("f4")), 1e-4),
            ((W, X[::-1], Y[::-1]), 1e-12), ((W, X, Y), 1e-12)):
        found = mapped({"w": args[0]}, *args[1:])["w"]
        assert found.dtype == args[0].dtype
        np.testing.assert_allclose(found, gradient(*args), rtol=rtol)
    assert len(replays) == 2


def test_other_axes_and_results(replays):
    def statistics(x, y):
        return {"sum": nf.ops.sum(x), "both": (x, nf.ops.sum(y), x.T)}

    mapped = nf.vmap(statistics, in_axes=(1, None), out_axes={"sum": 0, "both": (
        1, None, 0)})
    x = RNG.normal(size=(3, 6, 2))
    for found in calls(mapped, (x, Y)):
        np.testing.assert_allclose(found["sum"], x.sum((0, 2)), rtol=1e-12)
        np.testing.assert_array_equal(found["both"][0], x)
        np.testing.assert_allclose(found["both"][1], Y.sum(), rtol=1e-12)
        np.testing.assert_array_equal(found["both"][2], x.transpose(1, 2, 0))
        assert not any(np.shares_memory(one, x) for one in (
            found["both"][0], found["both"][2]))
    assert not replays  # dictionaries of axes may be others later


def test_results_that_are_arguments_are_copies(replays):
    mapped = nf.vmap(lambda x, w: (x, x + w, w), in_axes=(1, None), out_axes=(1, 0, 0))
    x = RNG.normal(size=(3, 6))
    for found in calls(mapped, (x, W)):
        np.testing.assert_array_equal(found[0], x)
        np.testing.assert_array_equal(found[1], x.T + W)
        np.testing.assert_array_equal(found[2], np.tile(W, (6, 1)))
        assert not np.shares_memory(found[0], x)
        assert not np.shares_memory(found[2], W)
    assert replays == [True, True]


def test_a_number_that_is_passed(replays):
    mapped = nf.vmap(lambda x, k: x * math.copysign(2.0, k), in_axes=(0, None))
    for k in (1.0, 3.0, 1, True, -0.0, 0.0)*3:
        np.testing.assert_array_equal(mapped(X, k), X * math.copysign(2.0, k))
    assert replays == [True]*6


def test_globals_and_closures_that_change(replays, monkeypatch):
    scale = 1.0

    def scaled(x):
        return x * scale * SCALE

    mapped = nf.vmap(scaled)
    for scale, there in ((1.0, 2.0), (3.0, 2.0), (3.0, 5.0), (3.0, 5.0), (3.0, 5.0)):
        monkeypatch.setitem(globals(), "SCALE", there)
        for found in calls(mapped, (X,), 3):
            np.testing.assert_allclose(found, X * scale * there, rtol=1e-12)
    assert replays


def test_a_function_that_it_calls_changes(replays, monkeypatch):
    mapped = nf.vmap(lambda x, w: loss(w, x, 1.0), in_axes=(0, None))
    calls(mapped, (X, W))
    assert replays == [True, True]
    monkeypatch.setitem(globals(), "loss", lambda w, x, y: nf.ops.sum(x) * y)
    for found in calls(mapped, (X, W)):
        np.testing.assert_allclose(found, X.sum(1), rtol=1e-12)


def test_the_elements_of_an_array_outside_change(replays):
    table = TABLE.copy()
    mapped = nf.vmap(lambda x: x * table + float(table[0]))
    for k in range(3):
        for found in calls(mapped, (X,)):
            np.testing.assert_allclose(found, X * table + table[0], rtol=1e-12)
        table[k] = 7.0
    assert replays


def test_dictionaries_and_lists_outside_change(replays):
    layers = [{"w": W.copy(), "scale": 1.0}, {"w": W + 1, "scale": 2.0}]

    def model(x):
        for layer in layers:
            x = x * layer["w"] * layer["scale"]
        return x

    def want():
        return X * np.prod([layer["w"] * layer["scale"] for layer in layers], axis=0)

    mapped = nf.vmap(model)
    for change in (lambda: None, lambda: layers[0].update(scale=3.0), layers.pop,
                   lambda: layers.append({"w": TABLE, "scale": -1.0}),
                   lambda: layers[0]["w"].fill(2.0),
                   lambda: layers[0].update(w=TABLE)):
        change()
        for found in calls(mapped, (X,)):
            np.testing.assert_allclose(found, want(), rtol=1e-12)
    assert len(replays) >= 10


def test_kernels_of_users(replays):
    cube = nf.elementwise(lambda x: x * x * x)
    mapped = nf.vmap(nf.grad(lambda x: nf.ops.sum(cube(x))))
    for found in calls(mapped, (X,)):
        np.testing.assert_allclose(found, 3 * X**2, rtol=1e-12)
    assert replays == [True, True]
    cube.gradcheck = True
    with pytest.raises(nf.errors.KernelTypeError, match="values"):  # as in any call
        mapped(X)


def test_an_array_outside_is_an_argument_too(replays):
    mapped = nf.vmap(lambda x, w: x * w * TABLE, in_axes=(0, None))
    for w in (TABLE, TABLE, TABLE, W, W, TABLE):
        np.testing.assert_array_equal(mapped(X, w), X * w * TABLE)


def test_one_array_for_two_arguments(replays):
    mapped = nf.vmap(lambda x, y: x - 2 * y)
    for args in ((X, X), (X, X), (X, X), (X, X[::-1].copy())):
        np.testing.assert_allclose(mapped(*args), args[0] - 2 * args[1], rtol=1e-12)


def counting(x):
    global COUNT
    COUNT += 1
    return x * COUNT


def printing(x):
    SEEN.append(x.shape)
    return x * len(SEEN)


def drawing(x):
    return x * np.random.default_rng().normal()


class Model:
    scale = 2.0

    def __call__(self, x):
        return x * self.scale


MODEL = Model()


def of_an_object(x):
    return x * MODEL.scale


def handling(x):
    try:
        return x * float(x[0])
    except nf.errors.NbFusedError:
        return x


@pytest.mark.parametrize("function", [
    counting, drawing, of_an_object, handling, MODEL,
    lambda x: print("called") or x, lambda x: nf.ops.dropout(x, 0.5),
    lambda x: setattr(Model, "scale", 3.0) or x])
def test_functions_that_are_called_each_time(function, replays):
    assert examine(function) is None


def test_effects_are_those_of_each_call(replays, capsys):
    SEEN.clear()
    mapped = nf.vmap(printing)
    for k, found in enumerate(calls(mapped, (X,)), 1):
        np.testing.assert_array_equal(found, X * k)
    assert len(SEEN) == 4
    calls(mapped, (X,), 20)
    assert len(SEEN) == 24
    calls(nf.vmap(lambda x: print("called") or x), (X,))
    assert capsys.readouterr().out.count("called") == 4
    assert not replays


def test_changes_in_place_are_made_by_the_function(replays):
    def clipped(x):
        x[0] = 0.0
        return x * 2

    mapped = nf.vmap(clipped)
    for _ in range(4):
        x = X.copy()
        want = np.concatenate([np.zeros((6, 1)), X[:, 1:]], axis=1)
        np.testing.assert_array_equal(mapped(x), want * 2)
        np.testing.assert_array_equal(x, want)
    assert not replays


def test_a_change_of_what_is_outside(replays):
    total = np.zeros(3)

    def adding(x):
        view = total
        view += 1.0
        return x * total

    mapped = nf.vmap(adding)
    for k, found in enumerate(calls(mapped, (X,), 6), 1):
        np.testing.assert_array_equal(found, X * k)


def test_an_array_outside_that_is_written_to_and_restored(replays):
    scratch = np.zeros(3)

    def weighted(x):
        scratch[0] = 2.0
        y = x * scratch
        scratch[0] = 0.0
        return y + x * scratch

    for found in calls(nf.vmap(weighted), (X,)):
        np.testing.assert_array_equal(found, X * [2.0, 0.0, 0.0])
    assert replays == [True, True]


def test_arrays_that_the_function_makes(replays):
    def one_hot(x, label):
        table = np.eye(3)
        table[0] = 5.0
        chosen = x * (np.arange(3) == label) + x[[2, 0, 1]] * table[0]
        table[0] = 0.0
        return chosen

    mapped, labels = nf.vmap(one_hot), np.array([0, 1, 2, 0, 1, 2])
    calls(mapped, (X, labels))
    assert replays == [True, True]
    for own in (labels[::-1].copy(), labels):
        np.testing.assert_allclose(
            mapped(X, own), X * (np.arange(3) == own[:, None])
            + 5 * X[:, [2, 0, 1]], rtol=1e-12)


@pytest.mark.parametrize("count", [
    lambda w: w.nonzero()[0].shape[0], lambda w: w.argsort()[0],
    lambda w: w.cumsum()[2]])
def test_what_depends_on_the_elements_of_a_shared_argument(count):
    mapped = nf.vmap(lambda w, x: x * count(w), in_axes=(None, 0))
    for w in (TABLE, TABLE, TABLE, TABLE[::-1] * [0.0, 1.0, 1.0], TABLE * [1, 0, 0]):
        np.testing.assert_allclose(mapped(np.ascontiguousarray(w), X), X * count(w),
                                   rtol=1e-12)


def test_conditions_on_values_are_refused_at_each_call():
    mapped = nf.vmap(lambda x: x if x[0] > 0 else -x)
    for _ in range(4):
        with pytest.raises(nf.errors.KernelTypeError, match="truth"):
            mapped(X)


def test_labels_are_checked_at_each_call(replays):
    def entropy(w, x, label):
        return nf.ops.cross_entropy(x * w, label)

    mapped = nf.vmap(nf.grad(entropy), in_axes=(None, 0, 0))
    labels = np.array([0, 1, 2, 0, 1, 2])
    calls(mapped, (W, X, labels))
    assert replays == [True, True]
    with pytest.raises(nf.errors.NbFusedError, match="3"):
        mapped(W, X, labels + 1)


def test_variables_placeholders_and_fused_functions(replays):
    mapped = nf.vmap(nf.grad(loss), in_axes=(None, 0, 0))
    calls(mapped, (W, X, Y))
    del replays[:]
    w = nf.Variable(W, requires_grad=True)
    mapped(w, X, Y).sum().backward()
    np.testing.assert_allclose(w.grad, 2 * (X * X.sum(1)[:, None]).sum(0), rtol=1e-10)
    stacked = np.stack([W, 2 * W])
    found = nf.vmap(mapped, in_axes=(0, None, None))(stacked, X, Y)
    np.testing.assert_allclose(found[1], gradient(2 * W, X, Y), rtol=1e-12)
    fused = nf.fuse(lambda w, x, y: mapped(w, x, y))
    np.testing.assert_allclose(fused(W, X, Y), gradient(W, X, Y), rtol=1e-12)
    assert not replays


def test_a_fused_function_around_it_reads_what_is_outside(replays):
    weights = np.array([1.0, 2.0, 3.0])
    mapped = nf.vmap(lambda x: x * weights)
    calls(mapped, (np.ones((6, 3)),))
    fused = nf.fuse(lambda y: y + mapped(np.ones((6, 3))))
    for k in range(3):
        weights[0] = k
        np.testing.assert_allclose(fused(X), X + weights, rtol=1e-12)


def test_second_derivatives(replays):
    mapped = nf.vmap(nf.grad(lambda w, x: nf.ops.sum(nf.grad(
        lambda w: nf.ops.sum(nf.ops.tanh(w * x)))(w) ** 2)), in_axes=(None, 0))
    t = np.tanh(W * X)
    want = 2 * (X * (1 - t**2)) * (-2 * X**2 * t * (1 - t**2))
    for found in calls(mapped, (W, X)):
        np.testing.assert_allclose(found, want, rtol=1e-10)
    assert replays == [True, True]


def test_launches_are_told_and_settings_hold(replays):
    mapped = nf.vmap(nf.grad(loss), in_axes=(None, 0, 0))
    calls(mapped, (W, X, Y))
    with nf.trace_launches() as launches:
        mapped(W, X, Y)
    assert replays == [True]*3
    assert 3 <= len(launches) <= 6
    del replays[:]
    nf.config.debug = True
    try:
        calls(mapped, (W, X, Y), 1)
    finally:
        nf.config.debug = False
    assert not replays


def test_zeros_are_new_at_each_call(replays):
    mapped = nf.vmap(nf.grad(lambda p, x: nf.ops.sum(p[0] * x)), in_axes=(None, 0))
    for found in calls(mapped, ((W, np.ones(2)), X)):
        np.testing.assert_array_equal(found[1], np.zeros((6, 2)))
        found[1][...] = 5.0
