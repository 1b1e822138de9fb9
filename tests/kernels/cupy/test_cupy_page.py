"""The kernels of CuPy's page on user-defined kernels, as they stand there.

Where CuPy and a GPU are at hand, CuPy runs them as well, and agrees.
"""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import kernels

pytestmark = pytest.mark.interpreted

F32 = np.float32
X = np.arange(10, dtype=F32).reshape(2, 5)
Y = np.arange(5, dtype=F32)


def squared_diff(library):
    return library.ElementwiseKernel(
        'float32 x, float32 y',
        'float32 z',
        'z = (x - y) * (x - y)',
        'squared_diff')


def squared_diff_generic(library):
    return library.ElementwiseKernel(
        'T x, T y',
        'T z',
        'z = (x - y) * (x - y)',
        'squared_diff_generic')


def squared_diff_statements(library):
    return library.ElementwiseKernel(
        'T x, T y',
        'T z',
        '''
            T diff = x - y;
            z = diff * diff;
        ''',
        'squared_diff_generic')


def squared_diff_super_generic(library):
    return library.ElementwiseKernel(
        'X x, Y y',
        'Z z',
        'z = (x - y) * (x - y)',
        'squared_diff_super_generic')


def add_reverse(library):
    return library.ElementwiseKernel(
        'T x, raw T y', 'T z',
        'z = x + y[_ind.size() - i - 1]',
        'add_reverse')


def l2norm_kernel(library):
    return library.ReductionKernel(
        'T x',  # input params
        'T y',  # output params
        'x * x',  # map
        'a + b',  # reduce
        'y = sqrt(a)',  # post-reduction map
        '0',  # identity value
        'l2norm'  # kernel name
    )


DIFFERENCE = [[0, 0, 0, 0, 0], [25, 25, 25, 25, 25]]
CALLS = {
    "arrays": (squared_diff, (X, Y), {}, DIFFERENCE),
    "a number": (squared_diff, (X, 5), {}, [[25, 16, 9, 4, 1], [0, 1, 4, 9, 16]]),
    "an output": (squared_diff, (X, Y, np.empty((2, 5), F32)), {}, DIFFERENCE),
    "generic": (squared_diff_generic, (X, Y), {}, DIFFERENCE),
    "generic float64": (squared_diff_generic, (X.astype(float), Y.astype(float)), {},
                        DIFFERENCE),
    "statements": (squared_diff_statements, (X, Y), {}, DIFFERENCE),
    "super generic": (squared_diff_super_generic,
                      (X, Y.astype(np.int16), np.empty((2, 5))), {}, DIFFERENCE),
    "raw": (add_reverse, (Y, 2 * Y), {}, [8, 7, 6, 5, 4]),
    "raw of another shape": (add_reverse, (Y, X), {}, [4, 4, 4, 4, 4]),
    "norm": (l2norm_kernel, (X,), {"axis": 1}, [5.477226, 15.9687195]),
    "norm of all": (l2norm_kernel, (X,), {}, 16.881943),
}


def run(library, make, args, kwargs):
    """A kernel of `library` called on arrays that `make` gives."""
    kernel, args = args[0](library), args[1:]
    return kernel(*(make(a) if isinstance(a, np.ndarray) else a for a in args),
                  **kwargs)


@pytest.mark.parametrize("name", CALLS)
def test_kernel_of_the_page(name, device):
    definition, args, kwargs, expected = CALLS[name]
    found = run(kernels, lambda a: nf.array(a, device=device), (definition, *args),
                kwargs)
    found = nf.to_numpy(found)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found.dtype == next(a for a in args[::-1] if isinstance(a, np.ndarray)).dtype


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.cuda
def test_kernel_of_the_page_as_in_cupy(name):
    cupy = pytest.importorskip("cupy")
    definition, args, kwargs, _ = CALLS[name]
    theirs = run(cupy, cupy.asarray, (definition, *args), kwargs)
    ours = run(kernels, cupy.asarray, (definition, *args), kwargs)
    assert type(ours) is type(theirs)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_allclose(ours.get(), theirs.get(), rtol=1e-6)


@pytest.mark.parametrize("name", [n for n in CALLS if n not in ("an output",
                                                                "super generic")])
def test_kernel_of_the_page_has_a_gradient(name, device):
    """CuPy's have none.  Central differences of what NumPy computes."""
    definition, args, kwargs, _ = CALLS[name]
    kernel = definition(kernels)
    wide = [a.astype(float) + 0.25 if isinstance(a, np.ndarray) else a for a in args]
    if definition is squared_diff:
        wide = [a.astype(F32) if isinstance(a, np.ndarray) else a for a in wide]
    leaves = [nf.Variable(nf.array(a, device=device), requires_grad=True)
              if isinstance(a, np.ndarray) else a for a in wide]
    kernel(*leaves, **kwargs).sum().backward()
    rng = np.random.default_rng(0)
    for k, leaf in enumerate(leaves):
        if not isinstance(leaf, nf.Variable):
            continue
        direction = rng.standard_normal(leaf.shape).astype(leaf.dtype)
        h = 1e-3 if leaf.dtype == F32 else 1e-6
        ends = []
        for sign in (1, -1):
            moved = [nf.array(a, device=device) if isinstance(a, np.ndarray) else a
                     for a in wide]
            moved[k] = nf.array(wide[k] + leaf.dtype.type(sign * h) * direction,
                                device=device)
            ends.append(nf.to_numpy(kernel(*moved, **kwargs)).astype(float).sum())
        expected = (ends[0] - ends[1]) / (2 * h)
        found = (nf.to_numpy(leaf.grad) * direction).sum()
        np.testing.assert_allclose(found, expected, rtol=1e-3 if h == 1e-3 else 1e-6,
                                   atol=2e-2 if h == 1e-3 else 1e-7)
