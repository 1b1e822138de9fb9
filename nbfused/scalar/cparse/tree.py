"""Facts of a C syntax tree, told by the names of its classes.

pycparser is imported when a text is parsed only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .cuda_functions import ATOMICS
from .spelling import REFERENCE

#: The arguments of a call that the function may write to.
Changes = Callable[[Any], Sequence[Any]]

__all__ = ["has_atomics", "kind", "stores", "walk"]


def kind(node: Any) -> str:
    """The name of a node's class."""
    return type(node).__name__


def walk(node: Any) -> Iterator[Any]:
    """A node and all below it."""
    yield node
    for _, child in node.children():
        yield from walk(child)


def stores(node: Any, changes: Changes) -> set[str]:
    """The names that are assigned in a tree, or taken by a reference."""
    found: set[str] = set()
    for n in walk(node):
        targets: Sequence[Any] = ()
        if kind(n) == "Assignment":
            targets = [n.lvalue]
        elif kind(n) == "UnaryOp" and n.op[-2:] in ("++", "--"):
            targets = [n.expr]
        elif kind(n) == "Decl" and REFERENCE in n.quals:
            targets = [n.init]
        elif kind(n) == "FuncCall":
            targets = changes(n)
        found.update(name for name in map(_root, targets) if name)
    return found


def _root(target: Any) -> str:
    """The variable that an element or a member is of."""
    while kind(target) in ("ArrayRef", "StructRef"):
        target = target.name
    return str(target.name) if kind(target) == "ID" else ""


def has_atomics(node: Any, changes: Changes) -> bool:
    """True if a tree has calls that write: atomic ones, and those of `changes`."""
    return any(kind(n) == "FuncCall" and (
        getattr(n.name, "name", "") in ATOMICS or changes(n)) for n in walk(node))
