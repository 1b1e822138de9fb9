"""Conversions of 16-bit floats, every one of them, against NumPy and ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from nbfused import ops
from nbfused.config import config
from nbfused.cpu.runtime import compile as compiling
from nbfused.scalar.ir import interpret
from nbfused.scalar.ir.nodes import Block, Function, Let
from nbfused.specs import Map
from nbfused.specs.vjp.functions import identity
from tests.cpu.skeletons import run_map

COPY = Map(identity(), ("element",))
DTYPES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
F32 = np.dtype(np.float32)


@pytest.fixture(params=["processor", "integers"], autouse=True)
def _conversion(request, monkeypatch):
    """As this processor does it, and as one without F16C."""
    if request.param == "processor":
        yield
        return
    from nbfused.cpu.text import halves

    namespace = {**compiling._namespace(), **halves.conversions(halves.BY_INTEGERS)}
    monkeypatch.setattr(compiling, "_namespace", lambda: namespace)
    with config.override(cache_disable=True):
        yield


def same(a, b):
    """Equal bits, except that any NaN equals any other."""
    with np.errstate(invalid="ignore"):  # ml_dtypes and signalling NaNs
        nan = np.isnan(a) & np.isnan(b)
    return np.all(nan | (a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_value_widens_exactly(dtype):
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    assert same(run_map(COPY, x, dtypes=[F32]), x.astype(F32))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_value_survives(dtype):
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    assert same(run_map(COPY, x), x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rounding_at_and_around_every_midpoint(dtype):
    with np.errstate(all="ignore"):
        x = np.arange((1 << 15) - 1, dtype=np.uint16).view(dtype).astype(np.float64)
        above = np.arange(1, 1 << 15, dtype=np.uint16).view(dtype).astype(np.float64)
        middle = ((x + above)/2).astype(F32)
        points = np.concatenate([middle, np.nextafter(middle, F32.type(np.inf)),
                                 np.nextafter(middle, F32.type(-np.inf)),
                                 [3.4e38, 65519.9, 65520, 1e-45, np.inf]]).astype(F32)
        points = np.concatenate([points, -points])
        assert same(run_map(COPY, points, dtypes=[dtype]), points.astype(dtype))


def beside_middles(dtype):
    """Just above, at and below the middles of neighbours; what is nearest to each."""
    infinity = np.array(np.inf, dtype).view(np.uint16)
    every = np.arange(infinity, dtype=np.uint16)[::7].view(dtype)
    below = every.astype(np.float64)
    above = (every.view(np.uint16) + 1).astype(np.uint16).view(dtype)
    with np.errstate(over="ignore"):
        middle = (below + np.where(np.isinf(above), 2*below, above.astype(float)))/2
    middle, below, above = middle[:-1], every[:-1], above[:-1]
    even = np.where(below.view(np.uint16) & 1, above, below).astype(dtype)
    x = [middle*(1 + 2.0**-52), middle*(1 - 2.0**-53), middle, middle*(1 + 2.0**-30)]
    nearest = np.concatenate([above, below, even, above])
    x = np.concatenate(x)
    return np.concatenate([x, -x]), np.concatenate([nearest, -nearest])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_float64_is_rounded_once(dtype):
    x, nearest = beside_middles(dtype)
    assert same(run_map(COPY, x, dtypes=[dtype]), nearest)
    cast = Function("f", ("x",), Block((Let(("y",), "cast", ("x",), dtype.name),),
                                       ("y",)))
    assert same(run_map(Map(cast, ("element",)), x), nearest)
    assert same(interpret._cast(x, dtype.name).astype(dtype), nearest)
    special = np.array([1e300, -np.inf, 5e-324, 65519.9, 0x7FF0000000000001])
    special[-1:] = np.array([0x7FF0000000000001]).view(np.float64)  # a signalling NaN
    got = run_map(COPY, special, dtypes=[dtype]).astype(np.float64)
    assert got[:3].tolist() == [np.inf, -np.inf, 0]
    assert got[3] == (65504 if dtype == np.float16 else 65536)
    assert np.isnan(got[4])


@pytest.mark.parametrize("integer", [np.int32, np.int64, np.uint64])
def test_integers_become_bfloat16_in_one_rounding(integer):
    dtype = np.dtype(ml_dtypes.bfloat16)
    shifts = np.arange(9, np.iinfo(integer).bits - 1)
    middle = (1 << shifts.astype(integer)) + (1 << (shifts - 8).astype(integer))
    x = np.concatenate([middle - 1, middle, middle + 1]).astype(integer)
    below, above = 2.0**shifts, 2.0**shifts + 2.0**(shifts - 7)
    nearest = np.concatenate([below, below, above])
    if integer != np.uint64:
        x, nearest = np.concatenate([x, -x]), np.concatenate([nearest, -nearest])
    assert same(run_map(COPY, x, dtypes=[dtype]), nearest.astype(dtype))
    assert same(interpret._cast(x, "bfloat16").astype(dtype), nearest.astype(dtype))


def test_the_sign_of_a_float64():
    # LLVM converts its source to float16 as well, by a function that is not there.
    x = np.linspace(-2.0, 2.0, 131)
    found = ops.tanh(x, out=np.empty(131, np.float16))
    assert np.array_equal(found, np.tanh(x).astype(np.float16))
    assert ops.tanh(np.float16(-1.0)) == np.tanh(np.float16(-1.0))
