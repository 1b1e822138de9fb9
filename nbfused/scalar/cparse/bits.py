"""The bits of a number as another type: ``*(int*)&x``, ``std::bit_cast<int>(x)``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..source.resolve import Operation
from .expressions import as_type
from .pointers import EXPRESSIONS as _OTHERS
from .pointers import pointer
from .scope import ExpressionParser, Scope
from .tree import kind
from .values import Typed, call, converted

__all__ = ["EXPRESSIONS", "copied", "read_as", "stored_as"]


def read_as(scope: Scope, node: Any, value: Typed, dtype: np.dtype) -> Typed:
    """The bits of a value as a type of its size."""
    source = value.dtype
    if source == dtype:
        return value
    kinds = {source.kind, dtype.kind}
    if source.itemsize != dtype.itemsize or not kinds <= set("iuf"):
        scope.refuse(node, f"the bits of {source} are not those of {dtype}; numbers of "
                           "one size are read so, as float and int, double and long "
                           "long")
    if kinds <= set("iu"):
        return as_type(scope, node, value, dtype)
    name = f"__bits_{dtype.name}"
    scope.unit.outside[f".{name}"] = Operation("bits", dtype.name)
    return Typed(call(name, converted(value, source)), dtype)


def _seen_through(scope: Scope, node: Any) -> tuple[Any, Any] | None:
    """The type and the operand of ``*(T*)&x`` or ``*(T*)&x[k]``; None of another."""
    if kind(node) != "UnaryOp" or node.op != "*":
        return None
    cast = node.expr
    if kind(cast) != "Cast" or kind(cast.to_type.type) != "PtrDecl" or \
            kind(cast.expr) != "UnaryOp" or cast.expr.op != "&":
        return None
    found = pointer(scope, cast)
    if found is not None and (found.dtype == found.variable.dtype
                              or found.variable.held is not None):
        return None  # an element as it is, or a byte
    return cast.to_type, cast.expr.expr


def _parse_unary(scope: Scope, node: Any) -> Typed:
    """Parse ``*(T*)&x``, or another operator of one operand."""
    found = _seen_through(scope, node)
    if found is None:
        return _OTHERS["UnaryOp"](scope, node)
    return read_as(scope, node, scope.typed(found[1]), scope.dtype(found[0]))


def stored_as(scope: Scope, node: Any, target: Any,
              value: Typed) -> tuple[Any, Typed] | None:
    """Parse ``*(T*)&x = value``: what is stored to, and what."""
    found = _seen_through(scope, target)
    if found is None:
        return None
    cast = as_type(scope, node, value, scope.dtype(found[0]))
    return found[1], read_as(scope, node, cast, scope.typed(found[1]).dtype)


def copied(scope: Scope, node: Any, args: Sequence[Any]) -> tuple[Any, Typed]:
    """Parse ``memcpy(&y, &x, sizeof(y))``: what is stored to, and what."""
    both = args[:2]
    if len(args) != 3 or any(kind(a) != "UnaryOp" or a.op != "&" for a in both):
        scope.refuse(node, "memcpy() copies one number here, memcpy(&y, &x, sizeof(y));"
                           " assign the elements of arrays one by one")
    target, value = both[0].expr, scope.typed(both[1].expr)
    size, dtype = scope.typed(args[2]).number, scope.typed(target).dtype
    if size != dtype.itemsize:
        scope.refuse(node, f"memcpy() of {size} bytes to a number of {dtype.itemsize}")
    return target, read_as(scope, node, value, dtype)


EXPRESSIONS: dict[str, ExpressionParser] = {"UnaryOp": _parse_unary}
