"""Random kernels with barriers against threads of Python."""

from __future__ import annotations

import linecache

import numpy as np
import pytest

import nbfused as nf
from tests.kernels.threads.block_programs import THREADS, Program, reference
from tests.variants import sampled


def kernel_of(text, name):
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    names = {"nf": nf}
    exec(compile(text, name, "exec"), names)
    return nf.rawkernel(names["k"])


@pytest.mark.parametrize("seed", sampled(range(10), 0, 1))
def test_a_random_kernel(seed, device):
    text = Program(seed).text
    kernel = kernel_of(text, f"<block program {seed}>")
    x = np.random.default_rng(seed).integers(0, 50, 8)
    for n in (0, 5):
        y = nf.zeros(THREADS, "int64", device=device)
        kernel((1,), (THREADS,), (nf.array(x, device=device), y, n))
        assert nf.to_numpy(y).tolist() == reference(text, x.tolist(), n), text
