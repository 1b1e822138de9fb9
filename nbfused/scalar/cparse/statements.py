"""Statements of C bodies besides loops, as statements of the scalar language."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from ..source.resolve import Operation
from .bits import copied, stored_as
from .calling.calls import arguments, effects_of
from .calling.construction import element, first_value
from .calling.lambdas import declare_lambda
from .calling.operators import compound
from .calling.printing import parse_printf
from .cuda.functions import ATOMICS
from .elements import pointee
from .expressions import as_type, combine, decided
from .pointers import address, declare_pointer, element_of, move_pointer
from .scope import Scope, StatementParser
from .spelling import REFERENCE
from .structs import flat, leaf_names, with_part
from .tree import has_atomics, is_list, kind
from .values import (
    Typed,
    Variable,
    call,
    constant,
    converted,
    literal,
    store,
    subscript,
)

__all__ = ["STATEMENTS"]


def _parse_compound(scope: Scope, node: Any) -> list[ast.stmt]:
    """A block in braces."""
    with scope.block():
        return scope.statements(node.block_items or ())


def _parse_list(scope: Scope, node: Any) -> list[ast.stmt]:
    """Several declarations, or expressions with commas between them."""
    return scope.statements(node.decls if kind(node) == "DeclList" else node.exprs)


def _parse_nothing(scope: Scope, node: Any) -> list[ast.stmt]:
    """Parse ``;``."""
    return []


# Declarations and assignments ---------------------------------------------------------


def _parse_declaration(scope: Scope, node: Any) -> list[ast.stmt]:
    """Parse ``T x = …;``, ``T v[4];``."""
    if kind(node.type) == "FuncDecl":
        scope.refuse(node, "a function inside the body is not understood here; "
                           "move it to the preamble")
    if kind(node.type) == "Struct":
        return _parse_struct(scope, node)
    _check_new(scope, node)
    if kind(node.type) == "ArrayDecl":
        return _local_array(scope, node)
    key = getattr(node.init, "name", None)
    if isinstance(key, str) and key in scope.unit.spelling.captures:
        return declare_lambda(scope, node, key)
    if kind(node.type) == "PtrDecl":
        return declare_pointer(scope, node)
    if REFERENCE in node.quals:
        return _alias(scope, node)
    called = effects_of(scope, node.init)
    if called is not None:
        node = copy.copy(node)
        node.init = called.result
        return [*called.statements, *_parse_declaration(scope, node)]
    unset = node.init is None or is_list(node.init)
    value = None if unset else scope.value(node.init)
    dtype = scope.dtype(node, value)
    start = as_type(scope, node, value, dtype) if value is not None else \
        first_value(scope, node, node.init, dtype)
    fixed = "const" in node.quals
    target = scope.declare(node.name, dtype, constant=fixed,
                           number=start.number if fixed else None)
    return [_assign(scope, node, target, start)]


def _parse_struct(scope: Scope, node: Any) -> list[ast.stmt]:
    """Parse ``struct P { … };``."""
    scope.types = {**scope.types, node.type.name: scope.dtype(node)}
    return []


def _parse_typedef(scope: Scope, node: Any) -> list[ast.stmt]:
    """Parse ``typedef … U;``."""
    scope.types = {**scope.types, node.name: scope.dtype(node.type)}
    return []


def _alias(scope: Scope, node: Any) -> list[ast.stmt]:
    """Parse ``T& r = x;``: another name of a variable."""
    variable = scope.lookup(getattr(node.init, "name", None) or "") \
        if kind(node.init) == "ID" else None
    if variable is None:
        scope.refuse(node, f"the reference {node.name!r} must be of a variable; name "
                           "the element or the member itself")
    if scope.dtype(node, Typed(node, variable.dtype)) != variable.dtype:
        scope.refuse(node, f"the reference {node.name!r} has another type than the "
                           "variable")
    scope.blocks[-1][node.name] = variable
    return []


def _check_new(scope: Scope, node: Any) -> None:
    """Refuse a name that its scope has; that of the body has the parameters'."""
    scopes = scope.blocks if len(scope.blocks) == 2 else scope.blocks[-1:]
    if node.name not in ("i", "n") and any(node.name in s for s in scopes):
        scope.refuse(node, f"{node.name!r} is declared already; assign to it without"
                           " a type, or take another name")


