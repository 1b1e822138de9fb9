"""Expressions of C bodies, as expressions of the scalar language with casts."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ..resolve import Operation
from .arrays import Arrays
from .functions import ATOMICS, CONSTANTS, CFunction, divide, known, limit
from .text import CAST, LIMIT
from .types import common, promoted
from .values import (
    Typed,
    call,
    constant,
    converted,
    literal,
    operand,
    subscript,
)

__all__ = ["BOOL", "Expressions"]

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
_COMPARISON: Mapping[str, type[ast.cmpop]] = {
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


class Expressions(Arrays):
    """Turns a C expression into a `Typed` one; types are known on the way."""

    def typed(self, node: Any) -> Typed:
        """The value of a C expression."""
        name = type(node).__name__
        handler = _HANDLERS.get(name)
        if handler is None:
            self.refuse(node, f"{_WORDS.get(name, name)} is not understood here")
        return handler(self, node)

    def truth(self, node: Any) -> ast.expr:
        """An expression as a condition."""
        value = self.typed(node)
        if value.number is not None:
            return constant(bool(value.number))
        if value.dtype == BOOL:
            return value.node
        return call("bool", value.node)

    def constant(self, node: Any) -> Typed:
        """A number as it is written, or a character."""
        text = node.value
        if node.type == "char":
            return literal(ord(ast.literal_eval(text)), _INT8)
        if node.type == "string":
            self.refuse(node, "a string has no place in a kernel")
        whole = _NUMBER.fullmatch(text)
        if whole is not None:
            return self.integer(node, *whole.groups())
        if text.lower().startswith("0x"):
            return literal(float.fromhex(text.rstrip("fFlL")), _FLOAT64)
        if "'" in text:
            self.refuse(node, f"the number {text} is not understood here; write it "
                              "without '")
        single = text[-1] in "fF"
        return literal(float(text.rstrip("fFlL")), _FLOAT32 if single else _FLOAT64)

    def integer(self, node: Any, digits: str, suffix: str) -> Typed:
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
        self.refuse(node, f"the integer {digits} does not fit 64 bits")

    def name(self, node: Any) -> Typed:
        """A variable, or a constant of C's headers."""
        variable = self.lookup(node.name)
        if variable is None and node.name in CONSTANTS:
            number = CONSTANTS[node.name]
            if isinstance(number, np.floating):
                return literal(number, number.dtype)
            return literal(number, BOOL if isinstance(number, bool) else
                           self.constant_type(number))
        if variable is None:
            self.refuse(node, f"{node.name!r} is not declared")
        if variable.kind != "value":
            self.refuse(node, f"{node.name!r} is an array; index it, as in "
                              f"{node.name}[i]")
        return Typed(ast.Name(variable.name, ast.Load()), variable.dtype)

    def constant_type(self, number: int) -> np.dtype:
        """The type of an integer of the headers."""
        return next(d for d in (_INT32, _UINT32, _INT64)
                    if np.iinfo(d).min <= number <= np.iinfo(d).max)

    def binary(self, node: Any) -> Typed:
        """An operator with two operands."""
        if node.op in _LOGICAL:
            return self.logical(node)
        chain = [node]  # a long sum is deep on its left, which takes no recursion
        while isinstance(chain[-1].left, type(node)) and \
                chain[-1].left.op not in _LOGICAL:
            chain.append(chain[-1].left)
        found = self.typed(chain[-1].left)
        for inner in reversed(chain):
            found = self.combined(inner, inner.op, found, self.typed(inner.right))
        return found

    def logical(self, node: Any) -> Typed:
        """``a && b && c``, or with ``||``."""
        values, inner = [node.right], node.left
        while isinstance(inner, type(node)) and inner.op == node.op:
            values.append(inner.right)
            inner = inner.left
        return Typed(ast.BoolOp(_LOGICAL[node.op](), [
            self.truth(v) for v in (inner, *reversed(values))]), BOOL)

    def combined(self, node: Any, op: str, a: Typed, b: Typed) -> Typed:
        """``a op b`` in the type that C computes it in."""
        dtype = promoted(a.dtype) if op in ("<<", ">>") else common(a.dtype, b.dtype)
        if op in _INTEGERS and (dtype.kind not in "iu" or b.dtype.kind not in "biu"):
            self.refuse(node, f"the operator {op} takes integers, got {a.dtype} and "
                              f"{b.dtype}" + "; use fmod" * (op == "%"))
        if op in _COMPARISON and dtype.kind == "c" and op not in ("==", "!="):
            self.refuse(node, "complex numbers are not ordered; compare .real()")
        if a.number is not None and b.number is not None:
            folded = _folded(op, a, b, dtype)
            if folded is not None:
                return folded
        both = a.number is not None and b.number is not None
        convert = converted if both else operand
        left, right = convert(a, dtype), convert(b, dtype)
        if op in _COMPARISON:
            return Typed(ast.Compare(left, [_COMPARISON[op]()], [right]), BOOL)
        if dtype.kind == "i" and op in "/%":
            self.outside |= {".divide": divide(), ".fmod": Operation("fmod")}
            return Typed(call("divide" if op == "/" else "fmod", converted(a, dtype),
                              converted(b, dtype)), dtype)
        kind = ast.FloorDiv if op == "/" and dtype.kind == "u" else _ARITHMETIC[op]
        return Typed(ast.BinOp(left, kind(), right), dtype)

    def unary(self, node: Any) -> Typed:
        """A sign, ``!``, ``~`` or sizeof."""
        if node.op == "!":
            return Typed(ast.UnaryOp(ast.Not(), self.truth(node.expr)), BOOL)
        if node.op == "sizeof":
            dtype = self.dtype(node.expr) if type(node.expr).__name__ == "Typename" \
                else self.typed(node.expr).dtype
            return literal(dtype.itemsize, _UINT64)
        if node.op not in ("+", "-", "~"):
            self.refuse(node, _UNARY.get(node.op, f"the operator {node.op} is not "
                                                  "understood here"))
        value = self.typed(node.expr)
        dtype = promoted(value.dtype)
        if value.number is not None and node.op != "~":
            number = value.number if node.op == "+" else -value.number
            return literal(number, dtype)
        if node.op == "~" and dtype.kind not in "iu":
            self.refuse(node, f"the operator ~ takes an integer, got {dtype}")
        inner = converted(value, dtype)
        op = {"+": ast.UAdd, "-": ast.USub, "~": ast.Invert}[node.op]()
        return Typed(ast.UnaryOp(op, inner), dtype)

    def ternary(self, node: Any) -> Typed:
        """``c ? a : b``, of which one side is computed."""
        a, b = self.typed(node.iftrue), self.typed(node.iffalse)
        dtype = a.dtype if a.dtype == b.dtype else common(a.dtype, b.dtype)
        return Typed(ast.IfExp(self.truth(node.cond), converted(a, dtype),
                               converted(b, dtype)), dtype)

    def cast(self, node: Any) -> Typed:
        """``(T)x``."""
        if type(node.to_type.type).__name__ != "TypeDecl":
            self.refuse(node, "a cast to anything but a number is not understood here")
        return self.as_type(node, self.typed(node.expr), self.dtype(node.to_type))

    def as_type(self, node: Any, value: Typed, dtype: np.dtype) -> Typed:
        """`value` cast to `dtype`."""
        if value.dtype.kind == "c" and dtype.kind != "c":
            self.refuse(node, "a complex number does not convert to a real one; take "
                              ".real() or .imag()")
        if value.number is not None:
            return literal(value.number, dtype)
        return Typed(converted(value, dtype), dtype)

    # Calls -------------------------------------------------------------------------

    def called(self, node: Any) -> Typed:
        """A function, a cast in the form of a call, a method of CuPy's."""
        if type(node.name).__name__ != "ID":
            return self.method(node)
        name, args = node.name.name, self.arguments(node)
        if name.startswith(CAST):
            return self.construction(node, self.type_named(node, name[len(CAST):]),
                                     args)
        if name.startswith(LIMIT):
            return self.limit(node, *name[len(LIMIT):].split("_", 1))
        if name in ATOMICS:
            return self.atomic(node, name, args)
        if name == "__ldg" and len(args) == 1:
            variable, index = self.address(args[0])
            return Typed(subscript(variable.name, index, ast.Load()), variable.dtype)
        device = self.device_function(node, name, args)
        if device is not None:
            return device
        function = known().get(name)
        if function is None:
            self.refuse(node, f"the function {name}() is not known; write it as a "
                              "__device__ function in the preamble")
        values = [self.typed(a) for a in args]
        if len(values) != function.arity:
            self.refuse(node, f"{name}() takes {function.arity} arguments, got "
                              f"{len(values)}")
        return self.applied(name, function, values)

    def limit(self, node: Any, what: str, name: str) -> Typed:
        """``numeric_limits<T>::max()``."""
        dtype = self.type_named(node, name)
        field = limit(what, dtype)
        if field is None:
            self.refuse(node, f"numeric_limits<{dtype}>::{what}() is not understood")
        return literal(field, dtype)

    def arguments(self, node: Any) -> list[Any]:
        """The arguments of a call, as they are written."""
        return list(node.args.exprs) if node.args is not None else []

    def construction(self, node: Any, dtype: np.dtype, args: Sequence[Any]) -> Typed:
        """``T(x)``, and ``complex<float>(x, y)``."""
        if not args:
            return literal(0, dtype)
        values = [self.typed(a) for a in args]
        if len(values) == 1:
            return self.as_type(node, values[0], dtype)
        if dtype.kind != "c" or len(values) > 2:
            self.refuse(node, f"{dtype}(…) takes one number, got {len(values)}")
        part = np.empty(0, dtype).real.dtype
        real, imaginary = (call(dtype.name, converted(v, part)) for v in values)
        turned = ast.BinOp(imaginary, ast.Mult(), constant(1j))
        return Typed(ast.BinOp(real, ast.Add(), turned), dtype)

    def applied(self, name: str, function: CFunction, values: Sequence[Typed]) -> Typed:
        """A call of a function of CUDA's."""
        dtype = promoted(values[0].dtype)
        for v in values[1:]:
            dtype = common(dtype, v.dtype)
        if function.rule == "float32":
            dtype = _FLOAT32
        elif function.rule in ("float", "bool") and dtype.kind in "iu":
            dtype = _FLOAT64
        if name in ("max", "min") and dtype.kind == "f":
            function = known()[f"f{name}"]
        result = dtype
        if function.rule == "bool":
            result = BOOL
        elif function.rule == "part" or name == "abs":
            result = np.empty(0, dtype).real.dtype
        if name.removesuffix("f") in ("pow", "__pow") and _whole(values[1]):
            exponent = constant(int(values[1].number.real))  # type: ignore[union-attr]
            return Typed(ast.BinOp(converted(values[0], dtype), ast.Pow(), exponent),
                         dtype)
        self.outside[f".{name}"] = function.target
        found = call(name, *(converted(v, dtype) for v in values))
        return Typed(found, result)

    def atomic(self, node: Any, name: str, args: Sequence[Any]) -> Typed:
        """``atomicMax(&y[i], v)``: the old value."""
        operation = ATOMICS[name]
        count = 3 if name == "atomicCAS" else 2
        if len(args) != count:
            self.refuse(node, f"{name}() takes {count} arguments, got {len(args)}")
        variable, index = self.address(args[0])
        if variable.constant:
            self.refuse(node, f"{variable.name!r} must be a raw output")
        values = [self.typed(a) for a in args[1:]]
        if name == "atomicSub":
            values = [self.combined(node, "-", literal(0, variable.dtype), values[0])]
        self.outside[f".{name}"] = operation
        found = call(name, ast.Name(variable.name, ast.Load()), index,
                     *(converted(v, variable.dtype) for v in values))
        return Typed(found, variable.dtype)

    def device_function(self, node: Any, name: str, args: Sequence[Any],
                        ) -> Typed | None:
        """A call of a function of the preamble; None if there is none."""
        raise NotImplementedError

    def method(self, node: Any) -> Typed:
        """``_ind.size()``, ``x.shape()[0]``, ``z.real()``."""
        target = node.name
        if type(target).__name__ != "StructRef":
            self.refuse(node, "only a function's name can be called")
        field = target.field.name
        if field in ("real", "imag"):
            return self.applied(field, known()[field], [self.typed(target.name)])
        owner = getattr(target.name, "name", "")
        variable = self.lookup(f"_{str(owner).lstrip('_')}_{field}")
        if variable is None:
            self.refuse(node, f"{owner}.{field}() is not understood here; there are "
                              "_ind.size(), x.size() and x.shape()[k] of a raw x, and "
                              "z.real(), z.imag()")
        return Typed(ast.Name(variable.name, ast.Load()), variable.dtype)

    def assigned(self, node: Any) -> NoReturn:
        """An assignment inside an expression."""
        self.refuse(node, "an assignment inside an expression is not understood here; "
                          "make it a statement of its own")


def _whole(value: Typed) -> bool:
    """Whether an exponent is a small integer."""
    n = value.number
    return n is not None and not isinstance(n, complex) and abs(n) <= 64 and n == int(n)


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
        return literal(number, BOOL if op in _COMPARISON else dtype)
    except (OverflowError, TypeError):
        return None


_UNARY = {
    "*": "a pointer is not understood here; index the array",
    "&": "the address of a value is not understood here; only atomics take one",
    **dict.fromkeys(("++", "--", "p++", "p--"),
                    "++ and -- inside an expression are not understood here; make "
                    "them statements of their own"),
}
_WORDS = {"StructRef": "a member of a struct", "InitList": "a list in braces",
          "ExprList": "the comma operator", "CompoundLiteral": "a literal of a struct",
          "Typename": "a type"}
_HANDLERS: Mapping[str, Callable[[Expressions, Any], Typed]] = {
    "Constant": Expressions.constant, "ID": Expressions.name,
    "BinaryOp": Expressions.binary, "UnaryOp": Expressions.unary,
    "TernaryOp": Expressions.ternary, "Cast": Expressions.cast,
    "FuncCall": Expressions.called, "ArrayRef": Expressions.element,
    "Assignment": Expressions.assigned,
}
