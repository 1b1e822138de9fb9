"""Numbers, names and operators of C, as expressions of the scalar language."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..source.resolve import Operation
from .cuda.functions import CONSTANTS
from .scope import ExpressionParser, Scope
from .spelling import TRAIT
from .tree import kind
from .types import TRAITS, common_dtype, promote
from .values import Typed, call, converted, literal, operand

__all__ = ["BOOL", "COMPARISONS", "EXPRESSIONS", "as_type", "combine", "common_type",
           "decided"]

BOOL = np.dtype(np.bool_)
_INT8 = np.dtype(np.int8)
_INT32, _UINT32 = np.dtype(np.int32), np.dtype(np.uint32)
_INT64, _UINT64 = np.dtype(np.int64), np.dtype(np.uint64)
_WHOLE = (_INT32, _UINT32, _INT64, _UINT64)
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)

_ARITHMETIC: Mapping[str, type[ast.operator]] = {
    "+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div, "%": ast.Mod,
    "&": ast.BitAnd, "|": ast.BitOr, "^": ast.BitXor, "<<": ast.LShift,
    ">>": ast.RShift,
}
_LOGICAL: Mapping[str, type[ast.boolop]] = {"&&": ast.And, "||": ast.Or}
COMPARISONS: Mapping[str, type[ast.cmpop]] = {
    "<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE, "==": ast.Eq,
    "!=": ast.NotEq,
}
_FOLDS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_,
    "|": operator.or_, "^": operator.xor, "<<": operator.lshift,
    ">>": operator.rshift, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}
_INTEGERS = ("%", "&", "|", "^", "<<", ">>")
_NUMBER = re.compile(r"(0[xX][\da-fA-F]+|0[bB][01]+|\d+)([uUlL]*)")


def _parse_constant(scope: Scope, node: Any) -> Typed:
    """A number as it is written, or a character."""
    text = node.value
    if node.type == "char":
        return literal(ord(ast.literal_eval(text)), _INT8)
    if node.type == "string":
        scope.refuse(node, "a string has no place in a kernel")
    whole = _NUMBER.fullmatch(text)
    if whole is not None:
        return _parse_integer(scope, node, *whole.groups())
    if text.lower().startswith("0x"):
        return literal(float.fromhex(text.rstrip("fFlL")), _FLOAT64)
    if "'" in text:
        scope.refuse(node, f"the number {text} is not understood here; write it "
                           "without '")
    single = text[-1] in "fF"
    return literal(float(text.rstrip("fFlL")), _FLOAT32 if single else _FLOAT64)


def _parse_integer(scope: Scope, node: Any, digits: str, suffix: str) -> Typed:
    """An integer in the first type that holds it."""
    octal = digits.startswith("0") and digits.isdigit()
    value = int(digits, 8 if octal else 0)
    kinds: Sequence[np.dtype] = _WHOLE
    if "u" in suffix.lower():
        kinds = [k for k in kinds if k.kind == "u"]
    elif digits.isdigit() and not octal:
        kinds = [k for k in kinds if k != _UINT32]
    if "l" in suffix.lower():
        kinds = [k for k in kinds if k.itemsize == 8]
    for dtype in kinds:
        if value <= np.iinfo(dtype).max:
            return literal(value, dtype)
    scope.refuse(node, f"the integer {digits} does not fit 64 bits")


def _parse_name(scope: Scope, node: Any) -> Typed:
    """A variable, or a constant of C's headers."""
    if node.name.startswith(TRAIT):
        return literal(bool(decided(scope, node)), BOOL)
    variable = scope.lookup(node.name)
    if variable is None and node.name in CONSTANTS:
        number = CONSTANTS[node.name]
        if isinstance(number, np.floating):
            return literal(number, number.dtype)
        return literal(number, BOOL if isinstance(number, bool) else
                       _constant_type(number))
    if variable is None:
        scope.refuse(node, f"{node.name!r} is not declared")
    if variable.kind != "value":
        scope.refuse(node, f"{node.name!r} is " + _NO_NUMBER[variable.kind].format(
            node.name))
    if variable.number is not None:
        return literal(variable.number, variable.dtype)
    return Typed(ast.Name(variable.name, ast.Load()), variable.dtype)


