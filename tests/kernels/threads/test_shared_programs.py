"""Both modes of random kernels that pass numbers through shared memory agree."""

from __future__ import annotations

import os
from functools import partial

import numpy as np
import pytest

import nbfused as nf
from tests.kernels.threads.shared_programs import THREADS, Program
from tests.kernels.threads.test_block_programs import kernel_of
from tests.variants import sampled

COUNT, FIRST = (int(os.environ.get(f"NBFUSED_FUZZ{end}", default))
                for end, default in (("", 40), ("_SEED", 0)))


@pytest.mark.parametrize("seed", sampled(range(FIRST, FIRST + COUNT), FIRST))
def test_a_random_kernel(seed, device):
    text = Program(seed).text.replace("ALL", "0xffffffff")
    kernel = nf.rawkernel(kernel_of(text, f"<shared program {seed}>").pyfunc,
                          differentiable=True)
    on, random = partial(nf.array, device=device), np.random.default_rng(seed)
    for n in (1, 5):
        x, along, g = random.standard_normal((3, THREADS))
        dx, change, zero = (on(np.zeros(THREADS)) for _ in range(3))
        kernel.bwd[1, THREADS]((on(x), dx), (zero, on(g)), n)
        kernel.fwd[1, THREADS]((on(x), on(along)), (zero, change), n)
        assert nf.to_numpy(dx) @ along == pytest.approx(
            nf.to_numpy(change) @ g, rel=1e-9, abs=1e-9), text
