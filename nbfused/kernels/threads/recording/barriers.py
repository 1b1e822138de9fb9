"""Barriers out of the branches that not all threads of a block take.

A thread that has left a kernel early is not waited for.  Its derivative begins where it
left, so that it must come to every barrier: a branch with barriers is cut into branches
between them.  Those of a warp (``syncwarp``) stay, as whole warps come to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

from ....scalar.autodiff.activity import refuse
from ....scalar.ir.build import Builder
from ....scalar.ir.nodes import (
    Block,
    Function,
    If,
    Let,
    Literal,
    Statement,
    Value,
    defined,
    literal,
    read,
    substitute,
    walk,
    with_regions,
)
from ....scalar.ir.uniform import uniform_names

__all__ = ["barriers_outside"]

#: What a branch yields in place of a value that it does not have, of any dtype.
_NOTHING = literal(False)


def barriers_outside(function: Function) -> Function:
    """`function` with its barriers outside of branches that threads take apart.

    Raises
    ------
    NotDifferentiableError
        A loop in such a branch has a barrier.
    """
    cut = _Cut(function)
    with cut.region() as statements:
        cut.write(function.body, False)
    return replace(function, body=Block(tuple(statements), function.body.yields))


def _barrier(s: Statement) -> Let | None:
    """The first barrier of the block in `s`, at any depth."""
    return next((x for x in walk(Block((s,), ())) if isinstance(x, Let)
                 and x.op == "barrier" and x.attr == "block"), None)


class _Cut(Builder):
    """Writes a function again."""

    def __init__(self, function: Function) -> None:
        super().__init__(defined(function.body) | set(function.params))
        self.function = function
        self.uniform = uniform_names(function.body, function.params)

    def write(self, block: Block, apart: bool) -> None:
        """Write the statements; `apart` says that some threads do not come here."""
        for s in block.statements:
            barrier = _barrier(s)
            if barrier is None or isinstance(s, Let):
                self.statements.append(s)
            elif isinstance(s, If):
                self.branches(s, apart)
            elif apart:
                raise refuse(self.function, barrier.line, (
                    "a barrier in a loop that not all threads of a block come to; let "
                    "all of them run the loop, and test inside of it, or give the "
                    "kernel a rule"))
            else:
                self.statements.append(with_regions(s, lambda b: self.inside(b, False)))

    def inside(self, block: Block, apart: bool) -> Block:
        """A block written again."""
        with self.region() as statements:
            self.write(block, apart)
        return Block(tuple(statements), block.yields)

    def branches(self, s: If, apart: bool) -> None:
        """A branch, cut at its barriers unless all threads take it alike."""
        alike = isinstance(s.condition, Literal) or s.condition in self.uniform
        apart = apart or not alike
        sides = [self.inside(b, apart) for b in (s.then, s.orelse)]
        if not apart:
            self.statements.append(If(s.results, s.condition, *sides))
            return
        parts = list(zip_longest(*(_parts(side.statements) for side in sides),
                                 fillvalue=()))
        tables: list[dict[str, Value]] = [{}, {}]
        for k in range(len(parts) - 1):
            self.part(s, parts, k, [side.yields for side in sides], tables)
            self.effect("barrier", attr="block")
        blocks = (_renamed(Block(part, side.yields), table)
                  for part, side, table in zip(parts[-1], sides, tables, strict=True))
        self.statements.append(If(s.results, s.condition, *blocks))

    def part(self, s: If, parts: Sequence[tuple[tuple[Statement, ...], ...]], k: int,
             ends: Sequence[tuple[Value, ...]],
             tables: Sequence[dict[str, Value]]) -> None:
        """Part `k` of both sides, which yields what is read after it."""
        then, orelse = (sorted({r for x in parts[k][side] for r in x.results} & read(
            Block(tuple(x for part in parts[k + 1:] for x in part[side]), end)))
            for side, end in enumerate(ends))
        yields: tuple[tuple[Value, ...], ...] = (
            (*then, *(_NOTHING for _ in orelse)), (*(_NOTHING for _ in then), *orelse))
        first, second = (_renamed(Block(part, y), table) for part, y, table in zip(
            parts[k], yields, tables, strict=True))
        found = self.branch(s.condition, first, second, [*then, *orelse])
        tables[0].update(zip(then, found, strict=False))
        tables[1].update(zip(orelse, found[len(then):], strict=True))


def _parts(statements: Sequence[Statement]) -> list[tuple[Statement, ...]]:
    """`statements` between barriers."""
    found: list[list[Statement]] = [[]]
    for s in statements:
        if isinstance(s, Let) and _barrier(s) is s:
            found.append([])
        else:
            found[-1].append(s)
    return [tuple(part) for part in found]


def _renamed(block: Block, table: Mapping[str, Value]) -> Block:
    return substitute(block, lambda v: table.get(v, v) if isinstance(v, str) else v)
