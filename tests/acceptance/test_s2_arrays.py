"""Slang's tensors: making them like others, their shape, filling them.

Each test is named for the line of the acceptance list that it holds.
"""

from __future__ import annotations

import numpy as np

import nbfused as nf
from nbfused.arrays import describe


def test_l20_arrays_like_others(device):
    x = nf.array(np.arange(6, dtype="f4").reshape(2, 3), device=device)
    for made in (nf.empty_like(x), nf.zeros_like(x), nf.ones_like(x)):
        assert type(made) is type(x)
        assert made.shape == (2, 3)
        assert made.ndim == 2
        assert made.dtype == x.dtype
        assert len(made.strides) == 2
    np.testing.assert_array_equal(nf.to_numpy(nf.zeros_like(x)), np.zeros((2, 3)))
    np.testing.assert_array_equal(nf.to_numpy(nf.full_like(x, 7)), np.full((2, 3), 7))


def test_l20_a_vector_as_element_is_a_trailing_dimension(device):
    float3 = ("float32", 3)
    for made in (nf.empty((4, 4), float3, device=device),
                 nf.zeros((4, 4), float3, device=device)):
        assert made.shape == (4, 4, 3)
        assert made.dtype == np.float32


def test_l22_fill_in_place(device):
    x = nf.empty((3, 4), "float32", device=device)
    nf.fill(x, 2.5)
    np.testing.assert_array_equal(nf.to_numpy(x), np.full((3, 4), 2.5))
    x.fill(0)  # arrays of every library that can be changed have it, ours too
    np.testing.assert_array_equal(nf.to_numpy(x), np.zeros((3, 4)))


def test_l23_the_address_of_an_element(device):
    x = nf.array(np.arange(12, dtype="f4").reshape(3, 4), device=device)
    first = describe(x).pointer
    for key, before in ((np.s_[2:], 8), (np.s_[1, 3:], 7), (np.s_[::-1], 8)):
        assert describe(x[key]).pointer == first + 4 * before


def test_l30_synchronize(device):
    x = nf.ones_like(nf.zeros(1000, device=device))
    nf.synchronize()
    np.testing.assert_array_equal(nf.to_numpy(x), 1)
