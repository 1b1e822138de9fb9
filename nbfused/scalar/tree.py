"""Scalar functions from Python syntax trees that no Python function stands for."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from .ir import Function
from .parse import from_tree
from .resolve import Vocabulary
from .source import Definition, Source

__all__ = ["parse_tree"]


def parse_tree(name: str, params: Sequence[str], body: Sequence[ast.stmt],
               source: Source, outside: Mapping[str, Any] | None = None) -> Function:
    """The scalar function whose statements are `body`.

    Parameters
    ----------
    name : str
    params : sequence of str
    body : sequence of ast.stmt
        Nodes without a line take that of the node around them.
    source : Source
        What the lines are lines of.
    outside : mapping, optional
        What names stand for that the body does not assign; default: the vocabulary.
    """
    arguments = ast.arguments(posonlyargs=[], args=[ast.arg(p) for p in params],
                              kwonlyargs=[], kw_defaults=[], defaults=[])
    node = ast.FunctionDef(name=name, args=arguments, body=list(body),
                           decorator_list=[])
    node.lineno, node.col_offset = 1, 0
    ast.fix_missing_locations(node)
    known = Vocabulary() if outside is None else outside
    return from_tree(Definition(name, node, source), known)
