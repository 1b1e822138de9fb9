"""Short branches as selections: no divergence, and far less for Numba to analyse."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ...scalar.ir.nodes import Block, If, Let, Statement, with_regions
from ...scalar.language.vocabulary import OPS
from ...scalar.typing.types import Typed

__all__ = ["cost", "flattened"]

#: What both sides of a branch may cost together before it is kept as a branch.
BUDGET = 40


@lru_cache(maxsize=4096)
def flattened(typed: Typed) -> Typed:
    """Evaluate the short branches of a function on both sides.

    Floating operations do not trap, so a side that is not taken does no harm; loads,
    atomics, loops and integer divisions stay where they are.
    """
    return replace(typed, function=replace(typed.function,
                                           body=_block(typed.function.body, typed)))


def _block(block: Block, typed: Typed) -> Block:
    statements: list[Statement] = []
    for s in block.statements:
        statements += _statement(s, typed)
    return Block(tuple(statements), block.yields)


def _statement(s: Statement, typed: Typed) -> list[Statement]:
    match s:
        case If():
            then, orelse = _block(s.then, typed), _block(s.orelse, typed)
            sides = (*then.statements, *orelse.statements)
            if sum(cost(x, typed) for x in sides) > BUDGET:
                return [replace(s, then=then, orelse=orelse)]
            chosen = [Let((r,), "select", (s.condition, a, b)) for r, a, b in
                      zip(s.results, then.yields, orelse.yields, strict=True)]
            return [*sides, *chosen]
        case _:
            return [with_regions(s, lambda block: _block(block, typed))]


def cost(s: Statement, typed: Typed) -> int:
    """About how many instructions; more than the budget for what must not run."""
    if not isinstance(s, Let):
        return BUDGET + 1
    known = 1 if s.op == "cast" else OPS[s.op].cost if s.op in OPS else 0
    floating = all(typed.dtypes[r].kind == "f" for r in s.results)
    return known if known and (floating or known == 1) else BUDGET + 1
