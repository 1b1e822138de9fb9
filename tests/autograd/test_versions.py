"""Saved arrays that change before the backward pass."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import nbfused as nf
from nbfused.autograd import versions
from nbfused.autograd.versions import Saved, note_write
from nbfused.errors import InplaceModificationError


def squared():
    x = nf.Variable(np.array([1.0, 2.0, 3.0]), requires_grad=True)
    return x, nf.ops.square(x)


def test_an_update_in_place_is_seen():
    x, y = squared()
    with nf.no_grad():
        x += 1.0
    with pytest.raises(InplaceModificationError, match=r"'x' of square"):
        y.sum().backward()
    assert x.grad is None


def test_a_write_to_the_array_behind_it_is_seen():
    x, y = squared()
    nf.ops.exp(np.zeros(3), out=x.data)
    with pytest.raises(InplaceModificationError):
        y.sum().backward()


def test_a_write_to_a_part_is_seen():
    x, y = squared()
    nf.ops.exp(np.zeros(1), out=x.data[1:2])
    with pytest.raises(InplaceModificationError):
        y.sum().backward()


def test_a_saved_result_is_watched_too():
    x = nf.Variable(np.ones(3), requires_grad=True)
    y = nf.ops.exp(x)
    nf.ops.negative(y.data, out=y.data)
    with pytest.raises(InplaceModificationError, match="result of exp"):
        y.sum().backward()


def test_an_optimizer_step_is_a_write():
    x, y = squared()
    nf.ops.sgd_step(x, np.ones(3), lr=0.1)
    with pytest.raises(InplaceModificationError):
        y.sum().backward()


def test_writes_elsewhere_do_not_matter():
    x, y = squared()
    other = np.zeros(3)
    nf.ops.exp(other, out=other)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, [2.0, 4.0, 6.0])


def test_what_the_derivative_does_not_read_may_change():
    x = nf.Variable(np.ones(3), requires_grad=True)
    y = (x + np.ones(3)) * 2.0
    with nf.no_grad():
        x += 5.0
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, [2.0, 2.0, 2.0])


def test_after_the_backward_everything_may_change():
    x, y = squared()
    y.sum().backward()
    with nf.no_grad():
        x -= x.grad
    np.testing.assert_array_equal(x.data, [-1.0, -2.0, -3.0])


def test_other_changes_are_seen_in_debug_mode():
    with nf.config.override(debug=True):
        x, y = squared()
        x.data[0] = 7.0
        with pytest.raises(InplaceModificationError):
            y.sum().backward()
        x, y = squared()
        y.sum().backward()
    np.testing.assert_array_equal(x.grad, [2.0, 4.0, 6.0])


def test_nothing_is_watched_when_the_graph_is_gone():
    gc.collect()
    before = versions.watched()
    _, y = squared()
    assert versions.watched() > before
    y.sum().backward()
    del y
    gc.collect()
    assert versions.watched() == before


def test_neighbours_in_memory_are_told_apart():
    block = np.zeros(8)
    left = Saved(block[:4], "left")
    note_write([block[4:], None])
    assert left.load() is left.data
    note_write([block[3:]])
    with pytest.raises(InplaceModificationError, match="left"):
        left.load()


def test_saved_tensors_of_torch_in_debug_mode():
    torch = pytest.importorskip("torch")
    with nf.config.override(debug=True):
        x = torch.arange(3.0, requires_grad=True)
        (first,) = torch.autograd.grad(nf.ops.square(x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
    np.testing.assert_array_equal(second.numpy(), [2, 2, 2])


def test_a_saved_array_that_was_deleted_lets_others_be_written_to():
    jnp = pytest.importorskip("jax.numpy")
    x = nf.Variable(jnp.ones(4), requires_grad=True)
    y = nf.ops.swish(x)
    x.data.delete()
    out = np.empty(4)
    nf.ops.negative(np.ones(4), out=out)
    np.testing.assert_array_equal(out, -1)
    del y


@pytest.mark.parametrize("threshold", range(1, 16))
def test_garbage_may_be_collected_during_a_write(monkeypatch, threshold):
    kept = [Saved(np.ones(3), str(k)) for k in range(30)]
    place = kept[0].place
    thresholds = gc.get_threshold()

    def garbage(array):  # as another thread may leave it
        gc.collect()
        cycle = [Saved(np.ones(2), "garbage")]
        cycle.append(cycle)
        gc.set_threshold(threshold)
        return place

    monkeypatch.setattr(versions, "byte_range", garbage)
    monkeypatch.setattr(Saved, "place", place)
    gc.freeze()  # what other tests left is not looked through each time
    try:
        note_write([np.ones(3)])
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
    assert all(saved._changed for saved in kept)


def _add(t):
    t.add_(5.0)


def _shifted_view(t):
    t[1:].mul_(2.0)


def _alias(t):
    t.detach().add_(5.0)


def _out(t):
    import torch

    torch.add(t.detach(), 1.0, out=t.detach())


def _ours(t):
    nf.ops.negative(t.detach(), out=t.detach())


#: Ways to write to a tensor that PyTorch, or nbfused, counts.
WRITES = [_add, _shifted_view, _alias, _out, _ours]
#: Calls that save their argument, or their result.
SAVING = {
    "square": nf.ops.square, "exp": nf.ops.exp,
    "sum": lambda x: nf.ops.sum(x * x), "matmul": lambda x: nf.ops.matmul(x, x),
    "checkpoint": nf.checkpoint(lambda x: nf.ops.square(x)),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", SAVING)
def test_what_pytorch_writes_is_seen(name, write):
    torch = pytest.importorskip("torch")
    t = torch.arange(1.0, 4.0)
    x = nf.Variable(t, requires_grad=True)
    y = SAVING[name](x)
    write(y.data if name == "exp" else t)
    with pytest.raises(InplaceModificationError, match="changed in place"):
        nf.ops.sum(y).backward()
    assert x.grad is None


@pytest.mark.parametrize("write", WRITES)
def test_what_pytorch_writes_is_seen_by_hand_written_rules(write):
    torch = pytest.importorskip("torch")

    class Square(nf.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return ctx.saved_tensors[0] * g * 2.0

    rule = nf.custom_vjp(lambda x: x * x)
    rule.defvjp(lambda x: (x * x, x), lambda x, g: (x * g * 2.0,))
    for function in (Square.apply, rule):
        t = torch.arange(1.0, 4.0)
        y = function(nf.Variable(t, requires_grad=True))
        write(t)
        with pytest.raises(InplaceModificationError):
            nf.ops.sum(y).backward()


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", ["square", "exp", "sum"])
def test_what_pytorch_writes_is_seen_on_its_own_tape(name, write):
    torch = pytest.importorskip("torch")
    leaf = torch.arange(1.0, 4.0, requires_grad=True)
    t = leaf * 1.0
    y = SAVING[name](t)
    with torch.no_grad():
        write(y if name == "exp" else t)
    with pytest.raises(RuntimeError, match=r"in place|inplace"):
        nf.ops.sum(y).backward()
    assert leaf.grad is None


def test_a_write_of_ours_beside_a_saved_tensor_does_not_matter():
    torch = pytest.importorskip("torch")
    whole = torch.ones(6)
    x = nf.Variable(whole[:3], requires_grad=True)
    y = nf.ops.square(x)
    nf.ops.exp(torch.zeros(3), out=whole[3:])
    nf.ops.sum(y).backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_after_the_backward_pytorch_may_write():
    torch = pytest.importorskip("torch")
    t = torch.ones(3)
    for _ in range(3):
        x = nf.Variable(t, requires_grad=True)
        nf.ops.sum(nf.ops.square(x)).backward()
        t.sub_(x.grad * 0.25)
    np.testing.assert_array_equal(t.numpy(), [0.125] * 3)


def test_tensors_of_inference_mode_have_no_counter():
    torch = pytest.importorskip("torch")
    with torch.inference_mode():
        t = torch.ones(3)
    assert nf.grad(lambda x: (x * x).sum())(t).tolist() == [2, 2, 2]
