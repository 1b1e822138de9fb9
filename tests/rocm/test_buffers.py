"""Programs on buffers of a device, which a compiler of another library hands over."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.arrays.libraries.xla import XLA
from nbfused.kernels.fusing.buffers.tracing import trace_on_buffers
from nbfused.kernels.fusing.fused import Fused

TABLE = np.array([1.0, -2.0, 3.0, 0.5], np.float32)
X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(6, 4)


def centred(x, rate, table):
    steps = np.arange(4, dtype=np.float32)  # a constant of the program
    y = np.tanh(x*rate) * table + steps
    return y - y.mean(axis=0), (y*y).sum()


@pytest.fixture
def program():
    return trace_on_buffers(Fused, centred, "centred", [
        (X.shape, X.dtype), 0.75, (TABLE.shape, TABLE.dtype)])


def test_it_runs_at_the_addresses_of_each_call(program):
    device, started = "rocm:0", None
    for k in range(4):
        given = [nf.array(x, device=device) for x in (X + k, TABLE)]
        made = [nf.empty(shape, dtype, device) for shape, dtype in program.results]
        scratch = nf.empty((program.scratch,), "uint8", device)
        pointers = tuple([a.pointer for a in (*given, *made, scratch)])
        XLA.use(0)
        if started is None:
            started = program.run(pointers, device, 0)
        else:
            started[0](pointers, started[1])
        for a, b in zip(made, centred(X + k, 0.75, TABLE), strict=True):
            np.testing.assert_allclose(a.to_numpy(), b, rtol=1e-5, atol=1e-5)
    assert started is not None
