"""Kernels written in C, as scalar functions: `parse_c` and `parse_c_expression`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np

from ...errors import ScalarSyntaxError
from ...support.recursion import TOO_DEEP, deep_recursion
from ..ir.nodes import Function
from ..source.definitions import Source
from . import bits, changes, elements, expressions, pointers, statements, structs
from .calling import calls, construction, operators
from .control import loops, switches
from .functions import Parameter, build_function, declare_parameter, return_value
from .scope import Grammar, Scope
from .tree import has_atomics, kind, stores, walk
from .unit import KERNEL, Unit
from .values import Variable

__all__ = ["number_of", "parse_c", "parse_c_expression", "type_of"]

#: The C of kernels: a parser for each type of node.
_GRAMMAR = Grammar(
    {**calls.EXPRESSIONS, **elements.EXPRESSIONS, **expressions.EXPRESSIONS,
     **changes.EXPRESSIONS, **pointers.EXPRESSIONS, **bits.EXPRESSIONS,
     **structs.EXPRESSIONS},
    {**loops.STATEMENTS, **statements.STATEMENTS, **switches.STATEMENTS},
    operators.convert, operators.operate, construction.element)


@lru_cache(maxsize=1024)
def parse_c(body: str, name: str, params: tuple[Parameter, ...],
            types: tuple[tuple[str, np.dtype], ...] = (),
            preamble: str = "", first: str = "") -> Function:
    """The scalar function of the statements of a kernel.

    Parameters
    ----------
    body : str
        Statements in C; a last semicolon may be missing.
    name : str
        Of the kernel.
    params : tuple of Parameter
        All that the body can name.  Methods are named by an underscore, the owner and
        the method: ``_x_size`` is ``x.size()``, ``_x_shape0`` is ``x.shape()[0]``.
    types : tuple of (str, dtype)
        What further names of types stand for: the placeholders.
    preamble : str
        Functions and macros.
    first : str
        Statements before those of the first element, which declare what all share.

    Returns
    -------
    Function
        Of all `params`.  Its results are the values of those that are written and not
        raw, which begin with the values given.

    Raises
    ------
    ScalarSyntaxError
        C that is not understood, with the line.
    """
    unit = Unit(name, dict(types), preamble, {p.name for p in params})
    with _deep(unit):
        tree = unit.read(body, f"void {KERNEL}(void) {{", ";\n}", first)
        if first:
            _check_shared(unit, tree, {p.name for p in params})
        return _kernel(unit, tree, params)


def _check_shared(unit: Unit, tree: Any, params: Set[str]) -> None:
    """Refuse a `loop_prep` that does more than declare what all elements share."""
    *first, body = tree.body.block_items
    shared = {n.name for s in first for n in walk(s) if kind(n) == "Decl"}
    carried = sorted(shared & stores(body, unit.changes))
    if carried:
        change = next(n for n in walk(body) if kind(n) in ("Assignment", "UnaryOp",
                                                           "FuncCall")
                      and carried[0] in stores(n, unit.changes))
        unit.refuse(change, f"{carried[0]!r} of loop_prep is changed by the body, and "
                          "would be carried from one element of a thread to its next; "
                          "declare it in the body")
    for statement in first:
        written = sorted(stores(statement, unit.changes) & params - shared)
        printed = any(kind(n) == "FuncCall" and getattr(n.name, "name", "") == "printf"
                      for n in walk(statement))
        if printed:
            unit.refuse(statement, "printf() in loop_prep prints once for each thread, "
                                   "of which a body knows nothing; print in the body, "
                                   "as in if (i == 0) printf(…)")
        if written or has_atomics(statement, unit.changes):
            unit.refuse(statement, f"loop_prep writes to {(written or ['memory'])[0]!r}"
                                   ", once for each thread, of which a body knows "
                                   "nothing; write in the body")
        if "i" not in shared and any(kind(n) == "ID" and n.name == "i"
                                     for n in walk(statement)):
            unit.refuse(statement, "loop_prep runs before the first element, and i has "
                                   "no value there; name it in the body")


@lru_cache(maxsize=1024)
def parse_c_expression(text: str, name: str, params: tuple[Parameter, ...],
                       result: np.dtype,
                       types: tuple[tuple[str, np.dtype], ...] = (),
                       preamble: str = "") -> Function:
    """The scalar function of an expression, converted to the dtype `result`."""
    unit = Unit(name, dict(types), preamble, {p.name for p in params})
    with _deep(unit):
        return _kernel(unit, unit.expression(text), params, result)


@contextmanager
def _deep(unit: Unit) -> Iterator[None]:
    """Room for a body that is generated, and an error if it is too deep."""
    with deep_recursion():
        try:
            yield
        except RecursionError:
            raise ScalarSyntaxError(f"{unit.name}: the body or its preamble is "
                                    f"{TOO_DEEP}") from None


def number_of(text: str, name: str, dtype: np.dtype, types: tuple[
        tuple[str, np.dtype], ...] = (), preamble: str = "") -> Any:
    """The number that a constant expression is, None if it is not known now."""
    unit = Unit(name, dict(types), preamble)
    statement = unit.expression(text).body.block_items[0]
    value = Scope(_GRAMMAR, unit, Source("", "")).typed(statement.expr)
    if value.number is None:
        return None
    return np.asarray(value.number).astype(dtype)[()]


def type_of(text: str, name: str, types: tuple[tuple[str, np.dtype], ...],
            preamble: str = "") -> np.dtype:
    """The dtype that a type is: a number's, or a struct's."""
    unit = Unit(name, dict(types), preamble)
    tree = unit.expression(f"sizeof({text})")
    return Scope(_GRAMMAR, unit, unit.sources["body"]).dtype(
        tree.body.block_items[0].expr.expr)


def _kernel(unit: Unit, tree: Any, params: Sequence[Parameter],
            result: np.dtype | None = None) -> Function:
    """The kernel's function: its outputs, or the expression that it returns."""
    source = unit.sources["body"]
    scope = Scope(_GRAMMAR, unit, source)
    variables = [declare_parameter(scope, p) for p in params]
    outs = [v for v, p in zip(variables, params, strict=True)
            if p.written and not p.raw]
    if result is not None:
        scope.leave = lambda node: return_value(scope, node.expr,
                                                scope.value(node.expr), result)
    else:
        scope.leave = lambda node: _return_outputs(scope, node, outs)
    return build_function(scope, unit.name, variables, tree, _results(outs), source)


def _return_outputs(scope: Scope, node: Any,
                    outs: Sequence[Variable]) -> list[ast.stmt]:
    """``return`` of a kernel, or ``continue``: the outputs are as they are."""
    if getattr(node, "expr", None) is not None:
        scope.refuse(node, "return gives no value here; assign it to an output")
    return _results(outs)


def _results(outs: Sequence[Variable]) -> list[ast.stmt]:
    return [ast.Return(ast.Tuple([ast.Name(v.name, ast.Load()) for v in outs],
                                 ast.Load()))]
