"""Python objects as numbers, operations or functions of the scalar language."""

from __future__ import annotations

import cmath
import inspect
import math
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import numpy as np

from ...support.dtypes import DTYPES
from ...support.records import record
from ..ir.emit import Emitter
from ..ir.nodes import EFFECTS, Function, Literal, Value, literal
from ..language.composite import Composite
from ..language.library import WRITTEN
from ..language.vocabulary import NUMPY, OPS
from ..typing.python_numbers import plain_number
from .static import known_value
from .structure import Vector

__all__ = ["RAW", "Operation", "Vocabulary", "apply", "arity", "freeze", "function_of",
           "operation", "python_function", "signature"]

#: Functions of Python and NumPy that are operations by another name, or forms; by their
#: `id`, as what is looked up need not have a hash.
_NAMES: Mapping[int, str] = {
    **{id(o.implementation): o.name for o in OPS.values() if o.definition is None},
    **{id(alias): o.name for o in OPS.values() for alias in o.aliases},
    id(math.fabs): "fabs", id(math.pow): "math_pow",
    id(math.hypot): "math_hypot", id(np.fabs): "fabs",
    id(np.clip): "clip"}
#: The attribute of a function of `cmath`: of complex numbers, whatever it is given.
_COMPLEX = "complex"
_CASTS: Mapping[Any, str] = {int: "int", float: "float", bool: "bool"}
_CAST_NAMES = frozenset({*_CASTS.values(), *DTYPES})


_CONSTANTS = {"range": range, "inf": math.inf, "nan": math.nan, "pi": math.pi}

#: Of a power of ten that float32 holds exactly.
_MOST_DECIMALS = 10

#: The operations on raw arrays take as many operands more as there are dimensions.
RAW = frozenset({"load", "atomic_add", "store"})
_ARITY = {"load": 2, "atomic_add": 3, "store": 3, "math_pow": 2,
          "math_hypot": 1, "clip": 3}


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
        op = {"where": "select"}.get(name, name)
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
    if op is None:
        return None
    if target is getattr(cmath, getattr(target, "__name__", ""), None):
        return Operation(op, _COMPLEX)
    ordering = isinstance(target, np.ufunc) and op in OPS and OPS[op].ordering
    return Operation(op, NUMPY if ordering else None)


def _foreign(target: Any) -> str | None:
    """The operation that a function of the builtins, `math` or NumPy is."""
    name = getattr(target, "__name__", "")
    by_name = isinstance(target, np.ufunc) or any(
        target is getattr(module, name, None) for module in (math, cmath))
    op = _NAMES.get(id(target), name if by_name else "")
    return op if op in OPS or op in _FORMS else None


def _cast(target: type) -> Operation | None:
    if target in _CASTS:
        return Operation("cast", _CASTS[target])
    if issubclass(target, np.generic) or target.__name__ == "bfloat16":
        return Operation("cast", np.dtype(target).name)
    op = _NAMES.get(id(target))  # complex
    return Operation(op) if op else None


def function_of(target: Any) -> Function | None:
    """The scalar function that `target` is or carries, if it does."""
    target = _carrier(target)
    if not isinstance(target, Function):
        target = getattr(target, "function", None)
    return target if isinstance(target, Function) else None


def _carrier(target: Any) -> Any:
    """The scalar function of an op over arrays: its attribute `scalar`."""
    return getattr(target, "scalar", target)


def python_function(target: Any) -> FunctionType | None:
    """The Python function that `target` is or was made of, or that stands for it."""
    target = _carrier(target)
    if hasattr(target, "cache_parameters"):  # of functools: the same of numbers
        target = target.__wrapped__
    for found in (WRITTEN.get(id(target)), getattr(target, "pyfunc", None),
                  getattr(target, "py_func", None), target):  # py_func is Numba's
        if isinstance(found, FunctionType):
            return found
    return None


def signature(target: Any) -> inspect.Signature:
    """The signature of `target`: a Python function's own, else of its parameters."""
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
        parts = tuple(map(freeze, tuple(target)))
        if None in parts:
            return None
        composite = isinstance(target, Composite)
        return Vector(type(target).__name__, parts) if composite else parts
    return None


