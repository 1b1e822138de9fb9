"""Guards of thread kernels that end the loop over a row: every thread as it was."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import nbfused as nf
from nbfused.cpu.raw.guards import find_guards
from nbfused.specs import Raw
from tests.variants import sampled

LEAST, MOST = -2**63, 2**63 - 1
BOUNDS = (LEAST, LEAST + 1, -5, 0, 3, 40, 70, MOST)
WIDTH, HEIGHT = 70, 3


@nf.rawkernel
def between(y, a, b):
    i, j = nf.grid(2)
    if a <= i and i < b and i < y.shape[1] and j < y.shape[0]:
        y[j, i] += 1


@nf.rawkernel
def returns(y, a, b):
    i, j = nf.grid(2)
    if i >= y.shape[1] or j >= y.shape[0]:
        return
    if i > b or not (i > a):
        return
    y[j, i] += 1


@nf.rawkernel
def beside(y, a, b):
    i, j = nf.grid(2)
    if j < y.shape[0] and i < y.shape[1]:
        k = i % 3
        if i - 2 > a and b >= i + 3 and k != 1:
            y[j, i] += 1


@nf.rawkernel
def one(y, a, b):
    i, j = nf.grid(2)
    if j < y.shape[0] and i < y.shape[1] and a == i:
        y[j, i] += 1


@nf.rawkernel
def all_but_one(y, a, b):
    i, j = nf.grid(2)
    if j >= y.shape[0] or i >= y.shape[1] or i == a:
        return
    y[j, i] += 1


@nf.rawkernel
def outside(y, a, b):
    i, j = nf.grid(2)
    if (i < a or i > b) and j < y.shape[0] and i < y.shape[1]:
        y[j, i] += 1


@nf.rawkernel
def both(y, a, b):
    i, j = nf.grid(2)
    if j < y.shape[0] and i < y.shape[1]:
        if i < a:
            y[j, i] += 1
        else:
            y[j, i] += 2


@nf.rawkernel
def before(y, a, b):
    i, j = nf.grid(2)
    if j < y.shape[0] and i < y.shape[1]:
        y[j, i] += 2
        if i < b:
            y[j, i] += 1


@nf.rawkernel
def slanted(y, a, b):
    i, j = nf.grid(2)
    if j < y.shape[0] and i < y.shape[1] and i > 5 * j and 2 * j + 40 >= i:
        y[j, i] += 1


@nf.rawkernel
def by_floats(y, a, b):
    i, j = nf.grid(2)
    if j < y.shape[0] and i < y.shape[1] and i < b * 0.5:
        y[j, i] += 1


@nf.rawkernel
def added(y, a, b):
    i, j = nf.grid(2)
    if j < y.shape[0] and 0 < i < y.shape[1] and i <= b:
        nf.atomic.add(y, (j, i - 1), 1)


#: What a kernel adds to each element, by its row and column.
EXPECTED = {
    between: lambda j, i, a, b: a <= i < b,
    returns: lambda j, i, a, b: a < i <= b,
    beside: lambda j, i, a, b: i - 2 > a and b >= i + 3 and i % 3 != 1,
    one: lambda j, i, a, b: a == i,
    all_but_one: lambda j, i, a, b: a != i,
    outside: lambda j, i, a, b: i < a or i > b,
    both: lambda j, i, a, b: 1 if i < a else 2,
    before: lambda j, i, a, b: 3 if i < b else 2,
    slanted: lambda j, i, a, b: 5*j < i <= 2*j + 40,
    by_floats: lambda j, i, a, b: i < b*0.5,
    added: lambda j, i, a, b: i + 1 < WIDTH and i + 1 <= b,
}


@pytest.mark.parametrize("block", [(32, 2), (256, 1), (8, 8)], ids=str)
@pytest.mark.parametrize("kernel", EXPECTED, ids=lambda k: k.__name__)
def test_threads_inside_do_what_they_did(kernel, block):
    grid = -(-WIDTH//block[0]), -(-HEIGHT//block[1])
    for a, b in product(BOUNDS, BOUNDS):
        y = np.zeros((HEIGHT, WIDTH))
        kernel[grid, block](y, a, b)
        wanted = [[float(EXPECTED[kernel](j, i, a, b)) for i in range(WIDTH)]
                  for j in range(HEIGHT)]
        np.testing.assert_array_equal(y, wanted, f"{a}, {b}")


@pytest.mark.parametrize(("kernel", "firsts", "ends"), [
    (between, 1, 2), (returns, 1, 2), (beside, 1, 2), (one, 1, 2), (all_but_one, 0, 1),
    (outside, 0, 1), (both, 0, 1), (before, 0, 1), (slanted, 1, 2), (by_floats, 0, 1),
    (added, 1, 2)], ids=lambda x: getattr(x, "__name__", ""))
def test_the_comparisons_that_the_loop_has_instead(kernel, firsts, ends):
    args = np.zeros((2, 3)), 1, 2
    flat = kernel.flatten(kernel.arguments(args, {}))
    spec = kernel.spec(flat)
    assert isinstance(spec, Raw)
    typed = spec.typed((np.dtype(float), np.dtype(int), np.dtype(int)), ())
    varying = frozenset(p.name for p in typed.places if p.word == "threadIdx.x") | {"y"}
    found = find_guards(typed, varying)
    assert len(found.firsts) == firsts
    assert len(found.ends) == ends


def test_places_that_are_not_known_are_compared_by_each_thread():
    @nf.rawkernel
    def scattered(x, y):
        i = nf.grid(1)
        if x[i] < 3:
            y[i] = 1

    x, y = np.arange(8), np.zeros(8)
    scattered[1, 8](x, y)
    np.testing.assert_array_equal(y, x < 3)


@pytest.mark.parametrize("shape", [(0, 4), (2, 0), (0, 0)], ids=str)
@pytest.mark.parametrize("kernel", sampled(EXPECTED, returns, both, added),
                         ids=lambda k: k.__name__)
def test_arrays_without_elements(kernel, shape):
    kernel[(3, 3), (32, 2)](np.zeros(shape), 0, 5)
