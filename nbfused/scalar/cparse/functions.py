"""C functions as scalar functions: parameters, bodies, returned values."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...support.records import record
from ..ir.nodes import Function
from ..parse.functions import parse_tree
from ..source.definitions import Source
from .expressions import as_type
from .scope import Scope
from .structs import from_names, leaf_names
from .values import Typed, Variable, converted, store

__all__ = ["Parameter", "build_function", "declare_parameter", "return_value"]


@record(frozen=True)
class Parameter:
    """A parameter of a C body.

    Attributes
    ----------
    dtype
        Of the value, or of the elements.
    raw
        Whether it is an array that the body indexes.
    written
        Whether the body may write to it: an output.
    """

    name: str
    dtype: np.dtype
    raw: bool = False
    written: bool = False


def declare_parameter(scope: Scope, p: Parameter) -> Variable:
    """Declare a parameter."""
    return scope.declare(p.name, p.dtype, "raw" if p.raw else "value",
                         constant=not p.written)


def build_function(scope: Scope, name: str, variables: Sequence[Variable], tree: Any,
                   last: list[ast.stmt], source: Source) -> Function:
    """The function of a body, by way of the scalar language; `last` ends it.

    It takes the numbers of a struct, and returns those.
    """
    first, names = scope.unit.constants(scope, tree), list[str]()
    for v in variables:
        parts = leaf_names(scope, v)
        names += parts
        if v.dtype.names is not None:
            first.append(ast.Assign([store(v.name)], from_names(v.dtype, parts)))
    with scope.block():
        body = [*first, *scope.body(tree.body.block_items or ()), *last]
    return parse_tree(name, names, body, source, scope.unit.outside, nested=True)


def return_value(scope: Scope, node: Any, value: Typed,
                 dtype: np.dtype) -> list[ast.stmt]:
    """``return`` of a value, converted."""
    return [ast.Return(converted(as_type(scope, node, value, dtype), dtype))]
