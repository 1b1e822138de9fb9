"""Trees of arrays, auxiliary results and numbers in grad, vjp and jvp."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, ShapeError
from nbfused.support.trees import leaves_of

pytestmark = pytest.mark.interpreted

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(1)
W, B = RNG.normal(size=(3, 2)), RNG.normal(size=2)
X = RNG.normal(size=(4, 3))
Layer = namedtuple("Layer", "w b")


def host(x):
    return x.to_numpy() if isinstance(x, nf.Variable) else nf.to_numpy(x)


@dataclass
class Model:
    layer: Layer
    scale: Any
    act: str = field(default="tanh", metadata={"static": True})


def model(model):
    w, b = model.layer
    return ((nf.ops.tanh(X @ w + b) * model.scale[0]) ** 2).sum()


def by_torch():
    w, b, s = (torch.tensor(x, requires_grad=True) for x in (W, B, np.array(2.0)))
    ((torch.tanh(torch.tensor(X) @ w + b) * s) ** 2).sum().backward()
    return [w.grad.numpy(), b.grad.numpy(), s.grad.numpy()]


def test_gradients_have_the_tree_of_the_argument():
    found = nf.grad(model)(Model(Layer(W, B), [np.array(2.0)]))
    assert type(found) is Model
    assert type(found.layer) is Layer
    assert found.act == "tanh"
    for ours, theirs in zip(leaves_of(found), by_torch(), strict=True):
        assert type(ours) is np.ndarray
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("make", [torch.tensor, nf.Variable], ids=["torch", "Variable"])
def test_of_other_libraries(make):
    def f(p):
        return ((p["w"] * p["w"]).sum() + p["b"].sum() * p["c"]) * 1.0

    given = {"w": make(W), "b": make(B), "c": 3.0}
    found = nf.grad(f)(given)
    assert type(found["w"]) is type(given["w"])
    np.testing.assert_allclose(host(found["w"]),
                               2 * W)


def test_second_order_through_a_tree():
    def f(p):
        return (p["a"] ** 3).sum() * p["b"][0]

    def inner(p):
        g = nf.grad(f)(p)
        return (g["a"] ** 2).sum() + g["b"][0]

    a, b = np.array([1.0, 2.0]), np.array(0.5)
    found = nf.grad(inner)({"a": a, "b": [b]})
    np.testing.assert_allclose(found["a"], 36 * a ** 3 * b ** 2 + 3 * a ** 2)
    np.testing.assert_allclose(found["b"][0], 18 * (a ** 4).sum() * b)


def test_a_leaf_that_has_no_gradient_is_named():
    def f(params):
        return params["w"][0].sum()

    with pytest.raises(KernelTypeError, match=r"params\['w'\]\[1\] in argument 0 of f "
                                              r"has dtype int64.*another argument"):
        nf.grad(f)({"w": [W, np.arange(3)]})
    with pytest.raises(KernelTypeError, match=r"params\['n'\] .* is the integer 3"):
        nf.grad(f)({"w": [W], "n": 3})
    with pytest.raises(KernelTypeError, match=r"params\['n'\] .* is a str.*static"):
        nf.grad(f)({"w": [W], "n": "relu"})


@pytest.mark.parametrize("transform", ["grad", "value_and_grad", "vjp", "jvp"])
def test_aux_is_of_arrays(transform):
    def f(p):
        y = nf.ops.tanh(p["w"])
        return y.sum(), {"y": [y, y.shape], "n": None}

    p = {"w": W}
    aux = {"grad": lambda: nf.grad(f, has_aux=True)(p)[1],
           "value_and_grad": lambda: nf.value_and_grad(f, has_aux=True)(p)[0][1],
           "vjp": lambda: nf.vjp(f, p, has_aux=True)[2],
           "jvp": lambda: nf.jvp(f, (p,), (p,), has_aux=True)[2]}[transform]()
    assert type(aux["y"][0]) is np.ndarray
    assert aux["n"] is None
    np.testing.assert_allclose(aux["y"][0], np.tanh(W))
    assert aux["y"][1] == (3, 2)


def outputs(p):
    return {"s": (p["a"] * p["b"][0]).sum(), "v": [nf.ops.sin(p["a"]), p["b"][0] ** 2]}


POINT = {"a": np.array([0.3, -0.4]), "b": [np.array([2.0, 3.0])]}


def test_vjp_of_trees():
    y, pullback = nf.vjp(outputs, POINT)
    assert set(y) == {"s", "v"}
    assert y["v"][0].shape == (2,)
    u, v = np.array([1.0, -2.0]), np.array([0.5, 4.0])
    (g,) = pullback({"s": 3.0, "v": [u, v]})
    a, b = POINT["a"], POINT["b"][0]
    np.testing.assert_allclose(g["a"], 3 * b + u * np.cos(a))
    np.testing.assert_allclose(g["b"][0], 3 * a + 2 * v * b)
    with pytest.raises(ShapeError, match="cotangent 0 is a dict with the keys"):
        pullback({"s": 3.0})
    with pytest.raises(ShapeError, match=r"cotangent 0\['v'\]\[0\]: shape"):
        pullback({"s": 3.0, "v": [np.ones(3), v]})


def test_jvp_of_trees():
    da, db = np.array([1.0, 2.0]), np.array([-1.0, 0.5])
    _y, t = nf.jvp(outputs, (POINT,), ({"b": [db], "a": da},))
    a, b = POINT["a"], POINT["b"][0]
    np.testing.assert_allclose(t["s"], (da * b + a * db).sum())
    np.testing.assert_allclose(t["v"][0], np.cos(a) * da)
    np.testing.assert_allclose(t["v"][1], 2 * b * db)
    with pytest.raises(ShapeError, match=r"tangents\[0\]\['b'\] is a list of 2"):
        nf.jvp(outputs, (POINT,), ({"b": [db, db], "a": da},))


@pytest.mark.parametrize("one", [1, 1.0, np.float64(1.0), np.float32(1.0), True])
@pytest.mark.parametrize("make", [np.array, torch.tensor], ids=["numpy", "torch"])
def test_a_pullback_takes_numbers(one, make):
    _, pullback = nf.vjp(lambda x: (x * x).sum(), make([1.0, 3.0]))
    if make is np.array and type(one) is np.float32:
        with pytest.raises(KernelTypeError, match="dtype float32, expected float64"):
            pullback(one)
        return
    np.testing.assert_allclose(host(pullback(one)[0]), [2.0, 6.0])


def test_a_tuple_of_outputs_takes_cotangents_one_by_one_or_as_a_tuple():
    _, pullback = nf.vjp(lambda x: (x * 2.0, x.sum()), np.ones(2))
    np.testing.assert_allclose(pullback(np.ones(2), 1.0)[0], [3.0, 3.0])
    np.testing.assert_allclose(pullback((np.ones(2), 1.0))[0], [3.0, 3.0])


def test_a_function_without_outputs_is_refused():
    with pytest.raises(KernelTypeError, match="returned None; expected an array"):
        nf.grad(lambda x: None)(W)
