"""Operations inside the transforms of torch.func, against PyTorch's own functions."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.errors import KernelTypeError

torch = pytest.importorskip("torch")
from torch.autograd import forward_ad  # noqa: E402
from torch.func import (  # noqa: E402
    functional_call,
    grad,
    jacfwd,
    jacrev,
    jvp,
    vjp,
    vmap,
)

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


#: By name: a function of ours, and PyTorch's.
FORWARD = {
    "map": (ops.swish, F.silu),
    "number": (lambda x: ops.swish(x, 2.0), lambda x: x * torch.sigmoid(2.0 * x)),
    "row": (ops.softmax, softmax),
    "reduction": (ops.logsumexp, lambda x: torch.logsumexp(x, 0)),
    "linear": (ops.sum, torch.sum),
    "product": (lambda x: ops.matmul(x[:, None], x[None], epilogue="tanh"),
                lambda x: torch.tanh(x[:, None] @ x[None])),
    "view": (lambda x: ops.getitem(x, slice(None, None, -2)), lambda x: x.flip(0)[::2]),
    "table": (lambda x: ops.sort(x * x), lambda x: torch.sort(x * x).values),
    "fused": (nf.fuse(lambda x: ops.exp(x) * ops.softmax(x)),
              lambda x: x.exp() * softmax(x)),
}


@pytest.mark.parametrize("name", FORWARD)
def test_forward_mode(name):
    ours, theirs = FORWARD[name]
    v = X.flip(0) + 3.0
    close(jvp(ours, (X,), (v,)), jvp(theirs, (X,), (v,)))
    close(jacfwd(ours)(X), jacfwd(theirs)(X))


@pytest.mark.parametrize("name", FORWARD)
@pytest.mark.parametrize("outer", [jacfwd, jacrev])
@pytest.mark.parametrize("inner", [jacfwd, jacrev])
def test_second_derivatives_by_both_modes(name, inner, outer):
    ours, theirs = (lambda x, f=f: f(x).square().sum() for f in FORWARD[name])
    close(outer(inner(ours))(X), torch.func.hessian(theirs)(X))


def test_tangents_that_the_user_makes():
    def pushed(f, x):
        with forward_ad.dual_level():
            y, tangent = forward_ad.unpack_dual(f(forward_ad.make_dual(x, X)))
            return y, tangent, torch.autograd.grad(tangent.sum(), x)[0]

    def plain(x):
        return x.exp() / x.exp().sum()

    x = (X + 1.0).requires_grad_()
    close(pushed(ops.softmax, x), pushed(plain, x))
    with forward_ad.dual_level():
        kinds = forward_ad.unpack_dual(ops.greater(forward_ad.make_dual(X, X), 0.0))
        assert kinds.tangent is None
        with forward_ad._set_fwd_grad_enabled(False):
            assert forward_ad.unpack_dual(
                ops.swish(forward_ad.make_dual(X, X))).tangent is None


@pytest.mark.parametrize("name", ["map", "row", "product", "table", "fused"])
def test_forward_mode_of_the_tape(name):
    """Tensors that have a tangent and require grad, against differences."""
    x = (X + 0.3).requires_grad_()
    assert torch.autograd.gradcheck(FORWARD[name][0], x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(FORWARD[name][0], x, check_fwd_over_rev=True)


@pytest.mark.parametrize("name", ["map", "row", "table"])
def test_forward_mode_in_compiled_code(name):
    torch._dynamo.reset()
    ours, theirs = FORWARD[name]
    compiled = torch.compile(lambda x, v: jvp(ours, (x,), (v,)), fullgraph=True,
                             backend="aot_eager")
    close(compiled(X, X + 3.0), jvp(theirs, (X,), (X + 3.0,)))


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
    with pytest.raises(KernelTypeError, match=r"torch\.jit\.trace"):
        torch.jit.trace(op, (x,))
    two = nf.rawkernel(differentiable=True)(_sum).as_op(
        outputs={"z": "x"}, block=64, grid=1)
    with pytest.raises(KernelTypeError, match="belong to two tapes"):
        two(x, nf.Variable(X.clone()))


@nf.rawkernel(differentiable=True)
def scaled_cube(x, s, y):
    i = nf.grid(1)
    if i < x.shape[0]:
        y[i] = s * x[i] * x[i] * x[i]


SCALED = scaled_cube.as_op(outputs={"y": "x"}, block=64, grid=1)


@pytest.mark.parametrize("transform", [
    lambda f: grad(lambda x: f(x).sum())(X),
    lambda f: grad(lambda x: grad(lambda x: f(x).sum())(x).sum())(X),
    lambda f: jvp(f, (X,), (X,)), lambda f: jacfwd(f)(X), lambda f: jacrev(f)(X),
    lambda f: vmap(f)(W.T), lambda f: vmap(f, 1)(W), lambda f: vmap(vmap(f))(W.T[None]),
    lambda f: vmap(grad(lambda x: f(x).square().sum()), 1)(W),
    lambda f: grad(lambda x: vmap(f)(x).square().sum())(W.T),
    lambda f: torch.compile(vmap(f), fullgraph=True, backend="aot_eager")(W.T)])
def test_transforms_of_a_kernel_of_threads(transform):
    close(transform(lambda x: SCALED(x, 2.0)), transform(lambda x: 2.0 * x ** 3))


def _sum(x, y, z):
    i = nf.grid(1)
    if i < x.shape[0]:
        z[i] = x[i] + y[i]


def test_versions_that_are_too_old_are_named(monkeypatch):
    from nbfused.autograd.compilers import torch_names, torch_ops
    from nbfused.errors import UnsupportedError

    monkeypatch.delattr(torch.library, "register_vmap")
    # Not the one that is known: without it all ops would be gone.
    monkeypatch.setattr(torch_ops, "library", torch_names.library.__wrapped__)
    with pytest.raises(UnsupportedError, match=r"register_vmap.*PyTorch 2\.5 or later"):
        vmap(nf.elementwise(lambda x: x * 17.0))(X)


@nf.fuse
def spread(x, y):
    z = np.exp(x) * np.mean(y)
    return {"z": z, "std": z.std()}


@pytest.mark.parametrize("ours", [
    softmax, lambda x: ops.softmax(x), lambda x: spread(x, x)["z"]],
    ids=["torch", "op", "fused"])
@pytest.mark.parametrize("transform", [
    lambda f: grad(lambda x: (x * f(W)).sum())(W),
    lambda f: jvp(lambda x: x * f(W), (W,), (W,))[1],
    lambda f: grad(lambda x: (x * f(torch.ones(5, 3).double())).sum())(W),
    lambda f: grad(lambda x: vmap(lambda r: (r * f(X)[:3]).sum())(x).sum())(W),
    lambda f: torch.func.functionalize(lambda x: x * f(W))(W)])
def test_tensors_that_a_transform_does_not_follow(transform, ours):
    known = ours(W), ours(X)  # the plans of later calls are made
    held = {(5, 3): known[0], (5,): known[1]}

    def constant(x):
        return ours(x) if x is W or x is X else ours(x.clone())

    ones = ours(torch.ones(5, 3).double())
    close(transform(constant), transform(
        lambda x: held[tuple(x.shape)] if x is W or x is X else ones))


def test_a_parameter_that_a_transform_does_not_follow():
    w = W.clone().requires_grad_()
    made = grad(lambda x: (x * ops.softmax(w)).sum())(W)
    made[:, 0].sum().backward()
    found, w.grad = w.grad, None
    softmax(w)[:, 0].sum().backward()
    close(found, w.grad)


@pytest.mark.parametrize("transform", [
    lambda f: grad(lambda x: f(x, W))(W), lambda f: jacrev(jacfwd(f))(W, W),
    lambda f: vmap(f)(W, W), lambda f: vmap(grad(f, 1))(W, W)])
def test_functions_of_numpy_in_a_fused_one(transform):
    def ours(x, y):
        made = spread(x, y=y)
        return (made["z"] * x).sum() * made["std"]

    def theirs(x, y):
        z = x.exp() * y.mean()
        return (z * x).sum() * z.std()  # with PyTorch's correction

    close(transform(ours), transform(theirs))


def test_a_fused_function_that_changes_its_argument_is_not_run_twice():
    @nf.fuse
    def changing(x):
        x += 1
        return np.tanh(x)

    with pytest.raises(KernelTypeError, match=r"changing failed .* call nf\.ops"):
        vmap(changing)(W.clone())


@pytest.mark.parametrize(("ours", "theirs"), [
    (ops.swish, F.silu), (ops.softmax, softmax), (lambda x: x * ops.sum(x), None),
    (lambda x: ops.linear(x, x.T), lambda x: x @ x.T)])
def test_cotangents_that_pytorch_only_marks(ours, theirs):
    theirs = theirs or (lambda x: x * x.sum())

    def weighted(f):
        return lambda x: (f(x) * torch.arange(1.0, f(x).shape[-1] + 1)).sum()

    # Zeros without memory.
    close(jacrev(jacfwd(weighted(ours)))(W), jacrev(jacrev(weighted(theirs)))(W))
    for create_graph in (False, True):
        made = []
        for f in (ours, theirs):
            x = W.clone().requires_grad_()
            y = f(x) * 1.0
            y.register_hook(torch._neg_view)
            made += torch.autograd.grad(weighted(lambda _, y=y: y)(x), x,
                                        create_graph=create_graph)
        close(*made)
