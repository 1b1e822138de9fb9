"""Facts of a C syntax tree, told by the names of its classes.

pycparser is imported when a text is parsed only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any

from .cuda.functions import ATOMICS
from .spelling import REFERENCE

#: The arguments of a call that the function may write to.
Changes = Callable[[Any], Sequence[Any]]

__all__ = ["has_atomics", "kind", "memory_stores", "moves", "stores", "walk"]


def kind(node: Any) -> str:
    """The name of a node's class."""
    return type(node).__name__


def walk(node: Any) -> Iterator[Any]:
    """A node and all below it, each before its children."""
    stack = [node]
    while stack:
        found = stack.pop()
        yield found
        stack += [child for _, child in reversed(found.children())]


def stores(node: Any, changes: Changes) -> set[str]:
    """The names that are assigned in a tree, or taken by a reference."""
    return {name for n in walk(node) for target in _targets(n, changes)
            for name in _roots(target)}


def _targets(node: Any, changes: Changes) -> Sequence[Any]:
    """The parts of a node itself that it assigns, or takes by a reference."""
    if kind(node) == "Assignment":
        return [node.lvalue]
    if kind(node) == "UnaryOp" and node.op[-2:] in ("++", "--"):
        return [node.expr]
    if kind(node) == "Decl" and (REFERENCE in node.quals or (
            kind(node.type) == "PtrDecl" and "const" not in node.type.type.quals)):
        return [node.init]
    return changes(node) if kind(node) == "FuncCall" else ()


def memory_stores(node: Any, changes: Changes, pointers: Set[str]) -> set[str]:
    """The pointers that a tree may store through, by themselves or by others.

    `pointers` are declared outside of it.  To move a pointer stores nothing.
    """
    found: set[str] = set()
    others: list[tuple[str, set[str]]] = []
    for n in walk(node):
        target: Any = getattr(n, "lvalue", None)
        if kind(n) == "UnaryOp" and n.op[-2:] in ("++", "--"):
            target = n.expr
        if kind(n) == "FuncCall":
            found = found.union(*map(_roots, changes(n)))
        elif kind(n) == "Decl" and (REFERENCE in n.quals or kind(n.type) == "PtrDecl"):
            others.append((n.name, _roots(n.init)))
            pointers = pointers | {n.name}
        elif kind(target) != "ID":
            found |= _roots(target)
        elif kind(n) == "Assignment" and target.name in pointers:
            others.append((target.name, _roots(n.rvalue)))
    before = -1
    while before != len(found):
        before = len(found)
        found = found.union(*(into for name, into in others if name in found))
    return found


def moves(node: Any, name: str) -> bool:
    """True if a tree assigns a pointer itself, and not what it points to."""
    for n in walk(node):
        target = getattr(n, "lvalue", None)
        if kind(n) == "UnaryOp" and n.op[-2:] in ("++", "--"):
            target = n.expr
        if kind(target) == "ID" and getattr(target, "name", "") == name:
            return True
    return False


#: Where the variable stands in what is a part of it, or points into it.
_OF = {"ArrayRef": ("name",), "StructRef": ("name",), "UnaryOp": ("expr",),
       "BinaryOp": ("left", "right"), "Cast": ("expr",)}


def _roots(target: Any) -> set[str]:
    """The variables that an element or a member may be of, or a pointer point into."""
    if kind(target) == "ID":
        return {str(target.name)}
    return {name for part in _OF.get(kind(target), ())
            for name in _roots(getattr(target, part))}


def has_atomics(node: Any, changes: Changes) -> bool:
    """True if a tree has calls that write: atomic ones, and those of `changes`."""
    return any(kind(n) == "FuncCall" and (
        getattr(n.name, "name", "") in ATOMICS or changes(n)) for n in walk(node))