def _local_array(scope: Scope, node: Any) -> list[ast.stmt]:
    """An array of the body: its elements are variables."""
    shape, dtype = _extents(scope, node), scope.dtype(node)
    given = list(getattr(node.init, "exprs", () if node.init is None
                         else (node.init,)))
    values = [first_value(scope, node, v, dtype)
              for v in _fill(scope, node, given, shape)]
    array = scope.declare(node.name, dtype, "local", shape, "const" in node.quals)
    if dtype.names is None:
        return [_list(scope, array.name, [converted(v, dtype) for v in values])]
    array = scope.blocks[-1][node.name] = replace(
        array, leaves=tuple(leaf_names(scope, array)))
    numbers = zip(*map(flat, values), strict=True)
    return [_list(scope, n, v) for n, v in zip(array.leaves, numbers, strict=True)]


def _list(scope: Scope, name: str, values: Sequence[ast.expr]) -> ast.stmt:
    """An array of numbers gets its elements."""
    scope.unit.outside[".list"] = list
    return ast.Assign([store(name)], call("list", ast.Tuple([*values], ast.Load())))


def _extents(scope: Scope, node: Any) -> tuple[int, ...]:
    """The shape of an array; the list in braces may tell its first extent."""
    shape: list[Any] = []
    inner = node.type
    while kind(inner) == "ArrayDecl":
        shape.append(inner.dim and scope.typed(inner.dim).number)
        inner = inner.type
    given = getattr(node.init, "exprs", ())
    if node.type.dim is None and given and None not in shape[1:]:
        lists = any(kind(v) == "InitList" for v in given)
        shape[0] = len(given) if lists else -(-len(given) // prod(shape[1:]))
    if not all(isinstance(n, int) and n > 0 for n in shape):
        scope.refuse(node, f"the size of {node.name!r} must be a number that is "
                           "known here")
    return tuple(shape)


def _fill(scope: Scope, node: Any, given: list[Any],
          shape: tuple[int, ...]) -> list[Any]:
    """The values of an array's elements; None behind the end of the list `given`.

    What stands in braces of its own fills one part of the array, as in C.
    """
    struct = scope.dtype(node).names is not None
    count, found = len(given), _take(scope, node, given, shape, struct)
    if given:
        scope.refuse(node, f"{node.name!r} has {shape[0]} elements, got {count}")
    return found


def _take(scope: Scope, node: Any, given: list[Any], shape: tuple[int, ...],
          struct: bool) -> list[Any]:
    """The values of `_fill`; the rest stays in the list.

    What stands in braces is one element of an array of structs.
    """
    found: list[Any] = []
    for _ in range(shape[0]):
        if not given:
            found += [None] * prod(shape[1:])
        elif kind(given[0]) == "InitList" and not (struct and len(shape) == 1):
            part = list(given.pop(0).exprs)
            found += _fill(scope, node, part, shape[1:] or (1,))
        elif shape[1:]:
            found += _take(scope, node, given, shape[1:], struct)
        else:
            found.append(given.pop(0))
    return found


def _assign(scope: Scope, node: Any, target: Variable, value: Typed) -> ast.stmt:
    """A name gets a value in its type."""
    value = as_type(scope, node, value, target.dtype)
    return ast.Assign([store(target.name)], converted(value, target.dtype))


def _parse_assignment(scope: Scope, node: Any) -> list[ast.stmt]:
    """Parse ``x = …``, ``x += …``, ``x = y = …``."""
    first: list[ast.stmt] = []
    right = node.rvalue
    moved = _moves(scope, node)
    if moved is not None:
        return moved
    operator = compound(scope, node)
    if operator is not None:
        return scope.statement(operator)
    if kind(right) == "Assignment":
        first, right = scope.statement(right), right.lvalue
    called = effects_of(scope, right)
    if called is not None:
        first, right = [*first, *called.statements], called.result
    value = element(scope, right, scope.value(node.lvalue).dtype) if is_list(
        right) else scope.value(right)
    if node.op != "=":
        _check_once(scope, node.lvalue)
        value = combine(scope, node, node.op[:-1], scope.value(node.lvalue),
                        scope.value(right))
    return [*first, _put(scope, node, node.lvalue, value)]


def _moves(scope: Scope, node: Any) -> list[ast.stmt] | None:
    """The statements of an assignment or a step of a pointer; None of another."""
    from pycparser.c_ast import BinaryOp, Constant

    step = kind(node) == "UnaryOp"
    target = node.expr if step else node.lvalue
    found = scope.lookup(target.name) if kind(target) == "ID" else None
    if found is None or found.kind not in ("raw", "local", "unset"):
        return None
    value = Constant("int", "1", node.coord) if step else node.rvalue
    if node.op != "=":
        value = BinaryOp(node.op.lstrip("p")[0], target, value, node.coord)
    return move_pointer(scope, node, found, value)


def _check_once(scope: Scope, target: Any) -> None:
    """Refuse an index that would be computed twice, which adds twice."""
    if has_atomics(target, scope.unit.changes):
        scope.refuse(target, "an atomic function in the index of what is changed is "
                             "not understood here; store its value in a variable "
                             "first")


def _put(scope: Scope, node: Any, target: Any, value: Typed) -> ast.stmt:
    """Store to a variable or to an element."""
    bits = stored_as(scope, node, target, value)
    if bits is not None:
        return _put(scope, node, *bits)
    whole = with_part(scope, node, target, value)
    if whole is not None:
        return _put(scope, node, *whole)
    if kind(target) == "ArrayRef" or (kind(target) == "UnaryOp" and target.op == "*"):
        return _put_element(scope, node, target, value)
    if kind(target) != "ID":
        scope.refuse(node, "only variables and elements are assigned")
    variable = scope.lookup(target.name)
    if variable is None:
        scope.refuse(node, f"{target.name!r} is not declared")
    if variable.kind != "value":
        scope.refuse(node, f"{target.name!r} is an array; assign its elements, as "
                           f"in {target.name}[i] = …")
    if variable.constant:
        scope.refuse(node, f"{target.name!r} is an input or const; copy it to a "
                           "variable of its own to change it")
    return _assign(scope, node, variable, value)


def _put_element(scope: Scope, node: Any, target: Any, value: Typed) -> ast.stmt:
    """Store to an element of an array."""
    single = pointee(scope, target)
    if single is not None and not single.constant:
        return _assign(scope, node, single, value)
    variable, index = (single, constant(0)) if single else element_of(scope, target)
    if variable.constant:
        scope.refuse(node, f"{variable.name!r} is an input or const; only outputs "
                           "and variables are written to")
    value = as_type(scope, node, value, variable.dtype)
    if variable.leaves:
        return _put_struct(scope, target, variable, index, value)
    return ast.Assign([subscript(variable.name, index, ast.Store())],
                      converted(value, variable.dtype))


def _put_struct(scope: Scope, target: Any, variable: Variable, index: ast.expr,
                value: Typed) -> ast.stmt:
    """Store to an element of an array of structs, all of its numbers at once."""
    _check_once(scope, target)
    if isinstance(value.node, ast.Call) and scope.before is not None:
        kept = scope.declare(f"__{variable.name}_new", value.dtype)
        scope.before.statements.append(ast.Assign([store(kept.name)], value.node))
        value = Typed(ast.Name(kept.name, ast.Load()), value.dtype)
    numbers: list[ast.expr] = [subscript(n, index, ast.Store())
                               for n in variable.leaves]
    values = flat(value)
    if len(values) == 1:
        return ast.Assign(numbers, values[0])
    return ast.Assign([ast.Tuple(numbers, ast.Store())], ast.Tuple(values, ast.Load()))


def _parse_step(scope: Scope, node: Any) -> list[ast.stmt]:
    """Parse ``x++;``, or an expression whose value nobody uses."""
    if node.op[-1] not in "+-" or len(node.op) < 2:
        scope.typed(node)
        return []
    moved = _moves(scope, node)
    if moved is not None:
        return moved
    _check_once(scope, node.expr)
    value = combine(scope, node, node.op[-1], scope.typed(node.expr),
                    literal(1, np.dtype(np.int32)))
    return [_put(scope, node, node.expr, value)]


def _parse_effect(scope: Scope, node: Any) -> list[ast.stmt]:
    """A call whose value nobody uses: only an atomic one has an effect."""
    called = effects_of(scope, node, wanted=False)
    if called is not None:
        return called.statements
    name, args = getattr(node.name, "name", ""), arguments(node)
    if name == "printf":
        return parse_printf(scope, node, args)
    if name == "memcpy":
        return [_put(scope, node, *copied(scope, node, args))]
    found = scope.typed(node)
    if name in ("atomicAdd", "atomicSub"):  # whose old value nobody uses: it is linear
        variable, index, _ = address(scope, args[0])
        value = as_type(scope, node, scope.typed(args[1]), variable.dtype)
        if name == "atomicSub":
            value = combine(scope, node, "-", literal(0, variable.dtype), value)
        scope.unit.outside[".atomic_add"] = Operation("atomic_add")
        return [ast.Expr(call("atomic_add", ast.Name(variable.name, ast.Load()),
                              index, converted(value, variable.dtype)))]
    written = name in ATOMICS or scope.unit.changes(node)
    return [ast.Expr(found.node)] if written else []


# Control -----------------------------------------------------------------------


def _parse_if(scope: Scope, node: Any) -> list[ast.stmt]:
    """Parse ``if``, ``else``; of what types decide, the side that is taken."""
    taken = decided(scope, node.cond)
    if taken is not None:
        with scope.block():
            branch = node.iftrue if taken else node.iffalse
            return [] if branch is None else scope.statement(branch)
    branches: list[list[ast.stmt]] = []
    for branch in (node.iftrue, node.iffalse):
        with scope.block():
            branches.append([] if branch is None else scope.statement(branch))
    then, orelse = branches
    return [ast.If(scope.truth(node.cond), then or [ast.Pass()], orelse)]


def _parse_jump(scope: Scope, node: Any) -> list[ast.stmt]:
    """Parse ``break`` and ``continue``; outside a loop the latter ends the element."""
    if not scope.before_continue:
        if kind(node) == "Break":
            scope.refuse(node, "break stands outside a loop; return ends the element")
        return scope.leave(node)
    if kind(node) == "Break":
        return [ast.Break()]
    return [*scope.before_continue[-1](), ast.Continue()]


def _parse_return(scope: Scope, node: Any) -> list[ast.stmt]:
    """Parse ``return``."""
    return scope.leave(node)


STATEMENTS: dict[str, StatementParser] = {
    "Compound": _parse_compound, "DeclList": _parse_list, "ExprList": _parse_list,
    "EmptyStatement": _parse_nothing, "Pragma": _parse_nothing,
    "Decl": _parse_declaration, "Typedef": _parse_typedef,
    "Assignment": _parse_assignment,
    "UnaryOp": _parse_step, "FuncCall": _parse_effect, "If": _parse_if,
    "Break": _parse_jump, "Continue": _parse_jump, "Return": _parse_return,
}
