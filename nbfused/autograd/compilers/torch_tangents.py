"""Tangents of PyTorch's forward mode, and transforms outside, in the rules of ops."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

__all__ = ["FUNCTIONS", "Tangents", "keep_moving", "moves", "outside_records", "pushed",
           "tangents_of", "with_tangents"]

#: Makes the op of a function: `CallableOp`, which knows our transforms.
FUNCTIONS: list[Callable[..., Any]] = []
#: The arguments without tangents, and the tangents by the places of the arguments.
Tangents = tuple[list[Any], dict[int, Any]]


def tangents_of(args: Sequence[Any]) -> Tangents | None:
    """Take the tangents off tensors; None if there is none."""
    torch = sys.modules["torch"]
    if not (_forward_mode(torch) and torch._C._is_fwd_grad_enabled()):
        return None
    primals, tangents = list(args), {}
    for k, x in enumerate(args):
        if isinstance(x, torch.Tensor):
            primals[k], tangent = torch.autograd.forward_ad.unpack_dual(x, level=0)
            if tangent is not None:
                tangents[k] = tangent
    return (primals, tangents) if tangents else None


def keep_moving(*what: Any) -> tuple[Any, ...] | None:
    """Keep what a ``jvp`` reads, if PyTorch's forward mode is active; else None."""
    level = sys.modules["torch"].autograd.forward_ad._current_level
    return what if level >= 0 else None


def pushed(push: Any, args: Sequence[Any], tangents: Sequence[Any],
           results: Sequence[bool]) -> tuple[Any, ...]:
    """The tangents of results, for the ``jvp`` of a `torch.autograd.Function`.

    `push` gives the op for the places of the arguments that have tangents, `results`
    says which have one.
    """
    unpack = sys.modules["torch"].autograd.forward_ad.unpack_dual
    primals = [unpack(x, level=0).primal if hasattr(x, "requires_grad") else x
               for x in args]
    given = {k: t for k, t in enumerate(tangents) if t is not None and moves(t)}
    if not given or not any(results):
        return (None,) * len(results)
    found = iter(push(tuple(given))(*primals, *given.values()))
    return tuple([next(found) if some else None for some in results])


def _forward_mode(torch: Any) -> bool:
    """Whether tensors may have tangents; programs of Dynamo keep no note of the level.

    There is one level, 0: those of torch.func are told apart by their wrappers.
    """
    if torch.autograd.forward_ad._current_level >= 0:
        return True
    functorch = torch._C._functorch
    inner = functorch.peek_interpreter_stack()
    return inner is not None and inner.key() == functorch.TransformType.Jvp


def moves(x: Any) -> bool:
    """Whether a result has a tangent."""
    return bool(x.is_floating_point() or x.is_complex())


def with_tangents(made: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """The results, those that are floating with their tangents."""
    dual = sys.modules["torch"].autograd.forward_ad.make_dual
    rest = iter(tangents)
    return [dual(x, next(rest), level=0) if moves(x) else x for x in made]


@contextmanager
def outside_records() -> Iterator[None]:
    """Let transforms outside record and push tangents.

    In the ``forward`` of a `torch.autograd.Function` PyTorch says that nobody does.
    """
    torch = sys.modules["torch"]
    some = torch._C._are_functorch_transforms_active()
    with torch.set_grad_enabled(some), \
            torch.autograd.forward_ad._set_fwd_grad_enabled(some):
        yield
