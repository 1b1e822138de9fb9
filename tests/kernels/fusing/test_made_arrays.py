"""Arrays that a fused function makes of numbers, and trees that it returns."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy import linspace

import nbfused as nf
from nbfused.errors import KernelTypeError, NbFusedPerformanceWarning
from nbfused.kernels.fusing.symbols.arrays import Symbol

pytestmark = pytest.mark.filterwarnings("ignore:fuse.*decorated again")

X = np.array([1.0, 2.0, 4.0])


def _changed_in_between(x):
    steps = np.zeros(3)
    steps[1] = 7.0
    first = x + steps
    steps[2:] += 5
    return first * steps


def _in_a_loop(x):
    for k in np.arange(3):
        if np.linspace(0, 1, 3)[k] > 0.2:
            x = x * (1 + k)
    return x


MADE = {
    "arange": lambda x: x + np.arange(3) * 2.0,
    "eye": lambda x: np.eye(3) @ x + np.identity(3)[0],
    "linspace": lambda x: x * linspace(0, 1, 3) ** 2,
    "zeros, ones, full": lambda x: x + np.zeros(3) - np.ones(3) + np.full((3,), 2.0),
    "array": lambda x: x + np.array([1.0, 2.0, 3.0]).cumsum().astype("f4"),
    "of a shape": lambda x: x + np.arange(x.shape[0]) + np.zeros(x.shape),
    "functions of them": lambda x: x + np.meshgrid(np.arange(3.0), np.ones(2))[0][1],
    "logspace, window, fftfreq": lambda x: x * np.logspace(0, 1, 3) + np.hanning(3)
    + np.fft.fftfreq(3) + np.tri(3)[1],
    "left": lambda x: np.arange(3.0) - x + np.minimum(np.arange(3.0), x),
    "changed in between": _changed_in_between,
    "in a loop": _in_a_loop,
    "an operation of ours": lambda x: x + nf.ops.where(x > 1, np.arange(3.0), 0.0),
    "differentiated": lambda x: nf.grad(lambda t: (t * np.arange(3.0)).sum())(x),
    "mapped": lambda x: nf.vmap(lambda t: (t * np.arange(3.0)).sum())(x[:, None] * x),
    "between calls": lambda x: np.linalg.solve(np.eye(3) * 2, x) + np.arange(3.0),
}


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_of_numbers_is_constant(name):
    function, fused = MADE[name], nf.fuse(MADE[name])
    with warnings.catch_warnings():
        warnings.simplefilter("error", NbFusedPerformanceWarning)
        for k in range(4):
            np.testing.assert_allclose(fused(X + k), function(X + k), rtol=1e-12)
    assert fused.cache_info().misses == 1
    assert len({*map(type, fused._plans._states.values())} - {bool}) == 1  # a plan


def test_each_call_gives_arrays_of_its_own():
    fused = nf.fuse(lambda x: (x, np.arange(3), np.arange(3.0)[::-1] * 2))
    for _ in range(4):
        _, first, second = fused(X)
        np.testing.assert_array_equal(first, [0, 1, 2])
        np.testing.assert_array_equal(second, [4, 2, 0])
        assert type(first) is np.ndarray
        first += 10
        second += 10


HELD: list[Any] = []


class _Store:
    """An array behind Python's attribute look-up, which nothing sees."""

    def __getattr__(self, name: str) -> Any:
        return HELD[0]


_STORE = _Store()
MIXED = {
    "beside": lambda x: x + np.arange(3.0) * _STORE.table,
    "stored": lambda x: x + _stored(np.zeros(3)),
    "by out": lambda x: x + _out(np.zeros(3)),
    "by copyto": lambda x: x + _copyto(np.zeros(3)),
    "by a view": lambda x: x + _through_view(np.zeros(3)),
    "by a method": lambda x: x + np.eye(3).dot(_STORE.table),
    "by flat": lambda x: x + _flat(np.zeros(3)),
}


def _stored(made):
    made[...] = _STORE.table
    return made


def _out(made):
    np.negative(_STORE.table, out=made)
    return made


