"""Places of extreme elements in rows longer than a chunk."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nbfused as nf
from nbfused.cpu import reduce
from nbfused.dispatch.execute import execute
from nbfused.scalar.parse.functions import parse
from nbfused.specs import COMBINES, Reduce
from nbfused.specs.vjp.functions import identity
from tests.variants import sampled

CHUNK = reduce._CACHED
LENGTHS = (CHUNK + 1, 2*CHUNK, 3*CHUNK - 1, 10*CHUNK + 77)
DTYPES = ("float16", "float32", "float64", "int8", "int32", "int64", "uint16", "uint64")
OPS = {"argmax": np.argmax, "argmin": np.argmin}


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    """The calls that look for places chunk by chunk."""
    found = []
    own = reduce._Reduction._by_places
    monkeypatch.setattr(reduce._Reduction, "_by_places", lambda self, *given: (
        found.append(given), own(self, *given))[1])
    return found


def numbers(shape, dtype, seed=0, values=50):
    """Random numbers of few values, so that most are there several times."""
    return np.random.default_rng(seed).integers(0, values, shape).astype(dtype)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("length", sampled(LENGTHS, *LENGTHS[::2]))
@pytest.mark.parametrize("dtype", sampled(DTYPES, "float32", "int8"))
def test_the_first_of_equal_ones(dtype, length, op, kernels):
    for seed in range(3):
        x = numbers(length, dtype, seed)
        assert getattr(nf.ops, op)(x) == OPS[op](x)
    assert kernels


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("place", [0, 1, CHUNK - 1, CHUNK, 3*CHUNK + 5, 5*CHUNK - 1])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0])
def test_special_numbers(value, place, op):
    x = numbers(5*CHUNK, np.float32) - 25
    x[place] = value
    x[place::CHUNK + 3] = value
    assert getattr(nf.ops, op)(x) == OPS[op](x)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0])
def test_rows_of_one_number(value, op):
    x = np.full((2, 2*CHUNK + 3), value)
    np.testing.assert_array_equal(getattr(nf.ops, op)(x, axis=-1), [0, 0])


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("view", [
    lambda x: x, lambda x: x[:, ::-1], lambda x: x[::-1, ::3], lambda x: x[1:, 5:],
    lambda x: np.broadcast_to(x[:1], x.shape), lambda x: x[:, None, :],
    lambda x: x.reshape(3, -1)], ids=range(7))
def test_layouts(view, op, kernels):
    x = view(numbers((6, 8*CHUNK + 2), np.float32))
    np.testing.assert_array_equal(getattr(nf.ops, op)(x, axis=-1), OPS[op](x, -1))
    assert kernels


def test_every_axis_and_kept_dimensions():
    x = numbers((3, 2*CHUNK + 1, 2), np.float64)
    for axis in (0, 1, 2):
        np.testing.assert_array_equal(
            nf.ops.argmin(x, axis=axis, keepdims=True), x.argmin(axis, keepdims=True))
    assert nf.ops.argmax(x, axis=None) == x.argmax()


def test_of_what_is_computed(kernels):
    x, y = numbers(4*CHUNK, np.float32), numbers(4*CHUNK, np.float32, 1)
    fused = nf.fuse(lambda x, y: nf.ops.argmax(x*y - x))
    assert fused(x, y) == np.argmax(x*y - x)
    assert kernels


@pytest.mark.parametrize("op", sampled(OPS, "argmin"))
@pytest.mark.parametrize("shape", [(5*CHUNK,), (3, 4*CHUNK + 1)])
def test_of_what_is_computed_from_its_index(shape, op, kernels):
    def weighted(x, index):
        return x*(index % 999)

    def scaled(x, size):
        return x/size

    def run(function, kind):
        spec = Reduce(parse(function), ("element", kind), COMBINES[op],
                      COMBINES[op].finish, (len(shape) - 1,))
        return execute(spec, [x])[0]

    x = np.random.default_rng(0).normal(size=shape)
    np.testing.assert_array_equal(
        run(weighted, "index"), OPS[op](x*(np.arange(shape[-1]) % 999), -1))
    assert not kernels
    np.testing.assert_array_equal(run(scaled, "size"), OPS[op](x, -1))
    assert kernels


@pytest.mark.parametrize("op", sampled(OPS, "argmax"))
@pytest.mark.parametrize("shape", [(2, 100), (100, 1), (CHUNK + 1, 1)])
def test_places_that_elements_bring_along(shape, op):
    """States of blocks are merged so, whose places may have more than 32 bits."""
    states = Reduce(identity(2), ("element",)*2, replace(
        COMBINES[op], lift=identity(2), indexed=False), identity(2), (0,), saves=2)
    x = numbers(shape, np.float32)
    places = np.arange(x.size).reshape(shape) + 2**33
    found = execute(states, [x, places], dtypes=(x.dtype, places.dtype))
    first = OPS[op](x, 0)[None]
    for all_, one in zip((x, places), found, strict=True):
        np.testing.assert_array_equal(one, np.take_along_axis(all_, first, 0)[0])
