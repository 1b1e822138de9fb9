"""Names of the parts of Python in messages."""

from __future__ import annotations

import ast

__all__ = ["ALLOWED", "phrase"]

ALLOWED = ("Allowed are arithmetic, comparisons, and/or/not, if and else, for over "
           "range(...), while, assignments to names and elements, tuples, return, and "
           "calls of math, numpy, nbfused and of your own scalar functions.")


def phrase(node: ast.AST) -> str:
    """The kind of `node` as one writes it in a message."""
    return _WORDS.get(type(node).__name__, type(node).__name__)


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
