"""Integers are divided exactly by float arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from nbfused.scalar.ir.nodes import Block, Function, Let
from nbfused.specs import Map
from tests.cpu.skeletons import run_map

DTYPES = [np.dtype(f"{u}int{bits}") for bits in (8, 16, 32, 64) for u in ("", "u")]
OPS = ("floordiv", "truncdiv", "mod", "fmod")


def divided(op, x, y):
    """By Python's integers: by zero 0, the rest wraps around."""
    if y == 0:
        return 0
    q = x // y
    if op in ("truncdiv", "fmod") and q < 0 and q*y != x:
        q += 1
    return q if op.endswith("div") else x - q*y


def expected(op, a, b):
    info = np.iinfo(a.dtype)
    found = [(divided(op, x, y) - info.min) % (1 << info.bits) + info.min
             for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    return np.array(found, a.dtype)


def pairs(dtype):
    """All of 8 bits; others of any size, multiples and neighbours, and the ends."""
    info, rng = np.iinfo(dtype), np.random.default_rng(0)
    if info.bits == 8:
        every = np.arange(info.min, info.max + 1).astype(dtype)
        return tuple(x.ravel() for x in np.meshgrid(every, every))

    def drawn():
        shift = rng.integers(0, info.bits, 5000).astype(dtype)
        return rng.integers(info.min, info.max, 5000, dtype, endpoint=True) >> shift

    a, b = drawn(), drawn()
    near = [info.max // 2, info.max // 3, 1 << info.bits // 2, 0, 1, 2, 3, 7]
    ends = [s*x + d for x in (*near, info.max) for d in (-1, 0, 1) for s in (1, -1)]
    ends = np.array([x for x in ends if info.min <= x <= info.max], dtype)
    x, y = (z.ravel() for z in np.meshgrid(ends, ends))
    one = dtype.type(1)
    return (np.concatenate([a, a*b, a*b + one, a*b - one, b + one, one - b, x]),
            np.concatenate([b, b, b, b, b, b, y]))


def operation(op):
    body = Block((Let(("r",), op, ("a", "b")),), ("r",))
    return Map(Function(op, ("a", "b"), body), ("element", "element"))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("op", OPS)
def test_by_arrays(op, dtype):
    a, b = pairs(dtype)
    got = run_map(operation(op), a, b)
    np.testing.assert_array_equal(got, expected(op, a, b))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("op", OPS)
def test_by_one_number(op, dtype):
    a, b = (x[::17] for x in pairs(dtype))
    for y in map(np.asarray, (*b[:6], *b[-30:])):
        got = run_map(operation(op), a, y)
        np.testing.assert_array_equal(got, expected(op, a, np.full_like(a, y)))
