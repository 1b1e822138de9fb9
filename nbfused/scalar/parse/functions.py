"""From a Python function to the intermediate representation.

Jumps are normalised away first (`jumps`), then statements become regions that yield
what they assign.  Calls are inlined.  The same source gives an equal `Function`.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...errors import KernelTypeError, ScalarSyntaxError
from ...support.recursion import deep_recursion
from ..autodiff.custom import Rules, with_rules
from ..autodiff.preferences import preferring
from ..ir.clean import clean
from ..ir.emit import Emitter
from ..ir.nodes import Block, Function, Literal, Value, at_line
from ..ir.redirect import without_derivatives
from ..ir.shallow import MOST_CHAIN, MOST_LEVELS, levels, shallow
from ..source.definitions import Definition, Source, definition, namespace, parameters
from ..source.resolve import (
    Operation,
    Vocabulary,
    apply,
    arity,
    function_of,
    operation,
    python_function,
)
from ..source.structure import Values, flat_parameters, leaves, numbered
from ..source.trace import trace
from . import (
    calls,
    closures,
    elements,
    expressions,
    loops,
    names,
    sequences,
    statements,
)
from .composite.parts import whole_arrays
from .inlining import parse_body, refuse_recursion
from .scope import Grammar, Scope

__all__ = ["from_tree", "parse", "parse_definition", "parse_expression",
           "parse_tree"]

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
    with deep_recursion():
        return _parsed(pyfunc, environment, parameters, returns)


def _parsed(pyfunc: Any, environment: Mapping[str, Any] | None,
            parameters: Mapping[str, Any] | None, returns: bool) -> Function:
    """Parse a callable that is no single operation."""
    found = function_of(pyfunc) if parameters is None else None
    rules = getattr(pyfunc, "rules", None)
    if found is None and isinstance(rules, Rules) and rules:
        found = with_rules(parse, pyfunc.pyfunc, rules, parameters)
    found = found or _parse(python_function(pyfunc) or pyfunc, environment or {},
                            parameters, returns)
    return preferring(found, getattr(pyfunc, "prefer", ""))


def parse_definition(text: str, **functions: Function) -> Function:
    """The scalar function of a ``def`` given as text.

    Names are the vocabulary's, and of further `functions`.
    """
    text = textwrap.dedent(text).strip()
    node = ast.parse(text).body[0]
    assert isinstance(node, ast.FunctionDef)
    found = Definition(node.name, node, Source(f"<definition of {node.name}>", text))
    function = from_tree(found, Vocabulary(functions))
    return replace(function, body=at_line(function.body, 0))


def parse_expression(text: str, params: Sequence[str]) -> Function:
    """The scalar function of one expression in `params` and the vocabulary."""
    return parse_definition(f"def expression({', '.join(params)}): return {text}")


def _wrapper(op: Operation) -> Function:
    """A function that is one operation of its parameters."""
    params = ("x", "y", "z", "w")[:arity(op.op)]
    emitter = Emitter(params)
    result = apply(emitter, op, params)
    name = op.attr if op.op == "cast" and op.attr else op.op
    return Function(name, params,
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
    with refuse_recursion(found, pyfunc):
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
              returns: bool = True, nested: bool = False) -> Function:
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
    nested
        Whether a returned tuple may hold tuples.
    """
    values = values or {}
    node = found.node
    flat = flat_parameters(parameters(node), given)
    taken = {v for v in leaves(tuple(values.values())) if isinstance(v, str)}
    scope = Scope(_GRAMMAR, found.source, Emitter((*flat.names, *taken)),
                  dict(flat.arrays), outside, frozenset(values))
    scope.env.update(values)
    scope.env.update({n: whole_arrays(flat, v) for n, v in flat.values.items()})
    scope.emitter.alone.update(flat.alone)
    tree = parse_body(scope, node, returns)
    results = _flat(scope, node, tree, nested)
    block = Block(tuple(scope.emitter.statements), tuple(results))
    function = shallow(Function(found.name, flat.names, block, found.source.file,
                                node.lineno, shape=numbered(tree, 0)[0]))
    if levels(function.body) > MOST_LEVELS:
        raise found.source.error(node, f"{found.name} has more than {MOST_LEVELS} "
                                       "branches and loops inside one another, or some "
                                       f"{MOST_CHAIN} branches of one elif; look the "
                                       "values up in an array, or split the function")
    return clean(without_derivatives(function, flat.alone) if flat.alone else function)


def parse_tree(name: str, params: Sequence[str], body: Sequence[ast.stmt],
               source: Source, outside: Mapping[str, Any] | None = None,
               nested: bool = False) -> Function:
    """The scalar function whose statements are `body`.

    Parameters
    ----------
    name : str
    params : sequence of str
    body : sequence of ast.stmt
        Nodes without a line take that of the node around them.
    source : Source
        What the lines are lines of.
    outside : mapping, optional
        What names stand for that the body does not assign; default: the vocabulary.
    nested
        Whether a returned tuple may hold tuples.
    """
    arguments = ast.arguments(posonlyargs=[], args=[ast.arg(p) for p in params],
                              kwonlyargs=[], kw_defaults=[], defaults=[])
    node = ast.FunctionDef(name=name, args=arguments, body=list(body),
                           decorator_list=[])
    node.lineno, node.col_offset = 1, 0
    ast.fix_missing_locations(node)
    return from_tree(Definition(name, node, source),
                     Vocabulary() if outside is None else outside, nested=nested)


def _flat(scope: Scope, node: ast.AST, results: Values, nested: bool) -> list[Value]:
    """The results of a function that is no part of another."""
    for r in results if isinstance(results, tuple) else ():
        if isinstance(r, tuple) and not nested:
            raise scope.error(node, "a returned tuple must not hold a tuple; "
                                    "return a flat one")
    flat = leaves(results)
    try:
        return [scope.number(node, r) for r in flat]
    except ScalarSyntaxError as error:
        error._holds_function = any(isinstance(r, (closures.Closure, closures.Outside))
                                    for r in flat)
        raise


#: The scalar language: a parser for each type of node.
_GRAMMAR = Grammar(
    {**calls.EXPRESSIONS, **closures.EXPRESSIONS, **elements.EXPRESSIONS,
     **expressions.EXPRESSIONS, **names.EXPRESSIONS, **sequences.EXPRESSIONS},
    {**closures.STATEMENTS, **loops.STATEMENTS, **statements.STATEMENTS}, parse)
