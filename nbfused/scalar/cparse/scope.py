"""The state of the translation inside one C function, and dispatch by node type."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any, NoReturn

import numpy as np

from ...support.records import record
from ..source.definitions import Source
from .spelling import AUTO
from .tree import kind
from .types import is_array
from .unit import Unit
from .values import Typed, Variable, call, constant

__all__ = ["Before", "ExpressionParser", "Grammar", "Last", "Scope", "StatementParser"]

#: ``parse(scope, node)`` gives the value of an expression.
ExpressionParser = Callable[["Scope", Any], Typed]
#: ``parse(scope, node)`` gives the statements that a statement becomes.
StatementParser = Callable[["Scope", Any], list[ast.stmt]]
#: Gives the statements that end an iteration.
Last = Callable[[], list[ast.stmt]]


@record(frozen=True)
class Grammar:
    """A parser for each type of node, by the name of its class.

    Attributes
    ----------
    expressions, statements
        The parsers.
    convert
        Converts a value to a struct, or from one.
    operate
        Applies an operator of which an operand is a struct.
    initial
        The value that a variable of some type begins with, which may be a list.
    """

    expressions: Mapping[str, ExpressionParser]
    statements: Mapping[str, StatementParser]
    convert: Callable[[Scope, Any, Typed, np.dtype], Typed]
    operate: Callable[[Scope, Any, str, Sequence[Typed]], Typed]
    initial: Callable[[Scope, Any, np.dtype], Typed]


@record
class Before:
    """Changes of variables inside expressions, which run before the statement.

    Attributes
    ----------
    root
        The expression, or statement, that is evaluated once for certain.
    statements
        The changes in their order.
    values
        By the id of a node of C, the value that it has after its change.
    """

    root: Any
    statements: list[ast.stmt] = field(default_factory=list)
    values: dict[int, Typed] = field(default_factory=dict)


class Scope:
    """The variables of one function of a `unit`.

    Parameters
    ----------
    source
        Where errors are that no node has a place for.

    Attributes
    ----------
    types
        What the names of types stand for here.
    blocks
        The variables of each open block by their names in C, the innermost last.
    constants
        The constants of the preamble that the function names.
    taken
        The names in the Python tree.
    before_continue
        For each open loop, the statements that ``continue`` runs first.
    before
        What runs before the statement that is parsed; None in an expression that may
        be left out.
    leave
        Gives the statements that leave the function: what ``return`` becomes.
    reached
        The statements of the function, the one that is parsed, the number of blocks
        around them.
    """

    def __init__(self, grammar: Grammar, unit: Unit, source: Source) -> None:
        self.grammar, self.unit, self.source = grammar, unit, source
        self.types: Mapping[str, np.dtype] = unit.types
        self.blocks: list[dict[str, Variable]] = [{}]
        self.constants: dict[str, Variable] = {}
        self.taken: set[str] = set()
        self.before_continue: list[Last] = []
        self.before: Before | None = None
        self.leave: Callable[[Any], list[ast.stmt]] = lambda node: []
        self.reached: tuple[Sequence[Any], int, int] = (), 0, 0

    def refuse(self, node: Any, message: str) -> NoReturn:
        """Raise a `ScalarSyntaxError` at a node of C."""
        self.unit.refuse(node, message, self.source)

    # Names -------------------------------------------------------------------------

    @contextmanager
    def block(self) -> Iterator[None]:
        """Forget the names that are declared inside."""
        self.blocks.append({})
        try:
            yield
        finally:
            self.blocks.pop()

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Declare what every other name hides: constants of the preamble."""
        inside, self.blocks = self.blocks, [self.constants]
        try:
            yield
        finally:
            self.blocks = inside

    def lookup(self, name: str) -> Variable | None:
        """The variable of that name, of the innermost block."""
        for block in reversed(self.blocks):
            if name in block:
                return block[name]
        return self.constants.get(name)

    def unique(self, names: Iterable[str]) -> set[str]:
        """The variables of some names; a reference is the variable that it is of."""
        found = map(self.lookup, names)
        return {v.name for v in found if v is not None}

    def declare(self, name: str, dtype: np.dtype, kind: str = "value",
                shape: tuple[int, ...] = (), constant: bool = False,
                number: Any = None) -> Variable:
        """A new variable of the innermost block."""
        unique, count = name, 0
        while unique in self.taken:
            count += 1
            unique = f"{name}_{count}"
        self.taken.add(unique)
        variable = Variable(unique, dtype, kind, shape, constant, number)
        self.blocks[-1][name] = variable
        return variable

    def dtype(self, node: Any, value: Typed | None = None) -> np.dtype:
        """The dtype of a declared type; ``auto`` is that of the first value."""
        if value and getattr(node.type.type, "names", [""])[0] == AUTO:
            return value.dtype
        return self.unit.dtype(node, self.types, self.source)

    def named_dtype(self, node: Any, name: str) -> np.dtype:
        """The dtype that a type's name stands for."""
        return self.unit.named_dtype(node, name, self.types, self.source)

    @contextmanager
    def evaluated(self, root: Any) -> Iterator[Before]:
        """Collect what has to run before `root` is evaluated."""
        outer, self.before = self.before, Before(root)
        try:
            yield self.before
        finally:
            self.before = outer

    @contextmanager
    def perhaps(self) -> Iterator[None]:
        """An expression that is computed under a condition: it changes nothing."""
        outer, self.before = self.before, None
        try:
            yield
        finally:
            self.before = outer

    # Dispatch ----------------------------------------------------------------------

    def typed(self, node: Any) -> Typed:
        """The number that a C expression is."""
        value = self.value(node)
        if is_array(value.dtype):
            self.refuse(node, "an array stands where a number is expected; take one of "
                              "its elements, as in p.v[k]")
        if value.dtype.names is not None:
            self.refuse(node, "a struct stands where a number is expected; take one of "
                              f"its members: {', '.join(value.dtype.names)}")
        return value

    def value(self, node: Any) -> Typed:
        """The value of a C expression: a number, or a struct."""
        name = kind(node)
        parse = self.grammar.expressions.get(name)
        if parse is None:
            self.refuse(node, f"{_WORDS.get(name, name)} is not understood here")
        return parse(self, node)

    def truth(self, node: Any) -> ast.expr:
        """An expression as a condition."""
        value = self.typed(node)
        if value.number is not None:
            return constant(bool(value.number))
        return value.node if value.dtype == np.bool_ else call("bool", value.node)

    def statement(self, node: Any) -> list[ast.stmt]:
        """The statements of a C statement, which know its line."""
        parse = self.grammar.statements.get(kind(node))
        if parse is None:  # a value that nobody uses; refused if it is no value
            with self.evaluated(node) as before:
                self.typed(node)
            return before.statements
        with self.evaluated(getattr(node, "cond", None) or node) as before:
            found = [*parse(self, node)]
        found = [*before.statements, *found]
        line = node.coord.line if node.coord is not None else 1
        new: list[ast.AST] = [*found]
        while new:  # what has a line is a statement inside, and known below as well
            n = new.pop()
            if not hasattr(n, "lineno"):
                if isinstance(n, (ast.stmt, ast.expr)):
                    n.lineno, n.col_offset = line, 0
                new += ast.iter_child_nodes(n)
        return found

    def body(self, nodes: Sequence[Any], first: int = 0) -> list[ast.stmt]:
        """The statements of a function from the `first` on."""
        outer, found = self.reached, list[ast.stmt]()
        for k in range(first, len(nodes)):
            self.reached = nodes, k, len(self.blocks)
            found += self.statement(nodes[k])
        self.reached = outer
        return found

    def statements(self, nodes: Sequence[Any]) -> list[ast.stmt]:
        """Statements in order."""
        return [s for node in nodes for s in self.statement(node)]


_WORDS = {"InitList": "a list in braces", "ExprList": "the comma operator",
          "CompoundLiteral": "a literal in braces after a cast", "Typename": "a type",
          "Case": "a case inside a block of another", "Default": "a default inside a "
          "block of another"}
