"""Launches of so many threads: the kernel runs where ``nf.grid`` is below `dim`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from operator import index
from typing import Any

from ...backend import Extents
from ...errors import KernelTypeError, RangeError
from ...op.base import quantity
from ...scalar.ir.build import Builder, inline
from ...scalar.ir.nodes import Block, If, Let, Value, defined, walk
from ...specs import Raw
from .arguments import Leaf

__all__ = ["blocks_of", "dim_extents", "guarded"]

#: Threads of a block where a launch gives none, by the number of axes.
_BLOCKS: tuple[Extents, ...] = ((256, 1, 1), (32, 8, 1), (32, 4, 2))

#: The places that a kernel cannot read where `dim` has so many axes.
_BEYOND = {n: {f"{word}.{axis}" for word in ("blockIdx", "threadIdx")
               for axis in "xyz"[n:]} for n in (1, 2, 3)}
_TOGETHER = {"barrier": "a barrier", "shuffle": "a shuffle", "shared": "a shared array"}


def dim_extents(dim: Any, label: str) -> tuple[int, ...]:
    """Numbers of threads along one to three axes, 0 or more.

    Raises
    ------
    KernelTypeError
        If `dim` is no integer nor tuple of up to three.
    RangeError
        If one is negative.
    """
    given = dim if isinstance(dim, (tuple, list)) else (dim,)
    try:
        found = tuple(map(index, given))
    except TypeError:
        found = ()
    if not 1 <= len(found) <= 3:
        raise KernelTypeError(f"{label}: dim is {dim!r}; expected one to three "
                              "integers, as many as nf.grid has in the kernel")
    if min(found) < 0:
        raise RangeError(f"{label}: dim is {dim!r}; expected 0 or more threads")
    return found


def blocks_of(dim: Sequence[int], block: Extents | None) -> tuple[Extents, Extents]:
    """The grid and the block for so many threads."""
    block = block or _BLOCKS[len(dim) - 1]
    x, y, z = (-(-n // b) for n, b in zip((*dim, 1, 1), block, strict=False))
    return (x, y, z), block


def guarded(spec: Raw, leaves: Sequence[Leaf],
            dim: Sequence[int]) -> tuple[Raw, Sequence[Leaf]]:
    """A kernel that does nothing beyond `dim`, and its arguments."""
    if not dim:
        return spec, leaves
    return _guarded(spec, len(dim)), [*leaves, *(
        Leaf(f"dim[{k}]", n, n) for k, n in enumerate(dim))]


@lru_cache(maxsize=1024)
def _guarded(spec: Raw, axes: int) -> Raw:
    function = spec.function
    for s in walk(inline(function).body):
        # What a derivative adds has no line: it numbers the threads along all axes.
        if isinstance(s, Let) and s.line and str(s.attr) in _BEYOND[axes]:
            raise KernelTypeError(
                f"{function.pyfile}:{s.line}: {function.name}: the kernel reads its "
                f"place along {str(s.attr)[-1]}, and dim is {quantity(axes, 'integer')}"
                "; pass one for each axis of nf.grid, as in dim=x.shape")
        if isinstance(s, Let) and s.op in _TOGETHER:
            raise KernelTypeError(
                f"{function.pyfile}:{s.line}: {function.name}: {_TOGETHER[s.op]} "
                "needs all threads of a block, and a launch by dim leaves some out; "
                "launch by grid and block, and compare nf.grid with the extents")
    b = Builder(defined(function.body) | set(function.params))
    sizes = [b.fresh(f"dim_{axis}") for axis in "xyz"[:axes]]
    inside: Value = b.let("lt", _place(b, "x"), sizes[0])
    for axis, size in zip("yz", sizes[1:], strict=False):
        inside = b.let("logical_and", inside, b.let("lt", _place(b, axis), size))
    b.statements.append(If((), inside, function.body, Block((), ())))
    return Raw(replace(function, params=(*function.params, *sizes),
                       body=Block(tuple(b.statements), ())),
               (*spec.kinds, *("scalar",) * axes))


def _place(b: Builder, axis: str) -> str:
    """The place of a thread in the grid along an axis."""
    block, size, thread = (b.let("thread", attr=f"{word}.{axis}", stem="place")
                           for word in ("blockIdx", "blockDim", "threadIdx"))
    return b.let("add", b.let("mul", block, size), thread, stem="place")
