"""Structs of C bodies: tuples, whose members are known by their positions."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from .elements import nested, rank
from .expressions import as_type
from .scope import ExpressionParser, Scope
from .tree import kind
from .values import Typed, Variable, converted, literal, member, zero

__all__ = ["EXPRESSIONS", "element", "flat", "from_list",
           "from_names",
           "leaf_names", "member_of", "owner"]


def from_list(scope: Scope, node: Any, dtype: np.dtype, given: Sequence[Any]) -> Typed:
    """The value that ``{a, b}`` is: of a struct, or of one number; the rest is 0."""
    names = dtype.names or ("",)
    if len(given) > len(names):
        members = f" members, {', '.join(names)}" if dtype.names else " value"
        scope.refuse(node, f"the list in braces takes {len(names)}{members}; got "
                           f"{len(given)}")
    if dtype.names is None:
        return element(scope, given[0], dtype) if given else zero(dtype)
    parts = [element(scope, given[k], dtype[n]) if k < len(given) else zero(dtype[n])
             for k, n in enumerate(names)]
    return Typed(ast.Tuple([converted(p, p.dtype) for p in parts], ast.Load()), dtype)


def element(scope: Scope, node: Any, dtype: np.dtype) -> Typed:
    """One value of a list, converted; it may be a list."""
    if kind(node) == "InitList":
        return from_list(scope, node, dtype, node.exprs)
    if kind(node) == "NamedInitializer":
        scope.refuse(node, "members are given in their order, without names")
    return as_type(scope, node, scope.value(node), dtype)


def member_of(scope: Scope, node: Any) -> Typed:
    """Parse ``p.a``."""
    name = node.field.name
    axes = rank(scope, getattr(node.name, "name", "")) if name == "ndim" else None
    if axes is not None:
        return literal(axes, np.dtype(np.int32))
    whole = scope.value(owner(node))
    if whole.dtype.names is None:
        scope.refuse(node, f"a number has no member {name!r}; of a complex one there "
                           "are z.real() and z.imag()")
    if name not in whole.dtype.names:
        scope.refuse(node, f"there is no member {name!r}; there are "
                           f"{', '.join(whole.dtype.names)}")
    return member(whole, whole.dtype.names.index(name))


def owner(node: Any) -> Any:
    """The struct of ``p.a``, or of ``p->a``, which is ``(*p).a``."""
    from pycparser.c_ast import UnaryOp

    return node.name if node.type == "." else UnaryOp("*", node.name, node.coord)


def leaf_names(scope: Scope, variable: Variable) -> list[str]:
    """The names of the numbers that a parameter is passed as."""
    if variable.dtype.names is None:
        return [variable.name]
    return [scope.declare(f"__{variable.name}_{k}", variable.dtype).name
            for k in range(_count(variable.dtype))]


def _count(dtype: np.dtype) -> int:
    return sum(_count(dtype[n]) for n in dtype.names) if dtype.names else 1


def from_names(dtype: np.dtype, names: Sequence[str]) -> ast.expr:
    """The value of a struct from the names of its numbers."""
    return nested(dtype, iter([ast.Name(n, ast.Load()) for n in names]))


def flat(value: Typed) -> list[ast.expr]:
    """The numbers of a value."""
    if value.dtype.names is None:
        return [converted(value, value.dtype)]
    return [x for k in range(len(value.dtype.names)) for x in flat(member(value, k))]


EXPRESSIONS: dict[str, ExpressionParser] = {"StructRef": member_of}
