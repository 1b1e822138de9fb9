"""Loops of C bodies, ``for`` if they count, else ``while``; and ``goto``."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...source.resolve import Operation
from ..expressions import as_type
from ..scope import Last, Scope, StatementParser
from ..tree import has_atomics, kind, stores, walk
from ..types import INT64, common_dtype
from ..values import Typed, call, constant, converted, store

__all__ = ["STATEMENTS"]

#: Bounds of unsigned 64-bit counters end here: nobody counts that far.
_MOST = np.iinfo(np.int64).max
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _loop_body(scope: Scope, node: Any, last: Last = lambda: []) -> list[ast.stmt]:
    """The body of a loop; ``continue`` runs what the loop ends an iteration with.

    `last` gives these statements; names mean there what they mean here.
    """
    here = list(scope.blocks)

    def before_continue() -> list[ast.stmt]:
        inside, scope.blocks = scope.blocks, here
        try:
            return last()
        finally:
            scope.blocks = inside

    scope.before_continue.append(before_continue)
    try:
        with scope.block():
            return scope.statement(node) if node is not None else []
    finally:
        scope.before_continue.pop()


def _parse_for(scope: Scope, node: Any) -> list[ast.stmt]:
    """Parse ``for (…; …; …)``."""
    with scope.block():
        counted = _counted(scope, node)
        if counted is not None:
            return counted
        start = [] if node.init is None else scope.statement(node.init)

        def step() -> list[ast.stmt]:
            return [] if node.next is None else scope.statement(node.next)

        test, leave = _condition(scope, node.cond)
        body = [*leave, *_loop_body(scope, node.stmt, step), *step()]
        return [*start, ast.While(test, body or [ast.Pass()], [])]


def _parse_while(scope: Scope, node: Any) -> list[ast.stmt]:
    """Parse ``while (c) …``."""
    test, leave = _condition(scope, node.cond)
    body = [*leave, *_loop_body(scope, node.stmt)]
    return [ast.While(test, body or [ast.Pass()], [])]


def _condition(scope: Scope, node: Any) -> tuple[ast.expr, list[ast.stmt]]:
    """The test of a loop; where it changes variables, True and what leaves the loop."""
    if node is None:
        return constant(True), []
    with scope.evaluated(node) as before:
        test = scope.truth(node)
    if not before.statements:
        return test, []
    return constant(True), [*before.statements, _leave_unless(test)]


def _leave_unless(test: ast.expr) -> ast.stmt:
    return ast.If(ast.UnaryOp(ast.Not(), test), [ast.Break()], [])


def _parse_do_while(scope: Scope, node: Any) -> list[ast.stmt]:
    """Parse ``do … while (c)``: an endless loop that ends by ``break``."""

    def test() -> list[ast.stmt]:
        with scope.evaluated(node.cond) as before:
            found = scope.truth(node.cond)
        return [*before.statements, _leave_unless(found)]

    body = [*_loop_body(scope, node.stmt, test), *test()]
    return [ast.While(constant(True), body, [])]


def _counted(scope: Scope, node: Any) -> list[ast.stmt] | None:
    """Parse ``for (int j = a; j < b; j += c)`` as a range; None if it is not one."""
    found = _counter(node)
    if found is None:
        return None
    decl, op, limit, step = found
    changes = scope.unit.changes
    names = {n.name for n in walk(limit) if kind(n) == "ID"}
    changed = stores(node.stmt, changes)
    if stores(limit, changes) or stores(decl.init, changes):
        return None
    if decl.name in changed or scope.unique(changed) & scope.unique(names) or (
            has_atomics(node, changes)
            and any(kind(n) == "ArrayRef" for n in walk(limit))):
        return None
    stride = scope.typed(step).number if step is not None else 1
    if not isinstance(stride, int) or stride <= 0:
        return None
    listed = kind(decl.init) == "InitList" and len(decl.init.exprs) == 1
    start = scope.typed(decl.init.exprs[0] if listed else decl.init)
    stop = scope.typed(limit)
    dtype = scope.dtype(decl, start)
    if dtype.kind not in "iu" or stop.dtype.kind not in "iu":
        return None
    start = as_type(scope, decl, start, dtype)
    if common_dtype(dtype, stop.dtype).kind == "u":
        if dtype.kind == "i" and (start.number is None or start.number.real < 0):
            return None  # compared as unsigned, a negative counter is a large one
        stop = as_type(scope, limit, stop, common_dtype(dtype, stop.dtype))
    stride = stride if op.startswith("<") else -stride
    return [_range(scope, decl, dtype, (start, stop, stride, op), node.stmt)]


def _range(scope: Scope, decl: Any, dtype: np.dtype,
           bounds: tuple[Typed, Typed, int, str], body: Any) -> ast.stmt:
    """Parse ``for j in range(…)``, the counter in its type."""
    start, stop, stride, op = bounds
    first, last = _whole(start), _whole(stop)
    if op in ("<=", ">="):
        last = _whole(stop, 1 if op == "<=" else -1)
    scope.unit.outside |= {".range": range, ".min": Operation("min")}
    limits = [first, last] if stride == 1 else [first, last, constant(stride)]
    counter = scope.declare(decl.name, dtype, constant=True)
    if dtype == INT64:
        return ast.For(store(counter.name), call("range", *limits),
                       _loop_body(scope, body) or [ast.Pass()], [])
    scope.taken.add(f"{counter.name}_0")
    narrow = ast.Assign([store(counter.name)], call(
        dtype.name, ast.Name(f"{counter.name}_0", ast.Load())))
    return ast.For(store(f"{counter.name}_0"), call("range", *limits),
                   [narrow, *_loop_body(scope, body)], [])


def _whole(value: Typed, more: int = 0) -> ast.expr:
    """A bound and some more as int64, or the number."""
    if value.number is not None:
        return constant(min(int(value.number.real), _MOST - 1) + more)
    if value.dtype == np.uint64:
        value = Typed(call("min", value.node, constant(_MOST - 1)), value.dtype)
    found = converted(value, INT64)
    return ast.BinOp(found, ast.Add(), constant(more)) if more else found


def _counter(node: Any) -> tuple[Any, str, Any, Any] | None:
    """Declaration, comparison, limit and step of a loop that counts."""
    decls: Sequence[Any] = node.init.decls if kind(node.init) == "DeclList" \
        else ()
    test, step = node.cond, node.next
    if len(decls) != 1 or decls[0].init is None or \
            kind(decls[0].type) != "TypeDecl" or kind(test) != "BinaryOp" \
            or test.op not in _TURNED:
        return None
    name, op, limit = decls[0].name, test.op, test.right
    if getattr(test.right, "name", None) == name:
        op, limit = _TURNED[op], test.left
    elif getattr(test.left, "name", None) != name:
        return None
    size = _step(step, name, "+" if op.startswith("<") else "-")
    return None if size is None else (decls[0], op, limit, size[0])


def _step(step: Any, name: str, sign: str) -> Sequence[Any] | None:
    """The number that a counter moves by, None for 1, in a list; None if none."""
    if kind(step) == "UnaryOp" and step.op in (sign * 2, f"p{sign * 2}"):
        return [None] if getattr(step.expr, "name", None) == name else None
    if kind(step) == "Assignment" and step.op == f"{sign}=" \
            and getattr(step.lvalue, "name", None) == name:
        return [step.rvalue]
    return None


def _parse_goto(scope: Scope, node: Any) -> list[ast.stmt]:
    """Parse ``goto done;``: what stands behind the label, and the end of the function.

    The label stands at the first level of the function, further down.
    """
    nodes, here, depth = scope.reached
    labels = [k for k, n in enumerate(nodes) if kind(n) == "Label"
              and n.name == node.name]
    if not labels:
        scope.refuse(node, f"there is no label {node.name!r} at the first level of the "
                           "function; write a loop or a branch")
    if labels[0] <= here:
        scope.refuse(node, f"goto {node.name} leads back; write a loop")
    inside, around = scope.blocks, scope.before_continue
    scope.blocks, scope.before_continue = inside[:depth], []
    try:
        with scope.block():
            found = scope.body(nodes, labels[0])
    finally:
        scope.blocks, scope.before_continue = inside, around
    last = nodes[-1].stmt if kind(nodes[-1]) == "Label" else nodes[-1]
    return found if kind(last) == "Return" else [*found, *scope.leave(None)]


def _parse_label(scope: Scope, node: Any) -> list[ast.stmt]:
    """Parse ``done: …``, reached from above."""
    return scope.statement(node.stmt)


STATEMENTS: dict[str, StatementParser] = {
    "For": _parse_for, "While": _parse_while, "DoWhile": _parse_do_while,
    "Goto": _parse_goto, "Label": _parse_label,
}
