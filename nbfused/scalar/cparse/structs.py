"""Structs of C bodies: tuples, whose members are known by their positions."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from .elements import nested, part, rank, struct_in
from .expressions import as_type
from .scope import ExpressionParser, Scope
from .tree import kind
from .types import INT64, is_array
from .values import Typed, Variable, constant, converted, literal, member

__all__ = ["EXPRESSIONS", "array_member", "flat", "from_names", "leaf_names",
           "member_of", "number_dtypes", "owner", "with_part"]


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
    if is_array(whole.dtype):
        scope.refuse(node, f"an array has no member {name!r}; take an element first")
    if name not in whole.dtype.names:
        scope.refuse(node, f"there is no member {name!r}; there are "
                           f"{', '.join(whole.dtype.names)}")
    return member(whole, whole.dtype.names.index(name))


def owner(node: Any) -> Any:
    """The struct of ``p.a``, or of ``p->a``, which is ``(*p).a``."""
    from pycparser.c_ast import UnaryOp

    return node.name if node.type == "." else UnaryOp("*", node.name, node.coord)


def with_part(scope: Scope, node: Any, target: Any,
              value: Typed) -> tuple[Any, Typed] | None:
    """The struct that a member is stored to, and its new value, as a tuple's.

    None of a target that is no part of a struct.
    """
    if kind(target) == "StructRef":
        where, place = owner(target), member_of(scope, target)
        whole = scope.value(where)
        names = whole.dtype.names or ()
        chosen = literal(names.index(target.field.name), INT64)
    elif (array := array_member(scope, target)) is not None:
        where, whole = target.name, array
        names, chosen = whole.dtype.names or (), scope.typed(target.subscript)
        place = part(scope, node, whole, chosen)
    else:
        return None
    new = converted(as_type(scope, node, value, place.dtype), place.dtype)
    parts = [member(whole, k).node for k in range(len(names))]
    for k, old in enumerate(parts):
        if chosen.number is None:
            here = ast.Compare(chosen.node, [ast.Eq()], [constant(k)])
            parts[k] = ast.IfExp(here, new, old)
        elif chosen.number == k:
            parts[k] = new
    return where, Typed(ast.Tuple(parts, ast.Load()), whole.dtype)


def array_member(scope: Scope, node: Any) -> Typed | None:
    """The array that ``p.v[k]`` is an element of; None of anything else."""
    whole = struct_in(scope, node.name) if kind(node) == "ArrayRef" else None
    return whole if whole is not None and is_array(whole.dtype) else None


def leaf_names(scope: Scope, variable: Variable) -> list[str]:
    """The names of the numbers that a parameter is passed as."""
    if variable.dtype.names is None:
        return [variable.name]
    return [scope.declare(f"__{variable.name}_{k}", dtype).name
            for k, dtype in enumerate(number_dtypes(variable.dtype))]


def number_dtypes(dtype: np.dtype) -> list[np.dtype]:
    """The dtypes of the numbers of a struct; of a number that alone."""
    if dtype.names is None:
        return [dtype]
    return [d for n in dtype.names for d in number_dtypes(dtype[n])]


def from_names(dtype: np.dtype, names: Sequence[str]) -> ast.expr:
    """The value of a struct from the names of its numbers."""
    return nested(dtype, iter([ast.Name(n, ast.Load()) for n in names]))


def flat(value: Typed) -> list[ast.expr]:
    """The numbers of a value."""
    if value.dtype.names is None:
        return [converted(value, value.dtype)]
    if isinstance(value.node, ast.Tuple):
        return [x for part, n in zip(value.node.elts, value.dtype.names, strict=True)
                for x in flat(Typed(part, value.dtype[n]))]
    return [x for k in range(len(value.dtype.names)) for x in flat(member(value, k))]


EXPRESSIONS: dict[str, ExpressionParser] = {"StructRef": member_of}
