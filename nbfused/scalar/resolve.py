"""What a name in a scalar function stands for: a number, an operation, a function."""

from __future__ import annotations

import builtins
import inspect
import math
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import numpy as np

from ..records import record
from .emit import Emitter
from .ir import EFFECTS, Function, Literal, Value, literal
from .python_numbers import plain_number
from .static import known_value
from .vocabulary import OPS

__all__ = ["RAW", "Operation", "Vocabulary", "apply", "arity", "freeze", "function_of",
           "operation", "python_function", "signature"]

#: The functions of the builtins, of `math` and of NumPy that have another name here.
_BUILTINS = {"abs": "abs", "min": "min", "max": "max", "pow": "pow", "round": "rint"}
_MATH = {"fabs": "fabs", "pow": "math_pow", "log": "log"}
_UFUNCS = {
    "absolute": "abs", "subtract": "sub", "multiply": "mul", "divide": "div",
    "true_divide": "div", "floor_divide": "floordiv", "remainder": "mod",
    "power": "pow", "negative": "neg", "positive": "pos", "maximum": "max",
    "minimum": "min", "less": "lt", "less_equal": "le", "greater": "gt",
    "greater_equal": "ge", "equal": "eq", "not_equal": "ne", "bitwise_and": "and",
    "bitwise_or": "or", "bitwise_xor": "xor", "left_shift": "lshift",
    "right_shift": "rshift", "arcsin": "asin", "arccos": "acos", "arctan": "atan",
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "arctan2": "atan2",
    "conjugate": "conj", "fabs": "fabs",
}
_NUMPY = {"where": "select", "round": "rint", "clip": "clip", "real": "real",
          "imag": "imag"}
_CASTS: Mapping[Any, str] = {int: "int", float: "float", bool: "bool"}
_CAST_NAMES = frozenset({
    *_CASTS.values(), "float16", "bfloat16", "float32", "float64", "complex64",
    "complex128", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64))})

_CONSTANTS = {"range": range, "inf": math.inf, "nan": math.nan, "pi": math.pi}

#: The operations on raw arrays take as many operands more as there are dimensions.
RAW = frozenset({"load", "atomic_add", "store"})
_ARITY = {"load": 2, "atomic_add": 3, "store": 3, "math_pow": 2, "clip": 3}


@record(frozen=True)
class Operation:
    """An operation of the vocabulary, or a form of call that stands for several."""

    op: str
    attr: str | None = None


class Vocabulary(dict[str, Any]):
    """Names as definitions inside the package use them: each is an operation."""

    def __missing__(self, name: str) -> Any:
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if name in _CAST_NAMES:
            return Operation("cast", name)
        op = {"where": "select", **_BUILTINS}.get(name, name)
        if op in OPS or op in _FORMS or op in RAW:
            return Operation(op)
        raise KeyError(name)


def operation(target: Any) -> Operation | None:
    """The operation that the Python object `target` is, if it is one."""
    if isinstance(target, Operation):
        return target
    if isinstance(target, type):
        return _cast(target)
    own = getattr(target, "__nbfused_op_name__", None)
    op = own if isinstance(own, str) else _foreign(target)
    return None if op is None else Operation(op)


def _foreign(target: Any) -> str | None:
    """The operation that a function of the builtins, `math` or NumPy is."""
    name = getattr(target, "__name__", "")
    if isinstance(target, np.ufunc):
        op = _UFUNCS.get(name, name)
    elif target is getattr(builtins, name, None):
        op = _BUILTINS.get(name, "")
    elif target is getattr(math, name, None):
        op = _MATH.get(name, name)
    else:
        op = _NUMPY.get(name, "") if target is getattr(np, name, None) else ""
    return op if op in OPS or op in _FORMS else None


def _cast(target: type) -> Operation | None:
    if target in _CASTS:
        return Operation("cast", _CASTS[target])
    if issubclass(target, np.generic) or target.__name__ == "bfloat16":
        return Operation("cast", np.dtype(target).name)
    return None


def function_of(target: Any) -> Function | None:
    """The scalar function that `target` is or carries, if it does."""
    target = _carrier(target)
    if not isinstance(target, Function):
        target = getattr(target, "function", None)
    return target if isinstance(target, Function) else None


def _carrier(target: Any) -> Any:
    """An op over arrays names the scalar function it is made of `scalar`."""
    return getattr(target, "scalar", target)


