"""Long chains of branches in each other, as ``elif`` gives, cut to pieces of a depth.

What walks, hashes, differentiates and prints a function calls itself for each region
inside another, and Python takes 100 levels of indentation.  So a chain is cut: a flag
says that a piece left the rest to be done, and the rest follows in a branch of its own.
"""

from __future__ import annotations

from dataclasses import replace

from .build import Builder
from .nodes import (
    Block,
    Function,
    If,
    Statement,
    Value,
    defined,
    literal,
    read,
    regions,
    substitute,
    with_regions,
)

__all__ = ["MOST_CHAIN", "MOST_LEVELS", "levels", "shallow"]

#: Branches and loops inside one another.
MOST_LEVELS = 64
#: Branches of a chain that stay inside one another.
_PIECE = 24
#: Branches of one chain that are few enough, about: each piece is a level deeper.
MOST_CHAIN = (MOST_LEVELS - _PIECE)*_PIECE
#: Of what another branch gives; any type absorbs a bool in promotion.
_UNSET = literal(False)


def levels(block: Block) -> int:
    """The depth to which branches and loops of `block` nest."""
    return max((1 + max(map(levels, regions(s))) for s in block.statements
                if regions(s)), default=0)


def shallow(function: Function) -> Function:
    """`function` with chains of branches cut to pieces."""
    if levels(function.body) <= _PIECE:
        return function
    b = Builder({*function.params, *defined(function.body)})
    return replace(function, body=_block(b, function.body))


def _block(b: Builder, block: Block) -> Block:
    found: list[Statement] = []
    for s in block.statements:
        if isinstance(s, If) and _chain(s) > _PIECE:
            piece, rest = _cut(b, s)
            found.append(with_regions(piece, lambda inner: _block(b, inner)))
            found.append(with_regions(rest, lambda inner: _block(b, inner)))
        else:
            found.append(with_regions(s, lambda inner: _block(b, inner)))
    return Block(tuple(found), block.yields)


def _chain(s: If) -> int:
    """The length of the chain of branches from `s` on, each the end of the last."""
    return 1 + max(map(_following, (s.then, s.orelse)))


def _following(block: Block) -> int:
    last = block.statements[-1] if block.statements else None
    return _chain(last) if isinstance(last, If) else 0


def _cut(b: Builder, s: If) -> tuple[If, If]:
    """The first branches of a chain, and a branch with what they leave."""
    chain, sides = [s], []
    while True:
        deep = _following(chain[-1].orelse) >= _following(chain[-1].then)
        sides.append(deep)
        if len(chain) == _PIECE:
            break
        last = _side(chain[-1], deep).statements[-1]
        assert isinstance(last, If)
        chain.append(last)
    rest = _side(chain[-1], sides[-1])
    rest = Block(rest.statements, _outer_yields(chain, sides, rest))
    piece, exports = _piece(b, chain, sides, read(rest))
    count = len(s.results)
    piece = replace(piece, results=(*(b.fresh(r) for r in s.results),
                                    *piece.results[count:]))
    rest = substitute(rest, lambda v: exports.get(v, v) if isinstance(v, str) else v,
                      lambda n: n)
    return piece, If(s.results, piece.results[count], rest,
                     Block((), piece.results[:count]))


def _side(s: If, orelse: bool) -> Block:
    return s.orelse if orelse else s.then


def _outer_yields(chain: list[If], sides: list[bool], rest: Block) -> tuple[Value, ...]:
    """The yields of the first branch where the last one of `chain` leads to `rest`."""
    found = rest.yields
    for outer, inner, deep in zip(chain[-2::-1], chain[:0:-1], sides[-2::-1],
                                  strict=True):
        table = dict(zip(inner.results, found, strict=True))
        found = tuple(table.get(v, v) if isinstance(v, str) else v
                      for v in _side(outer, deep).yields)
    return found


def _piece(b: Builder, chain: list[If], sides: list[bool],
           wanted: set[str]) -> tuple[If, dict[str, str]]:
    """The chain without what its last branch leads to.

    Its further results are a bool, whether that is to be done, and those of the
    `wanted` values that were computed on the way; also where each of these is.
    """
    last, deep = chain[-1], sides[-1]
    empty = Block((), (_UNSET,)*len(last.results))
    piece = _more(b, last, deep, empty, (literal(True),), ["left"])
    exports: dict[str, str] = {}
    for s, deep in zip(chain[-2::-1], sides[-2::-1], strict=True):
        block = _side(s, deep)
        before = block.statements[:-1]
        own = sorted(wanted.intersection(r for t in before for r in t.results))
        flag = piece.results[len(piece.results) - 1 - len(exports)]
        piece = _more(b, s, deep, Block((*before, piece), block.yields),
                      (flag, *exports.values(), *own), ["left", *exports, *own])
        found = piece.results[len(s.results) + 1:]
        exports = dict(zip((*exports, *own), found, strict=True))
    return piece, exports


def _more(b: Builder, s: If, deep: bool, block: Block, values: tuple[Value, ...],
          stems: list[str]) -> If:
    """`s` with `block` on one side, which yields `values` besides."""
    other = _side(s, not deep)
    block = Block(block.statements, (*block.yields, *values))
    other = Block(other.statements, (*other.yields, *(_UNSET for _ in values)))
    then, orelse = (other, block) if deep else (block, other)
    return If((*s.results, *map(b.fresh, stems)), s.condition, then, orelse)