def _copyto(made):
    np.copyto(made, _STORE.table)
    return made


def _through_view(made):
    made[1:][...] = _STORE.table[1:]
    return made


def _flat(made):
    made.flat = _STORE.table
    return made


@pytest.mark.parametrize("name", MIXED)
def test_what_comes_from_elsewhere_is_not(name):
    function, fused = MIXED[name], nf.fuse(MIXED[name])
    for k in range(4):
        HELD[:] = [np.arange(3.0) + k]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NbFusedPerformanceWarning)
            found = fused(X)
        np.testing.assert_allclose(found, function(X), rtol=1e-12)


def test_random_numbers_are_not_constant():
    rng = np.random.default_rng(0)
    fused = nf.fuse(lambda x: x + np.zeros(3) + rng.normal(size=3))
    with pytest.warns(NbFusedPerformanceWarning, match="traced at each call"):
        first = fused(X)
    assert (fused(X) != first).all()


def test_methods_of_arrays_are_not_hidden_by_symbols():
    assert not set(Symbol.__slots__) & set(dir(np.ndarray))


def test_trace_is_a_method():
    a = np.arange(12.0).reshape(3, 4)
    fused = nf.fuse(lambda x: x.trace() + x.trace(1) * x.trace(offset=-1))
    for _ in range(3):
        assert fused(a) == a.trace() + a.trace(1) * a.trace(-1)
    assert nf.Variable(a).trace(1).data == a.trace(1)
    torch = pytest.importorskip("torch")
    t = torch.from_numpy(a)
    assert nf.fuse(lambda x: x.trace() * 2)(t) == t.trace() * 2


@dataclass
class Pair:
    first: Any
    second: Any
    label: str = field(default="none", metadata={"static": True})


def test_dataclasses_are_returned():
    fused = nf.fuse(lambda x: Pair(x + 1, [x * 2, {"sum": x.sum()}], "some"))
    for _ in range(4):
        found = fused(X)
        assert found.label == "some"
        np.testing.assert_array_equal(found.first, X + 1)
        np.testing.assert_array_equal(found.second[0], X * 2)
        assert found.second[1]["sum"] == X.sum()


class _Plain:
    def __init__(self, value: Any) -> None:
        self.value = value


def test_other_objects_with_arrays_are_refused():
    with pytest.raises(KernelTypeError, match="returns a _Plain that holds arrays"):
        nf.fuse(lambda x: _Plain(x + 1))(X)


def _loss(p, x):
    y = (p["w"] * x).sum() ** 2 + (p["b"]["c"] ** 3).sum()
    return y, {"value": y, "inputs": [x * 1, None]}


def _slope(p, x):
    grads, aux = nf.grad(_loss, has_aux=True)(p, x)
    return (grads["w"] ** 2).sum() + (grads["b"]["c"] ** 2).sum(), aux


def _expected(p, x):
    """By hand: the loss is s² + Σc³ with s = w·x, its slope 4s²x·x + 9Σc⁴."""
    s, c = p["w"] @ x, p["b"]["c"]
    return {"w": 8 * s * (x @ x) * x, "b": {"c": 36 * c ** 3}}, s ** 2 + (c ** 3).sum()


@pytest.mark.parametrize("fused", [False, True])
def test_gradients_of_gradients_of_trees_with_aux(fused):
    p = {"w": np.array([1.0, 2.0]), "b": {"c": np.array([3.0, -1.0])}}
    x = np.array([0.5, 2.0])
    second = nf.grad(_slope, has_aux=True)
    call = nf.fuse(second) if fused else second
    expected, value = _expected(p, x)
    for _ in range(3):
        grads, aux = call(p, x)
        np.testing.assert_allclose(grads["w"], expected["w"], rtol=1e-13)
        np.testing.assert_allclose(grads["b"]["c"], expected["b"]["c"], rtol=1e-13)
        np.testing.assert_allclose(aux["value"], value, rtol=1e-13)
        np.testing.assert_array_equal(aux["inputs"][0], x)
        assert aux["inputs"][1] is None
