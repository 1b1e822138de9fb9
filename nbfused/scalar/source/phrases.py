"""Names of the parts of Python in messages."""

from __future__ import annotations

import ast
from typing import Any

from ..language.row import OPS

__all__ = ["ALLOWED", "builtin_for", "nearest", "phrase"]

ALLOWED = ("Allowed are arithmetic, comparisons, and/or/not, if and else, for over "
           "range(...), while, assignments to names and elements, tuples, return, and "
           "calls of math, numpy, nbfused and of your own scalar functions.")


def phrase(node: ast.AST) -> str:
    """The kind of `node` as one writes it in a message."""
    return _WORDS.get(type(node).__name__, type(node).__name__)


def builtin_for(name: str) -> str:
    """The way out, if another library's function `name` has one of the language."""
    known = name in OPS and OPS[name].python == f"nf.{name}"
    return f"; write nf.{name}(x)" if known else ""


def nearest(owner: Any, name: str) -> str:
    """The attribute of `owner` that a misspelt `name` may have meant; "" if none."""
    from difflib import get_close_matches  # late: for errors only

    near = get_close_matches(name, dir(owner), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


_WORDS = {
    "Dict": "a dict",
    "Set": "a set", "JoinedStr": "an f-string", "ListComp": "a comprehension",
    "GeneratorExp": "a generator", "NamedExpr": "the operator :=", "Await": "await",
    "Yield": "yield", "Starred": "*unpacking", "MatMult": "@", "In": "in",
    "NotIn": "not in", "Is": "is", "IsNot": "is not", "Try": "try", "With": "with",
    "Raise": "raise", "Assert": "assert", "Delete": "del", "Import": "import",
    "ImportFrom": "import", "Global": "global", "Nonlocal": "nonlocal",
    "ClassDef": "a class", "FunctionDef": "a function inside the function",
    "Match": "match", "AsyncFunctionDef": "async", "DictComp": "a comprehension",
    "SetComp": "a comprehension", "Slice": "a slice",
}
