"""Loops of the scalar language: what they assign becomes what they carry."""

from __future__ import annotations

import ast
from collections.abc import Callable
from copy import copy
from functools import partial

from ...support.records import record
from ..ir.nodes import Block, For, Literal, Statement, Value, While, literal
from ..source.phrases import ALLOWED
from ..source.structure import (
    Local,
    Mutable,
    Values,
    Vector,
    fill,
    leaves,
    numbered,
)
from .branches import (
    UNSET,
    mismatch,
    refuse_alias,
    refuse_choice,
    short_circuit,
    split,
)
from .composite.places import assign
from .jumps import RESULT, Loop, assigned, changed
from .names import is_range, resolve
from .scope import Scope, StatementParser
from .sequences import range_bounds, static_integer, static_items

__all__ = ["STATEMENTS"]


@record
class _Carried:
    """The variables that live on from one iteration to the next."""

    names: list[str]
    shapes: list[Values]
    params: list[str]
    inits: list[Value]
    yields: list[Value]


def _parse_loop(scope: Scope, s: Loop) -> None:
    """Write a loop and assign its results."""
    if s.node.orelse:
        raise scope.error(s.node.orelse[0], f"else after a loop is not part of the "
                                            f"scalar language. {ALLOWED}")
    s = _take_hint(scope, s)
    if isinstance(s.node, ast.For) and not is_range(scope, s.node.iter):
        return _unroll(scope, s, s.node)
    carried = _carry(scope, s)
    if isinstance(s.node, ast.While):
        results = _write_while(scope, s, s.node, carried)
    elif s.flags:
        results = _write_interrupted(scope, s, s.node, carried)
    else:
        results = _write_for(scope, s, s.node, carried)
    for name, shape in zip(carried.names, carried.shapes, strict=True):
        scope.env[name] = fill(shape, results)
        _mark_flag(scope, name, s)
    return None


def _unroll(scope: Scope, s: Loop, node: ast.For) -> None:
    """Write the body once for each item."""
    for item in static_items(scope, node.iter):
        go = _going(scope, s, lambda: literal(True))
        if go == literal(False):
            break
        if isinstance(go, Literal):
            _run_item(scope, s, node, item)
        else:
            split(scope, s, go, partial(_run_item, scope, s, node, item), _nothing)


def _run_item(scope: Scope, s: Loop, node: ast.For, item: Values) -> None:
    """One item of a loop that is written out."""
    assign(scope, node.target, item)
    scope.run(s.body)


def _mark_flag(scope: Scope, name: str, s: Loop) -> None:
    """Mark a flag as a bool, which the emitter cannot see through a loop."""
    if name in s.flags:
        scope.emitter.mark(str(scope.env[name]))


def _carry(scope: Scope, s: Loop) -> _Carried:
    """The variables assigned in the body that have a value before the loop."""
    written = assigned([s]) | {n for n in changed([s]) if isinstance(
        scope.env.get(n), (Local, Mutable, Vector))}
    carried = _Carried([], [], [], [], [])
    for name in sorted(n for n in written if n in scope.env):
        refuse_choice(scope, s, name, *leaves(scope.env[name]))
        refuse_alias(scope, s, name, scope.env)
        shape, _ = numbered(scope.env[name], len(carried.inits))
        inits = leaves(scope.env[name])
        carried.names.append(name)
        carried.shapes.append(shape)
        carried.inits += inits
        carried.params += [scope.emitter.fresh(name) for _ in inits]
    return carried


def _enter(scope: Scope, s: Loop, carried: _Carried) -> None:
    """Give the carried variables the values of this iteration."""
    for name, shape in zip(carried.names, carried.shapes, strict=True):
        scope.env[name] = fill(shape, carried.params)
        _mark_flag(scope, name, s)


def _leave(scope: Scope, s: Loop, carried: _Carried) -> None:
    """Collect what the body yields, the function's result included."""
    for name, shape in zip(carried.names, carried.shapes, strict=True):
        start = len(carried.yields)
        carried.yields += leaves(scope.env[name])
        if numbered(scope.env[name], start)[0] != shape:
            raise scope.error(s, mismatch(
                name, fill(shape, carried.inits), scope.env[name]))
    if RESULT in scope.env and RESULT not in carried.names:
        _leave_result(scope, carried)


def _leave_result(scope: Scope, carried: _Carried) -> None:
    """The result is written once, then a flag ends the loop: nothing comes in."""
    values = scope.env[RESULT]
    shape, _ = numbered(values, len(carried.inits))
    found = leaves(values)
    carried.names.append(RESULT)
    carried.shapes.append(shape)
    carried.inits += [UNSET] * len(found)
    carried.params += [scope.emitter.fresh("unused") for _ in found]
    carried.yields += found


def _results(scope: Scope, carried: _Carried) -> tuple[str, ...]:
    """Fresh names for what leaves the loop."""
    table = fill(tuple(carried.shapes), carried.params)
    stems = [name for name, values in zip(carried.names, table, strict=True)
             for _ in leaves(values)]
    return tuple(scope.emitter.fresh(s) for s in stems)


def _count(scope: Scope, node: ast.For) -> tuple[Value, Value, Value]:
    """The number of iterations of a ``for``, its start and its step."""
    start, stop, step = range_bounds(scope, node.iter)  # type: ignore[arg-type]
    if step == literal(0):
        raise scope.error(node, "the step of range() is 0")
    e, given = scope.emitter, stop
    if not all(isinstance(v, Literal) for v in (start, stop, step)):
        # Unsigned bounds would wrap around below 0.
        stop = e.emit("add", stop, e.emit("cast", literal(0), attr="int64"))
    if step == literal(1):
        count = given if start == literal(0) else e.emit("sub", stop, start)
    else:  # ceil((stop - start) / step) for a step of either sign
        count = e.emit("neg", e.emit("floordiv", e.emit("sub", start, stop), step))
    if isinstance(count, Literal):
        return literal(max(0, int(count.text))), start, step
    return e.emit("max", count, literal(0), stem="count"), start, step


