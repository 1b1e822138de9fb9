"""`custom_jvp`, functions with a given forward derivative, and `stop_gradient`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ...arrays import dtype_of, is_array
from ...errors import ShapeError
from ...support.trees import map_tree
from ..nodes import is_floating, zeros
from ..rules import custom_vjp
from ..variable import Variable
from .gradients import vjp
from .jacobians import plain

__all__ = ["custom_jvp", "stop_gradient"]

R = TypeVar("R", bound=Callable[..., Any])


class custom_jvp(custom_vjp):
    """A function of arrays with a hand-written directional derivative.

    The rule is linear in the tangents, so that reverse mode is its transpose: one rule
    serves `jvp`, `grad` and `Variable.backward`, at every order.

    Parameters
    ----------
    function : callable
        Of positional arguments; returns an array or a tuple of arrays.
    gradcheck : bool
        To find a wrong rule, as for `custom_vjp`.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> @nf.custom_jvp
    ... def log1pexp(x):
    ...     return np.log(1.0 + np.exp(x))
    >>> @log1pexp.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (dx,) = primals, tangents
    ...     return log1pexp(x), dx * (1.0 - 1.0 / (1.0 + np.exp(x)))
    >>> nf.grad(log1pexp)(np.array(100.0))
    array(1.)
    """

    jvp: Callable[..., Any] | None = None
    way: str = "defjvp(rule)"

    def extras(self) -> dict[str, Any]:
        """The rule, which a copy takes over."""
        return {**super().extras(), "jvp": self.jvp}

    def defjvp(self, rule: R) -> R:
        """Set the rule; usable as a decorator.

        Parameters
        ----------
        rule
            ``rule(primals, tangents) -> (results, tangents of the results)``, linear in
            `tangents`: one for each argument, 0.0 for one that is not floating.
        """
        self.jvp = rule
        self.defvjp(self._forward, self._backward)
        return rule

    def _forward(self, *args: Any) -> tuple[Any, Any]:
        return self.function(*args), args

    def _backward(self, args: Sequence[Any], cotangent: Any) -> tuple[Any, ...]:
        """Pull a cotangent back through the rule, as a function of the tangents."""
        own = [k for k, x in enumerate(args) if _has_tangent(x)]

        def pushed(*tangents: Any) -> Any:
            given: list[Any] = [0.0] * len(args)
            for k, t in zip(own, tangents, strict=True):
                given[k] = t
            assert self.jvp is not None
            made = self.jvp(tuple(args), tuple(given))
            if not isinstance(made, tuple) or len(made) != 2:
                raise ShapeError(f"the rule of {self.name} returned a "
                                 f"{type(made).__name__}; expected (results, tangents)")
            return made[1]

        _, pullback = vjp(pushed, *[zeros(tuple(args[k].shape), dtype_of(args[k]),
                                          plain(args[k])) for k in own])
        found = pullback(*cotangent) if isinstance(cotangent, tuple) else \
            pullback(cotangent)
        made: list[Any] = [None] * len(args)
        for k, g in zip(own, found, strict=True):
            made[k] = g
        return tuple(made)


def _has_tangent(x: Any) -> bool:
    array = isinstance(x, Variable) or (is_array(x) and not isinstance(x, np.generic))
    return array and is_floating(dtype_of(x))


def stop_gradient(tree: Any) -> Any:
    """Give arrays through which nothing is differentiated.

    Parameters
    ----------
    tree : array, Variable, or tree of them
        Anything else in it is handed through.

    Returns
    -------
    array or tree
        The same values: constants to every derivative, inside and outside.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> nf.grad(lambda x: np.sum(x * nf.stop_gradient(x)))(np.array([2.0, 3.0]))
    array([2., 3.])
    """
    return map_tree(tree, lambda x: x.detach() if hasattr(x, "detach") else x)
