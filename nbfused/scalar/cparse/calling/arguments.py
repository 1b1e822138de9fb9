"""Calls of functions of the preamble: what they take, and what they stand for."""

from __future__ import annotations

import ast
from typing import Any

from ....support.records import record
from ..pointers import Pointer, pointer
from ..scope import Scope
from ..structs import array_member
from ..tree import is_list, kind
from ..values import Typed

__all__ = ["Argument", "Effects", "argument", "is_constant", "is_pointer", "part_of"]


@record(frozen=True)
class Argument:
    """An argument of a function of the preamble.

    Attributes
    ----------
    node
        The node of C that it stands at: of the variable, where it is an address.
    value
        A number or a struct; of a pointer, the array.
    array
        The pointer, if it points into an array.
    pointee
        Whether it is the address of one variable.
    """

    node: Any
    value: Typed
    array: Pointer | None = None
    pointee: bool = False


@record(frozen=True)
class Effects:
    """A call that stands for statements.

    Attributes
    ----------
    statements
        They run it, and store to the references that it takes.
    result
        A node of C that names what it returns.
    """

    statements: list[ast.stmt]
    result: Any


def argument(scope: Scope, declared: Any, node: Any) -> Argument:
    """A value, the array that a pointer points into, or the variable."""
    from pycparser.c_ast import UnaryOp

    if is_list(node):
        dtype = scope.unit.dtype(declared.type, scope.unit.types)
        return Argument(node, scope.grammar.initial(scope, node, dtype))
    if not is_pointer(declared):
        return Argument(node, scope.value(node))
    single = scope.lookup(node.name) if kind(node) == "ID" else None
    if single is not None and single.kind == "pointee":
        node = UnaryOp("&", UnaryOp("*", node, node.coord), node.coord)
    if kind(node) == "UnaryOp" and node.op == "&" and array_member(scope, node.expr):
        return Argument(node.expr, scope.value(node.expr), None, True)
    found = pointer(scope, node)
    if found is not None and found.variable.leaves:
        if kind(node) != "UnaryOp" or kind(node.expr) != "ArrayRef":
            scope.refuse(node, f"{found.variable.name!r} is an array of structs, which "
                               "a function does not take; give it one element, as in "
                               "&v[k]")
        found = None
    if found is None and kind(node) == "UnaryOp" and node.op == "&":
        return Argument(node.expr, scope.value(node.expr), None, True)
    several = single is not None and len(single.shape) > 1
    if found is None or several:
        scope.refuse(node, f"the pointer {declared.name!r} takes a raw array, an array "
                           "of one dimension, or the address of a variable: x, x + k, "
                           "&x[k], &v")
    if found.dtype != found.variable.dtype:
        scope.refuse(node, f"the pointer {declared.name!r} would read "
                           f"{found.variable.dtype} as {found.dtype}; convert the "
                           "values")
    return Argument(node, Typed(ast.Name(found.variable.name, ast.Load()),
                                found.dtype), found)


def is_pointer(declared: Any) -> bool:
    """True for ``T* p`` and ``T p[]``."""
    return kind(declared.type) in ("PtrDecl", "ArrayDecl")


def is_constant(declared: Any) -> bool:
    """True for ``const T* p`` and ``const T p[]``."""
    return kind(declared.type) in ("PtrDecl", "ArrayDecl") and \
        "const" in declared.type.type.quals


def part_of(scope: Scope, node: Any) -> tuple[Any, ...]:
    """The variable that is referred to, then the members and indices on the way.

    An index that is not known is unlike any other.
    """
    match kind(node):
        case "ID":
            variable = scope.lookup(node.name)
            return (variable.name if variable else node.name,)
        case "StructRef":
            return (*part_of(scope, node.name), node.field.name)
        case "ArrayRef":
            number = scope.typed(node.subscript).number
            return (*part_of(scope, node.name), object() if number is None else number)
    return part_of(scope, node.expr) if kind(node) == "UnaryOp" else (object(),)
