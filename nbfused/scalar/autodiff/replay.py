"""Reverse mode through loops, right for any number of iterations in bounded memory.

The reverse of an iteration reads carried values as they were when it began.  Where at
most `Sizes.exact` iterations are possible, the loop records them all.  Otherwise it
records every so many, into `Sizes.slots` entries; going backwards, each of these
segments is run again and records in the same way, and from the entries of the segment
single iterations are replayed (no one, up to ``slots**2`` iterations).  To be run
again, what is recorded must determine itself: it is closed under the loop's recurrence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...support.records import record
from ..ir.clean import live_reads
from ..ir.nodes import Block, For, Let, Literal, Statement, Value, While, defined
from .adjoints import Adjoint
from .counted import bound, closed, counted, counting, keep_results
from .preferences import Sizes, sizes
from .reach import (
    ALWAYS,
    NEVER,
    NOTHING,
    Cotangent,
    Reach,
    either,
    flagged,
    surely_carried,
)
from .recording import FIRST, ONE, Part
from .repeated import quiet_statements
from .threads import Threads

__all__ = ["Replay"]

@record
class _Iteration:
    """The reverse of one iteration of `loop`, under names of its own.

    It reads `index`, the `carried` values (by the loop's names for them) and `bars`,
    the cotangents of what the loop's active values became.  `block` yields those of
    what they were, then what it adds to the cotangents of `captured` names, then the
    `flags`: whether a cotangent has reached a value by then, for those that one does
    not reach in every iteration, by their positions among active and captured values.
    """

    loop: For
    index: str
    carried: dict[str, str]
    active: list[int]
    bars: list[str]
    block: Block
    captured: list[str]
    flags: dict[int, str]

    @property
    def sizes(self) -> Sizes:
        """The limits of what the loop records."""
        return sizes(self.loop.prefer)


class Replay(Threads):
    """Cotangents of loops."""

    def reverse_loop(self, s: For | While, adjoint: Adjoint) -> None:
        """Record in the loop's place; then a loop over its iterations, last first."""
        wanted = set(s.results) & set(adjoint)
        if not wanted and not self.pulls(s.body):
            return
        outer, self.prefer = self.prefer, s.prefer
        runs = counting(self, s) if isinstance(s, While) else s
        count = runs.count if isinstance(runs, For) else runs.results[-1]
        kept = keep_results(runs, {*wanted, *runs.results[len(s.results):]})
        it = self.iteration(counted(self, kept, count), adjoint)
        seeds = [*(adjoint.pop(it.loop.results[k], NOTHING) for k in it.active),
                 *(adjoint.pop(v, NOTHING) for v in it.captured)]
        for r in s.results:
            adjoint.pop(r, None)
        started = [*map(self.exact, seeds), *(self.truth(seeds[k].reach)
                                              for k in it.flags)]
        self.recorded[id(s)], bars = self.reverse_iterations(it, runs, started)
        found = self.outside(it, seeds, bars)
        for v, g in zip(it.captured, found[len(it.active):], strict=True):
            adjoint[v] = g
        for k, g in zip(it.active, found, strict=False):
            self.accumulate(adjoint, it.loop.inits[k], g)
        self.prefer = outer

    def outside(self, it: _Iteration, seeds: Sequence[Cotangent],
                bars: Sequence[str]) -> list[Cotangent]:
        """The cotangents of a loop's inputs, from the loop over its iterations."""
        own = [ALWAYS]*len(it.active)
        ran = NEVER
        if any(g.reach != ALWAYS for g in seeds[len(own):]):
            ran = self.ran(it.loop.count)
        own += [ALWAYS if v in self.function.params else either(g.reach, ran)
                for v, g in zip(it.captured, seeds[len(own):], strict=True)]
        for k, flag in zip(it.flags, bars[len(seeds):], strict=True):
            own[k] = flagged(flag)
        return list(map(Cotangent, bars, own))

    def ran(self, count: Value) -> Reach:
        """The condition that a loop has iterations."""
        if isinstance(count, Literal):
            return ALWAYS if count.value.real > 0 else NEVER
        return flagged(self.let("gt", count, FIRST))

    def iteration(self, loop: For, adjoint: Adjoint) -> _Iteration:
        """Run the body again under fresh names, then backwards.

        `adjoint` has the cotangents of what comes after the loop.
        """
        index = self.fresh(loop.index)
        carried = {p: self.fresh(p) for p in loop.params}
        for old, new in ((loop.index, index), *carried.items()):
            self.rename(old, new)
        again = self.copy(loop.body, {loop.index: index, **carried})
        active = [k for k, p in enumerate(loop.params) if p in self.active]
        bars = [self.fresh(f"{loop.params[k]}_bar") for k in active]
        sure = surely_carried(loop, {k for k in active if adjoint.get(
            loop.results[k], NOTHING).reach == ALWAYS})
        flags = {j: self.fresh(f"{loop.params[k]}_reached")
                 for j, k in enumerate(active) if k not in sure}
        inner: Adjoint = {}
        with self.region() as body:
            for j, k in enumerate(active):
                reach = flagged(flags[j]) if j in flags else ALWAYS
                self.accumulate(inner, again.yields[k], Cotangent(bars[j], reach))
            self.reverse_block(again.statements, inner)
            own = defined(again) | set(carried.values())
            captured = sorted(v for v in inner if v not in own)
            ends = [*(inner.get(carried[loop.params[k]], NOTHING) for k in active),
                    *(inner[v] for v in captured)]
            reached = [ends[j].reach for j in flags]
            for j, v in enumerate(captured, len(active)):
                if self.conditional(v, inner, adjoint):
                    flags[j] = self.fresh(f"{v}_reached")
                    reached.append(either(flagged(flags[j]), inner[v].reach))
            yields = (*map(self.exact, ends), *map(self.truth, reached))
        block, reads = live_reads(Block(tuple(body), yields))
        carried = {p: n for p, n in carried.items() if n in reads}
        return _Iteration(loop, index, carried, active, bars, block, captured, flags)

    def conditional(self, v: str, inside: Adjoint, after: Adjoint) -> bool:
        """Test whether only some iterations may reach `v`, in the loop and after it."""
        return v not in self.function.params and inside[v].reach != ALWAYS \
            and after.get(v, NOTHING).reach != ALWAYS

    def reverse_iterations(self, it: _Iteration, runs: For | While,
                           seeds: Sequence[Value],
                           ) -> tuple[list[Statement], tuple[str, ...]]:
        """The reverse of a loop, and the cotangents of its inputs."""
        size = bound(runs, self.bounds)
        if not it.carried:
            place = list(quiet_statements((runs,), self.filled))
            return place, self.countdown(it.loop.count, seeds, lambda at, bars: (
                self.write(it, at, {}, bars)))
        if size is not None and size <= it.sizes.exact:
            return self.record_all(it, runs, seeds, size)
        return self.record_some(it, runs, seeds)

    def write(self, it: _Iteration, index: Value, carried: Mapping[str, Value],
              bars: Sequence[str]) -> list[Value]:
        """The reverse of iteration `index`; what the loop around it yields."""
        own, most = len(it.bars), len(it.bars) + len(it.captured)
        given = [(it.index, index), *zip(it.bars, bars, strict=False),
                 *zip(it.flags.values(), bars[most:], strict=True),
                 *((n, carried[p]) for p, n in it.carried.items())]
        self.statements += [Let((n,), "id", (v,)) for n, v in given]
        self.statements += it.block.statements
        return [*it.block.yields[:own],
                *(self.add(bar, g, bar) for bar, g in zip(
                    bars[own:most], it.block.yields[own:most], strict=True)),
                *it.block.yields[most:]]

    # Records -----------------------------------------------------------------------

    def record_all(self, it: _Iteration, runs: For | While, seeds: Sequence[Value],
                   size: int) -> tuple[list[Statement], tuple[str, ...]]:
        """Every iteration."""
        with self.region() as place:
            buffers = self.buffers(list(it.carried), max(size, 1))
            at = runs.index if isinstance(runs, For) else runs.params[-1]
            with self.region() as stores:
                self.store(buffers, at, {p: p for p in it.carried})
            (quiet,) = quiet_statements((runs,), self.filled)
            assert isinstance(quiet, (For, While))
            body = Block((*stores, *quiet.body.statements), quiet.body.yields)
            place.append(replace(quiet, body=body))
        return place, self.countdown(it.loop.count, seeds, lambda at, bars: (
            self.write(it, at, self.loads(buffers, at), bars)))

    def record_some(self, it: _Iteration, runs: For | While,
                    seeds: Sequence[Value]) -> tuple[list[Statement], tuple[str, ...]]:
        """The first iteration of every segment."""
        loop = closed(it.loop, set(it.carried))
        slots = max(it.sizes.slots, min(loop.max_iters, it.sizes.hinted))
        with self.region() as place:
            (first,) = quiet_statements((runs,), self.filled)
            names = loop.params
            if isinstance(first, While):  # only now is it known how often
                self.statements.append(first)
                first = self.twin(loop)
                names = first.params
            assert isinstance(first, For)
            segments = self.split(self.weak(loop.count), slots)
            buffers = self.buffers(loop.params, slots)
            self.fill(first, dict(zip(names, buffers.values(), strict=True)), segments)
        return place, self.countdown(segments.count, seeds, lambda k, bars: (
            self.reverse_segment(it, loop, self.part(segments, k),
                                 self.loads(buffers, k), bars)))

    def reverse_segment(self, it: _Iteration, loop: For, part: Part,
                        entry: Mapping[str, Value],
                        bars: Sequence[str]) -> tuple[str, ...]:
        """Run a segment again from its `entry`, recording; then backwards."""
        pieces = self.split(part.length, it.sizes.slots)
        buffers = self.buffers(loop.params, it.sizes.slots)
        self.store(buffers, FIRST, entry)

        def advance(k: Value, values: Sequence[str]) -> list[Value]:
            start = self.part(pieces, k, part.start).start
            now = dict(zip(loop.params, values, strict=True))
            then = self.advance(loop, start, pieces.stride, now)
            self.store(buffers, self.integer("add", k, ONE), then)
            return list(then.values())

        self.loop(self.integer("sub", pieces.count, ONE), list(entry.values()),
                  advance, loop.params)
        return self.countdown(pieces.count, bars, lambda k, bars: self.reverse_piece(
            it, loop, self.part(pieces, k, part.start), self.loads(buffers, k), bars))

    def reverse_piece(self, it: _Iteration, loop: For, part: Part,
                      entry: Mapping[str, Value],
                      bars: Sequence[str]) -> tuple[str, ...]:
        """Replay each iteration of a piece from its `entry`."""
        def inside(k: Value, bars: tuple[str, ...]) -> list[Value]:
            values = self.advance(loop, part.start, k, entry)
            at = self.integer("add", part.start, k)
            return self.write(it, at, values, bars)

        return self.countdown(part.length, bars, inside)
