"""Random kernels that count places: sums, first and second derivatives.

``python -m tests.kernels.threads.test_place_programs 0 100`` checks many.
"""

from __future__ import annotations

import linecache
import sys

import numpy as np
import pytest

import nbfused as nf
from tests.kernels.threads.place_programs import SIZE, THREADS, Program, given, total
from tests.variants import sampled


def kernel_of(text, name):
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    names = {"nf": nf}
    exec(compile(text, name, "exec"), names)
    return nf.rawkernel(differentiable=True)(names["k"])


def launched(kernel, n, device):
    """The sum as a function of `x` and `w`, by a launch that is recorded."""
    def call(x, w):
        x, w = x * 1.0, w * 1.0
        count = nf.zeros(3, "int64", device=device)
        out, far = (nf.Variable(nf.zeros(SIZE, device=device)) for _ in "of")
        kernel.launch(x, w, count, out, far, n, dim=THREADS)
        call.count = nf.to_numpy(count)
        return (out * out).sum() + far.sum() - (far * far * far).sum() + (x * x).sum()

    return call


def check(seed, device, second):
    program, arrays, n = Program(seed), given(seed), seed % 3
    kernel, rng = kernel_of(program.text, f"<place program {seed}>"), \
        np.random.default_rng(seed + 1)
    expected, count = total(kernel.pyfunc, *arrays, n)
    call = launched(kernel, n, device)
    placed = [nf.array(a, device=device) for a in arrays]
    value, first = nf.value_and_grad(call, argnums=(0, 1))(*placed)
    np.testing.assert_allclose(float(value), expected, rtol=1e-9, err_msg=program.text)
    assert call.count[:2].tolist() == count[:2].tolist()
    along, h = [rng.standard_normal(a.shape) for a in arrays], 1e-6

    def moved(scale):
        return [a + scale*t for a, t in zip(arrays, along, strict=True)]

    ends = [total(kernel.pyfunc, *moved(s), n) for s in (h, -h)]
    if any((c != count).any() for _, c in ends):
        return "steep"
    slope = sum((nf.to_numpy(g) * t).sum() for g, t in zip(first, along, strict=True))
    np.testing.assert_allclose(slope, (ends[0][0] - ends[1][0]) / (2*h), rtol=2e-5,
                               atol=2e-5, err_msg=program.text)
    if not second:
        return "first"
    directions = [nf.array(t, device=device) for t in along]

    def sloped(*xs):
        gradients = nf.grad(call, argnums=(0, 1))(*xs)
        return sum((g * t).sum() for g, t in zip(gradients, directions, strict=True))

    bent = nf.grad(sloped, argnums=(0, 1))(*placed)
    found = sum((nf.to_numpy(g) * t).sum() for g, t in zip(bent, along, strict=True))
    steps = [float(sloped(*(nf.array(a, device=device) for a in moved(s))))
             for s in (1e-5, -1e-5)]
    np.testing.assert_allclose(found, (steps[0] - steps[1]) / 2e-5, rtol=1e-4,
                               atol=1e-4, err_msg=program.text)
    return "second"


@pytest.mark.parametrize("seed", sampled(range(6), 1))
def test_a_random_kernel(seed, device):
    check(seed, device, seed % 3 == 0)


if __name__ == "__main__":
    counts: dict[str, int] = {}
    for number in range(*map(int, sys.argv[1:3])):
        outcome = check(number, "cpu", number % 3 == 0)
        counts[outcome] = counts.get(outcome, 0) + 1
    print(counts)
