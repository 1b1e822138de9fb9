"""Reuse of costly values that one stage of a row computes and later ones need.

softmax adds up ``exp(x - top)`` and then divides it: the second time it is read where
the result is going to be.  Its derivative adds up products of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from ...scalar.ir.clean import IMPURE, clean
from ...scalar.ir.nodes import (
    Let,
    Literal,
    Value,
    drop_params,
    substitute,
    used_params,
    walk,
)
from ...scalar.typing.types import Typed
from .function_names import FUNCTIONS

__all__ = ["cost_of", "is_cheap", "is_straight", "reused_value",
           "substitute_trees", "vector_bytes", "vectors"]

#: Operations that take longer than storing and loading what they give.
_COSTLY = frozenset(op for ops in FUNCTIONS.values() for op in ops) - {"max", "min"}

#: Statements that take about as long to compile as an elementary function.
_ELEMENTARY = 4


class _Expressions:
    """Expression trees of a function's names over its parameters.

    Attributes
    ----------
    trees
        For each name that an operation at the top level assigns.
    costly
        The names whose trees have an elementary function in them.
    """

    def __init__(self, typed: Typed) -> None:
        function = typed.function
        self.trees: dict[str, Hashable] = {p: ("parameter", p) for p in function.params}
        self.costly: set[str] = set()
        for s in function.body.statements:
            if isinstance(s, Let) and len(s.results) == 1:
                self._add(s)

    def _add(self, s: Let) -> None:
        parts = [self._tree(v) for v in s.args]
        if s.op in IMPURE or None in parts:
            return
        (name,) = s.results
        self.trees[name] = (s.op, s.attr, *parts)
        if s.op in _COSTLY or self.costly.intersection(a for a in s.args
                                                      if isinstance(a, str)):
            self.costly.add(name)

    def _tree(self, v: Value) -> Hashable:
        return v if isinstance(v, Literal) else self.trees.get(v)


def is_cheap(typed: Typed) -> bool:
    """Whether a function has no elementary function in it."""
    return not any(isinstance(s, Let) and s.op in _COSTLY
                   for s in walk(typed.function.body))


def cost_of(typed: Typed) -> int:
    """Statements of a function; an elementary function counts as several."""
    return sum(_ELEMENTARY if isinstance(s, Let) and s.op in _COSTLY else 1
               for s in walk(typed.function.body))


def is_straight(typed: Typed) -> bool:
    """Whether a function has neither branches nor loops."""
    return all(isinstance(s, Let) for s in typed.function.body.statements)


def vector_bytes(*functions: Typed) -> int:
    """Bytes of the vectors that a kernel of such functions should have."""
    return 32 if all(map(is_cheap, functions)) else 64


def vectors(*functions: Typed) -> str:
    """A line that says how long the vectors of a kernel of such functions should be."""
    return "narrow_vectors()" if vector_bytes(*functions) == 32 else "wide_vectors()"


def reused_value(typed: Typed, later: Sequence[Typed]) -> tuple[str, Hashable] | None:
    """The last costly value of a function that others compute, too, and its tree."""
    found = _Expressions(typed)
    for name, tree in reversed(found.trees.items()):
        if name in found.costly and any(
                substitute_trees(f, {"": tree}) is not f for f in later):
            return name, tree
    return None


def substitute_trees(typed: Typed, kept: Mapping[str, Hashable]) -> Typed:
    """Replace expression trees in `typed` by parameters named as in `kept`."""
    names = {tree: name for name, tree in kept.items()}
    trees = _Expressions(typed).trees
    known = {v: names[tree] for v, tree in trees.items() if tree in names}
    if not known:
        return typed

    def value(v: Value) -> Value:
        return known.get(v, v) if isinstance(v, str) else v

    function = typed.function
    body = substitute(function.body, value)  # what assigned them is dead now
    params = (*function.params, *dict.fromkeys(known.values()))
    function = clean(replace(function, params=params, body=body))
    dtypes = {**typed.dtypes, **{name: typed.dtypes[v] for v, name in known.items()}}
    return replace(typed, dtypes=dtypes,
                   function=drop_params(function, used_params(function)))
