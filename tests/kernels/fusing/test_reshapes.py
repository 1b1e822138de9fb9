"""Changes in place that are seen through reshapes, fused against unfused."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError

pytestmark = [pytest.mark.interpreted]


def test_a_reshape_of_an_argument_is_a_view_of_what_is_contiguous():
    def f(x):
        flat = x.reshape(-1)
        x += 1
        return flat * 2

    fused, grid = nf.fuse(f), np.arange(12.0).reshape(3, 4)
    for _ in range(3):
        np.testing.assert_array_equal(fused(grid.copy()), f(grid.copy()))
    line = np.arange(6.0)[::-1]
    np.testing.assert_array_equal(fused(line.copy()), f(line.copy()))
    for x in (np.asfortranarray(grid), np.repeat(grid, 2, axis=-1)[..., ::2]):
        before = x.copy()
        with pytest.raises(KernelTypeError, match="'x' is not contiguous"):
            fused(x)
        np.testing.assert_array_equal(x, before)


def through_a_reshape(x):
    y = x * 1.0
    y.reshape(-1)[0] = 5.0
    return y * 1.0


def seen_by_a_reshape(x):
    y = x.T * 1.0
    flat = y.reshape(-1)
    y += 1.0
    return flat * 1.0


def of_nothing_that_is_used(x):
    flat = (x.T * 2.0).reshape(-1)
    flat += 1.0
    flat *= 3.0
    flat[0] = 2.0
    return flat * 1.0


def of_a_product(x):
    y = x @ x.T
    flat = y.reshape(-1)
    flat += 1.0
    y[0] *= 2.0
    return y + flat.reshape(3, 3)


def test_a_reshape_of_what_was_computed_is_a_view_or_refused():
    """NumPy computes in the order in memory that the arguments have."""
    grid = np.arange(12.0).reshape(3, 4)
    layouts = grid, np.asfortranarray(grid), np.repeat(grid, 2, axis=1)[:, ::2]
    refused = {through_a_reshape: "'x' is not contiguous",
               seen_by_a_reshape: "reshape of: whether NumPy's is a view"}
    for function in (through_a_reshape, seen_by_a_reshape, of_nothing_that_is_used,
                     of_a_product):
        fused = nf.fuse(function)
        for x in layouts:
            expects = function in refused and (
                x is not grid or function is seen_by_a_reshape)
            if expects:
                with pytest.raises(KernelTypeError, match=refused[function]):
                    fused(x)
            else:
                np.testing.assert_array_equal(fused(x), function(x))
