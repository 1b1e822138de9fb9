"""Tensors that kernels would get wrong: traced by TorchScript, or of subclasses."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError
from tests.refusal import refused

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.trace` is deprecated"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),  # shapes are read
]


@nf.rawkernel
def copied(x, y):
    for i in range(nf.grid(1), y.shape[0], nf.gridsize(1)):
        y[i] = x[i]


def launched(x):
    y = torch.empty(3)
    copied((1,), (32,), (x, y))
    return y


#: Every way from a tensor to a kernel.
CALLS = {
    "elementwise": nf.ops.exp,
    "two": lambda x: nf.ops.add(x, x),
    "out": lambda x: nf.ops.exp(x, out=torch.empty(3)),
    "reduction": nf.ops.sum,
    "row": nf.ops.softmax,
    "matmul": lambda x: nf.ops.matmul(x, x),
    "view": lambda x: nf.ops.reshape(x, (3, 1)),
    "concatenate": lambda x: nf.ops.concatenate([x, x]),
    "dropout": lambda x: nf.ops.dropout(x, 0.5, seed=0),
    "like": lambda x: nf.full_like(x, 2.0),
    "fuse": nf.fuse(lambda x: x * 2.0 + 1.0),
    "ElementwiseKernel": nf.ElementwiseKernel("T x", "T y", "y = x + 1", "plus_one"),
    "ReductionKernel": nf.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0",
                                          "total"),
    "rawkernel": launched,
    "Variable": lambda x: nf.ops.exp(nf.Variable(x)).data,
    "grad": lambda x: nf.grad(lambda v: nf.ops.sum(v * v))(x),
    "to_numpy": lambda x: torch.from_numpy(nf.to_numpy(x) + 1),
    "array": lambda x: torch.from_numpy(nf.array(x)),
    "from_dlpack": lambda x: torch.from_numpy(nf.from_dlpack(x)),
}


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_torchscript_does_not_trace_kernels(name, warm):
    """It would keep the empty tensor that the kernel fills."""
    call, x = CALLS[name], torch.ones(3)
    if warm:
        call(x), call(x)
    with refused(KernelTypeError, "torch.jit.trace", "outside of it"):
        torch.jit.trace(call, (x,), check_trace=False)
    call(x)  # afterwards as before


@pytest.mark.parametrize("name", ["elementwise", "reduction", "row", "fuse"])
def test_torchscript_does_not_trace_what_pytorch_differentiates(name):
    x = torch.ones(3, requires_grad=True)
    with refused(KernelTypeError, "torch.jit.trace", "outside of it"):
        torch.jit.trace(CALLS[name], (x,), check_trace=False)


def test_what_is_traced_around_a_kernel_works():
    inner = torch.jit.trace(lambda x: x * 2, (torch.ones(3),))
    assert nf.ops.square(inner(torch.ones(3))).tolist() == [4, 4, 4]


class Metres(torch.Tensor):
    """A tensor that says itself what functions do with it."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return super().__torch_function__(function, types, args, kwargs or {})


class Wrapped(torch.Tensor):
    """A tensor around another one, as DTensor is."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise AssertionError("it was computed with")


@pytest.mark.parametrize("name", [n for n in CALLS if n not in (
    "fuse", "out", "ElementwiseKernel", "ReductionKernel", "rawkernel")])
@pytest.mark.parametrize("kind", [Metres, Wrapped])
def test_subclasses_that_compute_otherwise(kind, name):
    x = torch.ones(3)
    given = x.as_subclass(Metres) if kind is Metres else Wrapped(x)
    with refused(KernelTypeError, kind.__name__, "as_subclass(torch.Tensor)"):
        CALLS[name](given)


@pytest.mark.parametrize("name", ["fuse", "ElementwiseKernel", "ReductionKernel",
                                  "rawkernel"])
def test_kernels_take_no_subclasses_that_compute_otherwise(name):
    with refused(KernelTypeError, "Metres", "as_subclass(torch.Tensor)"):
        CALLS[name](torch.ones(3).as_subclass(Metres))


class Named(torch.Tensor):
    """A tensor under another name."""


def test_subclasses_that_compute_alike_are_tensors():
    x = torch.ones(3).as_subclass(Named)
    assert nf.ops.exp(x).tolist() == nf.ops.exp(torch.ones(3)).tolist()
    weight = torch.nn.Parameter(torch.full((3,), 2.0))
    nf.ops.sum(nf.ops.square(weight)).backward()
    np.testing.assert_array_equal(weight.grad, [4, 4, 4])
    buffer = torch.nn.Buffer(torch.ones(3))
    assert nf.ops.add(buffer, buffer).tolist() == [2, 2, 2]


@pytest.mark.parametrize("make", [
    lambda x: x.to_sparse(), lambda x: torch.nested.nested_tensor([x, x]),
    lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)])
@pytest.mark.filterwarnings("ignore")
def test_tensors_that_are_not_dense(make):
    with refused(KernelTypeError, "tensors have no kernels", "expected a dense tensor"):
        nf.ops.exp(make(torch.ones(3)))
