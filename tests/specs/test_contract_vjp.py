"""What the derivative of a product runs: one array for the products and the bias."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.dispatch import execute
from nbfused.op.contraction import epilogue_of
from nbfused.ops.matmul import _biased
from nbfused.specs import Contract, Map, Reduce, View
from nbfused.specs.fusion.epilogues import begun
from nbfused.specs.reduce import sum_over
from nbfused.specs.vjp.functions import identity

pytestmark = pytest.mark.interpreted

SHAPES = ((6, 4), (4, 5), (5,))


def layer(activation):
    return Contract("mk,kn->mn", _biased(epilogue_of(activation)), ("element",))


def pullback(spec, needs=(True, True, True), shapes=SHAPES):
    return spec.vjp(needs, shapes, (True,))


def skeletons(found):
    return [type(s.spec) for s in found.steps]


def subscripts(found):
    return [s.spec.subscripts for s in found.steps if isinstance(s.spec, Contract)]


@pytest.mark.parametrize("activation", ["gelu", "swish", "relu", "tanh"])
def test_a_bias_is_the_sum_of_what_the_products_read(activation):
    found = pullback(layer(activation))
    assert skeletons(found) == [Map, Reduce, Contract, Contract]
    dz = found.steps[2].inputs[0]
    assert found.steps[1].inputs == (dz,)
    assert found.steps[3].inputs[1] == dz


@pytest.mark.parametrize(("activation", "kept"), [
    ("gelu", 2), ("swish", 2), ("relu", 1), ("tanh", 1), (None, 1)])
def test_the_product_is_kept_where_the_result_does_not_tell(activation, kept):
    assert len(pullback(layer(activation)).forward.epilogue.results) == kept


def test_what_is_kept_is_the_sum_with_the_bias():
    r = np.random.default_rng(3)
    x, w, b = (r.normal(size=n) for n in SHAPES)
    _, kept = execute(pullback(layer("gelu")).forward, (x, w, b))
    np.testing.assert_allclose(kept, x @ w + b, rtol=1e-12)


def test_the_derivative_of_a_product_that_keeps_keeps_the_same():
    forward = pullback(layer("gelu")).forward
    assert forward.vjp((True,)*3, SHAPES, (True, True)).forward == forward


@pytest.mark.parametrize(("epilogue", "added"), [
    (lambda acc, b, c: max(acc + b, 0.0)*c, ("b",)),
    (lambda acc, b, c: max(c + acc + b, 0.0), ("c", "b")),
    (lambda acc, b, c: acc + b*c, ()),
    (lambda acc, b, c: acc*c + b, ()),
    (lambda acc, b, c: (acc + b)*(b + c), ()),
    (lambda acc, b, c: max(acc + b, acc)*c, ()),
    (lambda acc, b, c: acc + acc + b*c, ())])
def test_what_is_added_first(epilogue, added):
    function = epilogue_of(epilogue, takes=3)
    rest, found = begun(function)
    assert found == added
    assert rest.params[1:] == tuple(p for p in "bc" if p not in added)


def test_a_bias_alone_is_summed_as_it_is_computed():
    found = pullback(layer("gelu"), (False, False, True))
    assert skeletons(found) == [Reduce]


def test_without_an_activation_nothing_is_mapped():
    assert skeletons(pullback(layer(None))) == [Reduce, Contract, Contract]


@pytest.mark.parametrize(("given", "left", "right"), [
    ("mk,kn->mn", "ac,bc->ab", "ab,ac->bc"),
    ("mk,nk->mn", "ac,cb->ab", "ac,ab->cb"),
    ("km,kn->mn", "bc,ac->ba", "ba,ac->bc"),
    ("bmk,bkn->bmn", "abd,acd->abc", "abc,abd->acd")])
def test_neighbours_in_a_gradient_are_columns_of_the_product(given, left, right):
    """The second factor has the last axis: rows are stored, not columns."""
    extents = dict(zip("bmkn", (3, 6, 4, 5), strict=True))
    shapes = tuple(tuple(extents[x] for x in labels)
                   for labels in given.partition("->")[0].split(","))
    spec = Contract(given, identity())
    found = subscripts(spec.vjp((True, True), shapes, (True,)))
    for text, gradient in zip(found, given.partition("->")[0].split(","), strict=True):
        factors, _, result = text.partition("->")
        assert result[-1] in factors.split(",")[1]
        assert len(result) == len(gradient)
    assert len(found) == 2


def reference(x, w, b, s, g):
    """Cotangents of ``tanh(x @ w + b) * s``."""
    t = np.tanh(x @ w + b)
    dz = g*s*(1 - t*t)
    return dz @ w.T, x.T @ dz, dz.sum(0), g*t


def test_a_bias_beside_other_extras():
    r = np.random.default_rng(0)
    x, w, b, s, g = (r.normal(size=n) for n in (*SHAPES, (6, 5), (6, 5)))
    v = [nf.Variable(a, requires_grad=True) for a in (x, w, b, s)]
    y = ops.matmul(v[0], v[1], bias=v[2], extras=(v[3],),
                   epilogue=lambda acc, s: ops.tanh(acc)*s)
    y.backward(g)
    for got, want in zip(v, reference(x, w, b, s, g), strict=True):
        np.testing.assert_allclose(got.grad, want, rtol=1e-12)


@pytest.mark.parametrize("shape", [(5,), (6, 1), (1, 5), (6, 5), (), (2, 1, 5)])
def test_a_bias_of_every_shape_that_broadcasts(shape):
    r = np.random.default_rng(1)
    x, w, b, g = (r.normal(size=n) for n in ((2, 6, 4), (4, 5), shape, (2, 6, 5)))
    v = [nf.Variable(a, requires_grad=True) for a in (x, w, b)]
    ops.linear(*v, activation="tanh").backward(g)
    dz = g*(1 - np.tanh(x @ w + b)**2)
    axes = tuple(k for k in range(3) if k < 3 - len(shape) or shape[k - 3] == 1)
    np.testing.assert_allclose(v[2].grad, dz.sum(axes).reshape(shape), rtol=1e-12)
    np.testing.assert_allclose(v[1].grad, np.einsum("bmk,bmn->kn", x, dz), rtol=1e-12)


def test_an_extra_that_only_looks_like_a_bias_is_not_taken_for_one():
    """Its cotangent is the product's times a factor."""
    spec = Contract("mk,kn->mn", epilogue_of(lambda acc, b: acc + 2.0*b, takes=2),
                    ("element",))
    found = pullback(spec)
    summed = [s for s in found.steps if isinstance(s.spec, Reduce)]
    assert len(summed) == 1
    assert summed[0].spec.map.name != "identity"


def test_derivatives_of_a_layer_to_the_second_order():
    r = np.random.default_rng(2)
    x, w, b = (r.normal(size=n) for n in SHAPES)
    nf.testing.gradcheck(lambda *v: ops.linear(*v, activation="gelu"), [x, w, b])
    nf.testing.gradcheck(
        lambda *v: nf.grad(lambda *u: ops.linear(*u, activation="gelu").sum(),
                           argnums=(2,))(*v)[0], [x, w, b])


@pytest.mark.parametrize(("axes", "views"), [
    (None, ["broadcast"]), ((0,), ["broadcast"]), ((0, 1), ["broadcast"]),
    ((1,), ["expand", "broadcast"])])
def test_a_sum_over_the_first_axes_is_spread_by_broadcasting(axes, views):
    found = sum_over(axes).vjp((True,), ((3, 4, 5),), (True,))
    assert all(isinstance(s.spec, View) for s in found.steps)
    assert [s.spec.kind for s in found.steps] == views
