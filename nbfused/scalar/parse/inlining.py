"""Functions that are written into the one that calls them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType, FunctionType
from typing import Any

from ...support.recursion import TOO_DEEP
from ..ir.nodes import Block, at_line
from ..source.definitions import Definition, Source, definition, namespace
from ..source.structure import Values, immutable
from .closures import Closure
from .jumps import RESULT, TooManyPaths, assigned, normalise, returns
from .scope import Scope

__all__ = ["inline", "inline_closure", "parse_body", "refuse_recursion"]

#: The functions that are being parsed, callers first.
_OPEN: ContextVar[tuple[CodeType, ...]] = ContextVar("open", default=())


@contextmanager
def refuse_recursion(found: Definition, pyfunc: Any) -> Iterator[None]:
    """Refuse calls of a function while it is parsed."""
    code, callers = pyfunc.__code__, _OPEN.get()
    if code in callers:
        raise found.source.error(found.node, f"{found.name} calls itself; recursion is "
                                             "not part of the scalar language, use a "
                                             "loop")
    token = _OPEN.set((*callers, code))
    try:
        yield
    except RecursionError:
        raise found.source.error(found.node, f"{found.name} is {TOO_DEEP}") from None
    finally:
        _OPEN.reset(token)


def parse_body(scope: Scope, node: ast.FunctionDef | ast.Lambda,
               may_return: bool = True) -> Values:
    """Write a function; its results, a tree."""
    if node.args.vararg or node.args.kwarg:
        raise scope.error(node, "*args and **kwargs are not part of the scalar "
                                "language; name the parameters")
    for s in filter(returns, () if may_return else _own(node)):
        raise scope.error(s, f"the kernel {getattr(node, 'name', '')} returns a "
                             "value; store it into an array that is an argument")
    body: list[ast.stmt] = node.body if isinstance(node, ast.FunctionDef) else [
        ast.copy_location(ast.Return(node.body), node.body)]
    try:
        normal = normalise(body)
    except TooManyPaths:
        raise scope.error(node, "too many early exits inside one another; join the "
                                "conditions or split the function") from None
    scope.assigned = assigned(normal) - scope.skipped
    scope.run(normal)
    return scope.env[RESULT]


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without those of functions inside of it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (ast.FunctionDef, ast.Lambda)):
            yield from _own(child)


def inline(scope: Scope, node: ast.AST, pyfunc: FunctionType,
           arguments: Mapping[str, Values]) -> Values:
    """Write a Python function here, with these arguments; its results."""
    try:
        found = definition(pyfunc)
    except OSError:
        raise scope.error(node, f"the source of {pyfunc.__name__} is not available, "
                                "so it can be given numbers only; define it in a "
                                "file") from None
    with refuse_recursion(found, pyfunc), _at_call(scope, found.source):
        inner = scope.nested(found.source, namespace(pyfunc))
        inner.env.update({p: immutable(v) for p, v in arguments.items()})
        return parse_body(inner, found.node)


@contextmanager
def _at_call(scope: Scope, source: Source) -> Iterator[None]:
    """Write a function of `source`, whose lines mean nothing in another file."""
    emitter = scope.emitter
    line, before = emitter.line, len(emitter.statements)
    yield
    if source.file != scope.source.file:
        written = Block(tuple(emitter.statements[before:]), ())
        emitter.statements[before:] = at_line(written, line).statements
    emitter.line = line


def inline_closure(scope: Scope, node: ast.AST, closure: Closure,
                   arguments: Mapping[str, Values]) -> Values:
    """Write a function of this function's here, with these arguments; its results."""
    if closure.running:
        raise scope.error(node, f"{closure.name} calls itself; recursion is not "
                                "part of the scalar language, use a loop")
    outer = closure.scope
    inner = scope.nested(outer.source, outer.outside)
    statements = closure.node.body
    own = assigned(statements) if isinstance(statements, list) else set()
    seen = {n: v for n, v in outer.env.items() if n not in own}
    inner.env.update({n: immutable(v) for n, v in seen.items()})
    inner.env.update({p: immutable(v) for p, v in arguments.items()})
    closure.running = True
    try:
        with _at_call(scope, outer.source):
            return parse_body(inner, closure.node)
    finally:
        closure.running = False
