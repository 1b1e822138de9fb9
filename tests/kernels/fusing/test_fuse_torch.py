"""`fuse` on tensors: PyTorch's methods, and dtypes as eager PyTorch gives them."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import NbFusedError
from nbfused.kernels.fusing.pytorch.dtypes import tensor_type
from tests.variants import sampled

pytestmark = pytest.mark.interpreted

torch = pytest.importorskip("torch")

DTYPES = ("bool", "uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32",
          "float64", "complex64")
TENSORS = [torch.tensor([1, 0, 3]).to(getattr(torch, d)) for d in DTYPES]
SCALARS = [t[0] for t in TENSORS]
NUMBERS = [True, 2, 2.5, 1.5j]


PAIRS = [*itertools.product(TENSORS, [*TENSORS, *SCALARS, *NUMBERS]),
         *itertools.product(SCALARS, [*SCALARS, *NUMBERS]),
         *itertools.product(NUMBERS, [*TENSORS, *SCALARS])]


@cache
def fused(function):
    """Decorated once."""
    return nf.fuse(function)


def close(found, expected):
    """Also in dtype."""
    torch.testing.assert_close(found, expected, rtol=2e-3 if expected.dtype in (
        torch.float16, torch.bfloat16) else 1e-5, atol=1e-5)


def test_dtypes_beside_one_another():
    for a, b in PAIRS:
        expected = str(torch.result_type(a, b)).replace("complex32", "complex64")
        assert f"torch.{tensor_type((a, b))}" == expected, (a, b)


@pytest.mark.parametrize("power", [lambda x: x**2, lambda x: x**3, lambda x: x**2.0])
def test_powers(power):
    for x in TENSORS:
        if not x.is_complex():
            close(fused(power)(x), power(x))


@nf.fuse
def product(x, y):
    return x * y


@pytest.mark.parametrize(("a", "b"), [
    (TENSORS[4], TENSORS[7]), (TENSORS[7], SCALARS[8]), (SCALARS[8], TENSORS[7]),
    (TENSORS[3], 2.5), (2.5, TENSORS[3]), (TENSORS[5], TENSORS[6]), (TENSORS[0], 2),
    (SCALARS[4], TENSORS[5]), (TENSORS[4], 1.5j), (TENSORS[7], SCALARS[9])])
def test_products(a, b):
    close(product(a, b), a * b)


@pytest.mark.parametrize("function", [
    lambda x, y: (x / y, x - y, x < y, x == y, x // y),
    lambda x, y: (x ** y, torch.atan2(x, y), torch.maximum(x, y)),
    lambda x, y: (torch.where(x > y, x, y), 2 / (x + 1) + y, x * 1.5 + y)])
@pytest.mark.parametrize(("a", "b"), [
    ("int32", "int64"), ("int64", "float32"), ("uint8", "int8"), ("float16", "int32"),
    ("float16", "bfloat16")])
def test_functions_of_two(function, a, b):
    x = torch.tensor([1, 2, 3]).to(getattr(torch, a))
    y = torch.tensor([2, 2, 1]).to(getattr(torch, b))
    for found, expected in zip(fused(function)(x, y), function(x, y), strict=True):
        close(found, expected)


@pytest.mark.parametrize("function", [
    lambda x: (torch.sin(x), torch.exp(x), torch.sqrt(x), torch.sigmoid(x), -x),
    lambda x: (torch.abs(x), x.cos(), x.abs(), x.exp(), x.log1p()),
    lambda x: (x.square(), x.sum(), x.prod(), x.max(), x.logsumexp(0))])
@pytest.mark.parametrize("dtype", sampled(
    ["int32", "uint8", "float16", "float32"], "int32", "float16"))
def test_functions_of_one(function, dtype):
    x = torch.tensor([[1, 2, 3], [4, 5, 6]]).to(getattr(torch, dtype))
    for found, expected in zip(fused(function)(x), function(x), strict=True):
        close(found, expected)


METHODS = {
    "sum of an axis": lambda x: x.sum(dim=1), "sum": lambda x: x.sum(0),
    "kept": lambda x: x.mean(dim=1, keepdim=True) + x.mean(0, True),
    "axes": lambda x: (x * 2).sum(dim=[0, 2]), "tuple": lambda x: x.mean((0, 1)),
    "sum as": lambda x: x.sum(dtype=torch.float64), "argmax": lambda x: x.argmax(dim=1),
    "logsumexp": lambda x: x.logsumexp(1), "softmax": lambda x: x.softmax(dim=-1),
    "all": lambda x: (x > 1).all(dim=0), "any": lambda x: (x > 1).any(1, keepdim=True),
    "view": lambda x: x.view(2, 12) + 1, "view as one": lambda x: x.view(-1) * 2,
    "view of a tuple": lambda x: x.view((4, 6)) - 1,
    "reshape": lambda x: x.reshape(4, -1) * 2, "flatten": lambda x: x.flatten() + 1,
    "unsqueeze": lambda x: x.unsqueeze(0) + x.unsqueeze(-1).sum(-1),
    "squeeze": lambda x: x.sum(1, keepdim=True).squeeze(1),
    "transpose": lambda x: x.transpose(0, 1) * 2,
    "transpose from the end": lambda x: x.transpose(-1, 0) + 1,
    "permute": lambda x: x.permute(2, 0, 1) + 1, "mT": lambda x: x.mT * 2,
    "sizes": lambda x: x / x.size(0) + x.numel() + x.dim() + x.size()[2],
    "float": lambda x: x.int().float() / 2, "double": lambda x: x.double() + 1,
    "to": lambda x: (x.to(torch.float16) * 3).long(), "clone": lambda x: x.clone() * 2,
    "largest": lambda x: x - x.max(), "relu": lambda x: (x - 5).relu(),
    "mul": lambda x: x.mul(3).add(1).sub(x).div(2), "pow": lambda x: x.pow(2),
    "matmul": lambda x: x @ x.mT, "log_softmax": lambda x: x.log_softmax(0),
    "functional": lambda x: torch.nn.functional.log_softmax(x, dim=-1),
    "amax": lambda x: x - x.amax(dim=1, keepdim=True), "amin": lambda x: x.amin((0, 2)),
    "amax of all": lambda x: x.amax(), "no axis": lambda x: x.sum(dim=()) + x,
    "no axes": lambda x: x.mean(dim=[], keepdim=True),
    "count as": lambda x: (x > 1).sum(dim=0, dtype=torch.int32),
    "round integers": lambda x: x.int().round(),
    "choose numbers": lambda x: torch.where(x > 1, 1.0, 0.0),
    "choose integers": lambda x: torch.where(x > 1, 1, 0),
}


@pytest.mark.parametrize("function", METHODS.values(), ids=METHODS)
def test_methods(function):
    x = torch.arange(24.0).reshape(2, 3, 4) / 4
    close(fused(function)(x), function(x))


@pytest.mark.parametrize("function", [
    lambda x: x.add_(1) * 2, lambda x: x.mul_(x + 1).sum(0), lambda x: torch.relu_(x),
    lambda x: (x * 2).exp_() + x, lambda x: x.clone().sub_(0.5).round_() - x,
    lambda x: x.add_(x.sum(dim=0)).div_(2) + x, lambda x: x.float().add_(1) - x,
    lambda x: x.to(torch.float32).neg_() * x, lambda x: x.view(-1).add_(1)])
def test_functions_that_change_their_tensor(function):
    given = torch.linspace(-1, 2, 6).reshape(2, 3)
    changed, expected = given.clone(), given.clone()
    close(nf.fuse(function)(changed), function(expected))
    close(changed, expected)


def test_what_cannot_be_changed_in_place():
    x = torch.arange(3.0)
    for function, words in (
            (lambda x: x.detach().add_(1), "has, a view"),
            (lambda x: x.int().add_(1.5), "cannot hold float32"),
            (lambda x: x.mul_(torch.ones(2, 3)), "cannot hold an array of shape")):
        with pytest.raises(NbFusedError, match=words):
            nf.fuse(function)(x)
    close(x, torch.arange(3.0))


def test_a_tensor_outside_is_changed_in_place():
    x, outside = torch.arange(3.0), torch.ones(3)
    fused = nf.fuse(lambda x: outside.add_(x) * 2)
    for k in range(1, 6):
        close(fused(x), (1 + k*x) * 2)
        close(outside, 1 + k*x)
    assert fused.cache_info().misses == 1


@pytest.mark.parametrize("function", [
    lambda x: x.max(initial=0), lambda x: x.to("cpu"), lambda x: x.foo(),
    lambda x: x.sum(0, other=3), lambda x: x.sum(dim="a"), lambda x: x.is_cuda,
    lambda x: x.stride(), lambda x: x.is_contiguous(), lambda x: x.cpu(),
    lambda x: x.dtype_, lambda x: x.tolist(), lambda x: x.requires_grad_()])
def test_what_is_not_traced_is_refused(function):
    with pytest.raises((NbFusedError, AttributeError, TypeError)):
        nf.fuse(function)(torch.arange(3.0))


@pytest.mark.parametrize("function", [
    lambda x: x.cumsum(0) * 2, lambda x: torch.cumsum(x * 2, 0),
    lambda x: x.add(1, alpha=2), lambda x: x.sort(descending=True)[0] * x,
    lambda x: x.median() * x, lambda x: torch.fft.rfft(x).abs(),
    lambda x: torch.linalg.norm(x * 2) * x])
def test_functions_without_an_operation_are_called(function):
    x = torch.arange(3.0)
    fused = nf.fuse(function)
    for k in range(4):
        close(fused(x + k), function(x + k))
    assert "call" in [one.kind for one in fused.explain(x)]


def test_a_gradient_through_methods():
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    (nf.fuse(lambda x: (x * x).mean(dim=1, keepdim=True).view(-1))(x)).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach() / 3)


def test_the_default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        found = nf.fuse(lambda x: x / 2)(torch.tensor([1, 2]))
    finally:
        torch.set_default_dtype(torch.float32)
    assert found.dtype == torch.float64


def test_nf_ops_keep_their_own_rules():
    x, y = torch.tensor([1, 2]), torch.tensor([1.5, 2.5])
    found = nf.fuse(lambda x, y: nf.ops.add(x, y))(x, y)
    assert found.dtype == nf.ops.add(x, y).dtype == torch.float64
    np.testing.assert_array_equal(found, [2.5, 4.5])


def test_the_dtype_of_a_tensor_is_one_of_torch():
    """A comparison with a dtype of NumPy's would be False without a word."""
    x = torch.ones(3, dtype=torch.bfloat16)
    for function in (lambda x: x * 2 if x.dtype == torch.bfloat16 else x,
                     lambda x: (x > 0).to(x.dtype) + 1,
                     lambda x: x.double().to(x.dtype) * 3,
                     lambda x: (x * 1).to(torch.float64).to(torch.int16).add_(1)):
        close(nf.fuse(function)(x), function(x))


def _stored(x):
    made = np.empty((2, *x.shape), dtype=x.dtype)
    made[0], made[1] = x, 2
    return made


@pytest.mark.parametrize("function", [
    lambda x: np.linspace(0.0, 1.0, 3) * x + np.eye(3)[0],
    lambda x: np.where(np.arange(3) > 1, x, 0) + x[np.arange(3)[::-1]],
    lambda x: np.arange(9).reshape(3, 3).astype(x.dtype) @ x,
    lambda x: np.hstack([x, np.ones(2, x.dtype)]) + np.zeros(5),
    lambda x: np.array([x, 2 * x]) * (1, 2, 3),
    lambda x: x.sum() ** np.arange(3) * x[0] ** (2 - np.arange(3)),
    lambda x: nf.grad(lambda t: (t * np.arange(3.0)).sum())(x),
    _stored])
def test_what_numpy_makes_of_numbers_is_a_tensor(function):
    """As what NumPy's functions make of tensors is."""
    x = np.array([1.0, 2.0, 4.0])
    found = nf.fuse(function)(torch.from_numpy(x))
    assert type(found) is torch.Tensor
    close(found, torch.from_numpy(np.asarray(function(x))))
