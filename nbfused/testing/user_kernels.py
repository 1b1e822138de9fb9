"""Kernels as users write them, run on a device and compared with NumPy.

Each is small, stands for one way to write a kernel, and checks its derivative where
there is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import nbfused as nf

from ..support.records import record

__all__ = ["KERNELS", "KernelCheck"]


@record(frozen=True)
class KernelCheck:
    """A check of one kind of kernel; a call raises `AssertionError`.

    Attributes
    ----------
    devices
        How names of devices begin that can run it.
    """

    name: str
    run: Callable[[str], None]
    devices: str = ""

    def __str__(self) -> str:
        return f"kernel-{self.name}"

    def __call__(self, device: str = "cpu") -> None:
        """Run the check on a device."""
        self.run(device)


@nf.elementwise
def newton_sqrt(a):
    y = a
    while abs(y * y - a) > 1e-5 * a:
        y = 0.5 * (y + a / y)
    return y


def _elementwise(device: str) -> None:
    """Differentiate through a loop whose length depends on the data."""
    a = np.linspace(0.5, 9.0, 70, dtype=np.float32)
    x = nf.Variable(nf.array(a, device=device), requires_grad=True)
    y = newton_sqrt(x)
    y.sum().backward()
    _close(y.data, np.sqrt(a), 1e-4)
    _close(x.grad, 0.5 / np.sqrt(a), 1e-3)


@nf.elementwise
def cube(x):
    return x * x * x


def _second_derivative(device: str) -> None:
    a = np.linspace(-2.0, 2.0, 9)
    twice = nf.grad(lambda x: nf.grad(lambda y: cube(y).sum())(x).sum())
    _close(twice(nf.array(a, device=device)), 6 * a, 1e-12)


@nf.reduction(combine="sum", post=math.sqrt)
def l2norm(x):
    return x * x


def _reduction(device: str) -> None:
    a = _draw(5, 300)
    norm = np.sqrt((a * a).sum(axis=1))
    x = nf.Variable(nf.array(a, device=device), requires_grad=True)
    y = l2norm(x, axis=1)
    y.sum().backward()
    _close(y.data, norm, 1e-5)
    _close(x.grad, a / norm[:, None], 1e-5)


@nf.row
def softmax(x):
    @nf.stage("max", detach=True)
    def top(x):
        return x

    @nf.stage("sum")
    def total(x, top):
        return math.exp(x - top)

    return math.exp(x - top) / total


def _row(device: str) -> None:
    a, g = _draw(4, 130), _draw(4, 130, seed=1)
    e = np.exp(a - a.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    x = nf.Variable(nf.array(a, device=device), requires_grad=True)
    y = softmax(x)
    y.backward(nf.array(g, device=device))
    _close(y.data, p, 1e-5)
    _close(x.grad, p * (g - (p * g).sum(axis=1, keepdims=True)), 1e-4)


@nf.contraction("mk,kn->mn")
def matmul_add_relu(acc, bias):
    return max(acc + bias, 0.0)


def _contraction(device: str) -> None:
    """Multiply matrices with an epilogue, and differentiate by all three."""
    a, b, c = _draw(33, 40), _draw(40, 17, seed=1), _draw(17, seed=2)
    z = a @ b + c
    x, w, bias = (nf.Variable(nf.array(v, device=device), requires_grad=True)
                  for v in (a, b, c))
    y = matmul_add_relu(x, w, bias)
    y.sum().backward()
    g = (z > 0).astype(np.float32)
    _close(y.data, np.maximum(z, 0), 1e-4)
    _close(x.grad, g @ b.T, 1e-4)
    _close(w.grad, a.T @ g, 1e-4)
    _close(bias.grad, g.sum(axis=0), 1e-4)


@nf.fuse
def distance(a, b):
    return np.sqrt(((a - b) ** 2).sum(axis=-1))


def _fuse(device: str) -> None:
    a, b = _draw(6, 50), _draw(6, 50, seed=1)
    expected = np.sqrt(((a - b) ** 2).sum(axis=-1))
    x, y = (nf.array(v, device=device) for v in (a, b))
    with nf.trace_launches() as launches:
        _close(distance(x, y), expected, 1e-5)
    assert len(launches) == 1, f"{len(launches)} launches, not 1"
    gradient = nf.grad(lambda x: distance(x, y).sum())(x)
    _close(gradient, (a - b) / expected[:, None], 1e-5)


@nf.fuse
def loss_and_gradients(x, labels, bias):
    def loss(x, bias):
        return nf.ops.cross_entropy(x + bias, labels)

    return nf.value_and_grad(loss, argnums=(0, 1))(x, bias)


def _fused_loss(device: str) -> None:
    """Sum a row's elements, all rows and each column in one launch."""
    a, bias, labels = _draw(6, 7), _draw(7, seed=1), np.arange(6)
    e = np.exp(a + bias)
    p = e / e.sum(axis=1, keepdims=True)
    slope = (p - np.eye(6, 7)) / 6
    with nf.trace_launches() as launches:
        loss, (dx, db) = loss_and_gradients(
            *(nf.array(v, device=device) for v in (a, labels, bias)))
    _close(loss, -np.log(p[labels, labels]).mean(), 1e-5)
    _close(dx, slope, 1e-5)
    _close(db, slope.sum(axis=0), 1e-5)
    assert len(launches) == 1, f"{len(launches)} launches, not 1"


