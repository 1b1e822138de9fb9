"""From a Python function to the intermediate representation.

Jumps are normalised away first (`jumps`), then statements become regions that yield
what they assign.  Calls are inlined.  The same source gives an equal `Function`.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from types import CodeType, FunctionType
from typing import Any

from ..errors import KernelTypeError, ScalarSyntaxError
from .clean import clean
from .closures import Closure
from .custom import Rules, with_rules
from .emit import Emitter
from .ir import Block, Function, Literal, at_line
from .jumps import assigned
from .jumps import returns as has_value
from .preferences import preferring
from .resolve import (
    Operation,
    Vocabulary,
    apply,
    arity,
    function_of,
    operation,
    python_function,
)
from .room import TOO_DEEP, room
from .shallow import MOST_CHAIN, MOST_LEVELS, levels, shallow
from .source import Definition, Source, definition, namespace, parameters
from .statements import Statements
from .structure import Values, flat_parameters, immutable, leaves
from .trace import trace

__all__ = ["from_tree", "parse", "parse_definition", "parse_expression"]

#: The functions that are being parsed, callers first.
_OPEN: ContextVar[tuple[CodeType, ...]] = ContextVar("open", default=())


def parse(pyfunc: Any, *, environment: Mapping[str, Any] | None = None,
          parameters: Mapping[str, Any] | None = None,
          returns: bool = True) -> Function:
    """The scalar function that `pyfunc` is.

    Parameters
    ----------
    pyfunc : callable
        A Python function or lambda; an operation (`math.sqrt`, `numpy.exp`,
        ``nf.sigmoid``); an object whose `function` is a scalar function.  Where the
        source is not available, a Python function is traced.
    environment : mapping, optional
        What further names stand for: SSA names (strings) and literals, tuples of
        them, or objects to call.
    parameters : mapping, optional
        What parameters stand for: None for a number, a `structure.Array`, a number that
        is known now, a tuple or a `structure.Struct` of these; a number where one is
        left out.  Without the mapping each is a number or an array, as it is used.
    returns : bool
        Whether the function may return a value.

    Returns
    -------
    Function
        Its parameters have the names of `pyfunc`'s; those of tuples and structs are
        their parts, ``p_x``, and numbers that are known are left out.

    Raises
    ------
    ScalarSyntaxError
        The function uses Python that the scalar language does not have.
    """
    op = operation(pyfunc)
    if op is not None:
        return _wrapper(op)
    with room():
        return _parsed(pyfunc, environment, parameters, returns)


def _parsed(pyfunc: Any, environment: Mapping[str, Any] | None,
            parameters: Mapping[str, Any] | None, returns: bool) -> Function:
    """What is no single operation."""
    found = function_of(pyfunc) if parameters is None else None
    rules = getattr(pyfunc, "rules", None)
    if found is None and isinstance(rules, Rules) and rules:
        found = with_rules(parse, pyfunc.pyfunc, rules, parameters)
    found = found or _parse(python_function(pyfunc) or pyfunc, environment or {},
                            parameters, returns)
    return preferring(found, getattr(pyfunc, "prefer", ""))


def parse_definition(text: str) -> Function:
    """The scalar function of a ``def`` given as text; names are the vocabulary's."""
    text = textwrap.dedent(text).strip()
    node = ast.parse(text).body[0]
    assert isinstance(node, ast.FunctionDef)
    found = Definition(node.name, node, Source(f"<definition of {node.name}>", text))
    function = from_tree(found, Vocabulary())
    return replace(function, body=at_line(function.body, 0))


def parse_expression(text: str, params: Sequence[str]) -> Function:
    """The scalar function of one expression in `params` and the vocabulary."""
    return parse_definition(f"def expression({', '.join(params)}): return {text}")


def _wrapper(op: Operation) -> Function:
    """A function that is one operation of its parameters."""
    params = ("x", "y", "z", "w")[:arity(op.op)]
    emitter = Emitter(params)
    result = apply(emitter, op, params)
    return Function(op.attr or op.op, params,
                    Block(tuple(emitter.statements), tuple(leaves(result))))


def _parse(pyfunc: Any, environment: Mapping[str, Any],
           given: Mapping[str, Any] | None, returns: bool) -> Function:
    """Parse a Python function, or trace it where it has no source."""
    try:
        found = definition(pyfunc)
    except (OSError, TypeError):
        return _traced(pyfunc, given or {}, returns)
    values = {n: v for n, v in environment.items() if _is_value(v)}
    objects = {n: v for n, v in environment.items() if n not in values}
    outside = ChainMap(objects, namespace(pyfunc))
    with _opened(found, pyfunc):
        return from_tree(found, outside, values, given, returns=returns)


