"""Operations inside the compilers of PyTorch and JAX on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops

pytestmark = pytest.mark.cuda

X = np.linspace(-2.0, 2.0, 64 * 96, dtype=np.float32).reshape(64, 96)


def tensors():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch has no CUDA")
    torch._dynamo.reset()
    return torch


def jax_on_gpu():
    jax = pytest.importorskip("jax")
    try:
        return jax, jax.devices("gpu")[0]
    except RuntimeError:
        pytest.skip("JAX has no GPU")


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_a_compiled_block(mode):
    torch = tensors()

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.eye(96, device="cuda") * 0.5)

        def forward(self, x):
            y = ops.linear(ops.swish(x), self.weight, activation="gelu")
            return ops.softmax(y + 1.0)

    block, x = Block(), torch.tensor(X, device="cuda")
    compiled = torch.compile(block, fullgraph=True, mode=mode)
    for step in range(5):  # the third is a replay
        given = x + step
        block.weight.grad = None
        expected = block(given)
        expected.square().sum().backward()
        gradient, block.weight.grad = block.weight.grad, None
        torch.compiler.cudagraph_mark_step_begin()
        found = compiled(given)
        found.square().sum().backward()
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(block.weight.grad, gradient)


def test_a_fused_function_in_jax():
    """Its plan runs on XLA's stream, in memory of XLA's."""
    jax, device = jax_on_gpu()
    jnp = jax.numpy

    def body(library, x, w):
        y = library.tanh(x*w + 1)
        return ((y - y.mean(axis=0))**2).sum(axis=1)

    fused = nf.fuse(lambda x, w: body(np, x, w))
    x, w = (jax.device_put(a, device) for a in (X, X[0] + 3))

    def gradients(f):
        return jax.jit(jax.grad(lambda x, w: (f(jnp.sin(x), w)**2).sum(), (0, 1)))

    run, back = jax.jit(fused), gradients(fused)
    expected = jax.jit(lambda x, w: body(jnp, x, w))
    for k in range(5):  # the first two make the plan
        np.testing.assert_allclose(run(x + k, w), expected(x + k, w), rtol=1e-4,
                                   atol=1e-4)
        for a, b in zip(back(x + k, w), gradients(expected)(x + k, w), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


def test_on_a_side_stream():
    torch = tensors()
    compiled = torch.compile(lambda x: ops.swish(x * 2.0) + 1.0, fullgraph=True)
    x = torch.randn(1 << 22, device="cuda")
    compiled(x)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        found = [compiled(x) for _ in range(20)][-1]
    torch.cuda.current_stream().wait_stream(side)
    torch.testing.assert_close(found, torch.nn.functional.silu(x * 2.0) + 1.0)


def test_derivatives_of_functions():
    torch = tensors()
    x = torch.tensor(X[0], device="cuda")
    second = torch.func.vmap(torch.func.grad(torch.func.grad(ops.swish)))(x)
    torch.testing.assert_close(second, torch.func.vmap(torch.func.grad(torch.func.grad(
        torch.nn.functional.silu)))(x))


def test_inside_jax():
    jax, device = jax_on_gpu()
    jnp = jax.numpy
    with jax.default_device(device):
        x = jnp.asarray(X)

        def ours(x):
            return ops.softmax(ops.swish(x * 2.0)) + 1.0

        def theirs(x):
            return jax.nn.softmax(jax.nn.silu(x * 2.0)) + 1.0

        def loss(f):
            return lambda x: (f(x) ** 2 * jnp.arange(96.0)).sum()

        run = jax.jit(ours)
        for _ in range(20):  # a call on another stream than XLA's would be a race
            np.testing.assert_allclose(run(x), theirs(x), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(jax.jit(jax.grad(loss(ours)))(x),
                                   jax.grad(loss(theirs))(x), rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(jax.vmap(ours)(x[:, None]), theirs(x)[:, None],
                                   rtol=1e-5, atol=1e-6)
        big = jnp.ones((1 << 24,), jnp.float32)
        steps = jax.jit(lambda x: jax.lax.fori_loop(
            0, 50, lambda k, y: ops.add(y * 1.0, 1.0), x))
        np.testing.assert_array_equal(steps(big), np.full(1 << 24, 51, np.float32))
