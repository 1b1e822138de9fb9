"""Random kernels of composite numbers against plain Python, gradients by differences.

``python -m tests.kernels.threads.test_element_programs 0 200`` checks many.
"""

from __future__ import annotations

import linecache
import sys

import numpy as np
import pytest

import nbfused as nf
from tests.kernels.threads.element_programs import (
    THREADS,
    Particle,
    Program,
    given,
    reference,
)
from tests.variants import sampled


def kernel_of(text, name):
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    names = {"nf": nf, "Particle": Particle}
    exec(compile(text, name, "exec"), names)
    return nf.rawkernel(names["k"])


def pack(arrays):
    """The arguments of a kernel but the last."""
    x, m, place, turn, mass, s, total = arrays
    return [x, m, Particle(place, turn, mass), s, total]


def check(seed, device, recorded):
    """Compare a kernel with plain Python; where `recorded`, launches on Variables, too.

    Of these first derivatives are the kernel's, and second ones differences of them.
    """
    program, arrays = Program(seed), given(seed)
    kernel = kernel_of(program.text, f"<element program {seed}>")
    n = seed % 3
    expected = reference(program, arrays, n)
    if not all(np.isfinite(a).all() and abs(a).max() < 1e4 for a in expected):
        return "grows"
    placed = [nf.array(a.copy(), device=device) for a in arrays]
    kernel(1, THREADS, (*pack(placed), n))
    for a, b in zip(placed, expected, strict=True):
        np.testing.assert_allclose(nf.to_numpy(a), b, rtol=1e-9, atol=1e-10,
                                   err_msg=program.text)
    rng, h = np.random.default_rng(seed + 1), 1e-6
    bars, along = ([rng.standard_normal(a.shape) for a in arrays] for _ in "xy")
    steps = []
    for scale in (h, 2*h):
        up, down = (reference(program, [a + s*t for a, t in zip(
            arrays, along, strict=True)], n) for s in (scale, -scale))
        steps.append(sum((b * (u - d)).sum() for b, u, d in zip(
            bars, up, down, strict=True)) / (2*scale))
    slope, spread = steps[0], abs(steps[1] - steps[0])
    size = 1 + max(abs(a).max() for a in expected)
    if spread > 1e-4 * (abs(slope) + size):
        return "steep"
    slopes = [nf.array(b, device=device) for b in bars]
    primal = [nf.array(a.copy(), device=device) for a in arrays]
    pairs = list(zip(pack(primal), pack(slopes), strict=True))
    kernel.bwd(1, THREADS, (*pairs, n))
    found = sum((nf.to_numpy(g) * t).sum() for g, t in zip(slopes, along, strict=True))
    tangents = [nf.array(t, device=device) for t in along]
    again = [nf.array(a.copy(), device=device) for a in arrays]
    kernel.fwd(1, THREADS, (*zip(pack(again), pack(tangents), strict=True), n))
    forward = sum((nf.to_numpy(t) * b).sum() for t, b in zip(tangents, bars,
                                                             strict=True))
    np.testing.assert_allclose([found, forward], slope, rtol=1e-5,
                               atol=1e-6*size + 3*spread, err_msg=program.text)
    np.testing.assert_allclose(found, forward, rtol=1e-8, atol=1e-9*size)
    if not recorded:
        return "checked"

    def loss(*variables):
        left = [v * 1.0 for v in variables]
        kernel(1, THREADS, (*pack(left), n))
        return sum((v * nf.array(b, device=device)).sum()
                   for v, b in zip(left, bars, strict=True))

    def placed_at(step):
        return [nf.array(a + step*t, device=device)
                for a, t in zip(arrays, along, strict=True)]

    def slope_at(step):
        gradients = nf.grad(loss, argnums=tuple(range(7)))(*placed_at(step))
        return sum((nf.to_numpy(g) * t).sum()
                   for g, t in zip(gradients, along, strict=True))

    np.testing.assert_allclose(slope_at(0.0), found, rtol=1e-9, atol=1e-10*size,
                               err_msg=program.text)
    bent = nf.hvp(loss, placed_at(0.0), [nf.array(t, device=device) for t in along])
    ends = [slope_at(h) - slope_at(-h), (slope_at(2*h) - slope_at(-2*h)) / 2]
    np.testing.assert_allclose(
        sum((nf.to_numpy(g) * t).sum() for g, t in zip(bent, along, strict=True)),
        ends[0] / (2*h), rtol=1e-4, atol=1e-4*size + abs(ends[0] - ends[1]) / h,
        err_msg=program.text)
    return "recorded"


@pytest.mark.parametrize("seed", sampled(range(8), 1))
def test_a_random_kernel(seed, device):
    check(seed, device, seed % 4 == 0)


if __name__ == "__main__":
    counts: dict[str, int] = {}
    for number in range(*map(int, sys.argv[1:3])):
        outcome = check(number, "cpu", number % 4 == 0)
        counts[outcome] = counts.get(outcome, 0) + 1
    print(counts)
