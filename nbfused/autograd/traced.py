"""What stands for a value while a function is traced.

Whoever computes on arrays looks for one of these first, and lets it write down what
would be done.  The tracer of `fuse` has the classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..arrays import describe

__all__ = ["Traced", "TracedNumber", "extents", "traced"]


class Traced:
    """An array or a number that is not known yet."""

    __slots__ = ()

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape, read without the trace depending on it."""
        raise NotImplementedError

    def record(self, spec: Any, inputs: Sequence[Any], out: Sequence[Any] | None,
               options: dict[str, Any]) -> tuple[Any, ...]:
        """Write down that `spec` is run; what stands for its outputs."""
        raise NotImplementedError

    def record_call(self, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Write down a call that no spec describes; what stands for its results."""
        raise NotImplementedError

    def record_check(self, check: Callable[[Any], Any]) -> None:
        """Write down that `check` is to see the value, before anything is stored."""
        raise NotImplementedError


class TracedNumber(Traced):
    """A number that is passed by value."""

    __slots__ = ()

    @property
    def python(self) -> type | None:
        """Its type if that is Python's, and not a dtype."""
        raise NotImplementedError


def traced(values: Sequence[Any]) -> Traced | None:
    """The first of `values` that is not known yet."""
    return next((x for x in values if isinstance(x, Traced)), None)


def extents(x: Any) -> tuple[int, ...]:
    """The shape of an array, for what holds whatever its numbers are."""
    try:
        return x.extents if isinstance(x, Traced) else tuple(getattr(x, "shape", ()))
    except RuntimeError:  # nested tensors of PyTorch have none
        return describe(x).shape
