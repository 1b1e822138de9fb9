"""Calls of C bodies: CUDA's functions, casts, atomics, methods of CuPy's."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..bits import read_as
from ..cuda.functions import ATOMICS, REFUSED, CFunction, function_table, limit
from ..expressions import BOOL, as_type, combine
from ..pointers import address
from ..scope import ExpressionParser, Scope
from ..spelling import BITS, CAST, LIMIT, MEMBERS, METHOD, OPERATOR, shown_name
from ..structs import owner
from ..tree import kind
from ..types import common_dtype, promote, type_text
from ..values import Typed, call, constant, converted, literal, subscript, zero
from .arguments import Effects
from .construction import construct, default
from .device_functions import device_function
from .lambdas import call_lambda, lambda_effects, lambda_of
from .running import call_device, run_before, value_of
from .templates import Given

__all__ = ["EXPRESSIONS", "arguments", "effects_of"]

_FLOAT64 = np.dtype(np.float64)
#: Rules of functions whose arguments have a common dtype: `CFunction.rule`.
_COMMON = frozenset({"float", "any", "bool", "part", "polar"})


def _parse_call(scope: Scope, node: Any) -> Typed:
    """A function, a cast in the form of a call, a method of CuPy's."""
    method = _struct_method(scope, node)
    if method is not None:
        return call_device(scope, node, *method)
    if kind(node.name) != "ID":
        return _call_method(scope, node)
    name, args = node.name.name, arguments(node)
    closure = lambda_of(scope, node)
    if closure is not None:
        changed = [(v.name,) for v in closure.changed]
        if changed and closure.result is not None:
            return run_before(scope, node, name, changed, lambda scope, node: (
                lambda_effects(scope, node, closure, args, True)))
        return call_lambda(scope, node, closure, args)
    if name.startswith(CAST):
        return _construct(scope, node, scope.named_dtype(node, name[len(CAST):]), args)
    if name.startswith(MEMBERS):
        return zero(scope.named_dtype(node, name[len(MEMBERS):]))
    if name.startswith(BITS):
        dtype = scope.named_dtype(node, name[len(BITS):])
        (value,) = _counted(scope, node, "std::bit_cast", args, 1)
        return read_as(scope, node, scope.typed(value), dtype)
    if name.startswith(LIMIT):
        return _limit(scope, node, *name[len(LIMIT):].split("_", 1))
    if name in ATOMICS:
        return _atomic(scope, node, name, args)
    if name == "__ldg" and len(args) == 1:
        variable, index, dtype = address(scope, args[0])
        if dtype != variable.dtype:
            scope.refuse(node, f"__ldg() would read {variable.dtype} as {dtype}; "
                               "convert the value")
        return Typed(subscript(variable.name, index, ast.Load()), variable.dtype)
    if name in ("nan", "nanf") and [kind(a) for a in args] == ["Constant"]:
        return literal(np.nan, _FLOAT64 if name == "nan" else np.dtype(np.float32))
    name, args, explicit = _explicit(scope, node)
    device = device_function(scope, node, name, args, explicit)
    if device is not None:
        return value_of(scope, node, name, device)
    function = function_table().get(name)
    if name in REFUSED:
        scope.refuse(node, REFUSED[name])
    if function is None:
        scope.refuse(node, f"the function {name}() is not known; write it as a "
                           "__device__ function in the preamble")
    values = [scope.typed(a) for a in args]
    for t in explicit[:1]:
        if isinstance(t, Typed):
            scope.refuse(node, f"the template argument of {name}() is a type")
        values = [as_type(scope, node, v, t) for v in values]
    _counted(scope, node, name, values, function.arity)
    return _apply(scope, name, function, values)


def _counted(scope: Scope, node: Any, name: str, given: Sequence[Any],
             count: int) -> Sequence[Any]:
    """The arguments of a function, which must be so many."""
    if len(given) != count:
        scope.refuse(node, f"{name}() takes {count} arguments, got {len(given)}")
    return given


