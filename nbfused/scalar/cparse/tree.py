"""Facts of a C syntax tree, told by the names of its classes.

pycparser is imported when a text is parsed only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any

from .cuda.functions import ATOMICS
from .spelling import DEFAULT, LIST, METHOD, NEW, REFERENCE, SELF, Spelling

#: The arguments of a call that the function may write to.
Changes = Callable[[Any], Sequence[Any]]

__all__ = ["has_atomics", "is_list", "kind", "memory_stores", "moves", "name_members",
           "owner_of", "stores", "walk"]


def kind(node: Any) -> str:
    """The name of a node's class."""
    return type(node).__name__


def is_list(node: Any) -> bool:
    """True for values in braces."""
    return kind(node) == "InitList" or (
        kind(node) == "FuncCall" and getattr(node.name, "name", "") == LIST)


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


# Functions of structs -----------------------------------------------------------------


def owner_of(function: Any, spelling: Spelling) -> str:
    """The struct that a function is of; empty for another function."""
    name = function.decl.name
    for prefix in (NEW, DEFAULT):
        if name.startswith(prefix):
            return str(name.removeprefix(prefix))
    if name in spelling.statics:
        return spelling.statics[name]
    args = function.decl.type.args
    first: Any = args.params[0] if args is not None else None
    if getattr(first, "name", "") != SELF:
        return ""
    (own,) = first.type.type.names
    return spelling.instances.get(own, (own, ()))[0]


def name_members(function: Any, members: Set[str],
                 methods: Mapping[str, str]) -> None:
    """Make ``__self.a`` of the names of members, where no variable hides them.

    A constructor returns the struct.
    """
    from pycparser.c_ast import ID

    args = function.decl.type.args
    hidden = {d.name for d in args.params} if args is not None else set()
    _name_inside(function.body, members, methods, hidden)
    for node in walk(function.body) if function.decl.name.startswith(NEW) else ():
        if kind(node) == "Return" and node.expr is None:
            node.expr = ID(SELF, node.coord)


def _name_inside(node: Any, members: Set[str], methods: Mapping[str, str],
                 hidden: set[str]) -> None:
    """Rewrite what is below a node; what it declares is `hidden` after it."""
    from pycparser.c_ast import ID, StructRef

    opens = kind(node) in ("Compound", "For")
    inside = set(hidden) if opens else hidden
    for place in node.__slots__[:-2]:
        value = getattr(node, place)
        if place == "field" or not (isinstance(value, list) or hasattr(value, "coord")):
            continue
        found = []
        for child in value if isinstance(value, list) else [value]:
            name = child.name if kind(child) == "ID" else ""
            called = kind(node) == "FuncCall" and place == "name"
            if called and name in methods and name not in inside:
                own = ID(SELF, child.coord)
                child = StructRef(own, ".", child, child.coord) if methods[
                    name].startswith(METHOD) else ID(methods[name], child.coord)
            elif name in members and name not in inside:
                child = StructRef(ID(SELF, child.coord), ".", child, child.coord)
            elif hasattr(child, "coord"):
                _name_inside(child, members, methods, inside)
            found.append(child)
        setattr(node, place, found if isinstance(value, list) else found[0])
    if kind(node) == "Decl":
        hidden.add(node.name)
