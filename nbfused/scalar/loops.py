"""Loops of the scalar language: what they assign becomes what they carry."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial

from ..records import record
from .builtin_forms import known_sequence
from .expressions import Expressions
from .hints import hinted
from .ir import Block, For, Literal, Statement, Value, While, literal
from .jumps import RESULT, Loop, assigned, changed
from .structure import Local, Values, fill, leaves, rebuild
from .words import ALLOWED

__all__ = ["UNSET", "Loops"]

#: Stands for a value that is never read.  Any type absorbs a bool in promotion.
UNSET = literal(False)


@record
class _Carried:
    """The variables that live on from one iteration to the next."""

    names: list[str]
    shapes: list[Values]
    params: list[str]
    inits: list[Value]
    yields: list[Value]


def _number(values: Values, start: int) -> tuple[Values, int]:
    """`values` with each leaf replaced by its number, from `start` on."""
    if not isinstance(values, tuple):
        return start, start + 1
    parts = []
    for v in values:
        part, start = _number(v, start)
        parts.append(part)
    return rebuild(values, parts), start


class Loops(Expressions):
    """Expressions and loops; `run` is given by the subclass."""

    def run(self, body: Sequence[ast.stmt]) -> None:
        """Write the statements `body`."""
        raise NotImplementedError

    def split(self, s: ast.stmt, truth: Value, then: Callable[[], None],
              orelse: Callable[[], None]) -> None:
        """A branch: ``then()`` where `truth`, else ``orelse()``."""
        raise NotImplementedError

    def loop(self, s: Loop) -> None:
        """Write a loop and assign what it leaves."""
        if s.node.orelse:
            raise self.error(s.node.orelse[0], f"else after a loop is not part of the "
                                               f"scalar language. {ALLOWED}")
        s = hinted(self, s)
        if isinstance(s.node, ast.For) and not self.is_range(s.node.iter):
            return self.unrolled(s, s.node)
        carried = self.carry(s)
        if isinstance(s.node, ast.While):
            results = self.while_loop(s, s.node, carried)
        elif s.flags:
            results = self.interrupted(s, s.node, carried)
        else:
            results = self.for_loop(s, s.node, carried)
        for name, shape in zip(carried.names, carried.shapes, strict=True):
            self.env[name] = fill(shape, results)
            self.flag(name, s)
        return None

    def is_range(self, node: ast.expr) -> bool:
        """Whether a loop goes over ``range(...)``."""
        return isinstance(node, ast.Call) and self.owner(node.func) is None and \
            self.callee(node.func) is range

    def unrolled(self, s: Loop, node: ast.For) -> None:
        """Write the body once for each item."""
        for item in known_sequence(self, node.iter):
            go = self.going(s, lambda: literal(True))
            if go == literal(False):
                break
            if isinstance(go, Literal):
                self.iteration(s, node, item)
            else:
                self.split(s, go, partial(self.iteration, s, node, item), _nothing)

    def iteration(self, s: Loop, node: ast.For, item: Values) -> None:
        """One item of a loop that is written out."""
        self.bind(node.target, item)
        self.run(s.body)

    def flag(self, name: str, s: Loop) -> None:
        """A flag is a bool, which the emitter cannot see through a loop."""
        if name in s.flags:
            self.emitter.mark(str(self.env[name]))

    def carry(self, s: Loop) -> _Carried:
        """The variables assigned in the body that have a value before the loop."""
        written = assigned([s]) | {n for n in changed([s])
                                   if isinstance(self.env.get(n), Local)}
        carried = _Carried([], [], [], [], [])
        for name in sorted(n for n in written if n in self.env):
            self.single(s, name, *leaves(self.env[name]))
            self.unshared(s, name, self.env)
            shape, _ = _number(self.env[name], len(carried.inits))
            inits = leaves(self.env[name])
            carried.names.append(name)
            carried.shapes.append(shape)
            carried.inits += inits
            carried.params += [self.emitter.fresh(name) for _ in inits]
        return carried

    def enter(self, s: Loop, carried: _Carried) -> None:
        """Give the carried variables the values of this iteration."""
        for name, shape in zip(carried.names, carried.shapes, strict=True):
            self.env[name] = fill(shape, carried.params)
            self.flag(name, s)

    def leave(self, s: Loop, carried: _Carried) -> None:
        """Collect what the body yields, the function's result included."""
        for name, shape in zip(carried.names, carried.shapes, strict=True):
            start = len(carried.yields)
            carried.yields += leaves(self.env[name])
            if _number(self.env[name], start)[0] != shape:
                raise self.error(s, self.mismatch(
                    name, fill(shape, carried.inits), self.env[name]))
        if RESULT in self.env and RESULT not in carried.names:
            self.leave_result(carried)

    def leave_result(self, carried: _Carried) -> None:
        """The result is written once, then a flag ends the loop: nothing comes in."""
        values = self.env[RESULT]
        shape, _ = _number(values, len(carried.inits))
        found = leaves(values)
        carried.names.append(RESULT)
        carried.shapes.append(shape)
        carried.inits += [UNSET] * len(found)
        carried.params += [self.emitter.fresh("unused") for _ in found]
        carried.yields += found

    def results(self, carried: _Carried) -> tuple[str, ...]:
        """Fresh names for what leaves the loop."""
        table = fill(tuple(carried.shapes), carried.params)
        stems = [name for name, values in zip(carried.names, table, strict=True)
                 for _ in leaves(values)]
        return tuple(self.emitter.fresh(s) for s in stems)

    def count(self, node: ast.For) -> tuple[Value, Value, Value]:
        """How often a ``for`` runs, where it starts and its step."""
        start, stop, step = self.bounds(node.iter)  # type: ignore[arg-type]
        if step == literal(0):
            raise self.error(node, "the step of range() is 0")
        e, given = self.emitter, stop
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

    def step(self, s: Loop, node: ast.For, index: Value, start: Value,
             step: Value) -> None:
        """Assign the loop variable for iteration `index` and run the body."""
        e = self.emitter
        if step != literal(1):
            index = e.emit("mul", index, step)
        if start != literal(0):
            index = e.emit("add", start, index)
        self.bind(node.target, index)
        self.run(s.body)

    def for_loop(self, s: Loop, node: ast.For, carried: _Carried) -> tuple[str, ...]:
        """A ``for`` that runs to its end."""
        count, start, step = self.count(node)
        index = self.emitter.fresh("index")
        with self.branch() as (body, _):
            self.enter(s, carried)
            self.step(s, node, index, start, step)
            self.leave(s, carried)
        results = self.results(carried)
        self.add(For(results, index, count, tuple(carried.params),
                     tuple(carried.inits), _block(body, carried), s.max_iters))
        return results

    def interrupted(self, s: Loop, node: ast.For, carried: _Carried) -> tuple[str, ...]:
        """A ``for`` that may be left early: a While with a counter."""
        count, start, step = self.count(node)
        counter = self.emitter.fresh("counter")
        with self.branch() as (body, _):
            self.enter(s, carried)
            self.step(s, node, counter, start, step)
            self.leave(s, carried)
            carried.yields.append(self.emitter.emit("add", counter, literal(1)))
        carried.params.append(counter)
        carried.inits.append(literal(0))
        with self.branch() as (test, _):
            self.enter(s, carried)
            go = self.going(s, lambda: self.emitter.emit("lt", counter, count))
        return self.add_while(s, test, go, body, carried, "counter")

    def while_loop(self, s: Loop, node: ast.While,
                   carried: _Carried) -> tuple[str, ...]:
        """A ``while``, left early or not."""
        with self.branch() as (body, _):
            self.enter(s, carried)
            self.run(s.body)
            self.leave(s, carried)
        with self.branch() as (test, _):
            self.enter(s, carried)
            go = self.going(s, lambda: self.condition(node.test))
        return self.add_while(s, test, go, body, carried)

    def going(self, s: Loop, test: Callable[[], Value]) -> Value:
        """Whether no flag is set and then ``test()``."""
        go: Value = literal(True)
        for flag in s.flags:
            unset = self.emitter.emit("logical_not", self.env[flag])
            go = self.both(ast.And(), go, partial(_same, unset))
        return self.both(ast.And(), go, test)

    def add_while(self, s: Loop, test: list[Statement], go: Value,
                  body: list[Statement], carried: _Carried,
                  *extra: str) -> tuple[str, ...]:
        """Append a While; its results, `extra` ones last."""
        results = (*self.results(carried), *(self.emitter.fresh(x) for x in extra))
        self.add(While(results, tuple(carried.params), tuple(carried.inits),
                       Block(tuple(test), (go,)), _block(body, carried), s.max_iters))
        return results

    def add(self, statement: Statement) -> None:
        """Append a statement to the open region."""
        self.emitter.statements.append(statement)


def _block(body: list[Statement], carried: _Carried) -> Block:
    return Block(tuple(body), tuple(carried.yields))


def _nothing() -> None:
    """The other side of a branch without one."""


def _same(value: Value) -> Value:
    return value
