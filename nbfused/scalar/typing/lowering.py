"""The walk behind `types.specialize`: regions, and composites written out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from ..ir.nodes import (
    ACCESSES,
    Block,
    For,
    Function,
    If,
    Let,
    Literal,
    Statement,
    While,
    at_line,
    rename,
)
from ..language.vocabulary import NUMPY, OPS
from ..parse.functions import parse
from .literals import number
from .operations import Operations
from .promotion import BOOL, Weak, promote
from .values import INT64, Operand

__all__ = ["Lowering", "definition"]


@cache
def definition(op: str) -> Function:
    """The definition of a composite in terms of other operations."""
    function = parse(OPS[op].function)
    return replace(function, body=at_line(function.body, 0))


@cache
def _on_real() -> dict[str, str]:
    """By each operation on complex numbers the one that it is on real ones."""
    return {row.on_complex: op for op, row in OPS.items() if row.on_complex}


class Lowering(Operations):
    """One function on its way to base operations on dtypes."""

    def run(self) -> tuple[np.dtype, ...]:
        """Walk the function; the logical dtypes of its results."""
        self.statements, found = self.block(self.source.body)
        results = tuple(self.default[t.kind] if isinstance(t, Weak) else t
                        for _, t in found)
        with self.into(self.statements):
            self.yields = self.coerce_all(found, results)
        return results

    def function(self) -> Function:
        """The lowered function."""
        return replace(self.source, body=Block(tuple(self.statements), self.yields))

    def block(self, block: Block) -> tuple[list[Statement], list[Operand]]:
        """The lowered statements and yields of `block`."""
        statements: list[Statement] = []
        with self.into(statements):
            yields = self.inside(block)
        return statements, yields

    def inside(self, block: Block) -> list[Operand]:
        """Lower `block` into the open region; its yields."""
        for s in block.statements:
            match s:
                case Let():
                    self.line = s.line or self.line
                    self.let(s)
                case If():
                    self.branch(s)
                case For() | While():
                    self.loop(s)
        return [self.operand(v) for v in block.yields]

    def branch(self, s: If) -> None:
        """A branch that is known now is inlined; one without statements selects."""
        condition, t = self.operand(s.condition)
        if isinstance(condition, Literal):
            taken = self.inside(s.then if number(condition) else s.orelse)
            for name, value in zip(s.results, taken, strict=True):
                self.bind(name, value)
            return
        condition = self.coerce((condition, t), BOOL)
        sides = [self.block(b) for b in (s.then, s.orelse)]
        types = [promote(a[1], b[1]) for a, b in zip(sides[0][1], sides[1][1],
                                                     strict=True)]
        blocks = []
        for statements, yields in sides:
            with self.into(statements):
                values = self.coerce_all(yields, types)
            blocks.append(Block(tuple(statements), values))
        if any(b.statements for b in blocks):
            self.define(s.results, types)
            self.builder.statements.append(If(s.results, condition, *blocks))
            return
        for name, a, b, t in zip(s.results, blocks[0].yields, blocks[1].yields, types,
                                 strict=True):
            self.emit("select", (condition, a, b), t, name=name)

    def loop(self, s: For | While) -> None:
        """Carried values are promoted until the body yields what it takes."""
        inits = [self.operand(v) for v in s.inits]
        types = [t for _, t in inits]
        if isinstance(s, For):
            count = self.coerce(self.integer(s.count), INT64)
            self.define((s.index,), (Weak("int"),))
        while True:
            self.define(s.params, types)
            statements, yields = self.block(s.body)
            joined = [promote(t, u) for t, (_, u) in zip(types, yields, strict=True)]
            if joined == types:
                break
            types = joined
        with self.into(statements):
            values = self.coerce_all(yields, types)
        body = Block(tuple(statements), values)
        started = self.coerce_all(inits, types)
        if isinstance(s, For):
            lowered: Statement = replace(s, count=count, inits=started, body=body)
        else:
            lowered = replace(s, condition=self.condition(s.condition), inits=started,
                              body=body)
        self.define(s.results, types)
        self.builder.statements.append(lowered)

    def condition(self, block: Block) -> Block:
        """The condition of a `While`, as bool."""
        statements, (value,) = self.block(block)
        with self.into(statements):
            truth = self.coerce(value, BOOL)
        return Block(tuple(statements), (truth,))

    def let(self, s: Let) -> None:
        """Lower one operation."""
        if s.op in ACCESSES:
            return self.access(s)
        args = [self.operand(v) for v in s.args]
        real = _on_real().get(s.op)
        if real and not any(self.compute(t).kind == "c" for _, t in args):
            return self.let(replace(s, op=real))
        special = getattr(self, f"lower_{s.op}", None)
        if written := self.on_complex(s, args):
            self.expand(replace(s, op=written, attr=None), args)
        elif special is not None:
            special(s, args)
        elif s.op not in OPS:
            raise self.error(f"unknown operation {s.op}")
        elif OPS[s.op].mirrored:
            self.compare(s.op, s.results[0], args)
        elif OPS[s.op].definition is not None:
            self.expand(s, args)
        else:
            self.elementary(s, args)
        return None

    def on_complex(self, s: Let, args: Sequence[Operand]) -> str:
        """The operation to write out where backends have it of real operands only."""
        row = OPS.get(s.op)
        given = row is not None and any(self.compute(t).kind == "c" for _, t in args)
        return row.on_complex if row and given and (
            s.attr == NUMPY if row.ordering else row.real) else ""

    def expand(self, s: Let, args: Sequence[Operand]) -> None:
        """Write a composite's definition in its place."""
        function, result = definition(s.op), s.results[0]
        if self.compute(args[0][1]).kind in OPS[s.op].passes:
            return self.bind(result, args[0])
        if OPS[s.op].rule != "same":
            targets, _ = self.resolved(s.op, args)
            self.check_real(s.op, self.compute(targets[0]).kind)
            args = list(zip(self.coerce_all(args, targets), targets, strict=True))
        params = {p: self.builder.fresh(p) for p in function.params}
        for name, value in zip(params.values(), args, strict=True):
            self.bind(name, value)
        body = rename(function.body, dict(params), lambda n: (
            result if n == function.results[0] else self.builder.fresh(n)))
        (value,) = self.inside(body)
        if value[0] != result:
            self.bind(result, value)
