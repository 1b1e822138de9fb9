"""Functions of views and a launch that machine code repeats: gathers.

Oracle: NumPy.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

import nbfused as nf
from nbfused.cpu.runtime import direct
from nbfused.ops.gathers import _repeated
from tests.variants import sampled

RNG = np.random.default_rng(3)

pytestmark = pytest.mark.skipif(not direct.possible(),
                                reason="objects are laid out in another way")


def repeated(x, indices, axis):
    """What machine code gives for a call of `take` that was made before, or None."""
    nf.ops.take(x, indices, axis)
    made = _repeated("take", axis).function(x, indices)
    return made and made[0]


@pytest.mark.parametrize(("shape", "axis"), [
    ((9, 5), 0), ((9, 5), -2), ((3, 9, 5), 1), ((3, 9), -1), ((9,), 0), ((2, 9, 1), 1),
    ((9, 4, 3), 0)], ids=str)
@pytest.mark.parametrize("chosen", [[2, -1, 0, -9, 8], [[1, 3], [-2, 1]], 3], ids=str)
@pytest.mark.parametrize("integer", sampled(
    ["int32", "int64", "uint32", "uint64"], "int32", "uint64"))
def test_calls_are_repeated(shape, axis, chosen, integer):
    x = RNG.normal(size=shape).astype(np.float32)
    indices = np.asarray(np.array(chosen) % 9 if integer[0] == "u" else chosen, integer)
    found, expected = repeated(x, indices, axis), np.take(x, indices, axis)
    np.testing.assert_array_equal(found, expected)
    assert found.strides == expected.strides
    assert found.flags.owndata
    assert found.flags.writeable
    other = _repeated("take", axis).function(x * 2, indices.copy())[0]
    np.testing.assert_array_equal(other, expected * 2)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "bfloat16",
                                   "float64", "complex128"])
def test_elements_of_any_dtype(dtype):
    x = (RNG.normal(size=(7, 6)) * 3).astype(np.dtype(dtype))
    indices = np.array([3, -7, 6])
    np.testing.assert_array_equal(repeated(x, indices, 0), x[indices])


@pytest.mark.parametrize(("shape", "count", "axis"), [
    ((9, 5), 4, 0), ((3, 9), 4, -1), ((3, 9, 5), 7, 1), ((9,), 20, 0),
    ((2, 3, 9), 1, 2), ((9, 1, 2), 5, 0), ((2, 9, 70), 3, -2)], ids=str)
@pytest.mark.parametrize("integer", sampled(["int32", "int64"], "int64"))
def test_lines_are_repeated(shape, count, axis, integer):
    x = RNG.normal(size=shape).astype(np.float32)
    wanted = [*shape]
    wanted[axis] = count
    indices = RNG.integers(-9, 9, wanted).astype(integer)
    expected = np.take_along_axis(x, indices, axis)
    for _ in range(2):
        found = nf.ops.take_along_axis(x, indices, axis)
        np.testing.assert_array_equal(found, expected)
        assert found.strides == expected.strides
    (again,) = _repeated("take_along_axis", axis).function(x, indices)
    np.testing.assert_array_equal(again, expected)
    indices[(0,) * len(shape)] = 9
    assert _repeated("take_along_axis", axis).function(x, indices) is None
    with pytest.raises(IndexError, match=r"take_along_axis: .* got 9"):
        nf.ops.take_along_axis(x, indices, axis)


@pytest.mark.parametrize(("shape", "wanted", "axis"), [
    ((1, 9, 5), (4, 2, 1), 1), ((3, 9), (1, 4), 1), ((9, 1), (2, 6), 0),
    ((2, 1, 9), (1, 3, 4), 2), ((0, 9), (1, 4), 1), ((3, 9), (3, 0), 1)], ids=str)
def test_lines_of_other_extents(shape, wanted, axis):
    x, indices = RNG.normal(size=shape), RNG.integers(-9, 9, wanted)
    others = np.broadcast_shapes(*(s[:axis] + s[axis + 1:] for s in (shape, wanted)))
    whole = [np.broadcast_to(given, (*others[:axis], given.shape[axis], *others[axis:]))
             for given in (x, indices)]
    for _ in range(3):
        for given in ((x, indices), (np.asfortranarray(x), indices[::-1][::-1])):
            np.testing.assert_array_equal(nf.ops.take_along_axis(*given, axis),
                                          np.take_along_axis(*whole, axis))


def test_layouts_are_told_apart():
    whole, indices = RNG.normal(size=(8, 8)), np.array([1, -1, 3])
    tables = [whole[:4, :4], whole[:4], whole.T[:4], whole[::-2, ::-1], whole[::2, ::2]]
    for _ in range(3):
        for table in tables:
            for chosen in (indices, indices[::-1], indices[::2], indices[:, None]):
                for axis in (0, 1):
                    np.testing.assert_array_equal(nf.ops.take(table, chosen, axis),
                                                  np.take(table, chosen, axis))


@pytest.mark.parametrize("integer", ["int32", "int64"])
@pytest.mark.parametrize("position", [0, 1, 36])
@pytest.mark.parametrize("wrong", [9, -10, 2**31 - 1, -2**31])
def test_ranges_are_checked_first(integer, position, wrong):
    x, indices = RNG.normal(size=(9, 5)), np.zeros(37, integer)
    for given in (indices, np.zeros((37, 2), integer)[:, 0]):
        assert repeated(x, given, 0) is not None
        given[position] = wrong
        assert _repeated("take", 0).function(x, given) is None
        with pytest.raises(IndexError, match=rf"take: .* axis 0 of extent 9: got "
                                             rf"{wrong}, expected"):
            nf.ops.take(x, given)


def test_the_largest_integers_are_not_negative_ones():
    x, indices = np.ones((9, 2)), np.zeros(3, np.uint64)
    assert repeated(x, indices, 0) is not None
    indices[1] = 2**64 - 1
    with pytest.raises(IndexError, match=str(2**64 - 1)):
        nf.ops.take(x, indices)


def test_arguments_are_checked_as_before():
    x, indices = RNG.normal(size=(9, 5)), np.array([0, 3])
    for _ in range(3):
        nf.ops.take(x, indices, 1)
        with pytest.raises(IndexError, match="axis 2 is out of bounds"):
            nf.ops.take(x, indices, 2)
        with pytest.raises(nf.errors.KernelTypeError):
            nf.ops.take(x, indices.astype(float), 1)
        with pytest.raises(nf.errors.KernelTypeError):
            nf.ops.take(x, indices, 1.0)
    swapped = x.astype(">f8")
    with pytest.raises(nf.errors.KernelTypeError):
        nf.ops.take(swapped, indices, 1)


def test_launches_are_recorded():
    x, indices = RNG.normal(size=(9, 5)), np.array([0, 3])
    assert repeated(x, indices, 0) is not None
    with nf.trace_launches() as launches:
        nf.ops.take(x, indices)
    assert len(launches) == 1


def test_variables_are_differentiated():
    x, indices = RNG.normal(size=(9, 5)), np.array([0, 3, 0])
    assert repeated(x, indices, 0) is not None
    v = nf.Variable(x, requires_grad=True)
    nf.ops.take(v, indices).backward(np.ones((3, 5)))
    np.testing.assert_array_equal(v.grad[:, 0].data, [2, 0, 0, 1, 0, 0, 0, 0, 0])


def test_more_layouts_than_are_kept():
    x = RNG.normal(size=(50, 3))
    for _ in range(2):
        for count in range(1, direct.LIMIT + 40):
            indices = RNG.integers(-50, 50, count)
            np.testing.assert_array_equal(nf.ops.take(x, indices), x[indices])


def test_threads():
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(300):
            x = rng.normal(size=(int(rng.integers(1, 30)), 3))
            indices = rng.integers(-len(x), len(x), int(rng.integers(1, 20)))
            if not np.array_equal(nf.ops.take(x, indices), x[indices]):
                wrong.append(x)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong
