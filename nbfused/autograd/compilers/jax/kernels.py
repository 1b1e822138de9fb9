"""Calls that a compiled program of JAX makes, by their numbers.

A number says what is called and on arrays of which extents, so that of later calls only
the addresses are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....arrays import Array
from ....dispatch.calls import find_prepared, run, zero
from ....errors import UnknownOperationError
from ....support.loop_nests import dense_strides
from ....support.stamp import STAMP
from ..identity import Bound, Placed, identifier, load, store

if TYPE_CHECKING:
    from .ffi import Place

__all__ = ["number_of", "run_bound", "run_number"]

Aval = tuple[tuple[int, ...], np.dtype]

#: Calls by their numbers.
_CALLS: dict[int, Placed] = {}
#: By number and device: the stamp of settings, what starts a call, its numbers.
_PREPARED: dict[tuple[int, str], tuple[bytes, Any, tuple[Any, ...]]] = {}


def number_of(bound: Bound, inputs: Sequence[Aval], outputs: Sequence[Aval]) -> int:
    """The number of a call, equal in every process: programs are cached on disk."""
    placed = Placed(bound, *(tuple([(shape, dtype.name) for shape, dtype in avals])
                             for avals in (inputs, outputs)))
    name = identifier(placed)
    number = int(name[-15:], 16)
    if number not in _CALLS:
        store(f"{number:x}", placed)
        _CALLS[number] = placed
    return number


def run_number(number: int, pointers: tuple[int, ...], place: Place) -> None:
    """Run the call of a number, for XLA."""
    known = _PREPARED.get((number, place.device))
    if known is not None and known[0] == STAMP and not any(p & 15 for p in pointers):
        known[1](pointers, known[2])
        return
    placed = _CALLS.get(number)
    if placed is None:
        found = load(f"{number:x}")
        if not isinstance(found, Placed):
            raise UnknownOperationError(
                "a program that JAX compiled in another process calls an operation of "
                "nbfused that is not known in this one; share NBFUSED_CACHE_DIR with "
                "that process, or clear JAX's compilation cache")
        placed = _CALLS[number] = found
    stamp = bytes(STAMP)
    arrays = [Array(pointer, shape, dense_strides(shape), np.dtype(dtype), place.device,
                    place.stream, False, place.library, None)
              for pointer, (shape, dtype) in zip(
                  pointers, (*placed.inputs, *placed.outputs), strict=True)]
    count = len(placed.inputs)
    run_bound(placed.bound, arrays[:count], arrays[count:])
    if placed.call.spec.scatter_shapes or any(p & 15 for p in pointers):
        return
    inputs = placed.bound.inputs(arrays[:count])
    prepared = find_prepared(placed.call.spec, inputs, arrays[count:], None,
                             casting="unsafe", checked=True)
    if prepared is not None:
        numbers = tuple([x for x in inputs if not isinstance(x, Array)])
        _PREPARED[number, place.device] = stamp, prepared.start, numbers


def run_bound(bound: Bound, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Run a call on arrays, and store its results in others."""
    spec = bound.call.spec
    for k in range(len(outputs) - len(spec.scatter_shapes), len(outputs)):
        zero(outputs[k])  # the kernel adds to it
    run(spec, bound.inputs(inputs), outs=outputs, casting="unsafe", checked=True)
