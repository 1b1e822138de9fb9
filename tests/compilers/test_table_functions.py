"""NumPy's functions of `nf.ops` on arrays that PyTorch or JAX differentiates or traces.

The oracle is the gradient on our own tape, which has tests of its own.
"""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.errors import TapeError

torch = pytest.importorskip("torch")

FUNCTIONS = {
    "swapaxes": lambda x: ops.swapaxes(x, 0, 1),
    "diff": ops.diff,
    "pad": lambda x: ops.pad(x, 1, mode="reflect"),
    "concatenate": lambda x: ops.concatenate([x, x * x]),
    "stack": lambda x: ops.stack([x, x * x], axis=1),
    "einsum": lambda x: ops.einsum("ij,kj->ik", x, x),
    "trace": ops.trace,
    "tril": ops.tril,
    "roll": lambda x: ops.roll(x, 1, axis=0),
    "cumsum": lambda x: ops.cumsum(x, axis=0),
    "median": lambda x: ops.median(x, axis=0),
    "sort": lambda x: ops.sort(x, axis=1),
    "inv": lambda x: ops.linalg.inv(x),
    "svdvals": lambda x: ops.linalg.svd(x)[1],
    "compress": lambda x: ops.compress([True, False, True, True], x, axis=1),
    "rot90": ops.rot90,
    "gradient": lambda x: ops.gradient(x, axis=0),
    "split": lambda x: ops.split(x, 2)[1],
    "degrees": ops.degrees,
    "modf": lambda x: ops.modf(x)[0],
    "copysign": lambda x: ops.copysign(x, ops.flip(x)),
    "diff of a constant": lambda x: ops.diff(x, prepend=1.0),
    "insert": lambda x: ops.insert(x, 1, 5.0, axis=0),
    "linspace": lambda x: ops.linspace(x[0], x[1], 4),
}
X = np.random.default_rng(5).standard_normal((4, 4)) + 3*np.eye(4)


def weighted(made):
    """A sum in which each element has a weight."""
    k = np.arange(1.0, 1 + np.prod(tuple(made.shape))).reshape(tuple(made.shape))
    return made * made * (torch.tensor(k) if isinstance(made, torch.Tensor) else k)


def ours(function):
    return nf.grad(lambda x: weighted(function(x)).sum())(X)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_by_pytorch(name):
    x = torch.tensor(X, requires_grad=True)
    weighted(FUNCTIONS[name](x)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), ours(FUNCTIONS[name]), rtol=1e-10,
                               atol=1e-10)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives_by_pytorch(name):
    x = torch.tensor(X, requires_grad=True)
    assert torch.autograd.gradgradcheck(
        lambda x: weighted(FUNCTIONS[name](x)).sum(), (x,))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_by_jax(name):
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        loss = jax.jit(jax.grad(lambda x: weighted(FUNCTIONS[name](x)).sum()))
        np.testing.assert_allclose(np.asarray(loss(jax.numpy.asarray(X))),
                                   ours(FUNCTIONS[name]), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_transforms_of_pytorch(name):
    """The gradient of each of two samples, by functions of the library itself."""
    many = np.stack([X, 2*X])
    found = torch.func.vmap(torch.func.grad(
        lambda x: weighted(FUNCTIONS[name](x)).sum()))(torch.tensor(many))
    expected = [nf.grad(lambda x: weighted(FUNCTIONS[name](x)).sum())(x) for x in many]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-9)


def test_samples_by_pytorch():
    x = torch.tensor(np.stack([X, 2*X]))
    found = torch.func.vmap(lambda x: ops.roll(ops.swapaxes(x, 0, 1), 1, axis=0))(x)
    np.testing.assert_array_equal(found.numpy(), np.stack(
        [np.roll(X.T, 1, axis=0), np.roll(2*X.T, 1, axis=0)]))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_the_compiler_of_pytorch(name, dynamic):
    torch._dynamo.reset()
    x = torch.tensor(X, requires_grad=True)
    compiled = torch.compile(FUNCTIONS[name], fullgraph=True, backend="aot_eager",
                             dynamic=dynamic)
    weighted(compiled(x)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), ours(FUNCTIONS[name]), rtol=1e-10,
                               atol=1e-10)


def test_complex_gradients_are_those_of_pytorch():
    z = X + 1j*X[::-1]
    x, y = (torch.tensor(z, requires_grad=True) for _ in "xy")
    ops.linalg.inv(x).real.sum().backward()
    torch.linalg.inv(y).real.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-9)


def test_out_is_refused():
    with pytest.raises(TapeError, match="leave out= away"):
        ops.trace(torch.tensor(X, requires_grad=True),
                  out=torch.zeros((), dtype=torch.float64))


def test_a_change_in_place_is_refused():
    x = torch.tensor(X, requires_grad=True)
    with pytest.raises(TapeError, match="would not see what is stored"):
        ops.putmask(x, x > 0, 0.0)
