"""Sequences of known length: tuples, ranges, comprehensions, lists of arguments."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..ir.nodes import Literal, Value, literal
from ..source.structure import Local, Values
from .composite.places import assign
from .names import method_owner, resolve_callee
from .scope import ExpressionParser, Scope

__all__ = ["EXPRESSIONS", "call_errors", "only_argument", "parse_arguments",
           "positional", "range_bounds", "static_integer", "static_items",
           "static_shape"]

#: Iterations that are written out at most.
MOST_ITERATIONS = 1024


def static_items(scope: Scope, node: ast.expr) -> list[Values]:
    """The items of an iterable, which must be known."""
    found = _items(scope, node)
    if found is None:
        raise scope.error(node, "the bounds of this range must be known when the "
                                "function is parsed: numbers, globals, or nf.literal "
                                "parameters")
    if len(found) > MOST_ITERATIONS:
        raise scope.error(node, f"{len(found)} iterations are too many to be written "
                                f"out, at most {MOST_ITERATIONS} are; use a loop over "
                                "range(...)")
    return found


def _items(scope: Scope, node: ast.expr) -> list[Values] | None:
    """The items of an iterable; None of a range whose bounds are not known."""
    if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
        return _comprehend(scope, node)
    if isinstance(node, ast.Call) and method_owner(scope, node.func) is None:
        target = resolve_callee(scope, node.func)
        wrap = _WRAPPERS.get(target) if getattr(type(target), "__hash__", None) \
            is not None else None
        if getattr(target, "__nbfused_form__", "") == "unroll":
            return static_items(scope, only_argument(scope, node))
        if wrap is not None:
            return wrap(scope, node)
        if target is range:
            return _range(scope, node)
    values = scope.values(node)
    if not isinstance(values, tuple):
        raise scope.error(node, "expected range(...) or a tuple, got "
                                f"{scope.describe(values)}")
    return list(values)


def _comprehend(scope: Scope, node: ast.ListComp | ast.GeneratorExp) -> list[Values]:
    """The items of a comprehension."""
    if len(node.generators) != 1 or node.generators[0].ifs:
        raise scope.error(node, "a comprehension has one for and no if here")
    (each,), items, outer = node.generators, [], dict(scope.env)
    for item in static_items(scope, each.iter):
        assign(scope, each.target, item)
        items.append(scope.values(node.elt))
    scope.env.clear()
    scope.env.update(outer)
    return items


def _range(scope: Scope, node: ast.Call) -> list[Values] | None:
    bounds = range_bounds(scope, node)
    if not all(isinstance(b, Literal) for b in bounds):
        return None
    start, stop, step = (int(b.text) for b in bounds if isinstance(b, Literal))
    if step == 0:
        raise scope.error(node, "the step of range() is 0")
    if len(range(start, stop, step)) > MOST_ITERATIONS:
        return [()]*len(range(start, stop, step))
    return [literal(k) for k in range(start, stop, step)]


def range_bounds(scope: Scope, call: ast.Call) -> tuple[Value, Value, Value]:
    """Start, stop and step of ``range(...)``."""
    args, keywords = parse_arguments(scope, call)
    if keywords or not 1 <= len(args) <= 3:
        raise scope.error(call, f"range() takes 1 to 3 integers, got {len(args)}")
    if any(isinstance(a, Literal) and a.kind not in ("int", "bool") for a in args):
        raise scope.error(call, "range() takes integers")
    start, stop, *step = (scope.number(call, a) for a in (
        (literal(0), *args) if len(args) == 1 else args))
    return start, stop, step[0] if step else literal(1)


def _enumerate(scope: Scope, node: ast.Call) -> list[Values]:
    start = 0
    if len(node.args) == 2:
        first = scope.values(node.args[1])
        if not (isinstance(first, Literal) and first.kind == "int"):
            raise scope.error(node, "enumerate() starts at an integer literal")
        start = int(first.text)
    if not 1 <= len(node.args) <= 2 or node.keywords:
        raise scope.error(node, "enumerate() takes an iterable and a start")
    items = static_items(scope, node.args[0])
    return [(literal(k), v) for k, v in enumerate(items, start)]


def _zip(scope: Scope, node: ast.Call) -> list[Values]:
    parts = [static_items(scope, a) for a in node.args]
    strict = [isinstance(k.value, ast.Constant) and bool(k.value.value)
              for k in node.keywords if k.arg == "strict"]
    if len(strict) != len(node.keywords):
        raise scope.error(node, "zip() takes no keyword but strict")
    if any(strict) and len({len(p) for p in parts}) > 1:
        raise scope.error(node, "zip() with strict got tuples of different lengths")
    return list(zip(*parts, strict=False))


def _reverse(scope: Scope, node: ast.Call) -> list[Values]:
    return static_items(scope, only_argument(scope, node))[::-1]


_WRAPPERS: dict[Any, Callable[[Scope, ast.Call], list[Values]]] = {
    enumerate: _enumerate, zip: _zip, reversed: _reverse,
}


# Arguments ----------------------------------------------------------------------------


def _parse_tuple(scope: Scope, node: ast.Tuple, stem: str) -> Values:
    return tuple(_elements(scope, node.elts))


def _parse_list(scope: Scope, node: ast.List, stem: str) -> Values:
    return Local(_elements(scope, node.elts))


def _parse_comprehension(scope: Scope, node: ast.ListComp, stem: str) -> Values:
    return Local(static_items(scope, node))


EXPRESSIONS: dict[type[ast.expr], ExpressionParser] = {
    ast.Tuple: _parse_tuple, ast.List: _parse_list, ast.ListComp: _parse_comprehension,
}


def _elements(scope: Scope, nodes: list[ast.expr]) -> list[Values]:
    """The values of `nodes`, starred ones taken apart."""
    parts: list[Values] = []
    for e in nodes:
        parts += static_items(scope, e.value) if isinstance(e, ast.Starred) else \
            [scope.values(e)]
    return parts


def parse_arguments(scope: Scope,
                    node: ast.Call) -> tuple[tuple[Values, ...], dict[str, Values]]:
    """Positional and keyword arguments."""
    if any(k.arg is None for k in node.keywords):
        raise scope.error(node, "**kwargs are not part of the scalar language; "
                                "write the arguments out")
    return (tuple(_elements(scope, node.args)),
            {str(k.arg): scope.values(k.value) for k in node.keywords})


@contextmanager
def call_errors(scope: Scope, node: ast.Call) -> Iterator[None]:
    """Report a wrong number of arguments at `node`."""
    try:
        yield
    except TypeError as error:
        raise scope.error(node, f"{ast.unparse(node.func)}(): {error}") from None


def positional(scope: Scope, node: ast.Call, least: int, most: int | None = None,
               ) -> tuple[Values, ...]:
    """The arguments of a call that takes no keywords."""
    args, keywords = parse_arguments(scope, node)
    most = least if most is None else most
    name = ast.unparse(node.func)
    if keywords:
        raise scope.error(node, f"{name}() takes no keywords in a scalar function")
    if not least <= len(args) <= most:
        expected = str(least) if least == most else f"{least} to {most}"
        raise scope.error(node, f"{name}() takes {expected} argument(s), got "
                                f"{len(args)}")
    return args


def only_argument(scope: Scope, node: ast.Call) -> ast.expr:
    """The iterable that a call takes, and nothing else."""
    if len(node.args) != 1 or node.keywords:
        raise scope.error(node, f"{ast.unparse(node.func)}() takes one iterable")
    return node.args[0]


def static_integer(scope: Scope, node: ast.AST, value: Values, what: str) -> int:
    """An integer that is known when the function is parsed."""
    if isinstance(value, Literal) and value.kind == "int":
        return int(value.text)
    raise scope.error(node, f"{what} must be an integer that is known when the "
                            "function is parsed: a number, a global, or an nf.literal "
                            "parameter")


def static_shape(scope: Scope, node: ast.AST, value: Values) -> tuple[int, ...]:
    """An extent or a tuple of extents, each of 1 or more."""
    extents = value if isinstance(value, tuple) else (value,)
    shape = tuple(static_integer(scope, node, e, "an extent") for e in extents)
    if not shape or min(shape) < 1:
        raise scope.error(node, f"extents must be 1 or more, got {shape}")
    return shape
