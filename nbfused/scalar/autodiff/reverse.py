"""Reverse mode: blocks run again, then backwards.

A branch is mirrored as a branch that runs its own part of the function again, so that
the side that was not taken contributes no ``0 * inf``.  Loops are in `replay`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from ..ir.nodes import (
    BUFFER_WRITES,
    EFFECTS,
    Block,
    Custom,
    For,
    Function,
    If,
    Let,
    Literal,
    Statement,
    Value,
    While,
    defined,
    rename,
    walk,
)
from .adjoints import Adjoint, Adjoints
from .reach import ALWAYS, NOTHING, Cotangent, Reach, either, flagged, mentioned, when
from .repeated import buffers, quiet_statements

__all__ = ["Reverse"]


class Reverse(Adjoints):
    """Cotangents of blocks; `reverse_loop` is given by the subclass."""

    def __init__(self, function: Function, taken: set[str], active: set[str],
                 bars: Mapping[str, str]) -> None:
        super().__init__(function, taken, active, bars)
        #: What stands for a loop when its block runs again: it records.
        self.recorded: dict[int, list[Statement]] = {}
        #: Whether barriers order cotangents too.
        self.waits = False
        #: The buffers of the block that runs again, which it fills again.
        self.filled: Set[str] = frozenset()
        #: The names that have one value for all threads of a block.
        self.uniform: set[str] = set()
        #: The largest value of an integer, where one is known.
        self.bounds: dict[str, int] = {}

    def reverse_loop(self, s: For | While, adjoint: Adjoint) -> None:
        """The cotangents of what goes into a loop."""
        raise NotImplementedError

    def reverse_block(self, statements: tuple[Statement, ...],
                      adjoint: Adjoint) -> int:
        """Run `statements` again, recording, then backwards.

        Returns the number of statements of the first part.
        """
        outer, self.filled = self.filled, buffers(statements)
        with self.region() as backward:
            for s in statements:
                self.enter(s)
            self.sweep(statements, adjoint)
        for s in statements:
            again = self.recorded.pop(id(s), None)
            self.statements += quiet_statements((s,), self.filled) \
                if again is None else again
        self.filled = outer
        count = len(self.statements)
        self.statements += backward
        return count

    def enter(self, s: Statement) -> None:
        """Cotangents of buffers, and bounds of integers."""
        if isinstance(s, Let):
            self.allocate(s)
            known = [int(a.value.real) for a in s.args if isinstance(a, Literal)
                     and a.kind == "int"] if s.op == "min" else []
            if known:
                self.bounds[s.results[0]] = min(known)

    def sweep(self, statements: Sequence[Statement], adjoint: Adjoint) -> None:
        """Walk backwards."""
        for s in reversed(statements):
            match s:
                case Let():
                    self.reverse_let(s, adjoint)
                case If():
                    self.reverse_if(s, adjoint)
                case Custom():
                    self.reverse_custom(s, adjoint)
                case For() | While():
                    self.reverse_loop(s, adjoint)

    def pulls(self, *blocks: Block) -> bool:
        """Whether effects in `blocks` have a reverse of their own."""
        return any(self._pulls(s) for block in blocks for s in walk(block))

    def _pulls(self, s: Statement) -> bool:
        if isinstance(s, Custom):
            return not s.results
        return isinstance(s, Let) and s.op in EFFECTS | BUFFER_WRITES \
            and (s.args[0] in self.bars if s.args else self.waits)

    def reverse_if(self, s: If, adjoint: Adjoint) -> None:
        """A branch for each branch."""
        seeds = [adjoint.pop(r, NOTHING) for r in s.results]
        if all(g == NOTHING for g in seeds) and not self.pulls(s.then, s.orelse):
            return
        found: list[Adjoint] = []
        bodies: list[list[Statement]] = []
        for branch in (s.then, s.orelse):
            with self.region() as body:
                found.append(self.reverse_branch(branch, seeds))
            bodies.append(body)
        for v, g in self.merged(s.condition, found, bodies).items():
            self.accumulate(adjoint, v, g)

    def merged(self, condition: Value, found: Sequence[Adjoint],
               bodies: Sequence[Sequence[Statement]]) -> Adjoint:
        """The cotangents that the `bodies` of two branches `found`, after both."""
        touched = sorted(set(found[0]) | set(found[1]))
        sides = [[f.get(v, NOTHING) for v in touched] for f in found]
        inner = [defined(Block(tuple(b), ())) for b in bodies]
        flags = [k for k, v in enumerate(touched) if v not in self.function.params
                 and any(mentioned(side[k].reach) & own
                         for side, own in zip(sides, inner, strict=True))]
        then, orelse = (self.outcome(b, side, flags)
                        for b, side in zip(bodies, sides, strict=True))
        results = self.branch(condition, then, orelse, [
            *(f"{v}_bar" for v in touched),
            *(f"{touched[k]}_reached" for k in flags)])
        reaches = [self.joined(condition, v, *pair)
                   for v, *pair in zip(touched, *sides, strict=True)]
        for k, flag in zip(flags, results[len(touched):], strict=True):
            reaches[k] = flagged(flag)
        return dict(zip(touched, map(Cotangent, results, reaches), strict=True))

    def outcome(self, body: Sequence[Statement], found: Sequence[Cotangent],
                flags: Sequence[int]) -> Block:
        """The yields of a branch: cotangents, and whether those of `flags` reached."""
        with self.region() as more:
            yields = [*map(self.exact, found),
                      *(self.truth(found[k].reach) for k in flags)]
        return Block((*body, *more), tuple(yields))

    def joined(self, condition: Value, v: str, then: Cotangent,
               orelse: Cotangent) -> Reach:
        """The condition that either branch reaches `v`; unused for a parameter."""
        if v in self.function.params or then.reach == orelse.reach:
            return ALWAYS if v in self.function.params else then.reach
        return either(when(then.reach, condition, True),
                      when(orelse.reach, condition, False))

    def reverse_branch(self, branch: Block, seeds: Sequence[Cotangent]) -> Adjoint:
        """Run the branch again under fresh names, then backwards."""
        again = self.copy(branch, {})
        inner: Adjoint = {}
        for v, g in zip(again.yields, seeds, strict=True):
            self.accumulate(inner, v, g)
        self.reverse_block(again.statements, inner)
        own = defined(again)
        return {v: g for v, g in inner.items() if v not in own}

    def copy(self, block: Block, mapping: Mapping[str, Value]) -> Block:
        """`block` under fresh names, as active as it was."""
        def name(n: str) -> str:
            new = self.fresh(n)
            self.rename(n, new)
            return new

        return rename(block, mapping, name)

    def rename(self, old: str, new: str) -> None:
        """Note that `new` stands for `old`: as active, and as alike for threads."""
        for known in (self.active, self.uniform):
            known |= {new} if old in known else set()
