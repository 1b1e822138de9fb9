"""A call of a fused function as a function of its arrays and numbers alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ....arrays import dtype_of
from ....errors import KernelTypeError
from ....support.trees import Structure, flatten
from ..arguments import Arguments, is_number
from ..outside.changes import Changed, with_changes
from ..outside.containers import Copies
from ..outside.scope import Outside, Scope

__all__ = ["FlatCall", "call_on", "stand_in"]


def call_on(leaf: Callable[[Any, str], Any], scope: Scope,
            bound: inspect.BoundArguments, given: Arguments,
            ) -> tuple[Callable[[], Any], Copies]:
    """A call with ``leaf(x, name)`` for each array and number, hidden ones included.

    Returns
    -------
    callable, Copies
        The call, and the containers of its arguments.
    """
    copies = Copies()
    symbols = given.map_leaves(leaf, copies)
    hidden = {name: symbols.pop(name) for name in given.hidden}
    call = inspect.BoundArguments(bound.signature, type(bound.arguments)(
        {**bound.arguments, **symbols}))
    return partial(scope.copy(hidden), *call.args, **call.kwargs), copies


def stand_in(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array of one element that has a shape, to trace with."""
    return as_strided(np.empty(1, dtype), shape, (0,) * len(shape))


class FlatCall:
    """A call of a fused function, as a function of its leaves: arrays and numbers.

    Attributes
    ----------
    results
        The structure of what the function returned last.
    """

    __nbfused_constant__ = True  # to `nf.fuse`

    def __init__(self, name: str, scope: Scope, bound: inspect.BoundArguments,
                 given: Arguments, outside: Outside) -> None:
        self.__name__, self._scope, self._keys = name, scope, outside.keys
        held = given.map_leaves(_held, Copies())  # whoever traces forgets its values
        hidden = {name: held.pop(name) for name in outside.arrays}
        self._given = Arguments(held, hidden, given.varying, given.asked)
        self._bound = inspect.BoundArguments(bound.signature, type(bound.arguments)(
            {**bound.arguments, **held}))
        self.results: Structure | None = None

    def __call__(self, *leaves: Any) -> tuple[Any, ...]:
        """Call the function: the arrays in its result.

        Raises
        ------
        KernelTypeError
            It assigns to a container of its arguments; or what it reads outside is
            another value than when the call was made.
        """
        if self._scope.look().keys != self._keys:
            raise KernelTypeError(
                f"fuse: a value that {self.__name__} reads outside has changed since "
                "JAX traced the call, and its derivative would be that of another "
                "function; pass it as an argument")
        rest = iter(leaves)
        call, copies = call_on(lambda x, name: next(rest), self._scope, self._bound,
                               self._given)
        made = with_changes(call(), copies, self.__name__)
        self._scope.check_rebound()
        if type(made) is Changed:
            raise KernelTypeError(f"{self.__name__} assigns to a container")
        found, self.results = flatten(made)
        return tuple(found)


def _held(x: Any, name: str) -> Any:
    return x if is_number(x) else stand_in(tuple(x.shape), dtype_of(x))
