"""Operations inside the transforms of torch.func, against PyTorch's own functions."""

from __future__ import annotations

import pytest

import nbfused as nf
from nbfused import ops
from nbfused.errors import KernelTypeError

torch = pytest.importorskip("torch")
from torch.func import functional_call, grad, jacrev, jvp, vjp, vmap  # noqa: E402

F = torch.nn.functional
X = torch.linspace(-2, 2, 5, dtype=torch.float64)
W = torch.linspace(-1, 1, 15, dtype=torch.float64).reshape(5, 3)


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def softmax(x):
    return torch.softmax(x, -1)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_derivatives_of_one_sample_for_many(order, compiled):
    ours, theirs = ops.swish, F.silu
    for _ in range(order):
        ours, theirs = grad(ours), grad(theirs)
    ours = vmap(ours)
    if compiled:
        torch._dynamo.reset()
        ours = torch.compile(ours, fullgraph=True, backend="aot_eager")
    close(ours(X), vmap(theirs)(X))


def test_a_level_that_does_not_differentiate_hands_on():
    def outer(f):
        return grad(lambda a: grad(lambda b: f(a) * b)(a * 2.0))

    close(outer(ops.swish)(X[1]), outer(F.silu)(X[1]))


def test_gradients_by_sample():
    def loss(f):
        return lambda w, x: f(x, w).sum()

    ours = vmap(grad(loss(lambda x, w: ops.linear(x, w, activation="tanh"))), (None, 0))
    theirs = vmap(grad(loss(lambda x, w: torch.tanh(x @ w))), (None, 0))
    close(ours(W, W.T), theirs(W, W.T))


@pytest.mark.parametrize("axis", [0, 1])
def test_samples_along_an_axis(axis):
    close(vmap(ops.softmax, axis)(W), vmap(softmax, axis)(W))


def test_jacobians_and_their_derivatives():
    close(jacrev(ops.softmax)(X), jacrev(softmax)(X))
    close(jacrev(jacrev(lambda x: ops.softmax(x).square().sum()))(X),
          jacrev(jacrev(lambda x: softmax(x).square().sum()))(X))
    y, pull = vjp(ops.logsumexp, W)
    close(pull(torch.ones_like(y))[0], torch.softmax(W.reshape(-1), 0).reshape(5, 3))


def test_batched_cotangents_of_the_old_kind_are_refused():
    x = X.clone().requires_grad_()
    with pytest.raises(KernelTypeError, match=r"is_grads_batched=True.*torch\.func"):
        torch.autograd.grad(ops.softmax(x), x, torch.eye(5, dtype=x.dtype),
                            is_grads_batched=True)


def test_parameters_of_a_module():
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(W.clone())

        def forward(self, x):
            return ops.linear(x, self.weight, activation="tanh")

    layer = Layer()
    found = grad(lambda p: functional_call(layer, p, (X,)).sum())({"weight": W})
    close(found["weight"], grad(lambda w: torch.tanh(X @ w).sum())(W))


def test_fused_functions():
    fused = nf.fuse(lambda x, y: ops.tanh(x * y + x).sum())
    close(vmap(grad(fused))(W, W), vmap(grad(
        lambda x, y: torch.tanh(x * y + x).sum()))(W, W))


@pytest.mark.parametrize("transform", [
    lambda f: jvp(f, (X,), (X,)), lambda f: torch.func.jacfwd(f)(X),
    lambda f: torch.func.hessian(lambda x: f(x).sum())(X)])
def test_forward_mode_is_refused(transform):
    with pytest.raises(KernelTypeError, match=r"has a tangent.*use torch\.func\.vjp"):
        transform(ops.swish)


def test_a_kernel_of_threads_has_every_derivative_on_pytorchs_tape():
    @nf.rawkernel(differentiable=True)
    def cube(x, y):
        i = nf.grid(1)
        if i < x.shape[0]:
            y[i] = x[i] * x[i] * x[i]

    op = cube.as_op(outputs={"y": "x"}, block=64, grid=1)
    x = X.clone().requires_grad_()
    (first,) = torch.autograd.grad(op(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    close(first.detach(), 3 * X * X)
    close(second, 6 * X)
    with pytest.raises(KernelTypeError, match=r"torch\.func does not transform"):
        grad(lambda x: op(x).sum())(X)
    two = nf.rawkernel(differentiable=True)(_sum).as_op(
        outputs={"z": "x"}, block=64, grid=1)
    with pytest.raises(KernelTypeError, match="belong to two tapes"):
        two(x, nf.Variable(X.clone()))


def _sum(x, y, z):
    i = nf.grid(1)
    if i < x.shape[0]:
        z[i] = x[i] + y[i]


def test_versions_that_are_too_old_are_named(monkeypatch):
    from nbfused.autograd.compilers import torch_names
    from nbfused.errors import UnsupportedError

    monkeypatch.delattr(torch.library, "register_vmap")
    torch_names.library.cache_clear()
    with pytest.raises(UnsupportedError, match=r"register_vmap.*PyTorch 2\.5 or later"):
        vmap(nf.elementwise(lambda x: x * 17.0))(X)
