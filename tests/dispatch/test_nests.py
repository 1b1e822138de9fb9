"""The loops of each spec, checked by running them on arrays of any layout."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbfused.dispatch import execute
from nbfused.registry.backends import use_backend
from nbfused.specs import Contract, Row
from tests.dispatch.numpy_backend import (
    ADD,
    COUNT,
    EPILOGUE,
    MATMUL,
    ROW,
    numpy_backend,
    reduce_of,
)


@pytest.fixture(autouse=True)
def backend():
    fake = numpy_backend()
    with use_backend(fake):
        yield fake


@st.composite
def operands(draw, count=2):
    """Arrays in many layouts that broadcast together."""
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 5]), max_size=4))
    arrays = []
    for _ in range(count):
        own = [draw(st.sampled_from([n, n, 1])) for n in shape]
        own = own[draw(st.integers(0, len(own))):]
        order = draw(st.permutations(range(len(own))))
        base = np.random.default_rng(len(shape)).standard_normal(
            [own[a] * 2 for a in order])
        step = [draw(st.sampled_from([1, 1, 2, -1])) for _ in own]
        index = [slice(None, n) if s == 1 else slice(None, 2 * n, 2) if s == 2
                 else slice(n - 1, None, -1)
                 for n, s in zip([own[a] for a in order], step, strict=True)]
        arrays.append(base[tuple(index)].transpose(np.argsort(order)))
    return arrays


@settings(max_examples=200, deadline=None)
@given(operands())
def test_map_on_any_layout(arrays):
    with use_backend(numpy_backend()):
        (result,) = execute(ADD, arrays)
        (counted,) = execute(COUNT, arrays[:1])
    expected = arrays[0] + arrays[1]
    np.testing.assert_array_equal(result, expected)
    assert result.strides == expected.strides
    assert result.flags.owndata or result.base is not None
    x = arrays[0]
    np.testing.assert_array_equal(
        counted, x * x.size + np.arange(x.size).reshape(x.shape))


@settings(max_examples=200, deadline=None)
@given(operands(1), st.data())
def test_reduce_on_any_layout(arrays, data):
    (x,) = arrays
    axes = data.draw(st.none() | st.sets(st.integers(0, max(x.ndim - 1, 0))))
    axes = None if axes is None or x.ndim == 0 else tuple(axes)
    keepdims = data.draw(st.booleans())
    with use_backend(numpy_backend()):
        (result,) = execute(reduce_of(axes, keepdims), (x,))
    expected = x.sum(axis=axes, keepdims=keepdims)
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, atol=1e-12)


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 1, 1), (0, 4, 5), (3, 0, 1)])
def test_row_on_any_layout(axis, order, shape):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).transpose(order)
    n = x.shape[axis]
    r = rng.standard_normal(tuple(np.delete(x.shape, axis)))
    c = rng.standard_normal(n * 2)[::2]
    spec = Row(ROW.title, ROW.inputs, ROW.kinds, ROW.stages, ROW.outs, axis)
    results = execute(spec, (x, r, c, 2.0))
    y, r, c = np.moveaxis(x, axis, -1), r[..., None], c
    m = (y * c).sum(-1, keepdims=True)
    expected = (np.moveaxis((y - m + r) * 2.0, -1, axis), m[..., 0],
                (y * r).sum(axis=(0, 1)), y.sum())
    for result, value in zip(results, expected, strict=True):
        assert result.shape == value.shape
        np.testing.assert_allclose(result, value, atol=1e-12)


@pytest.mark.parametrize(("subscripts", "a", "b"), [
    ("mk,kn->mn", (2, 3), (3, 4)),
    ("mk,nk->nm", (2, 3), (4, 3)),
    ("m,n->mn", (2,), (4,)),
    ("k,k->", (5,), (5,)),
    ("mk,k->m", (1, 3), (3,)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("abc,cbd->ad", (2, 3, 4), (4, 3, 5)),
    ("...mk,...kn->...mn", (7, 1, 2, 3), (5, 3, 4)),
    ("...mk,...kn->...mn", (7, 2, 3), (1, 3, 4)),
    ("...mk,...kn->...mn", (1, 2, 3), (7, 3, 4)),
    ("...mk,kn->...mn", (7, 5, 2, 3), (3, 4)),
    ("mk,kn->mn", (2, 0), (0, 4)),
    ("mk,kn->mn", (0, 3), (3, 4)),
])
@pytest.mark.parametrize("turned", [False, True])
def test_contract(subscripts, a, b, turned):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(a), rng.standard_normal(b)
    if turned:
        x, y = np.asfortranarray(x), np.asfortranarray(y)
    expected = np.einsum(subscripts, x, y)
    bias = rng.standard_normal(expected.shape[-1:])
    axes = tuple(range(expected.ndim))[::-1 if turned else 1]
    spec = Contract(subscripts, EPILOGUE, ("element", "scalar"), out_axes=axes)
    (result,) = execute(spec, (x, y, bias, 2.0))
    np.testing.assert_allclose(result, ((expected + bias) * 2.0).transpose(axes),
                               atol=1e-12)
    assert result.flags.c_contiguous


def test_layouts_merge(backend):
    x = np.zeros((3, 4, 5))
    w = np.zeros((5, 6))
    execute(ADD, (x.T, x.T))
    execute(ADD, (x, x[0, 0]))
    execute(COUNT, (x.T,))
    execute(reduce_of((1, 2)), (x,))
    execute(reduce_of((0, 1)), (x.T,))
    execute(Contract("...k,kn->...n", MATMUL), (x, w))
    execute(Contract("...mk,...kn->...mn", MATMUL), (x, w))
    execute(Contract("...mk,...kn->...mn", MATMUL), (x, w[None]))
    shapes = [call.shape for call in backend.calls]
    assert shapes == [(60,), (12, 5), (5, 4, 3), (3, 20), (3, 20),
                      *[(12, 6, 5)] * 3]
    codes = [signature.inner for _, signature in backend.built]
    assert codes[0] == ("1", "1", "1")
    assert codes[1] == ("1", "1", "1")
    assert codes[3] == ("1", "0")
    assert codes[-1] == ("s1", "s1", "s1")
