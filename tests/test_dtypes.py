"""The table of dtypes: what it says is what NumPy, Numba and C say."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from numba import types

from nbfused.scalar.typing.promotion import compute_dtype
from nbfused.support.dtypes import BFLOAT16, DTYPES, HALVES, TYPES, rank_of


@pytest.mark.parametrize("name", DTYPES)
def test_a_row(name):
    t = TYPES[DTYPES[name]]
    stored = np.dtype(t.stored)
    assert t.dtype.name == name
    assert t.dtype.itemsize == stored.itemsize
    assert getattr(types, t.stored).bitwidth == 8*stored.itemsize
    assert t.computed == compute_dtype(t.dtype)
    assert t.short.strip("bfiuc") in ("1", str(8*t.dtype.itemsize))
    assert not t.packed or struct.calcsize(f"={t.packed}") in (8, 16)
    assert bool(t.packed) == (t.stored == name)
    assert bool(t.cpp) == (t.computed == t.dtype)


def test_no_two_rows_share_a_name():
    for field in ("short", "torch"):
        found = [getattr(t, field) for t in TYPES.values() if getattr(t, field)]
        assert len(set(found)) == len(found)
    names = [name for t in TYPES.values() for name in t.c]
    assert len(set(names)) == len(names)


def test_16_bit_floats_are_floats():
    assert [t.dtype for t in HALVES] == [np.dtype(np.float16), BFLOAT16]
    assert [rank_of(np.dtype(d)) for d in ("?", "u1", "i8", BFLOAT16, "c8")] == [
        0, 1, 1, 2, 3]