def python_function(target: Any) -> FunctionType | None:
    """The Python function that `target` is or was made of."""
    target = _carrier(target)
    pyfunc = getattr(target, "pyfunc", target)
    return pyfunc if isinstance(pyfunc, FunctionType) else None


def signature(target: Any) -> inspect.Signature:
    """How `target` is called: a Python function's own way, else by its parameters."""
    pyfunc = python_function(target)
    if pyfunc is not None:
        return inspect.signature(pyfunc, follow_wrapped=False)
    function = function_of(target)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(p, kind)
                              for p in (function.params if function else ())])


def freeze(target: Any) -> Any:
    """`target` as a number or a tuple of numbers of the language; else None."""
    if isinstance(target, Literal):
        return target
    target = plain_number(known_value(target))
    if isinstance(target, np.generic):
        target = target.item()
    if type(target) in (bool, int, float, complex):
        return literal(target)
    if isinstance(target, tuple):
        parts = tuple(freeze(t) for t in target)
        return None if None in parts else parts
    return None


def apply(emitter: Emitter, target: Operation, args: tuple[Value, ...], *,
          stem: str = "t") -> Value | tuple[()]:
    """``target(*args)``, written to `emitter`; the empty tuple if it has no result.

    Raises
    ------
    TypeError
        The number of arguments does not fit.
    """
    form = _FORMS.get(target.op)
    if form is not None and (value := form(emitter, args, stem)) is not None:
        return value
    _check(target.op, len(args))
    if target.op in EFFECTS:
        emitter.effect(target.op, *args)
        return ()
    return emitter.emit(target.op, *args, stem=stem, attr=target.attr)


def arity(op: str) -> int:
    """How many operands an operation or form takes, at least."""
    return OPS[op].arity if op in OPS else _ARITY.get(op, 1)


def _check(op: str, count: int) -> None:
    expected, more = arity(op), op in RAW
    if count < expected or (count > expected and not more):
        raise TypeError(f"{op.removeprefix('math_')} takes {'at least ' * more}"
                        f"{expected} argument(s), got {count}")


Form = Callable[[Emitter, tuple[Value, ...], str], "Value | None"]


def _power(e: Emitter, args: tuple[Value, ...], stem: str) -> Value | None:
    """An integer literal as exponent has a rule that is exact at 0 and below."""
    if len(args) == 2 and isinstance(args[1], Literal) and args[1].kind == "int":
        return e.emit("powi", *args, stem=stem)
    return None


def _math_power(e: Emitter, args: tuple[Value, ...], stem: str) -> Value | None:
    _check("math_pow", len(args))
    base = e.emit("cast", args[0], attr="float")
    return apply(e, Operation("pow"), (base, args[1]), stem=stem) or None


def _logarithm(e: Emitter, args: tuple[Value, ...], stem: str) -> Value | None:
    if len(args) != 2:
        return None
    return e.emit("div", e.emit("log", args[0]), e.emit("log", args[1]), stem=stem)


def _clip(e: Emitter, args: tuple[Value, ...], stem: str) -> Value:
    _check("clip", len(args))
    return e.emit("min", e.emit("max", *args[:2]), args[2], stem=stem)


def _fabs(e: Emitter, args: tuple[Value, ...], stem: str) -> Value:
    _check("fabs", len(args))
    return e.emit("abs", e.emit("cast", *args, attr="float"), stem=stem)


def _folded(op: str) -> Form:
    """Two or more operands, from the left."""

    def form(e: Emitter, args: tuple[Value, ...], stem: str) -> Value:
        if len(args) < 2:
            raise TypeError(f"{op} takes two or more numbers, got {len(args)}")
        value = args[0]
        for other in args[1:-1]:
            value = e.emit(op, value, other)
        return e.emit(op, value, args[-1], stem=stem)

    return form


def _bitwise(logical: str) -> Form:
    """On bools the logical operation, as in NumPy."""

    def form(e: Emitter, args: tuple[Value, ...], stem: str) -> Value | None:
        if args and all(e.is_bool(a) for a in args):
            return e.emit(logical, *args, stem=stem)
        return None

    return form


_FORMS: dict[str, Form] = {
    "pow": _power, "math_pow": _math_power, "log": _logarithm, "clip": _clip,
    "fabs": _fabs, "max": _folded("max"), "min": _folded("min"),
    "and": _bitwise("logical_and"), "or": _bitwise("logical_or"),
    "xor": _bitwise("ne"), "invert": _bitwise("logical_not"),
}