def decided(scope: Scope, node: Any) -> bool | None:
    """The answer that types alone give to a condition; None if they do not."""
    if kind(node) == "ID" and node.name.startswith(TRAIT):
        question, names = scope.unit.spelling.traits[node.name]
        return TRAITS[question].answer(*(scope.named_dtype(node, n) for n in names))
    if kind(node) == "UnaryOp" and node.op == "!":
        inner = decided(scope, node.expr)
        return None if inner is None else not inner
    if kind(node) != "BinaryOp" or node.op not in _LOGICAL:
        return None
    left, right = decided(scope, node.left), decided(scope, node.right)
    settles = node.op == "||"
    if left is settles or right is settles:
        return settles
    return None if left is None or right is None else not settles


def _constant_type(number: int) -> np.dtype:
    """The type of an integer of the headers."""
    return next(d for d in (_INT32, _UINT32, _INT64)
                if np.iinfo(d).min <= number <= np.iinfo(d).max)


def _parse_binary(scope: Scope, node: Any) -> Typed:
    """An operator with two operands."""
    if node.op in _LOGICAL:
        return _parse_logical(scope, node)
    chain = [node]  # a long sum is deep on its left, which takes no recursion
    while isinstance(chain[-1].left, type(node)) and not (
            chain[-1].left.op in _LOGICAL or _of_pointers(scope, chain[-1].left)):
        chain.append(chain[-1].left)
    found = scope.value(chain[-1].left)
    for inner in reversed(chain):
        found = combine(scope, inner, inner.op, found, scope.value(inner.right))
    return found


def _of_pointers(scope: Scope, node: Any) -> bool:
    """True if an operator may have two pointers as operands, as in ``q - p``."""
    return all(_may_point(scope, n) for n in (node.left, node.right))


def _may_point(scope: Scope, node: Any) -> bool:
    if kind(node) == "BinaryOp":
        return node.op in ("+", "-") and _may_point(scope, node.left)
    variable = scope.lookup(node.name) if kind(node) == "ID" else None
    return variable.kind in ("raw", "local") if variable else \
        kind(node) in ("UnaryOp", "Cast") and getattr(node, "op", "&") == "&"


def _parse_logical(scope: Scope, node: Any) -> Typed:
    """Parse ``a && b && c``, or with ``||``."""
    values, inner = [node.right], node.left
    while isinstance(inner, type(node)) and inner.op == node.op:
        values.append(inner.right)
        inner = inner.left
    return Typed(ast.BoolOp(_LOGICAL[node.op](), [
        scope.truth(inner), *_perhaps_truths(scope, reversed(values))]), BOOL)


def _perhaps_truths(scope: Scope, nodes: Iterable[Any]) -> list[ast.expr]:
    """Conditions that are not always computed."""
    with scope.perhaps():
        return [scope.truth(n) for n in nodes]


def combine(scope: Scope, node: Any, op: str, a: Typed, b: Typed) -> Typed:
    """Parse ``a op b`` in the type that C computes it in."""
    if a.dtype.names is not None or b.dtype.names is not None:
        return scope.grammar.operate(scope, node, op, (a, b))
    dtype = promote(a.dtype) if op in ("<<", ">>") else common_dtype(a.dtype, b.dtype)
    if op in _INTEGERS and (dtype.kind not in "iu" or b.dtype.kind not in "biu"):
        scope.refuse(node, f"the operator {op} takes integers, got {a.dtype} and "
                           f"{b.dtype}" + "; use fmod" * (op == "%"))
    if op in COMPARISONS and dtype.kind == "c" and op not in ("==", "!="):
        scope.refuse(node, "complex numbers are not ordered; compare .real()")
    if a.number is not None and b.number is not None:
        folded = _folded(op, a, b, dtype)
        if folded is not None:
            return folded
    both = a.number is not None and b.number is not None
    convert = converted if both else operand
    left, right = convert(a, dtype), convert(b, dtype)
    if op in COMPARISONS:
        return Typed(ast.Compare(left, [COMPARISONS[op]()], [right]), BOOL)
    if dtype.kind == "i" and op in "/%":
        scope.unit.outside |= {f".{o}": Operation(o) for o in ("truncdiv", "fmod")}
        return Typed(call("truncdiv" if op == "/" else "fmod", converted(a, dtype),
                          converted(b, dtype)), dtype)
    symbol = ast.FloorDiv if op == "/" and dtype.kind == "u" else _ARITHMETIC[op]
    return Typed(ast.BinOp(left, symbol(), right), dtype)


