"""NumPy's functions with NumPy's parameters, for Variables and traced arrays.

A function of the table has those parameters of NumPy's that it honours, by the same
names and in the same order; every other one is refused by name unless it has NumPy's
default.
"""

from __future__ import annotations

import inspect
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...errors import KernelTypeError
from ...registry.operations import NUMPY
from .methods import refuse_options

__all__ = ["NumpyFunction", "numpy_function"]

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY,
               inspect.Parameter.POSITIONAL_OR_KEYWORD)


class NumpyFunction:
    """An implementation of a NumPy function, called as NumPy's own.

    Parameters
    ----------
    function
        NumPy's.
    call
        What it is here.
    """

    def __init__(self, function: Callable[..., Any], call: Callable[..., Any]) -> None:
        self.name = f"{function.__module__}.{function.__name__}"
        self.call = call
        self._own = inspect.signature(call)
        #: Whether it takes whatever NumPy's takes.
        self._whole = [p.kind for p in self._own.parameters.values()] == [
            inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]
        self.taken: frozenset[str] = frozenset(self._own.parameters)
        try:
            self.signature = inspect.signature(function)
        except ValueError:  # written in C, in an older NumPy
            self.signature = self._own
        self._positional = _shared_parameters(self.signature, self._own)

    def __call__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call it with the arguments of NumPy's function.

        Raises
        ------
        KernelTypeError
            One of them is not honoured.
        """
        if self._whole:
            return self.call(*args, **kwargs)
        if len(args) <= self._positional and self.taken.issuperset(kwargs) and not any(
                x is np._NoValue for x in (*args, *kwargs.values())):
            return self.call(*args, **kwargs)
        bound = inspect.BoundArguments(self._own, self._by_name(args, kwargs))
        return self.call(*bound.args, **bound.kwargs)

    def _by_name(self, args: Sequence[Any], kwargs: Mapping[str, Any],
                 ) -> OrderedDict[str, Any]:
        try:
            given = self.signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise KernelTypeError(f"{self.name}{self.signature}: {error}") from None
        for p in self.signature.parameters.values():
            if p.kind is p.VAR_KEYWORD:
                given |= given.pop(p.name, {})
        refuse_options(self.name, {n: x for n, x in given.items()
                                   if n not in self.taken})
        return OrderedDict((n, x) for n, x in given.items() if n in self.taken
                           and x is not np._NoValue)


def _shared_parameters(theirs: inspect.Signature, ours: inspect.Signature) -> int:
    """Number of leading positional parameters that two functions share."""
    count = 0
    for a, b in zip(theirs.parameters.values(), ours.parameters.values(), strict=False):
        if a.kind is b.kind is a.VAR_POSITIONAL:
            return sys.maxsize
        if a.name != b.name or a.kind not in _POSITIONAL or b.kind not in _POSITIONAL:
            break
        count += 1
    return count


@lru_cache(maxsize=512)
def numpy_function(function: Callable[..., Any]) -> NumpyFunction | None:
    """Look up the implementation of a NumPy function."""
    call = NUMPY.get(f"{function.__module__}.{function.__name__}")
    return None if call is None else NumpyFunction(function, call)
