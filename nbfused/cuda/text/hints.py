"""Hints of large Maps and Reduces: which lines the second cache gives up first.

They change when results, and what others have left in the cache, are written back to
memory; not what is computed.  Calls whose results the next one may find in the cache
have none.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from ...backend import Call
from ...gpu.operands import Operand
from ..runtime.driver import Device

__all__ = ["bytes_read", "bytes_spanned", "loaded_text", "map_hint", "reduce_hint"]

#: A Map that reads more than so many times the second cache: what was read is the last
#: to leave it, so results do sooner.  Less of them is left for the next call, which
#: costs more where arrays are smaller: benchmarks/notes/memory.md#hints-of-maps.
MAP_READS = 2
#: A Reduce that reads between so many times the second cache: what was read is the
#: first to leave it, and what others have written there need not leave meanwhile.  If
#: more is read, that is written to memory all the same, and dearer for being mixed in:
#: benchmarks/notes/memory.md#hints-of-reductions.
REDUCE_READS = 1, 4.5


def map_hint(read: int, where: Device) -> str:
    """The hint for the loads of a Map that reads so many bytes."""
    return "last" if read > MAP_READS*where.cache_size else ""


def reduce_hint(read: int, where: Device) -> str:
    """The hint for the loads of a Reduce that reads so many bytes."""
    least, most = REDUCE_READS
    return "first" if least*where.cache_size < read <= most*where.cache_size else ""


def bytes_read(call: Call, operands: Iterable[Operand]) -> int:
    """Number of different bytes of `operands` that a call reads."""
    return sum(o.dtype.itemsize*prod([
        n for n, stride in zip(call.shape, call.strides[o.at], strict=True) if stride])
        for o in operands)


def bytes_spanned(call: Call, operands: Iterable[Operand]) -> int:
    """Number of bytes from first to last of what `operands` read, which may overlap."""
    total = end = 0
    for first, last in sorted(_span(call, o) for o in operands):
        total += max(0, last - max(first, end))
        end = max(end, last)
    return total


def _span(call: Call, o: Operand) -> tuple[int, int]:
    """The addresses of the first byte of an operand, and after its last."""
    steps = [(n - 1)*stride for n, stride in zip(call.shape, call.strides[o.at],
                                                 strict=True)]
    first, last = (sum(s for s in steps if (s > 0) == up) for up in (False, True))
    size = o.dtype.itemsize
    return call.pointers[o.at] + size*first, call.pointers[o.at] + size*(last + 1)


def loaded_text(operand: Operand, width: int, at: str, hint: str) -> str:
    """A load of `width` elements from `at` on, in kernel text.

    Accesses of other sizes, and complex numbers, are loaded without a hint.
    """
    moved = operand.dtype.itemsize*width
    if hint and operand.dtype.kind != "c" and 4 <= moved <= 16:
        return f"load_{hint}{width}({operand.pointer}, {at}, True)"
    return f"load{width}({operand.pointer}, {at})"
