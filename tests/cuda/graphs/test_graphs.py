"""Sequences of our operations in CUDA graphs: captured once, replayed on other data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.cuda import CudaBackend

pytestmark = pytest.mark.cuda

RNG = np.random.default_rng(5)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


X, W, B = normal(96, 512), normal(512, 160), normal(160)
LONG = normal(1 << 21)
LABELS = RNG.integers(0, 512, 96)


@nf.rawkernel
def shifted(x, y):
    for i in range(nf.grid(1), x.shape[0], nf.gridsize(1)):
        y[i] = x[(i + 1) % x.shape[0]]


def run_shifted(x):
    y = ops.empty_like(x)
    shifted((32,), (128,), (x, y))
    return y


def trained(x, w, b):
    """Forward and backward through rows, a product and sums."""
    leaves = [nf.Variable(a, requires_grad=True) for a in (x, w, b)]
    v, u, c = leaves
    loss = ops.swish(ops.softmax(v) @ u + c).sum()
    loss.backward()
    return (loss.data, *(leaf.grad for leaf in leaves))


def gathered(x, labels):
    """The cotangent of what is read by index is added up in memory set to zero."""
    v = nf.Variable(x, requires_grad=True)
    ops.take(v, labels, axis=0).sum().backward()
    return v.grad


#: What is captured, and its arrays; those of integers stay.
PROGRAMS = {
    "map": (ops.swish, (X,)),
    "few long rows": (ops.softmax, (LONG.reshape(2, -1),)),
    "in place": (lambda x: ops.swish(x * 2.0, out=ops.empty_like(x)), (X,)),
    "sum in two steps": (ops.sum, (LONG,)),
    "columns": (lambda x: ops.sum(x, axis=0), (X,)),
    "rows": (lambda x: ops.layer_norm(x, x[0], x[1]), (X,)),
    "cross entropy": (ops.cross_entropy, (X, LABELS)),
    "product": (lambda x, w, b: ops.linear(x, w, b), (X, W, B)),
    "product of shared tiles": (ops.matmul, (normal(1000, 1024), normal(1024, 1000))),
    "copies": (lambda x: ops.concatenate([x.T, x.T * 2.0], axis=1), (X,)),
    "raw kernel": (run_shifted, (LONG,)),
    "backward": (trained, (X, W, B)),
    "scatter": (gathered, (X, LABELS % 96)),
}


def results(made):
    return made if isinstance(made, tuple) else (made,)


def check_replays(program, arrays, hosts, replay, captured, fill):
    """Replay on the data of the capture, then on other data."""
    for factor in (1.0, 0.5, -2.0):
        for array, host in zip(arrays, hosts, strict=True):
            if host.dtype.kind == "f":
                fill(array, host * np.float32(factor))
        replay()
        found = [nf.to_numpy(a).copy() for a in results(captured)]
        for got, want in zip(found, results(program(*arrays)), strict=True):
            np.testing.assert_allclose(got, nf.to_numpy(want), rtol=2e-4, atol=2e-3)


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_graphs_of_torch(name, warm):
    torch = pytest.importorskip("torch")
    program, hosts = PROGRAMS[name]
    arrays = [torch.from_numpy(np.ascontiguousarray(h)).cuda() for h in hosts]
    if warm:
        program(*arrays)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = program(*arrays)

    def replay():
        graph.replay()
        torch.cuda.synchronize()

    check_replays(program, arrays, hosts, replay, captured,
                  lambda array, host: array.copy_(torch.from_numpy(host)))


FIRST = """
import torch
from nbfused import ops

x = torch.rand(1 << 22, device="cuda") - 0.5
rows = x.reshape(1024, 4096)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    total, normal = ops.sum(x*x), ops.layer_norm(rows, rows[0], rows[1])
graph.replay()
torch.cuda.synchronize()
want = torch.nn.functional.layer_norm(rows, (4096,), rows[0], rows[1])
assert torch.allclose(total, (x*x).sum(), rtol=1e-4)
assert torch.allclose(normal, want, atol=1e-4)
"""


def test_the_first_call_of_a_process_may_be_captured():
    """Nothing that happens once, or for all calls alike, may spoil the capture."""
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, "-c", FIRST], text=True, check=False,
                          capture_output=True, cwd=Path(__file__).parents[3])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_graphs_of_cupy(name):
    cupy = pytest.importorskip("cupy")
    program, hosts = PROGRAMS[name]
    arrays = [cupy.asarray(h) for h in hosts]
    program(*arrays)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        program(*arrays)
        stream.synchronize()
        stream.begin_capture()
        captured = program(*arrays)
        graph = stream.end_capture()

    def replay():
        cupy.cuda.Device().synchronize()
        graph.launch(stream)
        stream.synchronize()

    check_replays(program, arrays, hosts, replay, captured,
                  lambda array, host: array.set(host))


def test_an_array_that_dies_spoils_no_capture():
    torch = pytest.importorskip("torch")
    own = [CudaBackend().from_host(X, "cuda:0")]
    x = torch.from_numpy(X).cuda()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        own.clear()
        y = ops.swish(x)
    graph.replay()
    torch.testing.assert_close(y, ops.swish(x), rtol=0, atol=0)
    again = CudaBackend().from_host(X, "cuda:0")  # in its place
    np.testing.assert_array_equal(again.to_numpy(), X)


def test_products_of_16_bits_in_a_graph():
    torch = pytest.importorskip("torch")
    a, b = (torch.randn(512, 512, device="cuda", dtype=torch.bfloat16)
            for _ in range(2))
    ops.matmul(a, b)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = ops.matmul(a, b)
    a.copy_(torch.randn_like(a))
    graph.replay()
    torch.testing.assert_close(c, ops.matmul(a, b), rtol=0, atol=0)
