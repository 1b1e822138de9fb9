"""Operators of the scalar language, from a Python syntax tree to statements."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import partial
from typing import Any

from ..ir.nodes import Literal, Value, literal
from ..source.phrases import ALLOWED, phrase
from ..source.resolve import Operation, apply
from ..source.structure import (
    Local,
    Values,
    Vector,
    immutable,
    locals_in,
    rebuild,
)
from .branches import merge, short_circuit
from .composite.vectors import combined, negated
from .scope import ExpressionParser, Scope
from .sequences import static_items

__all__ = ["EXPRESSIONS", "operate"]

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


def _parse_constant(scope: Scope, node: ast.Constant, stem: str) -> Values:
    """A number in the source."""
    if node.value is None:
        raise scope.error(node, "None is no number; write 0.0 in a rule for an "
                                "argument without a derivative")
    if type(node.value) not in (bool, int, float, complex):
        raise scope.error(node, f"{node.value!r} is not a number. {ALLOWED}")
    return literal(node.value)  # type: ignore[arg-type]


def _parse_binary(scope: Scope, node: ast.BinOp, stem: str) -> Values:
    """An operator with two operands: of numbers, or ``+`` and ``*`` of tuples."""
    chain = [node]  # a long sum is deep on its left, which takes no recursion
    while isinstance(chain[-1].left, ast.BinOp):
        chain.append(chain[-1].left)
    left = scope.values(chain[-1].left)
    for inner in reversed(chain):
        left = _combine(scope, inner, left, scope.values(inner.right),
                        stem if inner is node else "t")
    return left


def _combine(scope: Scope, node: ast.BinOp, left: Values, right: Values,
             stem: str) -> Values:
    """Parse ``left op right``, computed."""
    if isinstance(left, Vector) or isinstance(right, Vector):
        return combined(scope, node, left, right)
    if isinstance(left, tuple) and left:
        if isinstance(node.op, ast.Add) and isinstance(right, tuple):
            return rebuild(_plain(left), (*left, *right))
        if isinstance(node.op, ast.Mult) and isinstance(right, Literal) and \
                right.kind == "int":
            return rebuild(_plain(left), tuple(left) * int(right.text))
    return operate(scope, node, scope.number(node, left), scope.number(node, right),
                   stem)


def operate(scope: Scope, node: ast.BinOp | ast.AugAssign, left: Value, right: Value,
            stem: str) -> Values:
    """Parse ``left op right``."""
    op = _BINARY.get(type(node.op))
    if op is None:
        raise scope.error(node, f"the operator {phrase(node.op)} is not part of the "
                                f"scalar language. {ALLOWED}")
    return apply(scope.emitter, Operation(op), (left, right), stem=stem)


def _parse_unary(scope: Scope, node: ast.UnaryOp, stem: str) -> Values:
    """A sign, ``~`` or ``not``."""
    if isinstance(node.op, ast.Not):
        return scope.emitter.emit("logical_not", scope.condition(node.operand),
                                  stem=stem)
    target, operand = Operation(_UNARY[type(node.op)]), scope.values(node.operand)
    if isinstance(operand, Vector) and target.op == "neg":
        return negated(scope, node, operand)
    number = scope.number(node.operand, operand)
    return apply(scope.emitter, target, (number,), stem=stem)


def _parse_comparison(scope: Scope, node: ast.Compare, stem: str) -> Values:
    """Parse ``a < b < c`` as ``a < b and b < c``, with `b` computed once."""
    if isinstance(node.ops[0], (ast.In, ast.NotIn)) and len(node.ops) == 1:
        return _membership(scope, node, stem)
    left = scope.value(node.left)
    found: Value | None = None
    for op, right in zip(node.ops, node.comparators, strict=True):
        name = _COMPARISON.get(type(op))
        if name is None:
            raise scope.error(node, f"{phrase(op)} is not part of the scalar "
                                    "language; compare with < <= > >= == !=")
        shared: list[Value] = [left]

        def compare(name: str = name, right: ast.expr = right,
                    shared: list[Value] = shared) -> Value:
            shared.append(scope.value(right))
            return scope.emitter.emit(name, *shared)

        found = compare() if found is None else \
            short_circuit(scope, ast.And(), found, compare)
        if len(shared) == 1:  # already false: the rest is never computed
            break
        left = shared[1]
    assert found is not None
    return found


def _membership(scope: Scope, node: ast.Compare, stem: str) -> Values:
    """Parse ``a in (b, c)``: whether `a` equals one of the items."""
    left, items = scope.value(node.left), static_items(scope, node.comparators[0])
    found: Value = literal(False)
    for item in items:
        same = scope.emitter.emit("eq", left, scope.number(node, item))
        found = short_circuit(scope, ast.Or(), found, partial(_itself, same))
    if isinstance(node.ops[0], ast.In):
        return found
    return scope.emitter.emit("logical_not", found, stem=stem)


def _itself(value: Value) -> Value:
    return value


def _parse_boolean(scope: Scope, node: ast.BoolOp, stem: str) -> Values:
    """Parse ``and`` and ``or``: an operand, as in Python."""
    found = scope.value(node.values[0])
    for other in node.values[1:]:
        found = short_circuit(scope, node.op, found, partial(scope.value, other))
    return found


def _parse_ternary(scope: Scope, node: ast.IfExp, stem: str) -> Values:
    """Parse ``a if c else b``: a branch."""
    truth = scope.condition(node.test)
    if isinstance(truth, Literal):
        return scope.values(node.body if truth.value else node.orelse, stem)
    with scope.region() as (then, _):
        a = scope.values(node.body)
    with scope.region() as (orelse, _):
        b = scope.values(node.orelse)
    (merged,) = merge(scope, node, truth, (then, orelse), {stem: (a, b)})
    named = {id(v) for held in scope.env.values() for v in locals_in(held)}
    if any(id(v) in named for side in (a, b) for v in locals_in(side)):
        return immutable(merged)  # in Python it is an array of that name
    return merged


def _plain(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The empty sequence of the kind that a sum of such tuples is."""
    return Local() if isinstance(values, Local) else ()


EXPRESSIONS: dict[type[ast.expr], ExpressionParser] = {
    ast.Constant: _parse_constant, ast.BinOp: _parse_binary,
    ast.UnaryOp: _parse_unary, ast.Compare: _parse_comparison,
    ast.BoolOp: _parse_boolean, ast.IfExp: _parse_ternary,
}
