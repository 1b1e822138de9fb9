"""Cotangents that pass between threads: shared arrays, barriers, shuffles.

An array that a block shares has one of cotangents beside it.  Going backwards, a thread
adds to it what comes of an element that it has read, and takes away what has come to an
element that it wrote; a barrier between the two stands between them again.  What a lane
has given to others by a shuffle comes back by another one.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...support.dtypes import DTYPES, TYPES
from ..ir.build import ZERO, is_number
from ..ir.nodes import Let, Literal, Value, literal, walk
from ..ir.positions import WARP, block_thread, shuffle_source, warp_place
from ..ir.uniform import uniform_names
from .adjoints import Adjoint
from .reach import Cotangent
from .recording import FIRST, Recording

__all__ = ["Threads"]


class Threads(Recording):
    """Cotangents of what one thread gives to another."""

    def share(self) -> None:
        """Make the cotangents of shared arrays, zero at first, by all threads."""
        found = [s for s in self.function.body.statements if isinstance(s, Let)
                 and s.op == "shared" and s.results[0] in self.active]
        for s in found:
            name = s.results[0]
            dtype = TYPES[DTYPES[str(s.attr)]].computed.name
            self.bars[name] = self.let("shared", *s.args, attr=dtype,
                                       stem=f"{name}_bar")
            self.clear(self.bars[name], [int(v.value.real) for v in s.args
                                         if isinstance(v, Literal)])
        self.waits = bool(found) or any(
            isinstance(s, Let) and s.op == "recall" and s.args[0] in self.bars
            for s in walk(self.function.body))
        if found:
            self.effect("barrier", attr="block")
        self.uniform |= uniform_names(self.function.body, self.function.params)

    def clear(self, array: str, shape: Sequence[int]) -> None:
        """Store zeros into a shared array; each thread stores some of them."""
        size = 1
        for extent in shape:
            size *= extent
        thread, threads = block_thread(self)
        rest = self.integer("sub", literal(size), thread)

        def inside(k: Value, _: tuple[str, ...]) -> Sequence[Value]:
            at: Value = self.add(thread, self.mul(k, threads))
            index: list[Value] = []
            for extent in shape[:0:-1]:
                index.insert(0, self.let("mod", at, literal(extent)))
                at = self.let("floordiv", at, literal(extent))
            self.effect("store", array, at, *index, ZERO)
            return ()

        self.loop(self.ceiling(rest, threads), (), inside, ())

    def reverse_barrier(self, s: Let, g: Cotangent, adjoint: Adjoint) -> None:
        """The same barrier, where cotangents pass between threads."""
        if self.waits:
            self.effect("barrier", attr=s.attr)

    # Shuffles ----------------------------------------------------------------------

    def reverse_shuffle(self, s: Let, g: Cotangent, adjoint: Adjoint) -> None:
        """The sum of what comes of a value in all lanes that have taken it.

        Where a warp has fewer lanes than 32, one that asks a missing lane has taken its
        own, as on the cpu; CUDA leaves it open.
        """
        value, lane = s.args
        if is_number(g.value, 0) or value not in self.active:
            return
        given = self.exact(g)
        own, lanes = warp_place(self)
        if isinstance(lane, Literal) or lane in self.uniform:
            step = self.let("and", lane, literal(WARP - 1), stem="step")
            rule = getattr(self, f"from_{s.attr}")
            total = rule(given, step, own, lanes)
        else:
            total = self.from_any(s, given, own, lanes)
        self.accumulate(adjoint, value, Cotangent(total))

    def shuffled(self, given: Value, source: Value, lanes: Value) -> Value:
        """The value that another lane has given; zero where there is no such lane."""
        there = self.let("logical_and", self.let("ge", source, FIRST),
                         self.let("lt", source, lanes))
        at = self.select(there, source, FIRST)
        return self.select(there, self.let("shuffle", given, at, attr="idx"), ZERO)

    def from_xor(self, given: Value, step: Value, own: Value, lanes: Value) -> Value:
        """Pairs of lanes have exchanged their values."""
        other = self.let("xor", own, step)
        alone = self.select(self.let("ge", other, lanes), given, ZERO)
        return self.add(self.shuffled(given, other, lanes), alone)

    def from_up(self, given: Value, step: Value, own: Value, lanes: Value) -> Value:
        """A lane has taken the value of one below it, or its own at the lower end."""
        kept = self.select(self.let("lt", own, step), given, ZERO)
        return self.add(self.shuffled(given, self.add(own, step), lanes), kept)

    def from_down(self, given: Value, step: Value, own: Value, lanes: Value) -> Value:
        """A lane has taken the value of one above it, or its own at the upper end."""
        beyond = self.let("ge", self.let("add", own, step), lanes)
        kept = self.select(beyond, given, ZERO)
        return self.add(self.shuffled(given, self.let("sub", own, step), lanes), kept)

    def from_idx(self, given: Value, step: Value, own: Value, lanes: Value) -> Value:
        """One lane has given its value to all: the sum over them comes back to it."""
        total = given
        for half in (16, 8, 4, 2, 1):
            above = self.let("add", own, literal(half))
            total = self.add(total, self.shuffled(total, above, lanes))
        total = self.let("shuffle", total, FIRST, attr="idx")
        found = self.select(self.let("eq", own, step), total, ZERO)
        return self.select(self.let("lt", step, lanes), found, given)

    def from_any(self, s: Let, given: Value, own: Value, lanes: Value) -> Value:
        """Each lane has taken another one's value: all of them are asked."""
        there = shuffle_source(self, s, own)
        source = self.select(self.let("lt", there, lanes), there, own)
        last = self.let("sub", lanes, literal(1))

        def inside(k: Value, params: tuple[str, ...]) -> Sequence[Value]:
            at = self.let("min", k, last)
            took = self.let("eq", self.let("shuffle", source, at, attr="idx"), own)
            back = self.shuffled(given, k, lanes)
            return (self.let("add", params[0], self.select(took, back, ZERO)),)

        return self.loop(literal(WARP), (ZERO,), inside, ("total",))[0]
