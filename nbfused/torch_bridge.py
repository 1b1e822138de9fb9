"""Operations on PyTorch tensors that require grad: a node on PyTorch's own tape."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from .arrays import describe, is_array
from .errors import KernelTypeError, TapeError
from .graph import Node, grad_mode
from .nodes import SpecNode
from .specs import Spec
from .tape import PLAIN, apply
from .variable import Variable

__all__ = ["apply_torch"]


def apply_torch(spec: Spec, inputs: Sequence[Any], out: Sequence[Any] | None,
                options: dict[str, Any]) -> tuple[Any, ...]:
    """`tape.apply` where an input is a tensor that PyTorch differentiates.

    Returns
    -------
    tuple of torch.Tensor
        With a ``grad_fn``, whose backward runs the spec's pullback, once: a second
        derivative through it is an error.

    Raises
    ------
    KernelTypeError
        A tensor that requires grad is mixed with a Variable, or with arrays of another
        library.
    TapeError
        `out` was given.
    """
    if any(isinstance(x, Variable) for x in inputs):
        raise KernelTypeError(
            f"{spec.name}: a tensor that requires grad in PyTorch and a Variable in "
            "one call belong to two tapes; use one of them, or x.detach()")
    if out is not None and any(o is not None for o in out):
        raise TapeError(f"out: {spec.name} is recorded by PyTorch, because an input "
                        "requires grad; leave out=None, or use torch.no_grad()")
    names = options.get("names") or range(len(inputs))
    for x, name in zip(inputs, names, strict=False):
        # Also raises for JAX tracers, which are tracked, too.
        if is_array(x) and describe(x, str(name)).library.name != "torch" and x.shape:
            raise KernelTypeError(
                f"{name} is a {type(x).__name__} beside a tensor that requires grad; "
                "expected tensors only: use torch.asarray")
    return tuple(_function().apply(spec, options, *inputs))


@cache
def _function() -> Any:
    """The autograd function; made when a tensor is there, and so PyTorch is, too."""
    import torch
    from torch.autograd.function import once_differentiable

    class Operation(torch.autograd.Function):
        """Any spec."""

        @staticmethod
        def forward(ctx: Any, spec: Spec, options: dict[str, Any], *inputs: Any) -> Any:
            ctx.set_materialize_grads(False)
            with grad_mode(True):
                made = apply(spec, [_lifted(x) for x in inputs], **options)
            results = tuple(v.data for v in made)
            ctx.mark_non_differentiable(
                *(v.data for v in made if not v.requires_grad))
            ctx.node = next((v.edge[0] for v in made if v.edge is not None), None)
            ctx.save_for_backward(*_handed_over(ctx.node, inputs))
            return results

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, *cotangents: Any) -> Any:
            node = ctx.node
            present = [*cotangents, *(None,) * (node.outputs - len(cotangents))]
            if all(c is None for c in present):
                return (None, None, *(None for _ in node.edges))
            slots = node.arrays()
            for saved, tensor in zip(slots, ctx.saved_tensors, strict=True):
                saved.data = tensor.detach()
            try:
                needs = [edge is not None for edge in node.edges]
                return (None, None, *node.pull(present, needs, PLAIN))
            finally:
                for saved in slots:
                    saved.data = None

    return Operation


def _lifted(x: Any) -> Any:
    """A tensor that wants a gradient as Variable, everything else without its tape."""
    if not hasattr(x, "detach"):
        return x
    return Variable(x.detach(), requires_grad=True) if x.requires_grad else x.detach()


def _handed_over(node: Node | None, inputs: Sequence[Any]) -> list[Any]:
    """What the node keeps, given to PyTorch, which frees it and sees it change."""
    if not isinstance(node, SpecNode):
        return []
    own = {id(saved): inputs[k] for k, saved in node.saved_inputs.items()}
    tensors = [own.get(id(saved), saved.data) for saved in node.arrays()]
    for saved in node.arrays():
        saved.data = None
    return tensors
