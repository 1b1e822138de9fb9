"""Objects among the arguments of fused functions, and what is assigned to them."""

from __future__ import annotations

import dataclasses
import math
import warnings

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError

pytestmark = pytest.mark.interpreted

X = np.random.default_rng(0).normal(size=(6, 4))
SCALE = 2.0


@pytest.fixture(autouse=True)
def no_retracing():
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "fuse.*traced at each call")
        warnings.filterwarnings("ignore", "fuse.*decorated again")
        yield


class Layer:
    def __init__(self, n, m):
        rng = np.random.default_rng(n * m)
        self.weight, self.bias, self.on = rng.normal(size=(n, m)), np.zeros(m), True

    def __call__(self, x):
        y = x @ self.weight + self.bias
        return y * SCALE if self.on else y


class Model:
    def __init__(self):
        self.layers = [Layer(4, 5), Layer(5, 3)]
        self.act, self.last, self.steps = np.tanh, np.zeros(3), 0

    def forward(self, x):
        for layer in self.layers:
            x = self.act(layer(x))
        return x

    @nf.fuse
    def step(self, x, rate):
        self.steps += 1
        y = self.forward(x)
        first = self.layers[0]
        first.weight -= rate * nf.grad(lambda w: ((x @ w) ** 2).sum())(first.weight)
        self.layers[1].bias = self.layers[1].bias + y.sum(0)
        self.last = y.mean(0)
        return y.sum() / self.steps


def _assert_like(one, other):
    for a, b in zip(one.layers, other.layers, strict=True):
        np.testing.assert_allclose(a.weight, b.weight)
        np.testing.assert_allclose(a.bias, b.bias)
    np.testing.assert_allclose(one.last, other.last)
    assert (one.steps, type(one.steps)) == (other.steps, int)


def test_a_method_that_trains_its_object():
    model, plain = Model(), Model()
    for _ in range(8):
        found, expected = model.step(X, 0.01), Model.step.function(plain, X, 0.01)
        np.testing.assert_allclose(found, expected)
        _assert_like(model, plain)
    assert Model.step.cache_info().misses <= 3  # `steps` becomes a number of the call


def test_a_global_object_and_what_its_methods_read(monkeypatch):
    monkeypatch.setitem(globals(), "MODEL", Model())
    fused = nf.fuse(lambda x: MODEL.forward(x).sum(0))  # noqa: F821
    for k in range(6):
        np.testing.assert_allclose(fused(X), fused.function(X))
        MODEL.layers[0].weight = MODEL.layers[0].weight * 1.1  # noqa: F821
        if k == 3:
            monkeypatch.setitem(globals(), "SCALE", 5.0)
        if k == 4:
            MODEL.layers[1].on = False  # noqa: F821
    assert fused.cache_info().misses == 3


@dataclasses.dataclass(frozen=True)
class Power:
    weight: np.ndarray
    count: int = 3


def test_numbers_of_objects_that_must_be_constant():
    @nf.fuse
    def applied(p, x):
        for _ in range(p.count):
            x = x @ p.weight
        return x

    for count in (3, 3, 3, 2, 2, 5):
        found = applied(Power(np.eye(4) * 2, count), X)
        np.testing.assert_allclose(found, X * 2**count)


class Counter:
    def __init__(self):
        self.steps, self.rate, self.loops, self.weight = 0, 0.1, 2, np.ones(4)

    @nf.fuse
    def go(self, x):
        self.steps += 1
        for _ in range(self.loops):
            x = x * 2
        self.weight -= self.rate * x.mean(0) / (1 - 0.9**self.steps)
        return x.sum() + self.steps

    @nf.fuse
    def root(self, x):
        self.steps += 1
        return x * math.sqrt(self.steps)


def test_numbers_of_objects_that_change():
    one, other = Counter(), Counter()
    for k in range(14):
        np.testing.assert_allclose(one.go(X), Counter.go.function(other, X))
        np.testing.assert_allclose(one.weight, other.weight)
        assert one.steps == other.steps == k + 1
        one.loops = other.loops = 2 + (k > 4)
        one.rate = other.rate = 0.1 + 0.1 * (k > 8)
    traced = Counter.go.cache_info().misses
    for _ in range(5):
        np.testing.assert_allclose(one.go(X), Counter.go.function(other, X))
    assert Counter.go.cache_info().misses == traced
    for _ in range(4):
        np.testing.assert_allclose(one.root(X), Counter.root.function(other, X))
        assert one.steps == other.steps


def test_containers_that_are_assigned_to():
    @nf.fuse
    def step(state, x):
        state["w"] = state["w"] + x
        state["new"] = x * 3
        state["seen"].append((x * 2).sum())
        return state["w"] * 2

    x, state = np.arange(4.0), {"w": np.ones(4), "seen": []}
    plain = {"w": np.ones(4), "seen": []}
    for _ in range(4):
        np.testing.assert_allclose(step(state, x), step.function(plain, x))
        assert state.keys() == plain.keys()
        np.testing.assert_allclose(state["w"], plain["w"])
        np.testing.assert_allclose(state["new"], plain["new"])
        np.testing.assert_allclose(state["seen"], plain["seen"])
        assert type(state["w"]) is np.ndarray


LOSSES: list = []


def test_a_list_outside_that_grows(monkeypatch):
    def noted(x):
        LOSSES.append(x.sum())
        return x * 2

    fused = nf.fuse(noted)
    for k in range(1, 5):
        fused(X)
        assert len(LOSSES) == k
    np.testing.assert_allclose(LOSSES, [X.sum()] * 4)


def test_what_is_not_assigned_is_refused():
    x, state = np.ones(3), {"w": np.ones(3), "v": np.ones(3)}

    def removed(state, x):
        state.pop("w")
        return x

    def swapped(pair, x):
        pair[0], pair[1] = pair[1], pair[0]
        return x

    def rebound(x):
        global LAST
        LAST = x * 2
        return x

    with pytest.raises(KernelTypeError, match="removed changes items of state"):
        nf.fuse(removed)(state, x)
    with pytest.raises(KernelTypeError, match="container from outside"):
        nf.fuse(swapped)([{"w": x}, {"w": x}], np.zeros(3))
    with pytest.raises(KernelTypeError, match="LAST"):
        nf.fuse(rebound)(x)
    assert set(state) == {"w", "v"}


def test_objects_that_lead_to_themselves():
    node = Counter()
    node.me, node.pair = node, [node]
    fused = nf.fuse(lambda n, x: n.weight * x + n.me.weight + n.pair[0].me.weight)
    for k in range(5):
        node.weight = np.full(4, float(k))
        np.testing.assert_allclose(fused(node, X), k * X + 2 * k)