def _run_step(scope: Scope, s: Loop, node: ast.For, index: Value,
              start: Value, step: Value) -> None:
    """Assign the loop variable for iteration `index` and run the body."""
    e = scope.emitter
    if step != literal(1):
        index = e.emit("mul", index, step)
    if start != literal(0):
        index = e.emit("add", start, index)
    assign(scope, node.target, index)
    scope.run(s.body)


def _write_for(scope: Scope, s: Loop, node: ast.For,
               carried: _Carried) -> tuple[str, ...]:
    """A ``for`` that runs to its end."""
    count, start, step = _count(scope, node)
    index = scope.emitter.fresh("index")
    with scope.region() as (body, _):
        _enter(scope, s, carried)
        _run_step(scope, s, node, index, start, step)
        _leave(scope, s, carried)
    results = _results(scope, carried)
    scope.emitter.statements.append(For(
        results, index, count, tuple(carried.params), tuple(carried.inits),
        _block(body, carried), s.max_iters))
    return results


def _write_interrupted(scope: Scope, s: Loop, node: ast.For,
                       carried: _Carried) -> tuple[str, ...]:
    """A ``for`` that may be left early: a While with a counter."""
    count, start, step = _count(scope, node)
    counter = scope.emitter.fresh("counter")
    with scope.region() as (body, _):
        _enter(scope, s, carried)
        _run_step(scope, s, node, counter, start, step)
        _leave(scope, s, carried)
        carried.yields.append(scope.emitter.emit("add", counter, literal(1)))
    carried.params.append(counter)
    carried.inits.append(literal(0))
    with scope.region() as (test, _):
        _enter(scope, s, carried)
        go = _going(scope, s, lambda: scope.emitter.emit("lt", counter, count))
    return _append_while(scope, s, test, go, body, carried, "counter")


def _write_while(scope: Scope, s: Loop, node: ast.While,
                 carried: _Carried) -> tuple[str, ...]:
    """A ``while``, left early or not."""
    with scope.region() as (body, _):
        _enter(scope, s, carried)
        scope.run(s.body)
        _leave(scope, s, carried)
    with scope.region() as (test, _):
        _enter(scope, s, carried)
        go = _going(scope, s, lambda: scope.condition(node.test))
    return _append_while(scope, s, test, go, body, carried)


def _going(scope: Scope, s: Loop, test: Callable[[], Value]) -> Value:
    """The condition to go on: no flag is set, and then ``test()``."""
    go: Value = literal(True)
    for flag in s.flags:
        unset = scope.emitter.emit("logical_not", scope.env[flag])
        go = short_circuit(scope, ast.And(), go, partial(_same, unset))
    return short_circuit(scope, ast.And(), go, test)


def _append_while(scope: Scope, s: Loop, test: list[Statement], go: Value,
                  body: list[Statement], carried: _Carried,
                  *extra: str) -> tuple[str, ...]:
    """Append a While; its results, `extra` ones last."""
    results = (*_results(scope, carried), *(scope.emitter.fresh(x) for x in extra))
    scope.emitter.statements.append(While(
        results, tuple(carried.params), tuple(carried.inits),
        Block(tuple(test), (go,)), _block(body, carried), s.max_iters))
    return results


def _block(body: list[Statement], carried: _Carried) -> Block:
    return Block(tuple(body), tuple(carried.yields))


def _nothing() -> None:
    """The other side of a branch without one."""


def _same(value: Value) -> Value:
    return value


STATEMENTS: dict[type[ast.stmt], StatementParser] = {Loop: _parse_loop}


# Hints: `nf.max_iters` around what a loop goes over, or around its condition ----------


def _take_hint(scope: Scope, s: Loop) -> Loop:
    """The loop without the call, with the number of iterations that it gives.

    Raises
    ------
    ScalarSyntaxError
        The call is not around ``range(...)``, or its number is not known or negative.
    """
    name = "iter" if isinstance(s.node, ast.For) else "test"
    call = getattr(s.node, name)
    if not _is_hint(scope, call):
        return s
    if len(call.args) != 2 or call.keywords:
        raise scope.error(call, f"{ast.unparse(call.func)}() takes two arguments: "
                                "range(...), or a condition, and a number of "
                                "iterations")
    inside, most = call.args
    if isinstance(s.node, ast.For) and not is_range(scope, inside):
        raise scope.error(call, f"{ast.unparse(call.func)}() takes range(...) here, "
                                f"got {ast.unparse(inside)!r}; other loops are written "
                                "out and need no hint")
    count = static_integer(scope, call, scope.values(most), "the number of iterations")
    if count < 0:
        raise scope.error(call, "the number of iterations must be 0 or more, got "
                                f"{count}")
    node = copy(s.node)
    setattr(node, name, inside)
    return Loop(node, s.body, s.flags, count)


def _is_hint(scope: Scope, node: ast.expr) -> bool:
    """True if `node` calls `nf.max_iters`; nothing is written to find that out."""
    if not isinstance(node, ast.Call):
        return False
    root = node.func
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name) or root.id in {*scope.env, *scope.assigned}:
        return False
    found = resolve(scope, node.func)
    return getattr(found, "__nbfused_form__", None) == "max_iters"
