"""Values of structs: by their constructors, or from lists of their members."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....errors import ScalarSyntaxError
from ..expressions import as_type
from ..scope import Scope
from ..spelling import DEFAULT, NEW
from ..tree import is_list, kind
from ..types import is_array
from ..values import Typed, converted, member, zero
from .running import call_device

__all__ = ["construct", "default", "element", "first_value"]


def construct(scope: Scope, node: Any, dtype: np.dtype, args: Sequence[Any]) -> Typed:
    """The value that ``P(a, b)`` and ``P{a, b}`` are."""
    copied = _value(scope, args[0]) if len(args) == 1 else None
    if copied is not None and copied.dtype == dtype:
        return copied
    struct, types = scope.unit.struct_of(dtype)
    if NEW + struct in scope.unit.functions:
        return call_device(scope, node, NEW + struct, args, types)
    if not args:
        return default(scope, node, dtype)
    return _from_list(scope, node, dtype, args)


def _value(scope: Scope, node: Any) -> Typed | None:
    """The value of an argument; None of a pointer, or a list."""
    if is_list(node) or kind(node) == "NamedInitializer":
        return None
    try:
        return scope.value(node)
    except ScalarSyntaxError:
        return None


def default(scope: Scope, node: Any, dtype: np.dtype) -> Typed:
    """The value of a variable that is declared without one."""
    if dtype.names is None:
        return zero(dtype)
    struct, types = scope.unit.struct_of(dtype)
    for name in (NEW + struct, DEFAULT + struct):
        if name in scope.unit.functions:
            return call_device(scope, node, name, (), types)
    parts = [default(scope, node, dtype[n]) for n in dtype.names]
    return Typed(ast.Tuple([converted(p, p.dtype) for p in parts], ast.Load()), dtype)


def _from_list(scope: Scope, node: Any, dtype: np.dtype, given: Sequence[Any]) -> Typed:
    """The members in their order; the rest is as they are declared."""
    names = dtype.names or ("",)
    if len(given) > len(names):
        members = " elements" if is_array(dtype) else \
            f" members, {', '.join(names)}" if dtype.names else " value"
        scope.refuse(node, f"the list in braces takes {len(names)}{members}; got "
                           f"{len(given)}")
    if dtype.names is None:
        return element(scope, given[0], dtype) if given else zero(dtype)
    rest = default(scope, node, dtype) if len(given) < len(names) else None
    parts = [element(scope, given[k], dtype[n]) if rest is None or k < len(given)
             else member(rest, k) for k, n in enumerate(names)]
    return Typed(ast.Tuple([converted(p, p.dtype) for p in parts], ast.Load()), dtype)


def element(scope: Scope, node: Any, dtype: np.dtype) -> Typed:
    """One value, converted; it may be a list."""
    if is_list(node):
        args = getattr(node, "args", node)
        given = args.exprs if args is not None else ()
        return construct(scope, node, dtype, given) if dtype.names is not None else \
            _from_list(scope, node, dtype, given)
    if kind(node) == "NamedInitializer":
        scope.refuse(node, "members are given in their order, without names")
    return as_type(scope, node, scope.value(node), dtype)


def first_value(scope: Scope, node: Any, given: Any, dtype: np.dtype) -> Typed:
    """The first value of a variable that is declared with one, or with None."""
    return default(scope, node, dtype) if given is None else \
        element(scope, given, dtype)
