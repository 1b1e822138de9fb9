"""Kernels whose blocks run as one loop along x: the grid's place is all they ask for.

A loop over the 32 threads of a block's row is a few vectors long, and what goes before
and after them takes as long as they do.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...scalar.ir.nodes import Block, For, If, Let, Value, While, regions, walk
from ...specs.raw import TypedRaw
from .accesses import accesses_of

__all__ = ["is_joined"]


def is_joined(typed: TypedRaw) -> bool:
    """True if a kernel reads ``blockIdx.x*blockDim.x + threadIdx.x`` and no part of it.

    And if arrays are read and written along their rows: a block is a tile of what is
    transposed, and its lines of memory stay in the cache.
    """
    return _along_rows(typed) and _reads_places(typed)


def _along_rows(typed: TypedRaw) -> bool:
    """True if indices but the last ones have nothing to do with the place along x."""
    return all(where is not None and not where[0].endswith(".x")
               for found in accesses_of(typed).values() for _, index in found
               for where in index[:-1])


def _reads_places(typed: TypedRaw) -> bool:
    """True if the place along x is read as a whole only."""
    words = {p.word: p.name for p in typed.places}
    block, size, thread = (words.get(w) for w in ("blockIdx.x", "blockDim.x",
                                                  "threadIdx.x"))
    if block is None or size is None or thread is None or "laneid" in words:
        return False
    starts = {s.results[0] for s in walk(typed.function.function.body)
              if isinstance(s, Let) and s.op == "mul" and set(s.args) == {block, size}}
    parts = {block, thread, *starts}
    for s in walk(typed.function.function.body):
        used = parts.intersection(_read(s))
        start = isinstance(s, Let) and bool(starts.intersection(s.results))
        place = isinstance(s, Let) and s.op == "add" and thread in s.args and bool(
            starts.intersection(s.args))
        if used and not start and not place:
            return False
    return True


def _read(s: object) -> Iterator[Value]:
    """The values that a statement reads itself, and that its blocks yield."""
    match s:
        case Let():
            yield from s.args
        case If():
            yield s.condition
        case For():
            yield from (s.count, *s.inits)
        case While():
            yield from s.inits
    for region in regions(s) if isinstance(s, (If, For, While)) else ():
        yield from _yields(region)


def _yields(block: Block) -> tuple[Value, ...]:
    return block.yields
