"""Interface of the placeholders that stand for arrays while a function is traced.

Whoever computes on arrays looks for one of these first, and lets it write down what
would be done.  The tracer of `fuse` has the classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from .detect import describe

__all__ = ["Traced", "TracedNumber", "extents", "find_traced"]


class Traced:
    """A placeholder for an array or number whose value is not known yet.

    Attributes
    ----------
    unknown
        Why, for messages.
    """

    __slots__ = ()
    unknown: ClassVar[str] = "which is not known while nf.fuse traces a function"

    @property
    def depth(self) -> int:
        """The number of transforms around it; among several the deepest records."""
        return 0

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape, read without making the trace depend on it."""
        raise NotImplementedError

    def note_ravel(self, base: Any) -> None:
        """Note that this is `base` raveled: a copy, if that is not contiguous."""

    def equals(self, other: Traced) -> bool:
        """Whether `other` has the same values for sure."""
        return self is other

    def record(self, spec: Any, inputs: Sequence[Any], out: Sequence[Any] | None,
               options: dict[str, Any]) -> tuple[Any, ...]:
        """Record a run of `spec`, and return placeholders for its outputs."""
        raise NotImplementedError

    def run(self, spec: Any, inputs: Sequence[Any], out: Sequence[Any] | None,
            options: dict[str, Any]) -> tuple[Any, ...]:
        """Record a run of `spec`, which no transform differentiates through."""
        raise NotImplementedError

    @staticmethod
    def at(data: Any, edge: Any) -> Any:
        """The placeholder `data` with another place in the graph."""
        raise NotImplementedError

    def variable(self, requires_grad: bool) -> Any:
        """The placeholder of a `Variable` of the same array."""
        raise NotImplementedError

    def plain(self) -> Any:
        """A placeholder for the value as it is now, without a place in the graph."""
        raise NotImplementedError

    def separate(self) -> Any:
        """A placeholder for the value in memory of its own."""
        raise NotImplementedError

    def untaped(self) -> Any:
        """A placeholder for the value in no Variable, unless a tape follows it."""
        return self

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """A placeholder for zeros in the library and on the device of this one."""
        raise NotImplementedError

    @property
    def differentiated(self) -> bool:
        """Whether a derivative may be wanted, here or of the whole that is traced."""
        return True

    def placeholder(self, array: Any) -> Any:
        """An array that is not traced, as an operand beside this one."""
        return array

    def constant(self, host: Any, given: Sequence[Any] = ()) -> Any:
        """A placeholder for a NumPy array that follows from shapes, and from `given`.

        It is the same in each call if the arrays in `given` are.
        """
        raise NotImplementedError

    def record_call(self, function: Callable[..., Any], args: Sequence[Any],
                    inline: Callable[[Sequence[Any]], Any]) -> Any:
        """Record a call of a function with a derivative of its own.

        By ``inline(args)``, which runs it and its rules on placeholders; where that is
        not possible as a call.
        """
        raise NotImplementedError

    def record_native(self, function: Callable[..., Any], args: Sequence[Any],
                      name: str) -> tuple[Any, ...]:
        """Record a call of a function of native arrays, which gives a tuple of them.

        Whoever calls it sees to the derivative.
        """
        raise NotImplementedError

    def record_callback(self, callback: Any, args: Sequence[Any]) -> tuple[Any, ...]:
        """Record a call of a `Callback`, which says what it gives."""
        raise NotImplementedError

    def record_check(self, check: Callable[[Any], Any]) -> None:
        """Record that `check` must pass before anything is stored."""
        raise NotImplementedError


class TracedNumber(Traced):
    """A placeholder for a number that is passed by value."""

    __slots__ = ()

    @property
    def python(self) -> type | None:
        """The Python type of the number, None if it has a dtype."""
        raise NotImplementedError

    def computed(self, function: Callable[[Any], Any]) -> Any:
        """A placeholder for a number that `function` computes at each call."""
        raise NotImplementedError

    def ask(self) -> None:
        """Note that the function needs it, and those it is computed from."""

    @property
    def number_type(self) -> Any:
        """The type that an operation sees: weak for a Python number."""
        raise NotImplementedError


def find_traced(values: Sequence[Any]) -> Traced | None:
    """The first placeholder of the innermost transform among `values`, or None."""
    found: Traced | None = None
    for x in values:
        if isinstance(x, Traced) and (found is None or x.depth > found.depth):
            found = x
    return found


def extents(x: Any) -> tuple[int, ...]:
    """The shape of an array, without making a trace depend on it."""
    try:
        return x.extents if isinstance(x, Traced) else tuple(getattr(x, "shape", ()))
    except RuntimeError:  # nested tensors of PyTorch have none
        return describe(x).shape