@nf.rawkernel
def block_sums(x, total):
    shared = nf.shared.array(64, "float32")
    t = nf.threadIdx.x
    i = nf.grid(1)
    shared[t] = x[i] if i < x.shape[0] else 0.0
    nf.syncthreads()
    step = 32
    while step > 0:
        if t < step:
            shared[t] += shared[t + step]
        nf.syncthreads()
        step //= 2
    if t == 0:
        nf.atomic.add(total, 0, shared[0])


def _rawkernel(device: str) -> None:
    """Sum blocks in shared memory, with barriers and an atomic addition."""
    a = np.arange(150, dtype=np.float32)
    total = nf.zeros(1, "float32", device=device)
    block_sums[3, 64](nf.array(a, device=device), total)
    _close(total, a.sum(keepdims=True), 0.0)


@nf.rawkernel(differentiable=True)
def square(x, y):
    i = nf.grid(1)
    if i < x.shape[0]:
        y[i] = x[i] * x[i]


def _rawkernel_gradient(device: str) -> None:
    a = np.arange(40, dtype=np.float32)
    x, g = nf.array(a, device=device), nf.array(np.ones_like(a), device=device)
    y, dx = (nf.zeros(40, "float32", device=device) for _ in range(2))
    square[2, 32](x, y)
    _close(y, a * a, 0.0)
    square.bwd((2,), (32,), ((x, dx), (y, g)))
    _close(dx, 2 * a, 0.0)


squared_diff = nf.ElementwiseKernel(
    "T x, T y", "T z", "T d = x - y; z = d * d", "squared_diff")
largest = nf.ReductionKernel("T x", "T y", "abs(x)", "max(a, b)", "y = a", "0",
                             "largest")


def _elementwise_kernel(device: str) -> None:
    a = _draw(90)
    x = nf.array(a, device=device)
    _close(squared_diff(x, 1.0), (a - 1) ** 2, 1e-6)
    _close(nf.grad(lambda x: squared_diff(x, 1.0).sum())(x), 2 * (a - 1), 1e-6)


def _reduction_kernel(device: str) -> None:
    a = _draw(7, 60)
    _close(largest(nf.array(a, device=device), axis=1), np.abs(a).max(axis=1), 0.0)


def _cuda_source(device: str) -> None:
    add = nf.RawKernel("""extern "C" __global__
        void add(const float* a, const float* b, float* y) {
            int i = blockDim.x * blockIdx.x + threadIdx.x;
            y[i] = a[i] + b[i];
        }""", "add")
    a, b = _draw(64), _draw(64, seed=1)
    y = nf.zeros(64, "float32", device=device)
    add((2,), (32,), (nf.array(a, device=device), nf.array(b, device=device), y))
    _close(y, a + b, 0.0)


def _optimizer(device: str) -> None:
    p, g = _draw(50), _draw(50, seed=1)
    param, grad = (nf.array(v, device=device) for v in (p, g))
    m, v = (nf.zeros(50, "float32", device=device) for _ in range(2))
    nf.ops.adam_step(param, grad, m, v, lr=0.1, step=1)
    _close(param, p - 0.1 * np.sign(g), 1e-4)  # what Adam's first step is, but for eps
    _close(m, 0.1 * g, 1e-5)


def _random(device: str) -> None:
    """Drop the same elements as on the CPU: the generator counts, it keeps no state."""
    ones = np.ones(1000, np.float32)
    dropped = nf.to_numpy(nf.ops.dropout(nf.array(ones, device=device), 0.25, 7))
    zeros = np.flatnonzero(dropped == 0).tolist()
    assert (zeros[:6], len(zeros)) == ([2, 8, 13, 14, 15, 20], 265), zeros
    _close(dropped, np.where(dropped == 0, 0, 4 / 3), 1e-6)


#: One check for each way to write a kernel.
KERNELS = (
    *(KernelCheck(name, run) for name, run in {
        "elementwise": _elementwise, "second-derivative": _second_derivative,
        "reduction": _reduction, "row": _row, "contraction": _contraction,
        "fuse": _fuse, "fused-loss": _fused_loss, "rawkernel": _rawkernel,
        "rawkernel-gradient": _rawkernel_gradient,
        "ElementwiseKernel": _elementwise_kernel, "ReductionKernel": _reduction_kernel,
        "optimizer": _optimizer, "random": _random}.items()),
    KernelCheck("RawKernel", _cuda_source, "cuda"))


def _draw(*shape: int, seed: int = 0) -> np.ndarray:
    """Draw float32 values, the same in every process."""
    rng = np.random.default_rng(seed)
    return rng.uniform(-2.0, 2.0, shape).astype(np.float32)


def _close(found: object, expected: np.ndarray, tolerance: float) -> None:
    """Assert that a device's array is near NumPy's, relative to its largest element."""
    scale = float(np.abs(expected).max(initial=1.0))
    np.testing.assert_allclose(nf.to_numpy(found), expected, rtol=0,
                               atol=tolerance * scale)
