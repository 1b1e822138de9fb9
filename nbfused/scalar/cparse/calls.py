"""Calls of C bodies: CUDA's functions, casts, atomics, methods of CuPy's."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from .cuda_functions import ATOMICS, REFUSED, CFunction, function_table, limit
from .elements import address
from .expressions import BOOL, as_type, combine
from .functions import Effects, device_function
from .scope import ExpressionParser, Scope
from .spelling import CAST, LIMIT
from .structs import from_list
from .tree import kind
from .types import common_dtype, promote
from .values import Typed, call, constant, converted, literal, subscript, zero

__all__ = ["EXPRESSIONS", "arguments", "effects_of"]

_FLOAT64 = np.dtype(np.float64)


def _parse_call(scope: Scope, node: Any) -> Typed:
    """A function, a cast in the form of a call, a method of CuPy's."""
    if kind(node.name) != "ID":
        return _call_method(scope, node)
    name, args = node.name.name, arguments(node)
    if name.startswith(CAST):
        return _construct(scope, node, scope.named_dtype(node, name[len(CAST):]), args)
    if name.startswith(LIMIT):
        return _limit(scope, node, *name[len(LIMIT):].split("_", 1))
    if name in ATOMICS:
        return _atomic(scope, node, name, args)
    if name == "__ldg" and len(args) == 1:
        variable, index = address(scope, args[0])
        return Typed(subscript(variable.name, index, ast.Load()), variable.dtype)
    name, types = _explicit(scope, node, name)
    device = device_function(scope, node, name, args, types)
    if device is not None:
        return device.value(scope, node)
    function = function_table().get(name)
    if name in REFUSED:
        scope.refuse(node, REFUSED[name])
    if function is None:
        scope.refuse(node, f"the function {name}() is not known; write it as a "
                           "__device__ function in the preamble")
    values = [scope.typed(a) for a in args]
    for t in types[:1]:
        values = [as_type(scope, node, v, t) for v in values]
    if len(values) != function.arity:
        scope.refuse(node, f"{name}() takes {function.arity} arguments, got "
                           f"{len(values)}")
    return _apply(scope, name, function, values)


def _explicit(scope: Scope, node: Any,
              name: str) -> tuple[str, list[np.dtype]]:
    """The function of ``f<T>(x)``, and the types that are given."""
    name, types = scope.unit.spelling.explicit.get(name, (name, ()))
    return name, [scope.named_dtype(node, t) for t in types]


def effects_of(scope: Scope, node: Any, wanted: bool = True) -> Effects | None:
    """A call that changes its arguments or gives nothing; None if it is another.

    `wanted` says if its value is.
    """
    if kind(node) != "FuncCall" or kind(node.name) != "ID":
        return None
    name, types = _explicit(scope, node, node.name.name)
    found = device_function(scope, node, name, arguments(node), types)
    if found is None or not found.changes:
        return None
    if wanted and found.result is None:
        scope.refuse(node, f"{name}() returns nothing; call it in a statement of its "
                           "own")
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
        return zero(dtype)
    if dtype.names is not None:
        return from_list(scope, node, dtype, args)
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
    if function.rule in ("float32", "uint32", "uint64"):
        dtype = np.dtype(function.rule)
    elif function.rule in ("float", "bool") and dtype.kind in "iu":
        dtype = _FLOAT64
    if name in ("max", "min") and dtype.kind == "f":
        function = function_table()[f"f{name}"]
    result = dtype
    if function.rule == "bool":
        result = BOOL
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
    operation = ATOMICS[name]
    count = 3 if name == "atomicCAS" else 2
    if len(args) != count:
        scope.refuse(node, f"{name}() takes {count} arguments, got {len(args)}")
    variable, index = address(scope, args[0])
    if variable.constant:
        scope.refuse(node, f"{variable.name!r} must be a raw output")
    values = [scope.typed(a) for a in args[1:]]
    if name == "atomicSub":
        values = [combine(scope, node, "-", literal(0, variable.dtype), values[0])]
    scope.unit.outside[f".{name}"] = operation
    found = call(name, ast.Name(variable.name, ast.Load()), index,
                 *(converted(v, variable.dtype) for v in values))
    return Typed(found, variable.dtype)


def _call_method(scope: Scope, node: Any) -> Typed:
    """Parse ``_ind.size()``, ``x.shape()[0]``, ``z.real()``."""
    target = node.name
    if kind(target) != "StructRef":
        scope.refuse(node, "only a function's name can be called")
    field = target.field.name
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
