"""Values known when a function is parsed: literals, local arrays, unrolled loops."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeVar

from ...errors import KernelTypeError

__all__ = ["Known", "LocalList", "known_value", "literal", "literal_parameters",
           "local", "max_iters", "unroll"]

T = TypeVar("T")


class Known:
    """A number that says of itself that it is frozen into the function."""

    plain: Any


@lru_cache(maxsize=8)
def _marked(base: Any) -> Any:
    return type("literal", (Known, base), {})


class _Literal:
    """A number that is part of the compiled function.

    As the annotation or the default of a parameter it makes that parameter a constant:
    its value at a call is frozen into the function, so that a new value compiles
    another one, and it can be the bound of ``nf.unroll`` or the size of ``nf.local``.
    In an expression, ``nf.literal(x)`` is `x`, which has to be known.

    Parameters
    ----------
    value : int, float, or tuple of numbers

    Examples
    --------
    >>> import nbfused as nf
    >>> @nf.elementwise
    ... def power(x, n: nf.literal = 2):
    ...     y = 1.0
    ...     for _ in nf.unroll(range(n)):
    ...         y *= x
    ...     return y
    >>> float(power(3.0)), float(power(3.0, 4))
    (9.0, 81.0)
    """

    __nbfused_form__: str = "literal"
    attr: str = ""
    __name__: str = "literal"

    def __call__(self, value: Any) -> Any:
        """`value`, marked."""
        if isinstance(value, Known):
            return value
        base: Any = int if isinstance(value, bool) else type(value)
        if base not in (int, float, tuple):
            raise KernelTypeError("nf.literal takes an integer, a float or a tuple, "
                                  f"got {type(value).__name__}")
        made = _marked(base)(value)
        made.plain = value
        return made

    def __repr__(self) -> str:
        return "nbfused.literal"


literal: _Literal = _Literal()


def known_value(target: Any) -> Any:
    """The value that `literal` marked, or `target` itself."""
    return target.plain if isinstance(target, Known) else target


def literal_parameters(pyfunc: Any) -> tuple[str, ...]:
    """The parameters whose values are frozen into the function."""
    found = inspect.signature(pyfunc, follow_wrapped=False).parameters.values()
    return tuple(p.name for p in found if isinstance(p.default, Known)
                 or p.annotation is literal or (isinstance(p.annotation, str) and
                 p.annotation.rpartition(".")[2] == "literal"))


class LocalList(list[Any]):
    """A local array in plain Python: a list that is also indexed by tuples."""

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, tuple):
            return super().__getitem__(index)
        head, *rest = index
        inner = super().__getitem__(head)
        return inner[tuple(rest)] if rest else inner

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(index, tuple):
            super().__setitem__(index, value)
        elif len(index) == 1:
            super().__setitem__(index[0], value)
        else:
            super().__getitem__(index[0])[index[1:]] = value


class _Local:
    """A small array of the function's own, zero at first.

    ``v = nf.local(n)`` or ``nf.local((n, m))``; the extents are known when the function
    is parsed, at most 64 elements in all.  The elements take the type of what is
    assigned to them.  Elements at integers written in the source cost nothing; a
    variable index costs a comparison for each element.

    Notes
    -----
    A variable index counts from the end where it is negative.  Beyond the array a load
    gives the last element and a store does nothing.  Slices are copies, as of a list.

    Examples
    --------
    >>> import nbfused as nf
    >>> @nf.elementwise
    ... def digits(x):
    ...     v = nf.local(3)
    ...     for k in range(3):
    ...         v[k] = x % 10
    ...         x //= 10
    ...     return v[0] + v[1] + v[2]
    >>> int(digits(123))
    6
    """

    __nbfused_form__: str = "local"
    attr: str = ""
    __name__: str = "local"

    def __call__(self, shape: int | tuple[int, ...]) -> LocalList:
        """In plain Python, zeros."""
        extents = shape if isinstance(shape, tuple) else (shape,)
        head, *rest = extents
        return LocalList(self(tuple(rest)) if rest else 0 for _ in range(head))


local: _Local = _Local()


class _Unroll:
    """Marks the iterable of a loop that is written out once for each item.

    ``for k in nf.unroll(range(n))``, with `n` known when the function is parsed; also
    over tuples and local arrays, ``enumerate``, ``zip`` and ``reversed`` of these.
    """

    __nbfused_form__: str = "unroll"
    attr: str = ""
    __name__: str = "unroll"

    def __call__(self, iterable: Iterable[Any]) -> Iterable[Any]:
        """In plain Python, `iterable` itself."""
        return iterable


unroll: _Unroll = _Unroll()


class _MaxIters:
    """Says how often a loop is expected to iterate at most.

    ``for i in nf.max_iters(range(n), 64)`` and ``while nf.max_iters(condition, 64)``.
    A derivative records so many iterations (1024 at most) and computes fewer of them
    again.  It is a hint, which no result depends on: a loop that iterates more often is
    as right as without it.  Under ``prefer="recompute"`` nothing more is recorded.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> @nf.elementwise
    ... def power(x, n):
    ...     y = 1.0
    ...     for _ in nf.max_iters(range(n), 100):
    ...         y *= x
    ...     return y
    >>> float(nf.grad(lambda x: power(x, 3).sum())(np.array(2.0)))
    12.0
    >>> power.checkpoint_bytes("float64", "int64")["checkpoint"] == (100 + 32) * 8
    True
    """

    __nbfused_form__: str = "max_iters"
    attr: str = ""
    __name__: str = "max_iters"

    def __call__(self, loop: T, most: int) -> T:
        """In plain Python, what the loop goes over or while what it goes on."""
        return loop


max_iters: _MaxIters = _MaxIters()
