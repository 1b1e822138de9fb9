"""Running a loop again from what was recorded of it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence

from ...support.records import record
from ..ir.nodes import Block, For, Let, Literal, Value, literal, rename
from .reverse import Reverse

__all__ = ["FIRST", "ONE", "Part", "Recording", "Split"]

#: Writes the inside of a loop, given its index and what it carries; what it yields.
Inside = Callable[[Value, tuple[str, ...]], Sequence[Value]]

FIRST, ONE = literal(0), literal(1)
_INTEGERS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul,
    "floordiv": operator.floordiv, "min": min, "max": max,
}


@record(frozen=True)
class Part:
    """Iterations `start`, `start` + 1, …; `length` of them."""

    start: Value
    length: Value


@record(frozen=True)
class Split:
    """`total` iterations in `count` parts of `stride`; the last one may be shorter."""

    total: Value
    count: Value
    stride: Value


class Recording(Reverse):
    """Loops written by functions, and buffers that they fill."""

    #: Of the loop that is differentiated, and so of the loops that this takes.
    prefer = ""

    def loop(self, count: Value, inits: Sequence[Value], inside: Inside,
             stems: Sequence[str]) -> tuple[str, ...]:
        """A For written by `inside`; its results."""
        index = self.fresh("k")
        params = tuple(self.fresh(x) for x in stems)
        with self.region() as body:
            yields = inside(index, params)
        results = tuple(self.fresh(x) for x in stems)
        self.statements.append(For(results, index, count, params, tuple(inits),
                                   Block(tuple(body), tuple(yields)),
                                   prefer=self.prefer))
        return results

    def countdown(self, count: Value, bars: Sequence[Value],
                  inside: Inside) -> tuple[str, ...]:
        """A loop whose index falls to 0."""
        last = self.integer("sub", self.weak(count), ONE)
        return self.loop(count, bars, lambda k, params: inside(
            self.integer("sub", last, k), params), ["bar"] * len(bars))

    def integer(self, op: str, a: Value, b: Value) -> Value:
        """``op(a, b)`` of integers; a number where both are."""
        if isinstance(a, Literal) and isinstance(b, Literal):
            return literal(_INTEGERS[op](int(a.text), int(b.text)))
        return self.let(op, a, b)

    def weak(self, count: Value) -> Value:
        """An integer beside which no type is promoted, as indices are."""
        return count if isinstance(count, Literal) else self.let("index", count)

    def split(self, total: Value, most: int) -> Split:
        """At most `most` parts, as small as they can be."""
        stride = self.integer("max", self.ceiling(total, literal(most)), ONE)
        count = self.integer("min", self.ceiling(total, stride), literal(most))
        return Split(total, count, stride)

    def part(self, split: Split, k: Value, start: Value = FIRST) -> Part:
        """Part `k`, the first of which begins at `start`."""
        before = self.integer("mul", k, split.stride)
        rest = self.integer("sub", split.total, before)
        return Part(self.add(start, before), self.integer("min", split.stride, rest))

    def ceiling(self, a: Value, b: Value) -> Value:
        """``a / b``, rounded up."""
        above = self.integer("add", a, self.integer("sub", b, ONE))
        return self.integer("floordiv", above, b)

    def buffers(self, names: Sequence[str], size: int) -> dict[str, str]:
        """A buffer for each of `names`."""
        return {p: self.let("buffer", literal(size), stem=f"{p}_was") for p in names}

    def store(self, buffers: Mapping[str, str], at: Value,
              values: Mapping[str, Value]) -> None:
        """Record `values`."""
        for p, buffer in buffers.items():
            self.effect("buffer_store", buffer, at, values[p])

    def loads(self, buffers: Mapping[str, str], at: Value) -> dict[str, Value]:
        """The loads of recorded values."""
        return {p: self.let("buffer_load", buffer, at, stem=p)
                for p, buffer in buffers.items()}

    def advance(self, loop: For, start: Value, steps: Value,
                values: Mapping[str, Value]) -> dict[str, Value]:
        """The carried values of `loop` after `steps` iterations from `start`."""
        def inside(k: Value, params: tuple[str, ...]) -> Sequence[Value]:
            at = self.add(start, k)
            again = rename(loop.body, {loop.index: at, **dict(zip(
                loop.params, params, strict=True))}, self.fresh)
            self.statements += again.statements
            return again.yields

        found = self.loop(steps, [values[p] for p in loop.params], inside, loop.params)
        return dict(zip(loop.params, found, strict=True))

    def twin(self, loop: For) -> For:
        """`loop` under fresh names."""
        (again,) = rename(Block((loop,), ()), {}, self.fresh).statements
        assert isinstance(again, For)
        return again

    def fill(self, loop: For, buffers: Mapping[str, str], parts: Split) -> None:
        """Write `loop` as a loop over parts, recording values as each part begins."""
        k, step = self.fresh("k"), self.fresh("k")
        before = [self.fresh(p) for p in loop.params]
        after = tuple(self.fresh(p) for p in loop.params)
        with self.region() as body:
            self.store(buffers, k, dict(zip(loop.params, before, strict=True)))
            part = self.part(parts, k)
            at = Let((loop.index,), "add", (part.start, step))
            inner = Block((at, *loop.body.statements), loop.body.yields)
            self.statements.append(For(after, step, part.length, loop.params,
                                       tuple(before), inner, prefer=self.prefer))
        self.statements.append(For(loop.results, k, parts.count, tuple(before),
                                   loop.inits, Block(tuple(body), after),
                                   prefer=self.prefer))
