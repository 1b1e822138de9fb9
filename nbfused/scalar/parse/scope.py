"""The state of the parser inside one function, and dispatch by node type."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeGuard

from ...errors import ScalarSyntaxError
from ...support.records import record
from ..ir.emit import Emitter
from ..ir.nodes import Function, Literal, Statement, Value
from ..source.definitions import Source
from ..source.phrases import ALLOWED, phrase
from ..source.structure import Values, Vector

__all__ = ["ExpressionParser", "Grammar", "Scope", "StatementParser"]

#: ``parse(scope, node, stem)`` gives the value of an expression, a tree of values.
#: Names of new SSA values begin with `stem`.
ExpressionParser = Callable[["Scope", Any, str], Values]
#: ``parse(scope, node)`` writes a statement.
StatementParser = Callable[["Scope", Any], None]


@record(frozen=True)
class Grammar:
    """A parser for each type of node.

    Attributes
    ----------
    parse
        Parses a Python function that is called, as `functions.parse` does.
    """

    expressions: Mapping[type[ast.expr], ExpressionParser]
    statements: Mapping[type[ast.stmt], StatementParser]
    parse: Callable[..., Function]


class Scope:
    """The variables of one function, and the emitter that its statements go to.

    Parameters
    ----------
    source
        For messages.
    arrays
        The rank of each SSA name that is an array, None where that is not known.
    outside
        What the names stand for that the function does not assign.
    skipped
        Functions inside the function that the environment gives a meaning.

    Attributes
    ----------
    env
        The value of each variable.
    assigned
        The names that the function assigns.
    """

    def __init__(self, grammar: Grammar, source: Source, emitter: Emitter,
                 arrays: dict[str, int | None], outside: Mapping[str, Any],
                 skipped: frozenset[str] = frozenset()) -> None:
        self.grammar, self.source, self.emitter = grammar, source, emitter
        self.arrays, self.outside, self.skipped = arrays, outside, skipped
        self.env: dict[str, Values] = {}
        self.assigned: set[str] = set()

    def nested(self, source: Source, outside: Mapping[str, Any]) -> Scope:
        """The scope of a function that is written into this one."""
        return Scope(self.grammar, source, self.emitter, self.arrays, outside)

    def error(self, where: ast.AST, message: str) -> ScalarSyntaxError:
        """An error at a node."""
        return self.source.error(where, message)

    @contextmanager
    def region(self) -> Iterator[tuple[list[Statement], dict[str, Values]]]:
        """Collect the statements and variables of a region."""
        outer, self.env = self.env, dict(self.env)
        try:
            with self.emitter.region() as body:
                yield body, self.env
        finally:
            self.env = outer

    def run(self, body: Sequence[ast.stmt]) -> None:
        """Write the statements `body`."""
        for s in body:
            self.emitter.line = s.lineno
            parse = self.grammar.statements.get(type(s))
            if parse is None:
                raise self.error(s, f"{phrase(s)} is not part of the scalar language. "
                                    f"{ALLOWED}")
            parse(self, s)

    def values(self, node: ast.expr, stem: str = "t") -> Values:
        """The value of `node`, or a tree of values."""
        self.emitter.line = node.lineno
        parse = self.grammar.expressions.get(type(node))
        if parse is None:
            raise self.error(node, f"{phrase(node)} is not part of the scalar "
                                   f"language. {ALLOWED}")
        return parse(self, node, stem)

    def value(self, node: ast.expr, stem: str = "t") -> Value:
        """The value of `node`, which must be a single number."""
        return self.number(node, self.values(node, stem))

    def condition(self, node: ast.expr) -> Value:
        """The truth of `node`, as ``if`` sees it."""
        return self.emitter.truth(self.value(node))

    def number(self, node: ast.AST, found: Values) -> Value:
        """`found`, which must be a single number."""
        if isinstance(found, (str, Literal)) and self.arrays.get(str(found)) is None:
            return found
        way_out = "; index it, as in x[i]; one number to differentiate by is passed " \
            "as an array of one element, x.reshape(1), and read as x[0]" \
            if self.is_array(found) else getattr(found, "way_out", "")
        raise self.error(
            node, f"expected a number here, got {self.describe(found)}{way_out}")

    def is_array(self, values: Values) -> TypeGuard[str]:
        """True if `values` is, or may be, an array."""
        return isinstance(values, str) and values in self.arrays

    def describe(self, found: Values) -> str:
        """A phrase for messages: a number, an array, a tuple or a function."""
        if isinstance(found, Vector):
            return f"a {found.kind}"
        if isinstance(found, tuple):
            return "a tuple" if found else "a call without a result"
        if not isinstance(found, (str, Literal)):
            return getattr(found, "phrase", "a function")
        return "a number" if self.arrays.get(str(found)) is None else "an array"