def _explicit(scope: Scope, node: Any) -> tuple[str, list[Any], list[Given]]:
    """The function of ``f<T, 3>(x)``, its arguments, and those of its template."""
    args = arguments(node)
    name, given = scope.unit.spelling.explicit.get(node.name.name, (node.name.name, ()))
    numbers = iter(args)
    explicit: list[Given] = [
        scope.typed(next(numbers)) if t is None else scope.named_dtype(node, t)
        for t in given]
    return name, args[given.count(None):], explicit


def _struct_method(scope: Scope, node: Any) -> tuple[str, list[Any]] | None:
    """The function, and its arguments, that ``p.f(x)`` or ``p(x)`` of a struct is."""
    called, functions = node.name, scope.unit.functions
    if kind(called) == "ID":
        variable = scope.lookup(called.name)
        if variable is None or variable.kind != "value" or not variable.dtype.names \
                or f"{OPERATOR}call" not in functions:
            return None
        return f"{OPERATOR}call", [called, *arguments(node)]
    name = METHOD + called.field.name if kind(called) == "StructRef" else ""
    if name not in functions:
        return None
    if kind(called.name) == "ID":
        variable = scope.lookup(called.name.name)
        if variable is None or not variable.dtype.names:
            return None  # a function of an array, which has a struct's name
    return name, [owner(called), *arguments(node)]


def effects_of(scope: Scope, node: Any, wanted: bool = True) -> Effects | None:
    """A call that changes its arguments or gives nothing; None if it is another.

    `wanted` says if its value is.
    """
    if kind(node) != "FuncCall":
        return None
    method = _struct_method(scope, node)
    if method is None and kind(node.name) != "ID":
        return None
    closure = lambda_of(scope, node)
    if closure is not None:
        return lambda_effects(scope, node, closure, arguments(node), wanted)
    name, args, explicit = (*method, ()) if method else _explicit(scope, node)
    found = device_function(scope, node, name, args, explicit)
    if found is None or not found.changes:
        return None
    if wanted and found.result is None:
        scope.refuse(node, f"{shown_name(name)}() returns nothing; call it in a "
                           "statement of its own")
    return found.effects(scope, node)


def _limit(scope: Scope, node: Any, what: str, name: str) -> Typed:
    """Parse ``numeric_limits<T>::max()``."""
    dtype = scope.named_dtype(node, name)
    field = limit(what, dtype)
    if field is None:
        scope.refuse(node, f"numeric_limits<{dtype}>::{what}() is not understood")
    return literal(field, dtype)


def arguments(node: Any) -> list[Any]:
    """The arguments of a call, as they are written."""
    return list(node.args.exprs) if node.args is not None else []


def _construct(scope: Scope, node: Any, dtype: np.dtype, args: Sequence[Any]) -> Typed:
    """Parse ``T(x)``, and ``complex<float>(x, y)``."""
    if not args:
        return default(scope, node, dtype)
    if dtype.names is not None:
        return construct(scope, node, dtype, args)
    values = [scope.typed(a) for a in args]
    if len(values) == 1:
        return as_type(scope, node, values[0], dtype)
    if dtype.kind != "c" or len(values) > 2:
        scope.refuse(node, f"{dtype}(…) takes one number, got {len(values)}")
    part = np.empty(0, dtype).real.dtype
    real, imaginary = (call(dtype.name, converted(v, part)) for v in values)
    turned = ast.BinOp(imaginary, ast.Mult(), constant(1j))
    return Typed(ast.BinOp(real, ast.Add(), turned), dtype)


