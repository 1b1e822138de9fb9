"""The place of a thread as one number, from its coordinates."""

from __future__ import annotations

from .build import Builder
from .nodes import Let, Value, literal

__all__ = ["WARP", "block_thread", "launch_block", "launch_thread", "shuffle_source",
           "warp_place"]

#: The lanes of a warp.
WARP = 32


def launch_thread(b: Builder) -> Value:
    """Write the number of a thread among all of its launch."""
    return _numbered(b, (("blockIdx", "gridDim"), ("threadIdx", "blockDim")))[0]


def launch_block(b: Builder) -> Value:
    """Write the number of a block among all of its launch."""
    return _numbered(b, (("blockIdx", "gridDim"),))[0]


def block_thread(b: Builder) -> tuple[Value, Value]:
    """Write the number of a thread in its block, and how many threads that has."""
    return _numbered(b, (("threadIdx", "blockDim"),))


def warp_place(b: Builder) -> tuple[Value, Value]:
    """Write the lane of a thread, and how many lanes of its warp its block has."""
    lane = b.let("thread", attr="laneid", stem="lane")
    thread, threads = block_thread(b)
    first = b.let("sub", thread, lane)
    return lane, b.let("min", b.let("sub", threads, first), literal(WARP), stem="lanes")


def shuffle_source(b: Builder, shuffle: Let, lane: Value) -> Value:
    """Write which lane a shuffle reads in a lane, by CUDA's rules."""
    step = b.let("and", shuffle.args[1], literal(WARP - 1), stem="step")
    if shuffle.attr == "idx":
        return step
    if shuffle.attr == "xor":
        return b.let("xor", lane, step)
    there = b.let("sub" if shuffle.attr == "up" else "add", lane, step)
    inside = b.let("ge", there, literal(0)) if shuffle.attr == "up" else \
        b.let("lt", there, literal(WARP))
    return b.select(inside, there, lane)


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
