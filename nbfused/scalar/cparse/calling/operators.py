"""Operators and conversions that structs define."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..scope import Scope
from ..spelling import NEW, OPERATOR, OPERATORS
from ..types import is_array, type_text
from ..values import Typed
from .running import call_device

__all__ = ["compound", "convert", "operate"]


def operate(scope: Scope, node: Any, op: str, operands: Sequence[Typed]) -> Typed:
    """The value of ``a + b``, ``-a``, ``a[k]`` where one is a struct."""
    name = OPERATOR + OPERATORS.get(op, "")
    if op in OPERATORS and name in scope.unit.functions:
        return call_device(scope, node, name, operands)
    struct = next(v.dtype for v in operands if v.dtype.names is not None)
    members = ", ".join(struct.names or ())
    scope.refuse(node, f"{type_text(struct)} has no operator {op}; define operator{op} "
                       f"in the preamble, or take one of its members: {members}")


def compound(scope: Scope, node: Any) -> Any:
    """The call that ``a += b`` of a struct is; None of another assignment."""
    from pycparser.c_ast import ID, ExprList, FuncCall

    name = OPERATOR + OPERATORS.get(node.op, "")
    if node.op not in OPERATORS or name not in scope.unit.functions or \
            scope.value(node.lvalue).dtype.names is None:
        return None
    return FuncCall(ID(name, node.coord), ExprList([node.lvalue, node.rvalue]),
                    node.coord)


def convert(scope: Scope, node: Any, value: Typed, dtype: np.dtype) -> Typed:
    """A value as a struct, by a constructor of one argument."""
    struct, types = scope.unit.struct_of(dtype)
    if is_array(value.dtype) or is_array(dtype):
        scope.refuse(node, "an array of a struct converts to nothing; take one of its "
                           "elements, as in p.v[k]")
    if dtype.names is None or NEW + struct not in scope.unit.functions:
        members = ", ".join(value.dtype.names or ())
        scope.refuse(node, f"{type_text(value.dtype)} does not convert to "
                           f"{type_text(dtype)}; " + (
            f"take one of its members: {members}" if dtype.names is None else
            f"give its members, as in {type_text(dtype)}"
            f"{{{', '.join(dtype.names)}}}, or the struct a constructor"))
    return call_device(scope, node, NEW + struct, [value], types)
