"""Loop nests: every point once, at the right addresses, in few loops."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from nbfused.specs.contract import move
from nbfused.support.loop_nests import (
    Group,
    axis_order,
    broadcast_strides,
    canonical,
    dense_strides,
    flatten,
    is_dense,
    ordered_strides,
    reshape_strides,
)

extents = st.integers(0, 4)
steps = st.integers(-6, 12)


@st.composite
def groups(draw, fixed=None):
    loops, operands = draw(st.integers(0, 4)), draw(st.integers(1, 3))
    shape = tuple(draw(st.lists(extents, min_size=loops, max_size=loops)))
    if draw(st.booleans()):  # arrays that merge are rare among random strides
        strides = []
        for _ in range(operands):
            order = draw(st.permutations(range(loops)))
            signs = draw(st.lists(st.sampled_from([1, 1, -1, 0]),
                                  min_size=loops, max_size=loops))
            own = ordered_strides(shape, order)
            strides.append(tuple(a * b for a, b in zip(own, signs, strict=True)))
    else:
        strides = [tuple(draw(st.lists(steps, min_size=loops, max_size=loops)))
                   for _ in range(operands)]
    kept = draw(st.booleans()) if fixed is None else fixed
    return Group(shape, tuple(strides), (1,) * operands, kept)


def points(shape, strides, offsets):
    """The offset of every operand at every point of the nest, in order."""
    for index in product(*map(range, shape)):
        yield tuple(offset + sum(i * s for i, s in zip(index, own, strict=True))
                    for own, offset in zip(strides, offsets, strict=True))


@given(groups())
def test_canonical_visits_the_same_points(group):
    result, offsets = canonical(group)
    before = points(group.extents, group.strides, (0,) * len(group.unit))
    after = points(result.extents, result.strides, offsets)
    assert Counter(before) == Counter(after)
    assert len(result.extents) >= 1


@given(groups(fixed=True))
def test_fixed_group_keeps_the_order(group):
    result, offsets = canonical(group)
    before = points(group.extents, group.strides, (0,) * len(group.unit))
    assert list(before) == list(points(result.extents, result.strides, offsets))


@given(groups())
def test_canonical_is_final(group):
    result, _ = canonical(group)
    assert canonical(result)[0] == result


def loops(*arrays, fixed=False):
    """Extents after canonicalising NumPy arrays of one shape."""
    strides = tuple(tuple(s // a.itemsize for s in a.strides) for a in arrays)
    return canonical(Group(arrays[0].shape, strides, (1,) * len(arrays), fixed))


def test_dense_arrays_are_one_loop():
    x = np.zeros((3, 4, 5))
    assert loops(x, x)[0].extents == (60,)
    assert loops(x.T, x.T)[0] == Group((60,), ((1,), (1,)), (1, 1))
    assert loops(x.transpose(1, 0, 2))[0] == Group((60,), ((1,),), (1,))
    assert loops(x.transpose(1, 0, 2), fixed=True)[0].extents == (4, 3, 5)


def test_broadcast_vector_is_two_loops():
    x, bias = np.zeros((3, 4, 5)), np.zeros(5)
    result, _ = loops(x, np.broadcast_to(bias, x.shape))
    assert result == Group((12, 5), ((5, 1), (0, 1)), (1, 1))


def test_reversed_arrays_run_forwards():
    x = np.zeros((3, 4))
    result, offsets = loops(x[::-1, ::-1], x[::-1, ::-1])
    assert result == Group((12,), ((1,), (1,)), (1, 1))
    assert offsets == (-11, -11)


def test_one_forward_operand_keeps_the_direction():
    x = np.zeros(5)
    result, offsets = loops(x, x[::-1])
    assert result.strides == ((1,), (-1,))
    assert offsets == (0, 0)


def test_single_element_takes_the_contiguous_kernel():
    scalar = Group((), ((), ()), (1, 0))
    assert canonical(scalar)[0] == Group((1,), ((1,), (0,)), (1, 0))
    assert canonical(Group((1, 1), ((7, 9),), (1,)))[0] == Group((1,), ((1,),), (1,))


def test_empty():
    assert canonical(Group((3, 0), ((5, 1),), (1,)))[0].extents == (0,)


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)])
def test_axis_order_is_numpys(axes):
    x = np.zeros((3, 4, 5)).transpose(axes)
    order = axis_order([tuple(s // 8 for s in x.strides)], 3)
    like = np.empty_like(x)  # order='K'
    assert ordered_strides(x.shape, order) == tuple(s // 8 for s in like.strides)


@given(st.lists(st.permutations(range(3)), min_size=2, max_size=2),
       st.lists(st.lists(st.booleans(), min_size=3, max_size=3),
                min_size=2, max_size=2))
def test_memory_of_a_result_is_numpys(orders, broadcast):
    arrays = []
    for order, flags in zip(orders, broadcast, strict=True):
        x = np.zeros(ordered_shape(order)).transpose(np.argsort(order))
        index = tuple(slice(0, 1) if flag else slice(None) for flag in flags)
        arrays.append(np.broadcast_to(x[index], (2, 3, 4)))
    strides = [tuple(s // 8 for s in x.strides) for x in arrays]
    result = np.nditer([*arrays, None], order="K").operands[-1]
    expected = tuple(s // 8 for s in result.strides)
    assert ordered_strides((2, 3, 4), axis_order(strides, 3)) == expected


def ordered_shape(order):
    return tuple((2, 3, 4)[axis] for axis in order)


def test_broadcast_strides():
    assert broadcast_strides((3, 1), (7, 9), (2, 3, 4)) == (0, 7, 0)
    assert broadcast_strides((3, 4), (4, 1), (3, 4)) == (4, 1)


@given(st.lists(extents, max_size=4))
def test_dense_strides_are_numpys(shape):
    x = np.empty(shape, np.int8)
    assert is_dense(tuple(shape), dense_strides(tuple(shape)))
    if x.size:
        assert dense_strides(tuple(shape)) == x.strides


def test_is_dense():
    assert is_dense((2, 3), (3, 1))
    assert is_dense((1, 3), (99, 1))
    assert not is_dense((2, 3), (1, 2))
    assert not is_dense((2, 3), (4, 1))


@given(st.sampled_from([(24,), (4, 6), (2, 3, 4), (2, 1, 12), (1, 24, 1), (3, 8)]),
       st.sampled_from([(24,), (4, 6), (2, 3, 4), (2, 1, 12), (1, 24, 1), (3, 8)]),
       st.sampled_from([None, (1, 2), (2, 1)]), st.booleans())
def test_reshape_strides_is_a_view_exactly_where_numpys_is(shape, target, gap, turn):
    x = np.arange(96).reshape(shape[0] * 2, -1)[::2]
    x = x[..., :24 // shape[0]].reshape(shape) if gap is None else (
        as_strided(np.arange(960), shape,
                   tuple(8 * s * gap[0] for s in dense_strides(shape))))
    if turn:
        x = x.T
    strides = reshape_strides(x.shape, tuple(s // 8 for s in x.strides), target)
    try:
        expected = x.reshape(target, copy=False)
    except ValueError:
        assert strides is None
    else:
        assert strides is not None
        view = as_strided(x, target, tuple(s * 8 for s in strides))
        np.testing.assert_array_equal(view, expected)


def test_repeated_batch_becomes_rows():
    """(8, 5, k) times (k, n): 40 rows."""
    batch = Group((8,), ((30,), (0,), (20,)), (1, 1, 1))
    rows = Group((5,), ((6,), (0,), (4,)), (1, 0, 1))
    rest, merged = move(batch, rows, 1)
    assert rest.extents == ()
    assert merged == Group((40,), ((6,), (0,), (4,)), (1, 0, 1))


def test_batch_with_a_gap_stays():
    batch = Group((8,), ((31,), (0,), (20,)), (1, 1, 1))
    rows = Group((5,), ((6,), (0,), (4,)), (1, 0, 1))
    assert move(batch, rows, 1) == (batch, rows)
    seen = Group((8,), ((30,), (9,), (20,)), (1, 1, 1))
    assert move(seen, rows, 1) == (seen, rows)


def test_flatten():
    groups = [Group((2,), ((3,), (0,)), (1, 0)),
              Group((4, 5), ((7, 1), (5, 1)), (1, 1))]
    nest = flatten(groups, [(1, 0), (2, 4)])
    assert nest.shape == (2, 4, 5)
    assert nest.ranks == (1, 2)
    assert nest.strides == ((3, 7, 1), (0, 5, 1))
    assert nest.offsets == (3, 4)
    assert nest.size == 40
