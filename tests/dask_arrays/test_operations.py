"""Every op on Dask arrays: as on NumPy's, lazily, and so is its gradient."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.registry.operations import OPS
from nbfused.testing.conformance import _arrays
from nbfused.testing.sampling import DTYPES, draw

from .lazy import da, dask, lazy, nothing_computed, value

pytestmark = pytest.mark.filterwarnings("ignore:Increasing number of chunks")

#: One for each way in which a spec is run on blocks, and those that are made of
#: several; all others with ``-m variants``.
FAMILIES = {"add", "swish", "where", "sum", "var", "logsumexp", "argmax", "prod", "any",
            "layer_norm", "softmax", "cross_entropy", "matmul", "linear", "reshape",
            "transpose", "concatenate", "take", "set_at", "dropout", "astype"}
#: Cases that cannot be made of parts: the last of several writes to an element stays.
REFUSED = {("set_at", 1)}

CASES = [pytest.param(name, k, id=f"{name}-{k}",
                      marks=() if name in FAMILIES else pytest.mark.variants)
         for name, op in OPS.items() for k in range(len(op.cases))
         if (name, k) not in REFUSED]


def arguments(op: Any, case: Any) -> list[Any]:
    rng = np.random.default_rng(3)
    dtype = np.dtype("f8") if "f" in case.dtypes else DTYPES[case.dtypes[0]][0]
    count = 0 if case.shapes else _arrays(op)
    shapes = case.shapes or ((5, 7), (7,), (5, 1))[:count]

    def drawn(shape: Any, k: int) -> Any:
        if shape is None:
            return None
        if shape and isinstance(shape[0], tuple):
            return [drawn(one, k) for one in shape]
        return draw(rng, shape, dtype, case.domain(k))

    return [drawn(shape, k) for k, shape in enumerate(shapes)]


def mapped(function: Any, args: list[Any]) -> list[Any]:
    return [None if x is None else [function(y) for y in x] if isinstance(x, list)
            else function(x) for x in args]


def results(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (tuple, list)) else [found]


def gradients(op: Any, case: Any, args: list[Any]) -> list[Any]:
    """Gradients of the sum of the squares of all results."""
    given = mapped(lambda x: nf.Variable(x, requires_grad=True)
                   if x.dtype.kind == "f" else x, args)
    for y in results(op(*given, **case.kwargs)):
        if getattr(y, "requires_grad", False):
            (y * y).sum().backward(retain_graph=True)
    leaves = [x for arg in given for x in (arg if isinstance(arg, list) else [arg])]
    return [x.grad for x in leaves
            if isinstance(x, nf.Variable) and x.grad is not None]


@pytest.mark.parametrize(("name", "number"), CASES)
def test_as_on_numpy(name, number):
    op, case = OPS[name], OPS[name].cases[number]
    args = arguments(op, case)
    want = results(op(*args, **case.kwargs))
    with nothing_computed():
        found = results(op(*mapped(lazy, args), **case.kwargs))
    for one, other in zip(found, want, strict=True):
        np.testing.assert_allclose(value(one), other, rtol=1e-9, atol=1e-9)
        assert one.dtype == np.asarray(other).dtype
    if not (case.smooth and "f" in case.dtypes):
        return
    want = gradients(op, case, args)
    with nothing_computed():
        found = gradients(op, case, mapped(lazy, args))
    assert len(found) == len(want)
    for one, other in zip(found, want, strict=True):
        assert isinstance(one, da.Array)
        np.testing.assert_allclose(value(one), other, rtol=1e-8, atol=1e-8)


X = np.random.default_rng(0).standard_normal((13, 9))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_reductions_of_random_chunks(seed, axis):
    """Against NumPy itself: a state of several parts, and one with positions."""
    x = lazy(X, seed)
    top = X.max(axis, keepdims=True)
    with nothing_computed():
        made = [ops.mean(x, axis=axis), ops.var(x, axis=axis, keepdims=True),
                ops.logsumexp(x, axis=axis), ops.max(x, axis=axis)]
    want = [X.mean(axis), X.var(axis, keepdims=True),
            np.squeeze(top, axis) + np.log(np.exp(X - top).sum(axis)), X.max(axis)]
    for one, other in zip(made, want, strict=True):
        np.testing.assert_allclose(value(one), other, rtol=1e-12)
    if not isinstance(axis, tuple):
        np.testing.assert_array_equal(value(ops.argmax(x, axis=axis)), X.argmax(axis))


def test_ties_of_argmax_are_the_first_of_all_chunks():
    x = np.zeros((6, 4))
    x[[1, 3, 5], 2] = 1.0
    assert value(ops.argmax(lazy(x))) == 6
    np.testing.assert_array_equal(value(ops.argmax(lazy(x), axis=0)), x.argmax(0))


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "bool"])
def test_dtypes_and_accumulators(dtype):
    """Parts of sums are not rounded to 16 bits, nor do they overflow in 8."""
    x = (np.arange(3000) % 100).astype(dtype).reshape(3, 1000)
    y = da.from_array(x, chunks=(1, 300))
    assert ops.sum(y).dtype == ops.sum(x).dtype
    assert value(ops.sum(y)) == ops.sum(x)
    np.testing.assert_array_equal(value(ops.matmul(y, y.T)), ops.matmul(x, x.T))


def test_user_functions_and_fuse():
    @nf.elementwise
    def curve(a, b):
        return a * b + a

    @nf.reduction(combine="sum", post=math.sqrt)
    def norm(x):
        return x * x

    @nf.fuse
    def whole(x, y):
        return (curve(x, y) - x.mean(axis=0)).sum(axis=1)

    x = lazy(X)
    with nothing_computed():
        made = curve(x, x[0]), norm(x, axis=1), whole(x, 2.0)
    want = X * X[0] + X, np.linalg.norm(X, axis=1), (3 * X - X.mean(0)).sum(1)
    for one, other in zip(made, want, strict=True):
        np.testing.assert_allclose(value(one), other, rtol=1e-12)


def test_transforms():
    def loss(x):
        return (ops.layer_norm(x) ** 3).sum()

    x = lazy(X)
    with nothing_computed():
        total, slope = nf.value_and_grad(loss)(x)
        second = nf.grad(lambda x: (nf.grad(loss)(x) ** 2).sum())(x)
    want = nf.value_and_grad(loss)(X)
    np.testing.assert_allclose(value(total), want[0])
    np.testing.assert_allclose(value(slope), want[1], atol=1e-9)
    np.testing.assert_allclose(
        value(second), nf.grad(lambda x: (nf.grad(loss)(x) ** 2).sum())(X), atol=1e-8)


def test_a_gradient_that_repeats_a_number_is_in_chunks_and_reads_nothing():
    x = nf.Variable(da.zeros((40_000, 40_000), chunks=(2000, 2000)),
                    requires_grad=True)
    with nothing_computed():
        x.sum().backward()
    assert max(x.grad.chunksize) < 40_000
    corner = x.grad[:2, :2]
    assert not any(str(x.data.name) in str(key) for key in corner.__dask_graph__()
                   .cull(corner.__dask_keys__()))
    np.testing.assert_array_equal(corner.compute(scheduler="synchronous"), 1.0)


def test_what_is_saved_is_not_changed_by_assignment():
    x = lazy(X[0])
    v = nf.Variable(x, requires_grad=True)
    y = (v * v).sum()
    x[0] = 100.0
    y.backward()
    np.testing.assert_allclose(value(v.grad), 2 * X[0])


@pytest.mark.parametrize(("tasks", "size"), [
    (1, "128MiB"), (4, "128MiB"), (10_000, "200B")])
@pytest.mark.parametrize("subscripts", [
    "ij,jk->ik", "aij,jib->ab", "...ij,...jk->...ki", "ij,ij->", "bik,bjk->jib"])
def test_products_of_several_blocks_in_a_task(subscripts, tasks, size, monkeypatch):
    monkeypatch.setattr("nbfused.dispatch.dask_arrays.products._TASKS", tasks)
    monkeypatch.setattr("nbfused.dispatch.dask_arrays.products._PARTS", 2)
    extents = dict(zip("aijkb", (4, 9, 8, 5, 6), strict=True))
    rng = np.random.default_rng(tasks)
    first, second = subscripts.split("->")[0].replace("...", "a").split(",")
    a, b = (rng.standard_normal([extents[k] for k in labels])
            for labels in (first, second))
    with nothing_computed(), dask.config.set({"array.chunk-size": size}):
        found = ops.einsum(subscripts, lazy(a, 1), lazy(b, 2))
    np.testing.assert_allclose(value(found), np.einsum(subscripts, a, b), rtol=1e-12,
                               atol=1e-12)