def _parse_unary(scope: Scope, node: Any) -> Typed:
    """A sign, ``!``, ``~`` or sizeof."""
    value = scope.value(node.expr) if node.op in ("!", "+", "-", "~") else None
    if value is not None and value.dtype.names is not None:
        return scope.grammar.operate(scope, node, node.op, (value,))
    if node.op == "!":
        return Typed(ast.UnaryOp(ast.Not(), scope.truth(node.expr)), BOOL)
    if node.op == "sizeof":
        with scope.perhaps():  # what it measures is not computed
            dtype = scope.dtype(node.expr) if kind(node.expr) == "Typename" \
                else scope.value(node.expr).dtype
        return literal(dtype.itemsize, _UINT64)
    if value is None:
        scope.refuse(node, _UNARY.get(node.op, f"the operator {node.op} is not "
                                               "understood here"))
    dtype = promote(value.dtype)
    if value.number is not None and node.op != "~":
        number = value.number if node.op == "+" else -value.number
        return literal(number, dtype)
    if node.op == "~" and dtype.kind not in "iu":
        scope.refuse(node, f"the operator ~ takes an integer, got {dtype}")
    inner = converted(value, dtype)
    op = {"+": ast.UAdd, "-": ast.USub, "~": ast.Invert}[node.op]()
    return Typed(ast.UnaryOp(op, inner), dtype)


def _parse_ternary(scope: Scope, node: Any) -> Typed:
    """Parse ``c ? a : b``, of which one side is computed."""
    with scope.perhaps():
        a, b = scope.value(node.iftrue), scope.value(node.iffalse)
    dtype = common_type(scope, node, a, b)
    return Typed(ast.IfExp(scope.truth(node.cond), converted(a, dtype),
                           converted(b, dtype)), dtype)


def common_type(scope: Scope, node: Any, a: Typed, b: Typed) -> np.dtype:
    """The type of ``c ? a : b``."""
    if a.dtype != b.dtype and (a.dtype.names or b.dtype.names):
        scope.refuse(node, "both sides of ?: must be structs of one type")
    return a.dtype if a.dtype == b.dtype else common_dtype(a.dtype, b.dtype)


def _parse_cast(scope: Scope, node: Any) -> Typed:
    """Parse ``(T)x``."""
    if kind(node.to_type.type) != "TypeDecl":
        scope.refuse(node, "a cast to anything but a number is not understood here")
    return as_type(scope, node, scope.value(node.expr), scope.dtype(node.to_type))


def _parse_typed(scope: Scope, node: Any) -> Typed:
    """A value that is translated already: an operand of an operator of a struct."""
    found: Typed = node
    return found


def as_type(scope: Scope, node: Any, value: Typed, dtype: np.dtype) -> Typed:
    """`value` cast to `dtype`."""
    if value.dtype != dtype and (value.dtype.names or dtype.names):
        return scope.grammar.convert(scope, node, value, dtype)
    if value.dtype.kind == "c" and dtype.kind != "c":
        scope.refuse(node, "a complex number does not convert to a real one; take "
                           ".real() or .imag()")
    if value.number is not None:
        return literal(value.number, dtype)
    return Typed(converted(value, dtype), dtype)


def _folded(op: str, a: Typed, b: Typed, dtype: np.dtype) -> Typed | None:
    """The number that an operator gives; None where it is left to the kernel."""
    x, y = (literal(v.number or 0, dtype) for v in (a, b))
    if op == "/" and dtype.kind != "c" and y.number:
        if dtype.kind == "f":
            return literal(x.number / y.number, dtype)  # type: ignore[operator]
        quotient = abs(int(x.number)) // abs(int(y.number))  # type: ignore[arg-type]
        same = (x.number < 0) == (y.number < 0)  # type: ignore[operator]
        return literal(quotient if same else -quotient, dtype)
    if op not in _FOLDS or (op in ("<<", ">>") and not 0 <= int(y.number.real) < 64):  # type: ignore[union-attr]
        return None
    try:
        number = _FOLDS[op](x.number, y.number)
        return literal(number, BOOL if op in COMPARISONS else dtype)
    except (OverflowError, TypeError):
        return None


_ARRAY = "an array; index it, as in {}[i]"
#: What a variable is that is no number, and the way out.
_NO_NUMBER = {"raw": _ARRAY, "local": _ARRAY,
              "lambda": "a lambda; call it, as in {}(x)",
              "pointee": "a pointer; take its value, as in *{}",
              "unset": "a pointer that has no array yet; give {} one, as in &x[k]"}
_UNARY = {"&": "the address of a value is taken by a pointer, by atomics and by "
               "functions of the preamble only"}

EXPRESSIONS: dict[str, ExpressionParser] = {
    "Constant": _parse_constant, "ID": _parse_name, "BinaryOp": _parse_binary,
    "UnaryOp": _parse_unary, "TernaryOp": _parse_ternary, "Cast": _parse_cast,
    "Typed": _parse_typed,
}
