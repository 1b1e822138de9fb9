"""Tensors that require grad in PyTorch: their gradient is never dropped."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import nbfused as nf
from nbfused.autograd import versions
from nbfused.errors import InplaceModificationError, KernelTypeError, TapeError

torch = pytest.importorskip("torch")

A = [[0.5, -1.0, 2.0], [1.5, 0.0, -3.0]]


def leaf(dtype=torch.float32):
    return torch.tensor(A, dtype=dtype, requires_grad=True)


def test_gradient_of_swish():
    x, y = leaf(), leaf()
    out = nf.ops.swish(x)
    assert isinstance(out, torch.Tensor)
    out.sum().backward()
    torch.nn.functional.silu(y).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


def test_between_pytorchs_own_operations():
    x, y = leaf(torch.float64), leaf(torch.float64)
    (nf.ops.layer_norm(x * 2) ** 2 * x).sum().backward()
    (torch.nn.functional.layer_norm(y * 2, (3,)) ** 2 * y).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


def test_passes_gradcheck():
    x = leaf(torch.float64)
    w = torch.tensor([0.3, 1.0, -2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(nf.ops.multiply, (x, w))
    assert torch.autograd.gradcheck(lambda v: nf.ops.logsumexp(v, axis=1), (x,))


def test_numbers_and_constant_tensors():
    x = leaf()
    nf.ops.swish(x, 2.0).sum().backward()
    assert x.grad is not None
    x.grad = None
    nf.ops.multiply(x, torch.tensor(A)).sum().backward()
    torch.testing.assert_close(x.grad, torch.tensor(A))


def test_only_wanted_gradients_are_computed():
    x, w = torch.tensor(A), torch.ones(3, requires_grad=True)
    y = nf.ops.multiply(x, w)
    with nf.trace_launches() as launches:
        y.sum().backward()
    assert len(launches) == 1
    torch.testing.assert_close(w.grad, x.sum(0))


def test_integer_results_have_no_gradient():
    assert not nf.ops.argmax(leaf(), axis=1).requires_grad


def test_results_that_are_not_used_get_no_cotangent():
    @nf.elementwise
    def both(x, y):
        return x * y, x + y

    x = leaf()
    both(x, x.detach())[1].sum().backward()
    torch.testing.assert_close(x.grad, torch.ones(2, 3))


def test_in_torchs_no_grad_nothing_is_recorded():
    with torch.no_grad():
        assert nf.ops.swish(leaf()).grad_fn is None


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_where_torch_records_nothing_parameters_are_like_other_tensors(mode):
    x = torch.nn.Parameter(torch.tensor(A))
    with mode():
        made = nf.ops.sort(x), nf.ops.fmod(x, 2.0), nf.ops.sum(x, initial=1.0)
        gradient = nf.grad(lambda x: nf.ops.sum(x * x))(x)
        shared = nf.Variable(x)
    assert not any(y.requires_grad for y in made)
    np.testing.assert_allclose(made[0], np.sort(A))
    np.testing.assert_allclose(gradient, 2 * np.array(A))
    assert shared.data.data_ptr() == x.data_ptr()
    with pytest.raises(KernelTypeError, match="requires grad in its own library"):
        nf.Variable(x)


def test_nbfuseds_no_grad_does_not_cut_pytorchs_tape():
    x = leaf()
    with nf.no_grad():
        y = nf.ops.square(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, 2 * torch.tensor(A))


def test_pytorch_sees_changes_in_place():
    x = leaf()
    hidden = x * 2
    y = nf.ops.square(hidden)
    hidden.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    y = nf.ops.exp(x)
    y.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_nbfused_sees_changes_in_place():
    x = leaf()
    hidden = x * 2
    y = nf.ops.square(hidden)
    with torch.no_grad():
        nf.ops.exp(hidden, out=hidden)
    with pytest.raises(InplaceModificationError, match="square"):
        y.sum().backward()


@pytest.mark.parametrize("write", [
    lambda a: nf.ops.exp(torch.zeros(2, 3), out=a),
    lambda a: nf.ops.sum(torch.zeros(2, 3), out=a[0, 0]),
    lambda a: nf.ops.sgd_step(a, torch.ones(2, 3), lr=0.5),
    lambda a: nf.fill(a, 2.0),
    lambda a: stored(a)], ids=["map", "part", "step", "fill", "kernel"])
def test_pytorch_sees_what_nbfused_writes(write, monkeypatch):
    # As in a new process, where nothing is known of tensors.
    monkeypatch.setattr(versions, "_COUNTERS", {type(None): None})
    for _ in range(2):  # the second time takes a shorter way
        x, a = leaf(), torch.ones(2, 3)
        y = (x * a).sum()
        write(a)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()


def stored(a):
    kernel[1, 32](a)


@nf.rawkernel
def kernel(x):
    i = nf.grid(1)
    if i < x.shape[1]:
        x[0, i] = 7.0


def test_tensors_of_inference_mode_can_be_written_to():
    with torch.inference_mode():
        out = torch.zeros(3)
        nf.ops.exp(torch.zeros(3), out=out)
    assert out.tolist() == [1.0, 1.0, 1.0]


def test_out_that_requires_grad_is_refused():
    x = leaf()
    hidden = x * 2
    for out in (x, hidden):
        with pytest.raises(TapeError, match="out: exp cannot store into a tensor"):
            nf.ops.exp(torch.zeros(2, 3), out=out)
    torch.testing.assert_close(hidden, 2 * torch.tensor(A), check_stride=False)
    nf.ops.exp(torch.zeros(2, 3), out=x.detach())
    with torch.no_grad():
        nf.ops.exp(torch.zeros(2, 3), out=x)
    assert x.tolist() == [[1.0]*3]*2


def test_backward_twice():
    x = leaf()
    y = nf.ops.square(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    torch.testing.assert_close(x.grad, 4 * torch.tensor(A))
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_passes_gradgradcheck():
    """Second order, through inputs, results and the state of reductions."""
    x = leaf(torch.float64)
    w = torch.tensor([0.3, 1.0, -2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(nf.ops.multiply, (x, w))
    assert torch.autograd.gradgradcheck(nf.ops.exp, (w,))
    assert torch.autograd.gradgradcheck(lambda v: nf.ops.logsumexp(v, axis=1), (x,))
    assert torch.autograd.gradgradcheck(nf.ops.var, (w,))
    assert torch.autograd.gradgradcheck(nf.ops.prod, (w,))


def test_two_tapes_do_not_mix():
    v = nf.Variable(torch.tensor(A), requires_grad=True)
    with pytest.raises(KernelTypeError, match="two tapes"):
        nf.ops.multiply(v, leaf())


def test_other_libraries_do_not_mix():
    with pytest.raises(KernelTypeError, match="y is a ndarray"):
        nf.ops.multiply(leaf(), np.ones((2, 3), "float32"))


def test_out_is_refused():
    out = torch.zeros(2, 3)
    with pytest.raises(TapeError, match="PyTorch"):
        nf.ops.exp(leaf(), out=out)
    assert not out.any()


def test_memory_goes_with_the_last_name():
    x = leaf()
    y = nf.ops.exp(x)
    alive = weakref.ref(y.grad_fn)
    gc.collect()
    gc.disable()
    try:
        del y
        assert alive() is None
    finally:
        gc.enable()
