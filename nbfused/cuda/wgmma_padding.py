"""Factors that TMA cannot reach, copied to where it can.

TMA wants a dimension with stride 1 and all else at multiples of 16 bytes.  A factor
that is not so (rows of an odd length, every second column, reversed) is copied to a
workspace with padded rows, in the order of the stream; the product then runs on the
copy.  That moves the factor twice, and costs little beside a product that is worth it.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import TypeVar

from ..backend import Call
from .driver import Device
from .launch import Program
from .source import Source

__all__ = ["padded"]

_T = TypeVar("_T")

#: Elements of 16 bits to which rows are padded.
_PITCH = 8
_THREADS, _PAIRS = 256, 4
#: Elements of a row that one block copies.
_CHUNK = 2*_THREADS*_PAIRS


def padded(call: Call, which: int, batch: int, where: Device, stack: ExitStack) -> Call:
    """The call with a copy of factor `which`; it lives as long as `stack` is open."""
    strides = call.strides[which]
    own, k = batch + which, batch + 2
    inner, outer = (k, own) if abs(strides[k]) <= abs(strides[own]) else (own, k)
    loops = [x for x in range(batch) if call.shape[x] > 1 and strides[x]]
    extents = [call.shape[x] for x in (*loops, outer, inner)]
    pitch = -(-extents[-1] // _PITCH)*_PITCH
    rows = prod(extents[:-1])
    address = stack.enter_context(where.workspace(2*rows*pitch, call.stream))
    values = (call.pointers[which], address, *extents,
              *(strides[x] for x in (*loops, outer, inner)), pitch)
    _program(len(extents)).launch(where, call.stream,
                                  rows * -(-extents[-1] // _CHUNK), values)
    new = [0]*len(strides)
    new[inner], step = 1, pitch
    for x in (outer, *reversed(loops)):
        new[x] = step
        step *= call.shape[x]
    return replace(call, pointers=_with(call.pointers, which, address),
                   strides=_with(call.strides, which, tuple(new)))


def _with(items: tuple[_T, ...], at: int, item: _T) -> tuple[_T, ...]:
    return (*items[:at], item, *items[at + 1:])


@lru_cache(maxsize=8)
def _program(rank: int) -> Program:
    """Copies 16-bit elements of `rank` loops, two by two; the last loop is padded."""
    out = Source(f"padded_rows_{rank}")
    out.pointer("source", "uint16")
    out.pointer("target", "uint16")
    out.integer(*(f"n{x}" for x in range(rank)), *(f"s{x}" for x in range(rank)),
                "pitch")
    extent = f"n{rank - 1}"
    out("block = i64(cuda.blockIdx.x)",
        f"chunks = divide({extent} + {_CHUNK - 1}, i64({_CHUNK}))",
        "row = divide(block, chunks)",
        f"first = (block - row*chunks)*{_CHUNK} + 2*i64(cuda.threadIdx.x)",
        "base = i64(0)", "rest = row")
    for x in range(rank - 2, -1, -1):
        out(f"above = divide(rest, n{x})", f"base += (rest - above*n{x})*s{x}",
            "rest = above")
    for p in range(_PAIRS):
        at = f"first + {2*_THREADS*p}"
        for e in (0, 1):
            out(f"v{p}_{e} = source[base + min({at} + {e}, {extent} - 1)*s{rank - 1}]")
    for p in range(_PAIRS):
        at = f"first + {2*_THREADS*p}"
        with out.block(f"if {at} < {extent}:"):
            out(f"store2(target, row*pitch + {at}, (v{p}_0, v{p}_1))")
    return Program(out.kernel(_THREADS))
