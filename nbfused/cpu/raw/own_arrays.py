"""Local arrays of threads that wait: a part of the block's memory for each thread.

A thread that is cut at a barrier keeps no stack.  Its arrays are rows of one that the
block has, and their accesses those of that one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping

import numpy as np

from ...scalar.ir.build import Builder
from ...scalar.ir.nodes import (
    Block,
    For,
    Let,
    Literal,
    Statement,
    defined,
    rewrite,
    walk,
)

__all__ = ["THREAD", "in_rows", "own_arrays"]

#: The name of the number of a thread in its block.
THREAD = "own.thread"
_INT64 = np.dtype(np.int64)
_ACCESSES = {"buffer_load": "load", "buffer_store": "store"}


def own_arrays(block: Block) -> Iterator[tuple[str, int]]:
    """The names of the local arrays in `block`, and their numbers of elements."""
    for s in walk(block):
        if isinstance(s, Let) and s.op == "buffer" and isinstance(s.args[0], Literal):
            yield s.results[0], int(s.args[0].value.real)


def in_rows(block: Block, sizes: Mapping[str, int],
            dtypes: MutableMapping[str, np.dtype]) -> Block:
    """`block`, whose local arrays are rows; `dtypes` gets those of new names."""
    names = Builder(defined(block))

    def fresh(stem: str, dtype: np.dtype) -> str:
        name = names.fresh(stem)
        dtypes[name] = dtype
        return name

    def change(s: Let) -> list[Statement]:
        if s.op == "buffer":
            return [cleared(s)] if s.attr == "zeros" else []
        if not s.op.startswith("buffer_"):
            return [s]
        array, index, *values = s.args
        at = (array, THREAD, index)
        if s.op in _ACCESSES:
            return [Let(s.results, _ACCESSES[s.op], (*at, *values), None, s.line)]
        dtype = dtypes[str(array)]
        was, now = fresh("was", dtype), fresh("now", dtype)
        return [Let((was,), "load", at, None, s.line),
                Let((now,), "add", (was, *values), None, s.line),
                Let((), "store", (*at, now), None, s.line)]

    def cleared(s: Let) -> For:
        name, dtype = s.results[0], dtypes[s.results[0]]
        k = fresh("k", _INT64)
        zero = Literal(dtype.name, repr(dtype.type(0).item()))
        store = Let((), "store", (name, THREAD, k, zero), None, s.line)
        return For((), k, Literal("int64", str(sizes[name])), (), (),
                   Block((store,), ()))

    return rewrite(block, change)
