"""Functions with a rule of the user's inside PyTorch and JAX.

The rules are no derivatives of their functions, so that it shows which was taken.
"""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.errors import KernelTypeError, NotDifferentiableError


@nf.custom_vjp
def bent(x, n):
    return np.exp(x) * n


bent.defvjp(lambda x, n: (bent(x, n), x), lambda x, g: (np.sin(x) * g, None))


@nf.custom_vjp
def pair(x, y):
    return ops.exp(x) * y, x + y


pair.defvjp(lambda x, y: (pair(x, y), (x, y)),
            lambda r, g: (g[0] * r[1] + g[1], g[1] * 7.0))


@nf.custom_jvp
def pushed(x):
    return np.exp(x)


@pushed.defjvp
def _(primals, tangents):
    return pushed(primals[0]), tangents[0] * np.sin(primals[0])


class Tripled(nf.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return ops.exp(x)

    @staticmethod
    def backward(ctx, g):
        return g * ops.sin(ctx.saved_tensors[0])


X = np.linspace(-1.0, 2.0, 4)
#: By name: a function whose values are those of exp, and whose derivative is sin.
FUNCTIONS = {"vjp": lambda x: bent(x, 1.0), "jvp": pushed, "class": Tripled.apply}
GRADIENTS = np.sin(X), np.cos(X)


def close(found, expected):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
class TestInPytorch:
    def test_on_its_tape(self, name):
        torch = pytest.importorskip("torch")
        x = torch.tensor(X, requires_grad=True)
        y = FUNCTIONS[name](x)
        close(y.detach(), np.exp(X))
        (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        close(first.detach(), GRADIENTS[0])
        close(second, GRADIENTS[1])

    def test_transformed(self, name):
        torch = pytest.importorskip("torch")
        func, function, x = torch.func, FUNCTIONS[name], torch.tensor(X)
        close(func.grad(lambda x: function(x).sum())(x), GRADIENTS[0])
        close(func.vmap(func.grad(function))(x), GRADIENTS[0])
        close(func.jacfwd(function)(x), np.diag(GRADIENTS[0]))
        close(func.vmap(function)(x.reshape(2, 2)), np.exp(X).reshape(2, 2))


@pytest.mark.parametrize("name", ["vjp", "jvp"])
def test_compiled_by_pytorch(name):
    torch = pytest.importorskip("torch")
    torch._dynamo.reset()
    compiled = torch.compile(FUNCTIONS[name], fullgraph=True, backend="aot_eager")
    x = torch.tensor(X, requires_grad=True)
    compiled(x).sum().backward()
    close(x.grad, GRADIENTS[0])


def test_several_results_in_pytorch():
    torch = pytest.importorskip("torch")
    x, y = (torch.tensor(X, requires_grad=True) for _ in range(2))
    a, b = pair(x, y)
    (a * 2.0 + b * 3.0).sum().backward()
    close(x.grad, 2.0 * X + 3.0)
    close(y.grad, np.full(4, 21.0))


def test_refusals_in_pytorch():
    torch = pytest.importorskip("torch")
    x = torch.tensor(X, requires_grad=True)
    with pytest.raises(KernelTypeError, match="argument 0 is a tuple of arrays"):
        pair((x, x), 2.0)
    with pytest.raises(KernelTypeError, match="argument 1 is a list beside"):
        bent(x, [2.0])
    with pytest.raises(KernelTypeError, match="expected tensors only"):
        pair(x, X)
    with pytest.raises(NotDifferentiableError, match="has no derivative yet"):
        nf.custom_vjp(lambda x: x * 2.0)(x).sum().backward()


@pytest.fixture
def jax():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        yield jax


@pytest.mark.parametrize("name", ["vjp", "jvp"])
def test_in_jax(jax, name):
    function, x = FUNCTIONS[name], jax.numpy.asarray(X)
    close(jax.jit(function)(x), np.exp(X))
    close(jax.jit(jax.grad(lambda x: function(x).sum()))(x), GRADIENTS[0])
    close(jax.vmap(jax.grad(function))(x), GRADIENTS[0])
    close(jax.vmap(jax.grad(jax.grad(function)))(x), GRADIENTS[1])
    if name == "jvp":
        close(jax.jacfwd(function)(x), np.diag(GRADIENTS[0]))


def test_several_results_in_jax(jax):
    x = jax.numpy.asarray(X)

    def loss(x, y):
        a, b = pair(x, y)
        return (a * 2.0 + b * 3.0).sum()

    found = jax.jit(jax.grad(loss, (0, 1)))(x, x)
    close(found[0], 2.0 * X + 3.0)
    close(found[1], np.full(4, 21.0))


def test_refusals_in_jax(jax):
    x = jax.numpy.asarray(X)
    with pytest.raises(KernelTypeError, match=r"Tripled.*use nbfused\.custom_vjp"):
        jax.jit(Tripled.apply)(x)
    with pytest.raises(NotDifferentiableError, match="has no derivative yet"):
        jax.grad(lambda x: nf.custom_vjp(lambda x: x * 2.0)(x).sum())(x)
    given = x + 0.0
    given.delete()
    with pytest.raises(KernelTypeError, match=r"was deleted: .*donate_argnums"):
        ops.swish(given)
