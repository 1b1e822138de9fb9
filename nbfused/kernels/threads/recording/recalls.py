"""Accesses that a derivative records, each at its position on a tape.

Positions are numbers, sums of literals and multiples of loops' indices where iterations
take equally many; only loops of another kind carry one along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....scalar.autodiff.activity import refuse
from ....scalar.autodiff.adjoints import GIVEN, INITIAL, RECORDED
from ....scalar.autodiff.rules import has_rule
from ....scalar.ir.build import Builder, inline
from ....scalar.ir.nodes import (
    Block,
    For,
    Function,
    If,
    Let,
    Literal,
    Statement,
    Value,
    While,
    defined,
    literal,
    raw_params,
    read,
    rewrite,
    walk,
)
from ....specs.raw import WRITES
from ....support.records import record

__all__ = ["with_places", "with_recalls"]

_FIRST = literal(0)


def with_recalls(function: Function, wanted: set[str],
                 loads: bool) -> tuple[Function, Value]:
    """`function` with accesses that a derivative records, and the number of rows.

    Where `loads`, those of what the kernel may have changed, arrays that blocks share
    among it, and places that threads count by atomic operations on arrays that are not
    `wanted`; and values that an atomic ``min`` or ``max`` compares with elements of
    `wanted` arrays.
    """
    function = inline(function, has_rule)
    function, shared = _shared_first(function) if loads else (function, set())
    extremes = _extremes(function) & wanted
    changed = {str(s.args[0]) for s in walk(inline(function).body)
               if isinstance(s, Let) and s.op in WRITES}
    found = [s for s in walk(function.body) if isinstance(s, Let) and s.op == "load"
             and s.args[0] in changed & raw_params(function) | shared
             and s.attr != "once" and loads]
    counters = _counters(function) - wanted if loads else set()
    if not found and not extremes and not counters:
        return function, _FIRST
    return _Recalls(function, {str(s.args[0]) for s in found}, extremes,
                    counters, shared).whole()


def with_places(function: Function, counters: set[str]) -> tuple[Function, Value]:
    """`function` with places that threads count by `counters`, and how many rows."""
    function = inline(function, has_rule)
    return _Recalls(function, set(), set(), counters, set()).whole()


def _shared_first(function: Function) -> tuple[Function, set[str]]:
    """`function` with the arrays that its blocks share made first; their names."""
    found = [s for s in walk(function.body) if isinstance(s, Let) and s.op == "shared"]
    rest = rewrite(function.body, lambda s: () if s.op == "shared" else (s,))
    return replace(function, body=Block((*found, *rest.statements), rest.yields)), {
        s.results[0] for s in found}


def _extremes(function: Function) -> set[str]:
    """The parameters that are accessed by one of atomic ``min`` and ``max`` alone."""
    accesses: dict[str, set[str]] = {}
    for s in walk(inline(function).body):
        if isinstance(s, Let) and s.op in WRITES | {"load"}:
            accesses.setdefault(str(s.args[0]), set()).add(str(s.attr or s.op))
    return {a for a, found in accesses.items() if found in ({"min"}, {"max"})}


def _counters(function: Function) -> set[str]:
    """The parameters of which an atomic operation gives a value that is used."""
    used = read(function.body)
    return {str(s.args[0]) for s in walk(function.body) if isinstance(s, Let)
            and s.op == "atomic" and used.intersection(s.results)} & \
        raw_params(function)


@record(frozen=True)
class _Row:
    """A position on the tapes: so many rows after `base`."""

    base: Value
    offset: int = 0


class _Recalls(Builder):
    """Writes a function again, with recalls in place of loads of `arrays`."""

    def __init__(self, function: Function, arrays: set[str], extremes: set[str],
                 counters: set[str], shared: set[str]) -> None:
        super().__init__(defined(function.body) | set(function.params))
        self.function, self.arrays, self.extremes = function, arrays, extremes
        self.counters = counters
        #: What a store may have changed before the statement at hand; an array that is
        #: shared has no other values.
        self.stored = set(shared)

    def whole(self) -> tuple[Function, Value]:
        """The function, and the number of rows."""
        body = self.function.body
        end = self.value(self.write(body.statements, _Row(_FIRST)))
        return replace(self.function, body=Block(tuple(self.statements),
                                                 body.yields)), end

    def value(self, row: _Row) -> Value:
        """A position as a number."""
        return self.sum(row.base, literal(row.offset))

    def write(self, statements: Sequence[Statement], at: _Row) -> _Row:
        """Write `statements`, the first row of which is `at`; the row after them."""
        for s in statements:
            match s:
                case Let():
                    at = self.access(s, at)
                case If():
                    at = self.branches(s, at)
                case For() | While():
                    at = self.loop(s, at)
                case _:
                    self.statements.append(s)
        return at

    def access(self, s: Let, at: _Row) -> _Row:
        """An access takes a row, if its value is recorded."""
        self.line = s.line or self.line
        array, *rest = s.args or ("",)
        if s.op in WRITES:
            self.stored.add(str(array))
        if s.op == "atomic" and array in self.counters and s.results:
            old = self.fresh("old")
            self.statements.append(replace(s, results=(old,)))
            s, taken = replace(s, op="recall", attr=GIVEN, args=(
                array, self.value(at), old)), 1
        elif s.op == "atomic" and array in self.extremes:
            s, taken = replace(s, args=(array, self.value(at), *rest),
                               attr=f"{s.attr}.{RECORDED}"), 1
        elif s.op == "load" and array in self.arrays and s.attr != "once":
            taken = int(array in self.stored)
            s = replace(s, op="recall", attr=None if taken else INITIAL, args=(
                array, self.value(at) if taken else _FIRST, *rest))
        else:
            taken = 0
        self.statements.append(s)
        return replace(at, offset=at.offset + taken)

    def block(self, block: Block, at: _Row) -> tuple[Block, _Row]:
        """A block, and the row after it."""
        with self.region() as body:
            after = self.write(block.statements, at)
        return Block(tuple(body), block.yields), after

    def branches(self, s: If, at: _Row) -> _Row:
        """Both begin at one row; the longer one says where it goes on."""
        before = set(self.stored)
        then, first = self.block(s.then, at)
        after, self.stored = self.stored, before
        orelse, second = self.block(s.orelse, at)
        self.stored |= after
        if first.base == second.base:
            self.statements.append(replace(s, then=then, orelse=orelse))
            return _Row(first.base, max(first.offset, second.offset))
        row = self.fresh("row")
        self.statements.append(replace(
            s, results=(*s.results, row), then=self.ending(then, first),
            orelse=self.ending(orelse, second)))
        return _Row(row)

    def ending(self, block: Block, row: _Row) -> Block:
        """`block`, which yields the row as well."""
        with self.region() as more:
            end = self.value(row)
        return Block((*block.statements, *more), (*block.yields, end))

    def loop(self, s: For | While, at: _Row) -> _Row:
        """A loop, whose body may read what an iteration before has stored."""
        self.stored |= {str(t.args[0]) for t in walk(s.body)
                        if isinstance(t, Let) and t.op in WRITES}
        trial = _Row(self.fresh("row"))
        tested = trial
        if isinstance(s, While):
            condition, tested = self.block(s.condition, trial)
        if tested.base != trial.base:
            raise refuse(self.function, self.line, "the condition of a while loop has "
                         "a loop of its own, which reads an array that the kernel also "
                         "writes; compute it in the body, while True: … break")
        body, after = self.block(s.body, trial)
        if after == tested == trial:
            if isinstance(s, While):
                s = replace(s, condition=condition)
            self.statements.append(replace(s, body=body))
            return at
        if after.base != trial.base:
            return self.carried(s, at, tested.offset)
        start = self.value(at)
        if isinstance(s, While):
            return self.repeated(s, start, tested.offset, after.offset)
        with self.region() as inside:
            first = self.sum(start, self.times(s.index, after.offset))
            self.write(s.body.statements, _Row(first))
        self.statements.append(replace(s, body=Block(tuple(inside), s.body.yields)))
        return _Row(self.sum(start, self.times(s.count, after.offset)))

    def repeated(self, s: While, start: Value, tested: int, size: int) -> _Row:
        """A loop that counts its iterations; `tested` rows are its condition's."""
        step, steps = self.fresh("step"), self.fresh("steps")

        def inside(block: Block, offset: int) -> Block:
            with self.region() as body:
                first = self.sum(start, self.times(step, tested + size))
                self.write(block.statements, _Row(first, offset))
            return Block(tuple(body), block.yields)

        condition, body = inside(s.condition, 0), inside(s.body, tested)
        with self.region() as more:
            ahead = self.let("add", step, literal(1), stem="step")
        body = Block((*body.statements, *more), (*body.yields, ahead))
        self.statements.append(replace(
            s, results=(*s.results, steps), params=(*s.params, step),
            inits=(*s.inits, _FIRST), condition=condition, body=body))
        return _Row(self.sum(start, self.times(steps, tested + size)), tested)

    def carried(self, s: For | While, at: _Row, tested: int) -> _Row:
        """A loop that carries the row along; `tested` are those of its condition."""
        init, row, result = self.value(at), self.fresh("row"), self.fresh("row")
        if isinstance(s, While):
            s = replace(s, condition=self.block(s.condition, _Row(row))[0])
        body, end = self.block(s.body, _Row(row, tested))
        self.statements.append(replace(
            s, results=(*s.results, result), params=(*s.params, row),
            inits=(*s.inits, init), body=self.ending(body, end)))
        return _Row(result, tested)

    def sum(self, a: Value, b: Value) -> Value:
        """``a + b``, a number where both are."""
        if isinstance(a, Literal) and isinstance(b, Literal):
            return literal(int(a.text) + int(b.text))
        return self.add(a, b, "row")

    def times(self, a: Value, size: int) -> Value:
        """``a * size``, of an integer beside which nothing is promoted."""
        if isinstance(a, Literal):
            return literal(int(a.text) * size)
        return self.mul(self.let("index", a, stem="row"), literal(size), "row")
