"""PyTorch's functions in fused functions, and their gradients, beside PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore:fuse.*decorated again")]

torch = pytest.importorskip("torch")
F = torch.nn.functional

D = torch.float64
_RNG = np.random.default_rng(11)


def _normal(*shape):
    return torch.tensor(_RNG.normal(size=shape))


X, Y, CUBE = _normal(4, 6), _normal(4, 6), _normal(2, 3, 4)
LABELS = torch.tensor([0, 5, 2, -100])
INDEX = torch.tensor([[0, 2, 1], [3, 3, 0]])
MASK = torch.tensor(_RNG.random((4, 6)) < 0.4)

#: Functions that are made of operations.
TABLE = {
    "cat": lambda x: torch.cat([x, x * 2], dim=1),
    "concat of dtypes": lambda x: torch.cat([x, torch.ones(4, 1)], -1),
    "stack": lambda x: torch.stack((x, x * x), dim=-1),
    "hstack": lambda x: torch.hstack([x, x]),
    "chunk": lambda x: torch.chunk(x, 4, dim=1)[-1],
    "split": lambda x: x.split(4, 1)[1],
    "split sizes": lambda x: torch.split(x, [1, 2, 3], dim=1)[2],
    "tensor_split": lambda x: torch.tensor_split(x, 4, dim=1)[1],
    "unbind": lambda x: x.unbind(1)[2],
    "narrow": lambda x: x.narrow(1, 2, 3),
    "select": lambda x: x.select(0, -1),
    "index_select": lambda x: x.index_select(1, torch.tensor([5, 0, 0])),
    "gather": lambda x: x.gather(0, INDEX),
    "take_along_dim": lambda x: torch.take_along_dim(
        x, torch.tensor([[1], [0], [5], [2]]), dim=1),
    "masked_fill": lambda x: x.masked_fill(MASK, float("-inf")).clamp(min=-3),
    "index": lambda x: x[torch.arange(3), torch.tensor([1, 1, 4])],
    "view": lambda x: x.view(2, -1, 3),
    "contiguous": lambda x: (x.T * 2).contiguous().view(2, 12),
    "reshape_as": lambda x: x.reshape_as(torch.zeros(6, 4)),
    "flatten": lambda x: x.reshape(2, 2, 3, 2).flatten(1, 2),
    "unflatten": lambda x: x.unflatten(1, (2, -1)),
    "squeeze": lambda x: x[:, None, :1].squeeze().squeeze(0),
    "unsqueeze": lambda x: x.unsqueeze(-1) * x[:, None],
    "permute": lambda x: x.reshape(2, 2, 6).permute(2, 0, 1),
    "transpose": lambda x: torch.transpose(x, 0, -1) @ x,
    "movedim": lambda x: x.reshape(2, 2, 6).movedim(0, -1),
    "t": lambda x: x.t() @ x,
    "expand": lambda x: x[:, :1].expand(-1, 3) + x[:1, :3].expand_as(x[:, :3]),
    "repeat": lambda x: x.repeat(2, 1, 3),
    "tile": lambda x: torch.tile(x, (2, 1)),
    "repeat_interleave": lambda x: x.repeat_interleave(2, dim=1),
    "roll": lambda x: x.roll((1, 2), (0, 1)),
    "flip": lambda x: x.flip(0, 1),
    "tril": lambda x: x.tril(1) + torch.triu(x, -1),
    "diagonal": lambda x: x.diagonal(1) * x.diag(1),
    "trace": lambda x: x[:, :4].trace(),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "tensordot": lambda x: torch.tensordot(x, x, dims=([1], [1])),
    "outer": lambda x: torch.outer(x[0], x[1]),
    "mv": lambda x: torch.mv(x, x[0]),
    "addmm": lambda x: torch.addmm(x @ x.T, x, x.T, beta=0.5, alpha=2),
    "var": lambda x: x.var(dim=1) + x.var(1, unbiased=False, keepdim=True),
    "std": lambda x: torch.std(x) + x.std(dim=-1, correction=0),
    "var_mean": lambda x: sum(torch.var_mean(x, dim=1)),
    "norm": lambda x: x.norm(dim=1) + x.norm() + torch.linalg.vector_norm(x, 1),
    "max": lambda x: x.max(1).values + x.min(dim=1)[0] + x.max(),
    "maximum": lambda x: torch.max(x, Y) * torch.min(x, Y),
    "amax": lambda x: x.amax(dim=(0, 1)),
    "cumsum": lambda x: x.cumsum(1) * torch.cumprod(x, 0),
    "clamp": lambda x: torch.clamp(x, -0.5, 0.5) + x.clamp_min(0) + x.clip(max=0.1),
    "lerp": lambda x: torch.lerp(x, Y, 0.3),
    "addcmul": lambda x: torch.addcmul(x, x, Y, value=2) + torch.addcdiv(
        x, x, Y.abs() + 1),
    **{name: (lambda f: lambda x: f(x * 3))(getattr(F, name)) for name in (
        "relu", "silu", "mish", "selu", "elu", "gelu", "leaky_relu", "softplus",
        "hardtanh", "relu6", "softsign", "tanhshrink", "logsigmoid", "hardswish")},
    "softplus of beta": lambda x: F.softplus(x * 9, beta=3.0, threshold=5.0),
    "gelu of tanh": lambda x: F.gelu(x, approximate="tanh"),
    "glu": lambda x: F.glu(x, 1),
    "softmin": lambda x: F.softmin(x, dim=1),
    "softmax": lambda x: F.softmax(x, dim=1) + F.log_softmax(x, dim=0),
    "linear": lambda x: F.linear(x, Y, Y[:, 0]),
    "layer_norm": lambda x: F.layer_norm(x, (6,), Y[0], Y[1]),
    "rms_norm": lambda x: F.rms_norm(x, (6,), Y[0], eps=1e-5),
    "normalize": lambda x: F.normalize(x, dim=1),
    "embedding": lambda x: F.embedding(INDEX, x),
    "attention": lambda x: F.scaled_dot_product_attention(
        x[None, None], x[None, None], x[None, None], is_causal=True),
    "attention with a mask": lambda x: F.scaled_dot_product_attention(
        x[None], x[None], x[None], attn_mask=MASK[:, :4] | torch.eye(4).bool()),
    "attention of nothing": lambda x: F.scaled_dot_product_attention(
        x[None], x[None], x[None], attn_mask=torch.eye(4).bool() & (
            torch.arange(4) > 1)),
    "mse_loss": lambda x: F.mse_loss(x, Y) + F.l1_loss(x, Y, reduction="sum"),
    "huber_loss": lambda x: F.huber_loss(x, Y, delta=0.7) + F.smooth_l1_loss(
        x, Y, beta=0.5, reduction="sum"),
    "with logits": lambda x: F.binary_cross_entropy_with_logits(x, (Y > 0).double()),
    "cross_entropy": lambda x: F.cross_entropy(x, LABELS, label_smoothing=0.1),
    "dropout in evaluation": lambda x: F.dropout(x, 0.5, training=False),
}
#: Functions of PyTorch's own: calls, and so is their derivative, by its tape.
CALLED = {
    "sort": lambda x: torch.sort(x, descending=True)[0] ** 2,
    "fft": lambda x: torch.fft.rfft(x).abs(),
    "conv": lambda x: F.conv1d(x[None], x[:2, None].expand(2, 4, 6)[..., :3]),
    "pool": lambda x: F.max_pool1d(x[None] * 2, 2),
    "pinv": lambda x: torch.linalg.pinv(x) * 2,
    "median": lambda x: x.median(dim=1).values * x.sum(),
    "cdist": lambda x: torch.cdist(x, x * 2),
    "kl_div": lambda x: F.kl_div(x, Y.softmax(1), reduction="batchmean"),
    "group_norm": lambda x: F.group_norm(x, 2),
    "complex": lambda x: (torch.fft.fft(x) * torch.fft.fft(x.flip(1)).conj()).real,
}


def weighted(made):
    """A loss in which each element has a weight."""
    return (made * torch.arange(1, made.numel() + 1, dtype=made.dtype).reshape(
        made.shape).sin()).sum()


def check(function, calls):
    x = X.clone().requires_grad_()
    expected = function(x)
    weighted(expected).backward()
    fused = nf.fuse(nf.value_and_grad(lambda x: weighted(function(x))))
    plain = nf.fuse(function)
    for _ in range(3):
        torch.testing.assert_close(plain(X), expected.detach())
        value, gradient = fused(X)
        torch.testing.assert_close(value, weighted(expected.detach()))
        torch.testing.assert_close(gradient, x.grad)
    kinds = [one.kind for one in fused.explain(X)]
    assert ("call" in kinds) == calls, kinds


@pytest.mark.parametrize("name", TABLE)
def test_functions_made_of_operations(name):
    check(TABLE[name], name == "cumsum")


@pytest.mark.parametrize("name", CALLED)
def test_functions_that_are_called(name):
    check(CALLED[name], True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.bool])
@pytest.mark.parametrize("function", [
    lambda x: torch.cat([x, x.double()]), lambda x: x.cumsum(0), lambda x: x.max(0)[1],
    lambda x: x.masked_fill(x > 0, 2), lambda x: torch.einsum("ij,ij->i", x, x),
    lambda x: F.relu(x.float()), lambda x: torch.stack([x, x]).sum(0)])
def test_dtypes(function, dtype):
    x = torch.tensor([[0, 1, 2], [3, 0, 1]]).to(dtype)
    try:
        expected = function(x)
    except RuntimeError:
        pytest.skip("PyTorch has it not")
    found = nf.fuse(function)(x)
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found, expected)


def test_in_place_options():
    def f(x):
        y = x * 1
        F.relu(y, inplace=True)
        return y * 2

    torch.testing.assert_close(nf.fuse(f)(X), f(X))


def test_random_numbers_are_not_differentiated():
    with pytest.raises(KernelTypeError, match="dropout draws random numbers"):
        nf.fuse(nf.grad(lambda x: F.dropout(x, 0.5).sum()))(X)


def test_what_changes_an_argument_is_refused():
    mean, var = torch.zeros(6, dtype=D), torch.ones(6, dtype=D)
    with pytest.raises(KernelTypeError, match="batch_norm changes an argument"):
        nf.fuse(lambda x, mean, var: F.batch_norm(x, mean, var, training=True))(
            X, mean, var)


def test_a_second_derivative_inside_is_of_operations():
    def loss(x):
        return F.softplus(x).var(dim=1).sum()

    x = X.clone().requires_grad_()
    (first,) = torch.autograd.grad(loss(x), x, create_graph=True)
    (first ** 2).sum().backward()
    found = nf.fuse(nf.grad(lambda x: (nf.grad(loss)(x) ** 2).sum()))(X)
    torch.testing.assert_close(found, x.grad)
