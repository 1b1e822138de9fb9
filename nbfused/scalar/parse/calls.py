"""Calls: operations, functions copied in, functions with rules, special forms."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import Signature
from types import FunctionType
from typing import Any

from ...errors import ScalarSyntaxError
from ..autodiff.custom import Rules, recursive_call
from ..autodiff.preferences import stamped
from ..ir.nodes import Function, Literal, Value, at_line
from ..source.phrases import ALLOWED, builtin_for
from ..source.resolve import (
    RAW,
    Operation,
    apply,
    function_of,
    operation,
    python_function,
    signature,
)
from ..source.static import literal_parameters
from ..source.structure import (
    Array,
    Struct,
    Values,
    fill,
    immutable,
    leaves,
    rebuild,
)
from .builtin_forms import form_of
from .closures import Closure, Outside, signature_of
from .composite.parts import Part
from .composite.structs import build_struct, is_struct_class, replace_fields
from .composite.vectors import has_vector, vector_call
from .elements import call_method, checked_index, dtype_text
from .inlining import inline, inline_closure
from .names import method_owner, outside_value, resolve_callee, static_object
from .scope import ExpressionParser, Scope
from .sequences import call_errors, parse_arguments

__all__ = ["EXPRESSIONS"]


def _parse_call(scope: Scope, node: ast.Call, stem: str) -> Values:
    """A method of an array, an operation, or a scalar function copied in."""
    owner = method_owner(scope, node.func)
    target = resolve_callee(scope, node.func) if owner is None else None
    form = form_of(target, node)
    if form is not None:
        return form[0](scope, node, form[1], stem)
    named = None if owner is None else dtype_text(node)
    args, keywords = parse_arguments(scope, node) if named is None else (
        (Outside(named),), {})
    if is_struct_class(target):
        return build_struct(scope, node, target, args, keywords)
    if isinstance(owner, Struct) and not args and _method(node) == "_replace":
        return replace_fields(scope, node, owner, keywords)
    if target is replace and len(args) == 1 and isinstance(args[0], Struct):
        return replace_fields(scope, node, args[0], keywords)
    if owner is not None:
        if keywords:
            raise scope.error(node, f"{ast.unparse(node.func)}() takes no keywords")
        return call_method(scope, node, owner, _method(node), list(args), stem)
    op = operation(target)
    if target is not None and getattr(target, "__nbfused_higher__", False):
        return Outside(target(*(static_object(scope, node, a) for a in args), **{
            k: static_object(scope, node, v) for k, v in keywords.items()}))
    if isinstance(target, Closure):
        with call_errors(scope, node):
            bound = _bind(signature_of(target), args, keywords)
        return inline_closure(scope, node, target, bound)
    if op is None:
        return _call_function(scope, node, target, args, keywords)
    if keywords:
        raise scope.error(node, f"{ast.unparse(node.func)}() takes no keywords in a "
                                "scalar function")
    if has_vector(args):
        return vector_call(scope, node, target, args)
    values = _operands(scope, node, op, args)
    with call_errors(scope, node):
        return apply(scope.emitter, op, values, stem=stem)


EXPRESSIONS: dict[type[ast.expr], ExpressionParser] = {ast.Call: _parse_call}


def _method(node: ast.Call) -> str:
    """The name of the method that is called, if it is one."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def _operands(scope: Scope, node: ast.Call, op: Operation,
              args: Sequence[Values]) -> tuple[Value, ...]:
    """The operands of an operation, an index that is a tuple taken apart."""
    if op.op in RAW and args and scope.is_array(args[0]):
        given = tuple(args[1:] if op.op == "load" else args[1:-1])
        with call_errors(scope, node):
            index = checked_index(scope, node, args[0], given)
        value = () if op.op == "load" else (scope.number(node, args[-1]),)
        return (args[0], *index, *value)
    return tuple(scope.number(node, a) for a in args)


def _call_function(scope: Scope, node: ast.Call, target: Any, args: tuple[Values, ...],
                   keywords: dict[str, Values]) -> Values:
    """The results of a scalar function."""
    pyfunc = python_function(target)
    if isinstance(target, Function):
        args = tuple(leaves(args))  # its parameters are numbers
    written = any(_needs_inlining(scope, v) for v in (*args, *keywords.values())) or \
        bool(pyfunc and literal_parameters(pyfunc))
    function = None if pyfunc and written else _parsed(scope, target)
    written = written or function is None
    if pyfunc is None and function is None and hasattr(target, "__nbfused_thread__"):
        raise scope.error(node, f"{ast.unparse(node.func)} is a number, which differs "
                                "between threads, and no function as in cupyx.jit; "
                                "leave out the parentheses")
    if pyfunc is None and function is None:
        if getattr(target, "__module__", "") == "math" and not keywords and all(
                isinstance(v, Literal) for v in args):
            return _known_number(scope, node, target, args)
        called = ast.unparse(node.func)
        way_out = builtin_for(called.rpartition(".")[2]) or f". {ALLOWED}"
        raise scope.error(node, f"{called}() is not part of the scalar language"
                                f"{way_out}")
    with call_errors(scope, node):
        bound = _match(scope, node, target, args, keywords)
    if written or recursive_call(target, None):
        for p in getattr(target, "nondiff", ()):
            bound[p] = _detach(scope, bound[p])
    if pyfunc is not None and written:
        _check_literals(scope, node, pyfunc, bound)
        if isinstance(getattr(target, "rules", None), Rules) and target.rules:
            return _call_with_rules(scope, node, target, bound)
        return _inline_preferring(scope, node, target, pyfunc, bound)
    values = [v if scope.is_array(v) else scope.number(node, v) for v in bound.values()]
    assert function is not None
    return _emit_call(scope, function, values)


