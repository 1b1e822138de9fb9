"""Streaming stores: results written to memory past the caches.

A processor that stores to a line which is not in its caches reads it first.  Of an
array that is larger than the last cache nothing is there, nor stays there for whoever
comes next: then that is a third of all traffic of a Map with one input.  *Streaming*
stores write whole lines and read none.  They pay for whole lines only, so the Map's
kernel computes a block of results where the first cache holds it, and the block is
streamed.  One thread alone computes as long as it waits for memory, and gains nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ..runtime.compile import build
from ..runtime.objects import Entry, address_of
from ..runtime.pool import POOL
from ..runtime.schedule import LINE
from .lines import indented
from .operands import Operand

__all__ = ["can_stream", "may_stream", "streaming_pays", "with_streaming"]

#: Bytes of a block of one output: of 2 to 16 KB, those up to 8 were best.
#: benchmarks/notes/cpu.md#maps-on-the-cpu.
_BLOCK = 1 << 12

#: More outputs or words of arguments than these are not streamed.
_OUTPUTS, _WORDS = 4, 64

_CACHE = 32 << 20  # where the system does not tell: what servers have for some cores
_SHIFTS = {"K": 10, "M": 20, "G": 30}


@cache
def _last_cache() -> int:
    """Bytes of the last-level cache."""
    found = []
    for entry in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = entry.read_text().strip()
        if text[:-1].isdecimal() and text[-1] in _SHIFTS:
            found.append(int(text[:-1]) << _SHIFTS[text[-1]])
    return max(found, default=_CACHE)


def can_stream(outputs: Sequence[Operand]) -> bool:
    """Whether a Map with these outputs can use streaming stores."""
    return (len(outputs) <= _OUTPUTS and len({o.dtype.itemsize for o in outputs}) == 1
            and all(o.code == "1" for o in outputs))


def may_stream(count: int, size: int) -> bool:
    """Whether `count` elements of `size` bytes are more than the last cache holds."""
    return count * size >= _last_cache() and POOL.threads > 1


def streaming_pays(pointers: Sequence[int], first: int, itemsize: int,
                   count: int) -> bool:
    """Whether streaming stores pay for `count` elements of these arrays.

    Not where one of them is an input too, whose lines the kernel reads anyway.  All
    have to begin at the same place of a line, or blocks of one were not whole lines.
    """
    outputs = pointers[first:]
    if not may_stream(count, itemsize * len(outputs)):
        return False
    return (len({p % LINE for p in outputs}) == 1 and outputs[0] % itemsize == 0
            and not set(outputs).intersection(pointers[:first]))


def with_streaming(entry: Entry, arguments: bytes, first: int, outputs: int,
                   itemsize: int) -> tuple[Entry, bytes]:
    """Wrap a kernel and its arguments so that its outputs are streamed.

    Parameters
    ----------
    entry, arguments
        A kernel whose units are points, each stored at its place in every output.
    first, outputs, itemsize
        The word with the first output's address, how many there are, and bytes of
        their elements; they are as `streaming_pays` wants them.
    """
    if len(arguments) > 8 * _WORDS:
        return entry, arguments
    head = struct.pack("=5q", address_of(entry), len(arguments) // 8, first, outputs,
                       itemsize)
    return _streaming(), head + arguments


@cache
def _streaming() -> Entry:
    return build("\n".join(["# Stream", "def kernel(a, begin, end):", *indented([
        "entry, words, outputs, size = a[0], a[1], a[3], a[4]",
        "first = 5 + a[2]",
        f"room = u8_local({_OUTPUTS * _BLOCK})", f"arguments = i64_local({_WORDS})",
        "for w in range(words):", "    arguments[w] = a[5 + w]",
        f"block = {_BLOCK} // size", "j0 = begin", "while j0 < end:", *indented([
            f"lead = (-(a[first] + size*j0) & {LINE - 1}) // size",
            "j1 = min(end, j0 + (lead if lead > 0 else block))",
            "whole = j1 - j0 == block",  # not the first ones, nor what is left
            "for k in range(outputs):",
            f"    near = address(room) + {_BLOCK}*k - size*j0",
            "    arguments[a[2] + k] = near if whole else a[first + k]",
            "enter(entry, address(arguments), j0, j1)",
            "if whole:", "    for k in range(outputs):",
            f"        stream(a[first + k] + size*j0, address(room) + {_BLOCK}*k, "
            f"{_BLOCK})", "j0 = j1"]),
        "order_stores()"])]))
