"""Kernels in the style of CuPy's own run, and give what SciPy or NumPy gives."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import ElementwiseKernel
from tests.kernels.cupy import (
    pasted_arrays,
    pasted_cuda,
    pasted_graphs,
    pasted_images,
    pasted_indexing,
    pasted_numbers,
    pasted_pointers,
    pasted_sampling,
    pasted_series,
    pasted_special,
    pasted_statistics,
)
from tests.variants import sampled

MODULES = (pasted_arrays, pasted_cuda, pasted_graphs, pasted_images, pasted_indexing,
           pasted_numbers, pasted_pointers, pasted_sampling, pasted_series,
           pasted_special, pasted_statistics)
CASES = {f"{module.__name__.rpartition('_')[2]}: {name}": case for module in MODULES
         for name, case in module.CASES.items()}


def host(x):
    return x if isinstance(x, np.ndarray) else nf.to_numpy(x)


#: Some of every module: to compile one takes most of a second.
#: Kernels that Numba takes seconds for.
LONG = ("pointers: bessel_functions_of_any_order", "sampling: standard_t")
FIRST = [*(name for name in list(CASES)[::6] if name not in LONG),
         "statistics: joint_histogram"]


@pytest.mark.parametrize("name", sampled(CASES, *FIRST))
def test_a_pasted_kernel(name, device):
    found, expected = CASES[name](lambda a: nf.array(a, device=device))
    np.testing.assert_allclose(host(found), expected, rtol=1e-12, atol=1e-12)


#: Kernels whose derivative by their floating inputs is smooth at these.
SMOOTH = ("special: elliptic_integrals", "special: normal_tail", "series: lambert",
          "series: hypergeometric", "images: correlation", "images: ranks",
          "images: extrema_with_places", "images: grey_closing_step",
          "images: gradient_magnitude", "images: cubic_map_coordinates",
          "images: floods", "indexing: take", "indexing: triangle",
          "indexing: selected")


@pytest.mark.parametrize("name", sampled(SMOOTH, *SMOOTH[::4][:2]))
def test_gradients_are_differences(name, device, monkeypatch):
    """Of the first call of the first kernel of a case."""
    calls = []

    def noted(kernel, *args, **options):
        calls.append((kernel, args, options))
        return called(kernel, *args, **options)

    called = ElementwiseKernel.__call__
    monkeypatch.setattr(ElementwiseKernel, "__call__", noted)
    CASES[name](lambda a: nf.array(a, device=device))
    monkeypatch.undo()
    kernel, given, options = calls[0]
    inputs = [host(a) if hasattr(a, "shape") else a
              for a in given[:len(kernel.in_params)]]
    moved = [k for k, a in enumerate(inputs) if isinstance(a, np.ndarray)
             and a.dtype == np.float64 and a.size > 1]
    if all(p.raw or not isinstance(a, np.ndarray)
           for p, a in zip(kernel.in_params, inputs, strict=True)):
        options = {**options, "size": given[-1].size}  # of the output

    def function(*arrays):
        values = [nf.array(a, device=device) if isinstance(a, np.ndarray) else a
                  for a in inputs]
        for k, a in zip(moved, arrays, strict=True):
            values[k] = a
        return kernel(*values, **options)

    nf.testing.gradcheck(function, [inputs[k] for k in moved],
                         place=lambda a: nf.array(a, device=device))


def test_there_are_a_hundred_and_fifty():
    assert len(CASES) >= 140


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
