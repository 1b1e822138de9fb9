"""The arguments of an operation as a flat list: structs and tuples taken apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any

import numpy as np

from ....autograd import Variable
from ....support.records import record
from ..pairs import label_of, parts_in
from ..views import fields_of

__all__ = ["Layout", "keep", "kept", "layout_of"]

#: What stands for an argument: the name of a leaf, or how to make the struct again.
Tree = Any


@record(frozen=True)
class _Struct:
    """A tuple or struct of some type; `parts` by name, or by number."""

    type: type
    parts: tuple[tuple[Any, Tree], ...]

    def rebuild(self, leaves: Mapping[str, Any]) -> Any:
        """A struct of this type with other leaves."""
        parts = {n: _rebuild(tree, leaves) for n, tree in self.parts}
        if issubclass(self.type, (tuple, list)):
            make = getattr(self.type, "_make", tuple)
            return make(parts.values())
        if not is_dataclass(self.type):
            return parts
        found = object.__new__(self.type)
        for name, value in parts.items():
            object.__setattr__(found, name, value)
        return found


def _rebuild(tree: Tree, leaves: Mapping[str, Any]) -> Any:
    return tree.rebuild(leaves) if isinstance(tree, _Struct) else leaves[tree]


@record(frozen=True)
class Layout:
    """The structure of the arguments of a call, down to their leaves.

    Attributes
    ----------
    names
        Of the leaves, as the user writes them: ``"p.x"``.
    annotations
        Of the leaves.
    trees
        For each parameter, what it is made of.
    """

    names: tuple[str, ...]
    annotations: tuple[Any, ...]
    trees: tuple[tuple[str, Tree], ...]

    def arguments(self, leaves: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by their parameters, made of these leaves."""
        return {p: _rebuild(tree, leaves) for p, tree in self.trees}

    def annotation(self, name: str) -> Any:
        """The annotation of a leaf, or None."""
        return dict(zip(self.names, self.annotations, strict=True)).get(name)


def layout_of(arguments: Mapping[str, Any],
              annotations: Mapping[str, Any]) -> tuple[Layout, list[Any]]:
    """The layout of some arguments, and their leaves."""
    found: list[tuple[str, Any, Any]] = []
    trees = tuple((p, _tree(p, value, annotations.get(p), found))
                  for p, value in arguments.items())
    return Layout(tuple(n for n, _, _ in found), tuple(a for _, a, _ in found),
                  trees), [value for _, _, value in found]


def _tree(name: str, value: Any, annotation: Any,
          found: list[tuple[str, Any, Any]]) -> Tree:
    expected = fields_of(annotation)
    parts = parts_in(value, expected)
    if parts is None or not (isinstance(value, (tuple, list, Mapping, np.ndarray)) or
                             is_dataclass(value)):
        found.append((name, annotation, value))
        return name
    return _Struct(type(value), tuple(
        (n, _tree(label_of(name, n), v, (expected or {}).get(n), found))
        for n, v in parts.items()))


def keep(ctx: Any, given: Sequence[Any]) -> None:
    """Keep arguments of a node for its backward: Variables as those of the tape."""
    ctx.numbers = [None if isinstance(x, Variable) else x for x in given]
    ctx.save_for_backward(*(x for x in given if isinstance(x, Variable)))


def kept(ctx: Any) -> list[Any]:
    """The arguments that `keep` has kept."""
    saved = iter(ctx.saved_tensors)
    return [next(saved) if x is None else x for x in ctx.numbers]