def apply(emitter: Emitter, target: Operation, args: tuple[Value, ...], *,
          stem: str = "t") -> Value | tuple[()]:
    """``target(*args)``, written to `emitter`; the empty tuple if it has no result.

    Raises
    ------
    TypeError
        The number of arguments does not fit.
    """
    if target.attr == _COMPLEX:
        args = tuple(emitter.emit("cast", a, attr="complex") for a in args)
        target = Operation(target.op)
    form = None if target.attr == NUMPY else _FORMS.get(target.op)
    if form is not None and (value := form(emitter, args, stem)) is not None:
        return value
    if target.op == "print":
        emitter.act(target.op, *args, attr=target.attr)
        return ()
    _check(target.op, len(args))
    if target.op in EFFECTS:
        emitter.effect(target.op, *args)
        return ()
    return emitter.emit(target.op, *args, stem=stem, attr=target.attr)


def arity(op: str) -> int:
    """The least number of operands of an operation or form."""
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


def _math_hypot(e: Emitter, args: tuple[Value, ...], stem: str) -> Value | None:
    """The length of a vector of any number of coordinates."""
    if len(args) > 1:
        return _folded("hypot")(e, args, stem)
    return _fabs(e, args, stem)


def _logarithm(e: Emitter, args: tuple[Value, ...], stem: str) -> Value | None:
    if len(args) != 2:
        return None
    return e.emit("div", e.emit("log", args[0]), e.emit("log", args[1]), stem=stem)


def _complex(e: Emitter, args: tuple[Value, ...], stem: str) -> Value | None:
    return e.emit("cast", *args, attr="complex", stem=stem) if len(args) == 1 else None


def _round(e: Emitter, args: tuple[Value, ...], stem: str) -> Value | None:
    """Round to a number of decimals, as NumPy does it for floats of every size."""
    if len(args) != 2:
        return None
    decimals = args[1]
    if not isinstance(decimals, Literal) or decimals.kind != "int" or \
            not 0 <= int(decimals.text) <= _MOST_DECIMALS:
        got = decimals.text if isinstance(decimals, Literal) else "a variable"
        raise TypeError(f"the number of decimals is a whole number from 0 to "
                        f"{_MOST_DECIMALS} that is known when the function is parsed, "
                        f"got {got}; write round(x * scale) / scale")
    return e.emit("round_to", *args, stem=stem)


def _clip(e: Emitter, args: tuple[Value, ...], stem: str) -> Value:
    _check("clip", len(args))
    return e.emit("min", e.emit("max", *args[:2]), args[2], stem=stem)


def _fabs(e: Emitter, args: tuple[Value, ...], stem: str) -> Value:
    _check("fabs", len(args))
    return e.emit("abs", e.emit("cast", *args, attr="float"), stem=stem)


def _folded(op: str) -> Form:
    """Fold an operation over two or more operands, from the left."""

    def form(e: Emitter, args: tuple[Value, ...], stem: str) -> Value:
        if len(args) < 2:
            raise TypeError(f"{op} takes two or more numbers, got {len(args)}")
        value = args[0]
        for other in args[1:-1]:
            value = e.emit(op, value, other)
        return e.emit(op, value, args[-1], stem=stem)

    return form


def _bitwise(logical: str) -> Form:
    """A bitwise operation; on bools the logical one, as in NumPy."""

    def form(e: Emitter, args: tuple[Value, ...], stem: str) -> Value | None:
        if args and all(e.is_bool(a) for a in args):
            return e.emit(logical, *args, stem=stem)
        return None

    return form


_FORMS: dict[str, Form] = {
    "pow": _power, "math_pow": _math_power, "math_hypot": _math_hypot,
    "log": _logarithm, "clip": _clip, "complex_from": _complex, "round": _round,
    "fabs": _fabs, "max": _folded("max"), "min": _folded("min"),
    "and": _bitwise("logical_and"), "or": _bitwise("logical_or"),
    "xor": _bitwise("ne"), "invert": _bitwise("logical_not"),
}
