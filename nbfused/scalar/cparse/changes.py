"""Changes of variables inside expressions, which run before the statement.

C++ leaves open in which order most operands are computed, so that nothing beside a
change may name what it changes.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from .expressions import BOOL, as_type, combine, common_type
from .expressions import EXPRESSIONS as _OTHERS
from .scope import Before, ExpressionParser, Scope
from .tree import has_atomics, kind, stores, walk
from .values import Typed, converted, literal, store

__all__ = ["EXPRESSIONS", "Path", "changes_before", "path_of"]

#: A variable, then members and indices on the way to a part of it; None is an index
#: that is not known.
Path = tuple[Any, ...]
_INT32 = np.dtype(np.int32)


def _parse_change(scope: Scope, node: Any) -> Typed:
    """Parse ``k++``, ``--k`` and ``(k = x)`` inside an expression.

    The change runs before the statement, so nothing else in that may name `k`.
    """
    step = kind(node) == "UnaryOp"
    target = node.expr if step else node.lvalue
    if kind(target) in ("ArrayRef", "StructRef") or (
            kind(target) == "UnaryOp" and target.op == "*"):
        return _change_part(scope, node, target)
    variable = scope.lookup(target.name) if kind(target) == "ID" else None
    if variable is None or variable.kind != "value" or variable.constant:
        scope.refuse(node, f"{node.op.lstrip('p')} inside an expression changes "
                           "variables, elements and members, no constants; make it a "
                           "statement of its own")
    before = changes_before(scope, node, node.op.lstrip("p"), [(variable.name,)])
    if id(node) in before.values:
        return before.values[id(node)]
    old = Typed(ast.Name(variable.name, ast.Load()), variable.dtype)
    new = combine(scope, node, node.op[-1], old, literal(1, _INT32)) if step else \
        scope.value(node.rvalue)
    if not step and node.op != "=":
        new = combine(scope, node, node.op[:-1], old, new)
    found = old
    if node.op.startswith("p"):
        kept = scope.declare(f"__old_{target.name}", variable.dtype)
        before.statements.append(ast.Assign([store(kept.name)], old.node))
        found = Typed(ast.Name(kept.name, ast.Load()), variable.dtype)
    new = as_type(scope, node, new, variable.dtype)
    before.statements.append(ast.Assign([store(variable.name)],
                                        converted(new, variable.dtype)))
    before.values[id(node)] = found
    return found


def _change_part(scope: Scope, node: Any, target: Any) -> Typed:
    """Parse ``v[k]++`` and ``(p.a = x)`` inside an expression."""
    from pycparser.c_ast import Assignment, Constant

    what, changes = node.op.lstrip("p"), scope.unit.changes
    if stores(target, changes) or has_atomics(target, changes):
        scope.refuse(node, f"{what} inside an expression changes an element whose "
                           "index changes as well; make it a statement of its own")
    before = changes_before(scope, node, what, [path_of(scope, target)])
    if id(node) in before.values:
        return before.values[id(node)]
    found = None
    if node.op.startswith("p"):
        old = scope.typed(target)
        kept = scope.declare("__old", old.dtype)
        before.statements.append(ast.Assign([store(kept.name)], old.node))
        found = Typed(ast.Name(kept.name, ast.Load()), old.dtype)
    one = Constant("int", "1", node.coord)
    changed = Assignment(f"{node.op[-1]}=", target, one, node.coord) \
        if kind(node) == "UnaryOp" else node
    before.statements += scope.statement(changed)
    before.values[id(node)] = found or scope.typed(target)
    return before.values[id(node)]


def changes_before(scope: Scope, node: Any, what: str,
                   changed: Collection[Path]) -> Before:
    """The place of a change inside an expression, which nothing beside it may name.

    Where it is the right side of a plain assignment, the left one may: that comes
    last, as in C++ 17.
    """
    before, what = scope.before, f"{what} inside an expression"
    if before is None:
        scope.refuse(node, f"{what} that is computed under a condition is not "
                           "understood here; make it a statement of its own")
    root = before.root
    if kind(root) == "Assignment" and root.op == "=" and any(
            n is node for n in walk(root.rvalue)):
        root = root.rvalue
    if id(node) not in before.values:
        beside = _named(scope, root, changed) - _named(scope, node, changed)
        for later in _after(root, node):
            beside -= _named(scope, later, changed)
        for name in beside:
            scope.refuse(node, f"{name!r} is named beside a {what}, where C++ "
                               "leaves the order open; make it a statement of its own")
    return before


def _after(root: Any, node: Any) -> Iterator[Any]:
    """The parts of `root` that ``&&``, ``||`` and ``?:`` compute after another."""
    while root is not node:
        inside = next(c for _, c in root.children() if any(n is node for n in walk(c)))
        if kind(root) == "BinaryOp" and root.op in ("&&", "||") and inside is root.left:
            yield root.right
        elif kind(root) == "TernaryOp" and inside is root.cond:
            yield root.iftrue
            yield root.iffalse
        root = inside


def path_of(scope: Scope, node: Any) -> Path:
    """The variable, the members and the indices that lead to a part of it."""
    match kind(node):
        case "ID":
            variable = scope.lookup(node.name)
            return (variable.name if variable else node.name,)
        case "StructRef":
            return (*path_of(scope, node.name), node.field.name)
        case "ArrayRef":
            whole = path_of(scope, node.name)
            variable = scope.lookup(_last_name(node))
            moved = variable is None or variable.offset
            return (*whole, None if moved else _number(scope, node.subscript))
    return path_of(scope, node.expr) if kind(node) in ("UnaryOp", "Cast") else (None,)


def _number(scope: Scope, node: Any) -> Any:
    """An index that is written as a number."""
    return scope.typed(node).number if kind(node) == "Constant" else None


def _last_name(node: Any) -> str:
    """The name at the root of a part of a variable."""
    while kind(node) in ("ArrayRef", "StructRef"):
        node = node.name
    return str(getattr(node, "name", ""))


def _named(scope: Scope, node: Any, changed: Collection[Path]) -> Counter[str]:
    """Count the names of what may be a part, or the whole, of what is changed."""
    return Counter(name for name, path in _paths(scope, node) if any(
        all(a == b or None in (a, b) for a, b in zip(path, other, strict=False))
        for other in changed))


def _paths(scope: Scope, node: Any) -> Iterator[tuple[str, Path]]:
    """The parts of variables that a tree names, and the places of pointers."""
    if kind(node) in ("ID", "ArrayRef", "StructRef"):
        name = _last_name(node)
        variable = scope.lookup(name)
        if variable is not None:
            yield name, path_of(scope, node)
        if variable is not None and variable.offset:
            yield name, (variable.offset,)
        while kind(node) in ("ArrayRef", "StructRef"):
            if kind(node) == "ArrayRef":
                yield from _paths(scope, node.subscript)
            node = node.name
    if kind(node) != "ID":
        for _, child in node.children():
            yield from _paths(scope, child)


def _parse_binary(scope: Scope, node: Any) -> Typed:
    """Parse ``a && k++``, or another operator of two operands."""
    if node.op not in ("&&", "||"):
        return _OTHERS["BinaryOp"](scope, node)
    later, first = [node.right], node.left
    while isinstance(first, type(node)) and first.op == node.op:
        later.append(first.right)
        first = first.left
    before = _under_a_condition(scope, node, later)
    if before is None:
        return _OTHERS["BinaryOp"](scope, node)
    if id(node) not in before.values:
        flag = scope.declare("__truth", BOOL).name
        before.statements.append(ast.Assign([store(flag)], scope.truth(first)))
        for part in reversed(later):
            with scope.evaluated(part) as inner:
                value = scope.truth(part)
            test: ast.expr = ast.Name(flag, ast.Load())
            if node.op == "||":
                test = ast.UnaryOp(ast.Not(), test)
            before.statements.append(ast.If(test, [
                *inner.statements, ast.Assign([store(flag)], value)], []))
        before.values[id(node)] = Typed(ast.Name(flag, ast.Load()), BOOL)
    return before.values[id(node)]


def _parse_ternary(scope: Scope, node: Any) -> Typed:
    """Parse ``c ? k++ : f(&k)``, or one whose sides change nothing."""
    before = _under_a_condition(scope, node, (node.iftrue, node.iffalse))
    if before is None:
        return _OTHERS["TernaryOp"](scope, node)
    if id(node) in before.values:
        return before.values[id(node)]
    flag = scope.declare("__truth", BOOL).name
    before.statements.append(ast.Assign([store(flag)], scope.truth(node.cond)))
    sides: list[tuple[list[ast.stmt], Typed]] = []
    for side in (node.iftrue, node.iffalse):
        with scope.evaluated(side) as inner:
            value = scope.value(side)
        sides.append((inner.statements, value))
    (_, a), (_, b) = sides
    dtype = common_type(scope, node, a, b)
    chosen = scope.declare("__chosen", dtype).name
    then, orelse = ([*s, ast.Assign([store(chosen)], converted(v, dtype))]
                    for s, v in sides)
    before.statements.append(ast.If(ast.Name(flag, ast.Load()), then, orelse))
    before.values[id(node)] = Typed(ast.Name(chosen, ast.Load()), dtype)
    return before.values[id(node)]


def _under_a_condition(scope: Scope, node: Any,
                       parts: Collection[Any]) -> Before | None:
    """The place of changes in parts that may be left out; None where there are none."""
    before, changes = scope.before, scope.unit.changes
    if before is None:  # as for all but the first of a chain, which may be long
        return None
    names = set[str]().union(*(stores(p, changes) for p in parts))
    if not names:
        return None
    found = [(v.name,) for n in names if (v := scope.lookup(n))]
    return changes_before(scope, node, "change", [*found, *(
        (v.offset,) for n in names if (v := scope.lookup(n)) and v.offset)])


def _parse_unary(scope: Scope, node: Any) -> Typed:
    """Parse ``k++``, or another operator of one operand."""
    if node.op[-2:] in ("++", "--"):
        return _parse_change(scope, node)
    return _OTHERS["UnaryOp"](scope, node)


EXPRESSIONS: dict[str, ExpressionParser] = {
    "Assignment": _parse_change, "UnaryOp": _parse_unary, "BinaryOp": _parse_binary,
    "TernaryOp": _parse_ternary,
}
