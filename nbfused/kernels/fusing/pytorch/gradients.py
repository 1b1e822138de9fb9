"""Derivatives of PyTorch's functions by its own tape, for calls in what is traced."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from ....errors import KernelTypeError
from ....support.trees import leaves_of, map_tree
from ..calling.rules import Gradient

__all__ = ["TorchGradient", "Watched"]

#: Functions that store statistics into their arguments, and do not say so.
_STATEFUL = frozenset({"batch_norm", "instance_norm"})


class Watched:
    """A function that is looked at when it is first called, as a program is traced.

    Raises
    ------
    KernelTypeError
        It changes an argument; or it draws random numbers and is differentiated, so
        that its derivative would be that of others.
    """

    def __init__(self, name: str, function: Callable[..., Any],
                 differentiated: bool) -> None:
        self.__name__ = name
        self._function, self._differentiated = function, differentiated
        self._known = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        torch = sys.modules["torch"]
        if self._known:
            return self._resolved(torch, args, kwargs)
        given = [x for x in leaves_of((args, {
            k: v for k, v in kwargs.items() if k != "out"}))
            if isinstance(x, torch.Tensor)]
        before, versions = _generators(torch, given), [x._version for x in given]
        held = [x.clone() for x in given] if self.__name__ in _STATEFUL else []
        made = self._resolved(torch, args, kwargs)
        if versions != [x._version for x in given] or not all(
                map(torch.equal, held, given)):
            raise KernelTypeError(
                f"torch.{self.__name__} changes an argument, which nf.fuse would not "
                "see; call it outside of the fused function")
        if self._differentiated and not all(map(
                torch.equal, before, _generators(torch, given))):
            raise KernelTypeError(
                f"torch.{self.__name__} draws random numbers and is differentiated, "
                "which would draw others; draw them outside of the fused function, or "
                "with nf.ops.random_mask")
        self._known = True
        return made

    def _resolved(self, torch: Any, args: Sequence[Any], kwargs: Any) -> Any:
        """The results in memory of their own, where PyTorch would only note a sign."""
        return map_tree(self._function(*args, **kwargs), lambda x: x.resolve_conj(
            ).resolve_neg() if isinstance(x, torch.Tensor) else x)


def _generators(torch: Any, given: Sequence[Any]) -> list[Any]:
    """The states of PyTorch's generators of the devices of tensors."""
    states = [torch.get_rng_state()]
    states += [torch.cuda.get_rng_state(d) for d in {
        x.device for x in given if x.device.type == "cuda"}]
    return states


class TorchGradient(Gradient):
    """The gradients of a function that is run again, recorded by PyTorch."""

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        """Pull the cotangents back."""
        torch = sys.modules["torch"]
        args, cotangents = [*values[:self.count]], values[self.count:]
        for k in self.wanted:
            args[k] = args[k].detach().requires_grad_()
        moving = [args[k] for k in self.wanted]
        with torch.enable_grad():
            results = self.function(*args)
        pairs = [(results[k], c.conj()) for k, c in zip(
            self.floating, cotangents, strict=True) if results[k].requires_grad]
        found = torch.autograd.grad(
            [r for r, _ in pairs], moving, [c for _, c in pairs],
            allow_unused=True) if pairs else [None] * len(moving)
        return tuple([torch.zeros_like(x) if g is None else g.conj().resolve_conj()
                      for g, x in zip(found, moving, strict=True)])
