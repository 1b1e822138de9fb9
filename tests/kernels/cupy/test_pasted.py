"""Kernels in the style of CuPy's own run, and give what SciPy or NumPy gives."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from tests.kernels.cupy import (
    pasted_arrays,
    pasted_graphs,
    pasted_numbers,
    pasted_pointers,
    pasted_statistics,
)

CASES = {**pasted_arrays.CASES, **pasted_graphs.CASES, **pasted_numbers.CASES,
         **pasted_pointers.CASES, **pasted_statistics.CASES}


def host(x):
    return x if isinstance(x, np.ndarray) else nf.to_numpy(x)


@pytest.mark.parametrize("name", CASES)
def test_a_pasted_kernel(name, device):
    found, expected = CASES[name](lambda a: nf.array(a, device=device))
    np.testing.assert_allclose(host(found), expected, rtol=1e-12, atol=1e-12)


def test_there_are_ninety():
    assert len(CASES) >= 90


@pytest.mark.parametrize("kind", ["ptx", "hip"])
def test_the_text_for_gpus(kind):
    """Structs, switch, references and bits are printed for both, without a device."""
    kernel = nf.ElementwiseKernel("T x, T y", "T z", """
        P p{x, 2};
        switch (int(y)) {
            case 1: p.a *= 2;
            case 2: z = p.a; break;
            default: bump(p.b); z = p.b + __popc(int(x));
        }""", "printed", preamble="""
        struct P { double a; int b; };
        template<typename T> __device__ void bump(T& a) { a += 1; }""")
    assert {"ptx": "and.b32", "hip": "shift_right"}[kind] in str(kernel.source(kind))
