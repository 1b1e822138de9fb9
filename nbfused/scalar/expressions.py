"""Expressions of the scalar language, from a Python syntax tree to statements."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from .calls import Calls
from .ir import Literal, Value, literal
from .resolve import Operation, apply
from .structure import Local, Values, rebuild
from .words import ALLOWED, words

__all__ = ["Expressions"]

_BINARY: Mapping[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div",
    ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.Pow: "pow", ast.BitAnd: "and",
    ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "lshift", ast.RShift: "rshift",
}
_UNARY: Mapping[type[ast.unaryop], str] = {
    ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert",
}
_COMPARISON: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq",
    ast.NotEq: "ne",
}


class Expressions(Calls):
    """Turns expressions into statements of `emitter`."""

    def closure(self, node: ast.Lambda, stem: str) -> Values:
        """A lambda."""
        raise NotImplementedError

    def values(self, node: ast.expr, stem: str = "t") -> Values:
        """The value of `node`, or a tuple."""
        self.emitter.line = node.lineno
        handler = _HANDLERS.get(type(node))
        if handler is None:
            raise self.error(node, f"{words(node)} is not part of the scalar "
                                   f"language. {ALLOWED}")
        return handler(self, node, stem)

    def condition(self, node: ast.expr) -> Value:
        """The truth of `node`, as ``if`` sees it."""
        return self.emitter.truth(self.value(node))

    def constant(self, node: ast.Constant, stem: str) -> Values:
        """A number in the source."""
        if node.value is None:
            raise self.error(node, "None is no number; write 0.0 in a rule for an "
                                   "argument without a derivative")
        if type(node.value) not in (bool, int, float, complex):
            raise self.error(node, f"{node.value!r} is not a number. {ALLOWED}")
        return literal(node.value)  # type: ignore[arg-type]

    def binary(self, node: ast.BinOp, stem: str) -> Values:
        """An operator with two operands: of numbers, or ``+`` and ``*`` of tuples."""
        chain = [node]  # a long sum is deep on its left, which takes no recursion
        while isinstance(chain[-1].left, ast.BinOp):
            chain.append(chain[-1].left)
        left = self.values(chain[-1].left)
        for inner in reversed(chain):
            left = self.combined(inner, left, self.values(inner.right),
                                 stem if inner is node else "t")
        return left

    def combined(self, node: ast.BinOp, left: Values, right: Values,
                 stem: str) -> Values:
        """``left op right``, computed."""
        if isinstance(left, tuple) and left:
            if isinstance(node.op, ast.Add) and isinstance(right, tuple):
                return rebuild(_plain(left), (*left, *right))
            if isinstance(node.op, ast.Mult) and isinstance(right, Literal) and \
                    right.kind == "int":
                return rebuild(_plain(left), tuple(left) * int(right.text))
        return self.operate(node, self.number(node, left), self.number(node, right),
                            stem)

    def operate(self, node: ast.BinOp | ast.AugAssign, left: Value, right: Value,
                stem: str) -> Values:
        """``left op right``."""
        op = _BINARY.get(type(node.op))
        if op is None:
            raise self.error(node, f"the operator {words(node.op)} is not part of the "
                                   f"scalar language. {ALLOWED}")
        return apply(self.emitter, Operation(op), (left, right), stem=stem)

    def unary(self, node: ast.UnaryOp, stem: str) -> Values:
        """A sign, ``~`` or ``not``."""
        if isinstance(node.op, ast.Not):
            return self.emitter.emit("logical_not", self.condition(node.operand),
                                     stem=stem)
        target = Operation(_UNARY[type(node.op)])
        return apply(self.emitter, target, (self.value(node.operand),), stem=stem)

    def comparison(self, node: ast.Compare, stem: str) -> Values:
        """``a < b < c`` is ``a < b and b < c`` with `b` computed once."""
        left = self.value(node.left)
        found: Value | None = None
        for op, right in zip(node.ops, node.comparators, strict=True):
            name = _COMPARISON.get(type(op))
            if name is None:
                raise self.error(node, f"{words(op)} is not part of the scalar "
                                       "language; compare with < <= > >= == !=")
            shared: list[Value] = [left]

            def compare(name: str = name, right: ast.expr = right,
                        shared: list[Value] = shared) -> Value:
                shared.append(self.value(right))
                return self.emitter.emit(name, *shared)

            found = compare() if found is None else self.both(ast.And(), found, compare)
            if len(shared) == 1:  # already false: the rest is never computed
                break
            left = shared[1]
        assert found is not None
        return found

    def boolean(self, node: ast.BoolOp, stem: str) -> Values:
        """``and`` and ``or``: an operand, as in Python."""
        found = self.value(node.values[0])
        for other in node.values[1:]:
            found = self.both(node.op, found, partial(self.value, other))
        return found

    def ternary(self, node: ast.IfExp, stem: str) -> Values:
        """``a if c else b``: a branch."""
        truth = self.condition(node.test)
        if isinstance(truth, Literal):
            return self.values(node.body if truth.value else node.orelse, stem)
        with self.branch() as (then, _):
            a = self.values(node.body)
        with self.branch() as (orelse, _):
            b = self.values(node.orelse)
        (merged,) = self.merge(node, truth, (then, orelse), {stem: (a, b)})
        return merged


def _plain(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Of the kind that a sum of such tuples is."""
    return Local() if isinstance(values, Local) else ()


_HANDLERS: dict[type[ast.expr], Callable[..., Values]] = {
    ast.Constant: Expressions.constant, ast.Name: Expressions.name,
    ast.Attribute: Expressions.attribute, ast.Tuple: Expressions.packed,
    ast.BinOp: Expressions.binary, ast.UnaryOp: Expressions.unary,
    ast.Compare: Expressions.comparison, ast.BoolOp: Expressions.boolean,
    ast.IfExp: Expressions.ternary, ast.Subscript: Expressions.subscript,
    ast.Call: Expressions.call, ast.List: Expressions.packed,
    ast.ListComp: Expressions.listed,
    ast.Lambda: lambda self, node, stem: self.closure(node, stem),
}
