"""Windows of neighbouring columns: which elements a thread loads, and how often."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from tests.cuda.recorded import needs_compiler, recording


def around(x):
    """The sum of nine neighbours, on a torus."""
    return sum(np.roll(x, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1))


def sideways(x):
    """The sum of three neighbours, on a circle."""
    return np.roll(x, 1, 1) + np.roll(x, -1, 1) + x


def stencil(x):
    """Diffusion inside fixed borders."""
    y, c = x.copy(), x[1:-1, 1:-1]
    y[1:-1, 1:-1] = c + x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]
    return y


def apart(x):
    """Rolls of arrays that have nothing in common."""
    return np.roll(x[:64], 1, 1) + np.roll(x[64:], -1, 1)


def text_of(program, x):
    with recording() as found:
        nf.fuse(program)(x)
    return list(found.values())[-1].text


@pytest.mark.parametrize(("program", "rows", "whole", "single"), [
    (around, 4, 6, 12), (sideways, 1, 1, 2), (stencil, 4, 6, 8), (apart, 1, 0, 8)])
def test_an_element_of_several_windows_is_loaded_once(program, rows, whole, single):
    """Four columns: those of whole accesses, and what is left and right of them."""
    needs_compiler()
    usual = text_of(program, np.zeros((128, 512), "f4")).partition("else:")[0]
    assert usual.count("= load4(") == whole
    assert usual.count("= load1(") == single
    assert usual.count("store4(") == rows


def test_a_kernel_asks_for_the_distance_of_windows():
    """It may be bound to others: here two arguments are views of one array."""
    needs_compiler()
    x = np.zeros((66, 520), "f4")
    with recording() as found:
        nf.fuse(lambda a, b: np.roll(a, 1, 0) + b)(x[1:65, :512], x[:64, 1:513])
    text = list(found.values())[-1].text
    assert "if j < n1:" in text
    assert text.count("between(") == 1


@pytest.mark.parametrize("shape", [(64, 96), (64, 513)])
@pytest.mark.filterwarnings("ignore:fuse")
def test_short_rows_and_rows_that_are_not_aligned_have_kernels_of_one_column(shape):
    needs_compiler()
    assert "store4(" not in text_of(around, np.zeros(shape, "f4"))
