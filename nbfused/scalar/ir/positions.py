"""The place of a thread as one number, from its coordinates."""

from __future__ import annotations

from .build import Builder
from .nodes import Value, literal

__all__ = ["block_thread", "launch_block", "launch_thread"]


def launch_thread(b: Builder) -> Value:
    """Write the number of a thread among all of its launch."""
    return _numbered(b, (("blockIdx", "gridDim"), ("threadIdx", "blockDim")))[0]


def launch_block(b: Builder) -> Value:
    """Write the number of a block among all of its launch."""
    return _numbered(b, (("blockIdx", "gridDim"),))[0]


def block_thread(b: Builder) -> tuple[Value, Value]:
    """Write the number of a thread in its block, and how many threads that has."""
    return _numbered(b, (("threadIdx", "blockDim"),))


def _numbered(b: Builder, pairs: tuple[tuple[str, str], ...]) -> tuple[Value, Value]:
    found: Value = literal(0)
    total: Value = literal(1)
    for where, extent in pairs:
        for axis in "zyx":
            size = b.let("thread", attr=f"{extent}.{axis}", stem="size")
            place = b.let("thread", attr=f"{where}.{axis}", stem="place")
            found = b.add(b.mul(found, size), place, "thread")
            total = b.mul(total, size, "threads")
    return found, total