def _known_number(scope: Scope, node: ast.Call, target: Any,
                  args: tuple[Any, ...]) -> Values:
    """A function of `math` that kernels lack, of numbers that are known."""
    try:
        return outside_value(scope, node, target(*(v.value for v in args)), "it")
    except (TypeError, ValueError, OverflowError) as error:
        raise scope.error(node, f"{ast.unparse(node)}: {error}") from None


def _parsed(scope: Scope, target: Any) -> Function | None:
    """A function of numbers; None of a factory, whose result is another function."""
    try:
        known = recursive_call(target, None) or function_of(target)
        return known or (
            scope.grammar.parse(target) if python_function(target) else None)
    except ScalarSyntaxError as error:
        if not error._holds_function or getattr(target, "rules", None):
            raise
        return None


def _inline_preferring(scope: Scope, node: ast.Call, target: Any, pyfunc: FunctionType,
                       arguments: Mapping[str, Values]) -> Values:
    """Inline a function with its own preference of what loops record."""
    statements = scope.emitter.statements
    start = len(statements)
    found = inline(scope, node, pyfunc, arguments)
    statements[start:] = stamped(statements[start:], getattr(target, "prefer", ""))
    return found


def _detach(scope: Scope, values: Values) -> Values:
    """The same numbers as constants for derivatives; arrays and functions as is."""
    if isinstance(values, tuple):
        return rebuild(values, (_detach(scope, v) for v in values))
    if not isinstance(values, str) or scope.is_array(values):
        return values
    return scope.emitter.emit("detach", values)


def _call_with_rules(scope: Scope, node: ast.Call, target: Any,
                     arguments: Mapping[str, Values]) -> Values:
    """A call of a function that has derivative rules of its own."""
    for name, value in arguments.items():
        if any(isinstance(v, Part) for v in leaves(value)):
            raise scope.error(node, f"{ast.unparse(node.func)}(): {name!r} is a part "
                                    "of an array, which a function with a rule does "
                                    "not take; pass the array and the index")
    literals = literal_parameters(target.pyfunc)
    given = {p: v if p in literals else _template(scope, v)
             for p, v in arguments.items()}
    values = [v for p in arguments if p not in literals for v in leaves(arguments[p])]
    function = recursive_call(target, given) or \
        scope.grammar.parse(target, parameters=given)
    return _emit_call(scope, function, values)


def _template(scope: Scope, values: Values) -> Any:
    """An argument as `parse` takes it among its `parameters`."""
    if isinstance(values, tuple):
        return rebuild(values, (_template(scope, v) for v in values))
    return Array(scope.arrays[values]) if scope.is_array(values) else None


def _emit_call(scope: Scope, function: Function, values: Sequence[Value]) -> Values:
    """A call of a function that is parsed: one value, or a tuple."""
    if function.pyfile != scope.source.file:
        function = replace(function, body=at_line(function.body, scope.emitter.line))
    results = scope.emitter.call(function, *values)
    if isinstance(function.shape, tuple):
        return immutable(fill(function.shape, results))
    return results[0] if len(results) == 1 else results


def _check_literals(scope: Scope, node: ast.Call, pyfunc: FunctionType,
                    arguments: Mapping[str, Values]) -> None:
    """Refuse arguments of `nf.literal` parameters that are not known."""
    for name in literal_parameters(pyfunc):
        if not all(isinstance(v, Literal) for v in leaves(arguments[name])):
            raise scope.error(node, f"{ast.unparse(node.func)}(): {name!r} is an "
                                    "nf.literal, so it takes a number that is known "
                                    "when the function is parsed")


def _needs_inlining(scope: Scope, values: Values) -> bool:
    """True if a function has to be parsed for this argument: it is no number."""
    return not isinstance(values, (str, Literal)) or \
        scope.arrays.get(str(values)) is not None


def _match(scope: Scope, node: ast.Call, target: Any, args: tuple[Values, ...],
           keywords: dict[str, Values]) -> dict[str, Values]:
    """The arguments in the order of the parameters, defaults filled in."""
    expected = signature(target)
    given = expected.bind(*args, **keywords).arguments
    return {p: given[p] if p in given else
            outside_value(scope, node, v, f"default of {p}")
            for p, v in _bind(expected, args, keywords).items()}


def _bind(expected: Signature, args: tuple[Values, ...],
          keywords: Mapping[str, Values]) -> dict[str, Any]:
    """The arguments by parameter, in order; `TypeError` where they do not fit."""
    found = expected.bind(*args, **keywords)
    found.apply_defaults()
    return dict(found.arguments)
