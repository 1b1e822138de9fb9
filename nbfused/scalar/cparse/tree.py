"""Facts of a C syntax tree, told by the names of its classes.

pycparser is imported when a text is parsed only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .cuda_functions import ATOMICS

__all__ = ["has_atomics", "kind", "stores", "walk"]


def kind(node: Any) -> str:
    """The name of a node's class."""
    return type(node).__name__


def walk(node: Any) -> Iterator[Any]:
    """A node and all below it."""
    yield node
    for _, child in node.children():
        yield from walk(child)


def stores(node: Any) -> set[str]:
    """The names that are assigned in a tree."""
    found: set[str] = set()
    for n in walk(node):
        target: Any = None
        if kind(n) == "Assignment":
            target = n.lvalue
        elif kind(n) == "UnaryOp" and n.op[-2:] in ("++", "--"):
            target = n.expr
        while kind(target) == "ArrayRef":
            target = target.name
        if kind(target) == "ID":
            found.add(target.name)
    return found


def has_atomics(node: Any) -> bool:
    """True if a tree has calls of atomic functions."""
    return any(kind(n) == "FuncCall" and getattr(n.name, "name", "") in ATOMICS
               for n in walk(node))
