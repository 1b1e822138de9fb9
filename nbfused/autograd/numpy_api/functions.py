"""NumPy's functions with NumPy's parameters, for Variables and traced arrays.

A function of the table has those parameters of NumPy's that it honours, by the same
names and in the same order; every other one is refused by name unless it has NumPy's
default.
"""

from __future__ import annotations

import inspect
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...arrays.creation import array_like
from ...arrays.traced import Traced
from ...errors import KernelTypeError
from ...registry.operations import NUMPY
from ..graph import GraphArray
from ..nodes import NUMBERS
from .refusals import refuse_options

__all__ = ["NumpyFunction", "numpy_function", "with_arrays"]

#: What NumPy makes arrays of.
_LISTS = (list, tuple)
#: NumPy's names of parameters that are operands: a list of numbers is an array there.
_OPERANDS = frozenset((
    "a", "a1", "a2", "b", "x", "x1", "x2", "y", "v", "A", "B", "m", "z", "condition",
    "element", "test_elements", "a_min", "a_max", "min", "max", "weights", "args", "xi",
    "operands"))
#: Functions that choose by the elements of a condition: a list of it stays one.
_CHOOSING = (np.compress, np.extract)
#: The same of as many as are given; between `einsum`'s are the labels of their axes.
_SEVERAL = frozenset(("args", "xi", "operands"))
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
        self._operands = _OPERANDS - {"condition"} if function in _CHOOSING \
            else _OPERANDS
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
        if any(type(x) in _LISTS for x in (*args, *kwargs.values())):
            args, kwargs = self._with_arrays(args, kwargs)
        if self._whole:
            return self.call(*args, **kwargs)
        if len(args) <= self._positional and self.taken.issuperset(kwargs) and not any(
                x is np._NoValue for x in (*args, *kwargs.values())):
            return self.call(*args, **kwargs)
        bound = inspect.BoundArguments(self._own, self._by_name(args, kwargs))
        return self.call(*bound.args, **bound.kwargs)

    def _with_arrays(self, args: Sequence[Any], kwargs: Mapping[str, Any],
                     ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The arguments with arrays for lists of numbers, where NumPy has operands."""
        operands = self.listed_operands(args)
        named = [n for n, x in kwargs.items()
                 if n in self._operands and type(x) in _LISTS]
        if not operands and not named:
            return args, kwargs
        whole = with_arrays((*args, *kwargs.values()))
        given = dict(zip(kwargs, whole[len(args):], strict=True))
        return ([whole[k] if k in operands else x for k, x in enumerate(args)],
                {n: given[n] if n in named else x for n, x in kwargs.items()})

    def listed_operands(self, args: Sequence[Any]) -> Sequence[int]:
        """The positions of lists in `args`, where NumPy's function has operands."""
        names = [p.name for p in self.signature.parameters.values()
                 if p.kind in _POSITIONAL or p.name in _SEVERAL]
        labelled = names == ["operands"] and not isinstance(args[0], str)
        if names and names[-1] in _SEVERAL and not labelled:
            names += [names[-1]] * len(args)
        return [k for k, (x, name) in enumerate(zip(args, names, strict=False))
                if name in self._operands and type(x) in _LISTS]

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


def with_arrays(found: Sequence[Any]) -> Sequence[Any]:
    """Operands with arrays for lists of numbers, like the first that is none.

    Lists of arrays stay as they are.
    """
    if not any(type(x) in _LISTS for x in found):
        return found
    like = next((x for kind in (Traced, GraphArray) for x in found
                 if isinstance(x, kind)), None)
    return found if like is None else [
        _array(x, like) if type(x) in _LISTS else x for x in found]


def _array(x: Any, like: Any) -> Any:
    if any(not isinstance(leaf, NUMBERS) for leaf in _leaves(x)):
        return x
    host = np.asarray(x)
    return like.constant(host, (x,)) if isinstance(like, Traced) else array_like(
        host, like.data)


def _leaves(x: Any) -> Iterator[Any]:
    for item in x:
        if type(item) in _LISTS:
            yield from _leaves(item)
        else:
            yield item


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
