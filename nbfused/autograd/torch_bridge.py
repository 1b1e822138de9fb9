"""Operations on PyTorch tensors that require grad: nodes of PyTorch's autograd."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from ..arrays import describe, dtype_of, is_array
from ..errors import KernelTypeError, TapeError
from ..specs import Spec
from .graph import GraphArray, Leaf, Pass
from .nodes import SpecNode, check_differentiable, is_floating, is_number
from .recording import grad_mode
from .tape import PLAIN, apply

__all__ = ["apply_torch"]


def apply_torch(spec: Spec, inputs: Sequence[Any], out: Sequence[Any] | None,
                options: dict[str, Any]) -> tuple[Any, ...]:
    """Run a spec on tensors that PyTorch's autograd tracks.

    Returns
    -------
    tuple of torch.Tensor
        With a ``grad_fn`` whose backward runs the spec's pullback, and which can be
        differentiated again.

    Raises
    ------
    KernelTypeError
        A tensor that requires grad is mixed with a Variable, or with arrays of another
        library; or one has a tangent.
    TapeError
        `out` was given.
    """
    if any(isinstance(x, GraphArray) for x in inputs):
        raise KernelTypeError(
            f"{spec.name}: a tensor that requires grad in PyTorch and a Variable in "
            "one call belong to two tapes; use one of them, or x.detach()")
    if out is not None and any(o is not None for o in out):
        raise TapeError(f"out: {spec.name} is recorded by PyTorch, because an input "
                        "requires grad; leave out=None and change nothing in "
                        "place, or use torch.no_grad()")
    names = options.get("names") or range(len(inputs))
    for x, name in zip(inputs, names, strict=False):
        # Also raises for JAX tracers, which are tracked, too.
        if is_array(x) and describe(x, str(name)).library.name != "torch" and x.shape:
            raise KernelTypeError(
                f"{name} is a {type(x).__name__} beside a tensor that requires grad; "
                "expected tensors only: use torch.asarray")
    if not any(getattr(x, "requires_grad", False) for x in inputs):
        raise KernelTypeError(
            f"{spec.name}: a tensor has a tangent of torch.autograd.forward_ad, which "
            "operations of nbfused do not hand on; use nbfused.jvp on plain tensors")
    results = _function().apply(spec, options, *inputs)
    return results[:len(spec.out_shapes(tuple(
        () if is_number(x) else tuple(x.shape) for x in inputs)))]


#: On tensors: where PyTorch's backward is itself differentiated, operations find that
#: their inputs require grad, and come back to `apply_torch`.
TENSORS = Pass(apply, lambda data, edge: data, True)


@cache
def _function() -> Any:
    """The `torch.autograd.Function`, defined once PyTorch is imported."""
    import torch

    class Operation(torch.autograd.Function):
        """A spec as an autograd function; saved state is among its results."""

        @staticmethod
        def forward(ctx: Any, spec: Spec, options: dict[str, Any], *inputs: Any) -> Any:
            ctx.set_materialize_grads(False)
            with grad_mode(True):
                made = apply(spec, [_as_leaf(x) for x in inputs], **options)
            node = next((v.edge[0] for v in made if v.edge is not None), None)
            results = {k: v.data for k, v in enumerate(made)}
            tracked = [v.requires_grad for v in made]
            if isinstance(node, SpecNode):
                state = {k: saved.data for k, saved in node.saved_outputs.items()
                         if k >= len(made)}
                results |= state
                tracked += [is_floating(node.results[k]) for k in state]
                ctx.save_for_backward(*_arrays_to_save(node, inputs))
            ctx.node, ctx.places = node, tuple(results)
            ctx.mark_non_differentiable(*(r for r, t in zip(
                results.values(), tracked, strict=True) if not t))
            return tuple(results.values())

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            node = ctx.node
            present = [None] * node.outputs
            for place, cotangent in zip(ctx.places, cotangents, strict=True):
                present[place] = cotangent
            if all(c is None for c in present):
                return (None, None, *(None for _ in node.edges))
            again = torch.is_grad_enabled()
            slots = node.arrays()
            for saved in slots:
                saved.check()  # it can name what PyTorch refuses below
            for saved, tensor in zip(slots, ctx.saved_tensors, strict=True):
                saved.data = tensor if again else tensor.detach()
            try:
                needs = [edge is not None for edge in node.edges]
                mode = TENSORS if again else PLAIN
                return (None, None, *node.pull(present, needs, mode))
            finally:
                for saved in slots:
                    saved.data = None

    return Operation


def _as_leaf(x: Any) -> Any:
    """A tensor that wants a gradient as a leaf of the graph; detach anything else."""
    if not hasattr(x, "detach"):
        return x
    if not x.requires_grad:
        return x.detach()
    check_differentiable(dtype_of(x))
    return GraphArray.at(x.detach(), (Leaf(), 0))


def _arrays_to_save(node: SpecNode, inputs: Sequence[Any]) -> list[Any]:
    """The arrays that a node saves, for PyTorch's `save_for_backward`."""
    own = {id(saved): inputs[k] for k, saved in node.saved_inputs.items()}
    given = [(saved, saved.hand_over()) for saved in node.arrays()]
    return [own.get(id(saved), data) for saved, data in given]