def _traced(pyfunc: Any, given: Mapping[str, Any], returns: bool) -> Function:
    """The function of what has no source, run on symbols."""
    for kind, name in ((inspect.iscoroutinefunction, "async def"),
                       (inspect.isasyncgenfunction, "async def"),
                       (inspect.isgeneratorfunction, "yield")):
        if kind(pyfunc):
            raise ScalarSyntaxError(f"{pyfunc!r}: {name} is not part of the scalar "
                                    "language; write a plain def that returns numbers")
    params = _parameters(pyfunc)
    known = {p: g.value if isinstance(g, Literal) else g for p, g in given.items()
             if isinstance(g, (Literal, int, float, complex))}
    if any(isinstance(given.get(p), tuple) for p in params):
        raise ScalarSyntaxError(f"{pyfunc!r}: the source of this function is not "
                                "available, so it takes no tuples or structs; define "
                                "it in a file")
    found = trace(pyfunc, params, known)
    if found.results and not returns:
        raise ScalarSyntaxError(f"the kernel {found.name} returns a value; store it "
                                "into an array that is an argument")
    return found


def _parameters(pyfunc: Any) -> list[str]:
    """The names of the parameters of what has no source."""
    try:
        found = inspect.signature(pyfunc).parameters.values()
    except (TypeError, ValueError):
        raise KernelTypeError(f"expected a function of numbers, got {pyfunc!r}; write "
                              "one, or use a function of math, numpy or nbfused"
                              ) from None
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in found):
        raise ScalarSyntaxError(f"{pyfunc!r}: *args and **kwargs are not part of the "
                                "scalar language; name the parameters")
    return [p.name for p in found]


def _is_value(target: Any) -> bool:
    if isinstance(target, tuple):
        return all(_is_value(t) for t in target)
    return isinstance(target, (str, Literal))


def from_tree(found: Definition, outside: Mapping[str, Any],
              values: Mapping[str, Values] | None = None,
              given: Mapping[str, Any] | None = None, *,
              returns: bool = True) -> Function:
    """The scalar function of a definition whose tree is at hand.

    Parameters
    ----------
    found : Definition
    outside : mapping
        What names stand for that the body does not assign.
    values : mapping, optional
        What is assigned before the body begins.
    given, returns
        The `parameters` and `returns` of `parse`.
    """
    values = values or {}
    node = found.node
    flat = flat_parameters(parameters(node), given)
    taken = {v for v in leaves(tuple(values.values())) if isinstance(v, str)}
    body = _Body(found.source, Emitter((*flat.names, *taken)), dict(flat.arrays),
                 outside, parse)
    body.env.update(values)
    body.env.update(flat.values)
    body.skipped = frozenset(values)
    results = body.flat(node, body.checked_function(node, returns))
    block = Block(tuple(body.emitter.statements), tuple(results))
    function = shallow(Function(found.name, flat.names, block, found.source.file,
                                node.lineno))
    if levels(function.body) > MOST_LEVELS:
        raise found.source.error(node, f"{found.name} has more than {MOST_LEVELS} "
                                       "branches and loops inside one another, or some "
                                       f"{MOST_CHAIN} branches of one elif; look the "
                                       "values up in an array, or split the function")
    return clean(function)


class _Body(Statements):
    """A function, which may be written into another."""

    def checked_function(self, node: ast.FunctionDef | ast.Lambda,
                         returns: bool) -> Values:
        """Write the function; refuse what no function here may have."""
        if node.args.vararg or node.args.kwarg:
            raise self.error(node, "*args and **kwargs are not part of the scalar "
                                   "language; name the parameters")
        for s in filter(has_value, () if returns else ast.walk(node)):
            raise self.error(s, f"the kernel {getattr(node, 'name', '')} returns a "
                                "value; store it into an array that is an argument")
        return self.function(node)

    def inline(self, node: ast.AST, pyfunc: FunctionType,
               arguments: Mapping[str, Values]) -> Values:
        try:
            found = definition(pyfunc)
        except OSError:
            raise self.error(node, f"the source of {pyfunc.__name__} is not available, "
                                   "so it can be given numbers only; define it in a "
                                   "file") from None
        emitter = self.emitter
        line, before = emitter.line, len(emitter.statements)
        with _opened(found, pyfunc):
            body = _Body(found.source, emitter, self.arrays, namespace(pyfunc), parse)
            body.env.update({p: immutable(v) for p, v in arguments.items()})
            values = body.checked_function(found.node, True)
        if found.source.file != self.source.file:  # whose lines mean nothing here
            written = Block(tuple(emitter.statements[before:]), ())
            emitter.statements[before:] = at_line(written, line).statements
        emitter.line = line
        return values

    def enclosed(self, node: ast.AST, closure: Closure,
                 arguments: Mapping[str, Values]) -> Values:
        if closure.running:
            raise self.error(node, f"{closure.name} calls itself; recursion is not "
                                   "part of the scalar language, use a loop")
        outer = closure.owner
        body = _Body(outer.source, self.emitter, self.arrays, outer.outside, parse)
        inside = closure.node.body
        own = assigned(inside) if isinstance(inside, list) else set()
        seen = {n: v for n, v in outer.env.items() if n not in own}
        body.env.update({n: immutable(v) for n, v in seen.items()})
        body.env.update({p: immutable(v) for p, v in arguments.items()})
        closure.running = True
        try:
            return body.checked_function(closure.node, True)
        finally:
            closure.running = False


@contextmanager
def _opened(found: Definition, pyfunc: Any) -> Iterator[None]:
    """While this function is parsed, it cannot be called."""
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
