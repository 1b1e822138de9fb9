"""What operations give of tensors is changed in place as PyTorch's own results are."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.interpreted

CASES = {
    "transposed": (lambda x: nf.ops.sin(x.T), lambda x: torch.sin(x.T)),
    "permuted sum": (lambda x: nf.ops.add(x.T[None], x.T), lambda x: x.T[None] + x.T),
    "einsum": (lambda x: nf.ops.einsum("ij,kj->ki", x, 2 * x),
               lambda x: torch.einsum("ij,kj->ki", x, 2 * x)),
    "tensordot": (lambda x: nf.ops.tensordot(x, x.T, 1), lambda x: x @ x.T),
    "roll": (lambda x: nf.ops.roll(x, 1), lambda x: torch.roll(x, 1)),
    "reshape": (lambda x: nf.ops.reshape(nf.ops.sin(x), (-1, 2)),
                lambda x: torch.sin(x).reshape(-1, 2)),
    "squeeze": (lambda x: nf.ops.squeeze(nf.ops.sin(x)[None], 0),
                lambda x: torch.sin(x)),
    "expand": (lambda x: nf.ops.expand_dims(nf.ops.sin(x), (0, 2)),
               lambda x: torch.sin(x)[None, :, None]),
    "slice": (lambda x: nf.ops.getitem(nf.ops.sin(x), (slice(1, None), slice(0, 4, 2))),
              lambda x: torch.sin(x)[1:, ::2]),
    "fused": (nf.fuse(lambda x: np.sin(x).T), lambda x: torch.sin(x).T),
    "fused reshape": (nf.fuse(lambda x: np.sin(x).reshape(-1)),
                      lambda x: torch.sin(x).reshape(-1)),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_changed_in_place(name):
    found = []
    for f in CASES[name]:
        x = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 4)
        x.requires_grad_()
        y = f(x)
        y += 0.5
        y.mul_(y.detach().clone())
        (gradient,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad((gradient**2).sum(), x)
        found.append((y.detach(), gradient.detach(), second))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_change_through_a_view_is_seen():
    x = torch.ones(3, 4, dtype=torch.float64, requires_grad=True)
    y = nf.ops.exp(2 * x) * 1
    nf.ops.transpose(y)[1:] *= 3
    y.sum().backward()
    expected = 2 * np.exp(2.0) * np.array([1.0, 3, 3, 3])
    np.testing.assert_allclose(x.grad, np.broadcast_to(expected, (3, 4)))


@pytest.mark.parametrize("kept", [(), (0,), (1, 2)])
def test_axes_of_one_are_dropped_as_asked(kept):
    x = torch.ones(1, 1, 1, 2, requires_grad=True)
    axes = tuple(k for k in range(3) if k not in kept)
    assert nf.ops.squeeze(x, axes).shape == torch.Size([1] * len(kept) + [2])
    with pytest.raises(nf.errors.ShapeError):
        nf.ops.reshape(x, (3,))
