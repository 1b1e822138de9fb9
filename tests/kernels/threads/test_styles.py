"""Kernels in the style of Warp and Slang against NumPy and differences."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from tests.kernels.threads.styles import (
    bodies,
    crowds,
    fields,
    geometry,
    images,
    rays,
    solids,
)
from tests.kernels.threads.styles.cases import CASES
from tests.variants import sampled

#: They enter the table when they are imported.
MODULES = (bodies, crowds, fields, geometry, images, rays, solids)
#: Those that say most: a compiled pair of kernels takes a second.
FIRST = ("springs", "skinned", "advect", "marching_squares", "warped")


def parts(value):
    """The arrays of an argument."""
    return list(value) if isinstance(value, tuple) else [value]


def like(value, arrays):
    """An argument made of these arrays."""
    return type(value)(*arrays) if isinstance(value, tuple) else arrays[0]


def placed(value, device):
    if not isinstance(value, (np.ndarray, tuple)):
        return value
    return like(value, [nf.array(a.copy(), device=device) for a in parts(value)])


def results_of(case, arguments):
    found = case.reference(**arguments)
    return list(found) if isinstance(found, tuple) else [found]


@pytest.mark.parametrize("name", sampled(CASES, *FIRST))
def test_values_and_gradients(name, device):
    case, rng = CASES[name], np.random.default_rng(0)
    values = [a for n in case.results for a in parts(case.arguments[n])]
    given = {n: placed(v, device) for n, v in case.arguments.items()}
    case.kernel.launch(*given.values(), dim=case.dim)
    expected = results_of(case, case.arguments)
    found = [nf.to_numpy(a) for n in case.results for a in parts(given[n])]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, np.broadcast_to(b, a.shape), rtol=1e-9,
                                   atol=1e-12)
    if not case.wrt:
        return
    bars = iter([rng.standard_normal(v.shape) for v in values])
    ends = {n: [next(bars) for _ in parts(case.arguments[n])] for n in case.results}
    starts = {n: [np.zeros_like(case.arguments[n])] for n in case.wrt}
    pairs, slopes = {}, {}
    for n, v in case.arguments.items():
        pairs[n] = placed(v, device)
        if n in ends or n in starts:
            slopes[n] = [nf.array(a.copy(), device=device) for a in (ends | starts)[n]]
            pairs[n] = pairs[n], like(v, slopes[n])
    case.kernel.bwd.launch(*pairs.values(), dim=case.dim)
    along = {n: [rng.standard_normal(a.shape) for a in parts(case.arguments[n])]
             for n in slopes}

    def value(step):
        moved = {n: like(v, [a + step*t for a, t in zip(parts(v), along[n],
                                                        strict=True)])
                 if n in along else v for n, v in case.arguments.items()}
        return sum((b * np.broadcast_to(r, b.shape)).sum() for b, r in zip(
            [b for n in case.results for b in ends[n]], results_of(case, moved),
            strict=True))

    h = 1e-6
    slope = sum((nf.to_numpy(g) * t).sum() for n in slopes
                for g, t in zip(slopes[n], along[n], strict=True))
    np.testing.assert_allclose(slope, (value(h) - value(-h)) / (2*h), rtol=2e-6,
                               atol=1e-7)


def test_there_are_eighty():
    assert len(CASES) >= 75