def _apply(scope: Scope, name: str, function: CFunction,
           values: Sequence[Typed]) -> Typed:
    """A call of a function of CUDA's."""
    dtype = promote(values[0].dtype)
    for v in values[1:]:
        dtype = common_dtype(dtype, v.dtype)
    if function.rule not in _COMMON:
        dtype = np.dtype(function.rule)
    elif function.rule in ("float", "bool", "polar") and dtype.kind in "iu":
        dtype = _FLOAT64
    if name in ("max", "min") and dtype.kind == "f":
        function = function_table()[f"f{name}"]
    result = dtype
    if function.rule == "bool":
        result = BOOL
    elif function.rule == "polar":
        result = np.result_type(dtype, np.complex64)
    elif function.rule == "part" or name == "abs":
        result = np.empty(0, dtype).real.dtype
    if name.removesuffix("f") in ("pow", "__pow") and _whole(values[1]):
        exponent = constant(int(values[1].number.real))  # type: ignore[union-attr]
        return Typed(ast.BinOp(converted(values[0], dtype), ast.Pow(), exponent),
                     dtype)
    scope.unit.outside[f".{name}"] = function.target
    found = call(name, *(converted(v, dtype) for v in values))
    if function.result is not None:
        return Typed(call(function.result.name, found), function.result)
    return Typed(found, result)


def _atomic(scope: Scope, node: Any, name: str, args: Sequence[Any]) -> Typed:
    """Parse ``atomicMax(&y[i], v)``, whose value is the old one."""
    count = 3 if name == "atomicCAS" else 2
    if len(args) != count:
        scope.refuse(node, f"{name}() takes {count} arguments, got {len(args)}")
    variable, index, dtype = address(scope, args[0])
    if variable.constant:
        scope.refuse(node, f"{variable.name!r} must be a raw output")
    _check_atomic(scope, node, name, variable.dtype, dtype)
    values = [as_type(scope, node, scope.typed(a), dtype) for a in args[1:]]
    if name == "atomicSub":
        values = [combine(scope, node, "-", literal(0, variable.dtype), values[0])]
    scope.unit.outside[f".{name}"] = ATOMICS[name]
    found = call(name, ast.Name(variable.name, ast.Load()), index,
                 *(converted(v, variable.dtype) for v in values))
    return as_type(scope, node, Typed(found, variable.dtype), dtype)


def _check_atomic(scope: Scope, node: Any, name: str, held: np.dtype,
                  dtype: np.dtype) -> None:
    """Refuse an atomic function on elements that hold another type than it takes."""
    if name in ("atomicInc", "atomicDec") and dtype != np.uint32:
        scope.refuse(node, f"{name}() takes an address of unsigned int, got {dtype}")
    signs = dtype.kind in "iu" and held.kind in "iu" and dtype.itemsize == held.itemsize
    ordered = name in ("atomicMin", "atomicMax")
    if dtype != held and (ordered or not signs):
        scope.refuse(node, f"{name}() would read {held} as {dtype}; give the address "
                           "without a cast")


def _call_method(scope: Scope, node: Any) -> Typed:
    """Parse ``_ind.size()``, ``x.shape()[0]``, ``z.real()``."""
    target = node.name
    if kind(target) != "StructRef":
        scope.refuse(node, "only a function's name can be called")
    field = target.field.name
    variable = scope.lookup(getattr(target.name, "name", None) or "") \
        if kind(target.name) == "ID" else None
    if variable is not None and variable.dtype.names is not None:
        scope.refuse(node, f"{type_text(variable.dtype)} has no function {field}(); "
                           "define it in the struct")
    if field in ("real", "imag"):
        return _apply(scope, field, function_table()[field], [scope.typed(target.name)])
    owner = getattr(target.name, "name", "")
    variable = scope.lookup(f"_{str(owner).lstrip('_')}_{field}")
    if variable is None:
        scope.refuse(node, f"{owner}.{field}() is not understood here; there are "
                           "_ind.size(), x.size() and x.shape()[k] of a raw x, and "
                           "z.real(), z.imag()")
    return Typed(ast.Name(variable.name, ast.Load()), variable.dtype)


def _whole(value: Typed) -> bool:
    """True if an exponent is a small integer."""
    n = value.number
    return n is not None and not isinstance(n, complex) and abs(n) <= 64 and n == int(n)


EXPRESSIONS: dict[str, ExpressionParser] = {"FuncCall": _parse_call}
