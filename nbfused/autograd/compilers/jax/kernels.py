"""Calls that a compiled program of JAX makes, by their numbers.

A number says what is called and on arrays of which extents, so that of later calls only
the addresses are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import numpy as np

from ....arrays import Array
from ....dispatch.calls import find_prepared, run, zero
from ....errors import UnknownOperationError
from ....support.loop_nests import dense_strides
from ....support.stamp import STAMP
from ..identity import Bound, Placed, identifier, load, store

if TYPE_CHECKING:
    from .ffi import Place

__all__ = ["BufferProgram", "number_of", "number_of_program", "register_handlers",
           "run_number"]

Aval = tuple[tuple[int, ...], np.dtype]


class BufferProgram(Protocol):
    """A program that runs on buffers of given shapes."""

    @property
    def results(self) -> Sequence[Aval]:
        """Shape and dtype of each result."""

    @property
    def scratch(self) -> int:
        """Bytes of memory that it needs besides."""

    @property
    def cheap(self) -> bool:
        """Whether nothing in it is dear to compute again."""

    def identifier(self) -> str | None:
        """A name that equal programs have in every process; None of others."""

    def run(self, pointers: tuple[int, ...], device: str, stream: int | None) -> Any:
        """Run it; the start and numbers of later runs, or None."""


#: Calls and programs by their numbers.
_CALLS: dict[int, Placed | BufferProgram] = {}
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


def number_of_program(program: BufferProgram) -> int:
    """The number of a program, equal in every process if it has a name there."""
    name = program.identifier()
    number = int((name or uuid4().hex)[-15:], 16)
    if number not in _CALLS:
        if name is not None:
            store(f"{number:x}", program)
        _CALLS[number] = program
    return number


@cache
def register_handlers() -> None:
    """Let programs of JAX's call what has a number."""
    from .ffi import register

    register(run_number)


def run_number(number: int, pointers: tuple[int, ...], place: Place) -> None:
    """Run the call of a number, for XLA."""
    known = _PREPARED.get((number, place.device))
    if known is not None and known[0] == STAMP and not any(p & 15 for p in pointers):
        known[1](pointers, known[2])
        return
    called = _CALLS.get(number)
    if called is None:
        called = _CALLS[number] = _loaded(number)
    stamp = bytes(STAMP)
    started = _run_placed(called, pointers, place) if isinstance(
        called, Placed) else called.run(pointers, place.device, place.stream)
    if started is not None:
        _PREPARED[number, place.device] = stamp, *started


def _loaded(number: int) -> Placed | BufferProgram:
    """The call or program that another process has stored under a number."""
    found: Placed | BufferProgram | None = load(f"{number:x}")
    if found is None:
        raise UnknownOperationError(
            "a program that JAX compiled or exported in another process calls an "
            "operation of nbfused that is not known in this one; share "
            "NBFUSED_CACHE_DIR with that process, or clear JAX's compilation cache")
    return found


def _run_placed(placed: Placed, pointers: tuple[int, ...], place: Place,
                ) -> tuple[Any, tuple[Any, ...]] | None:
    """Run a call: what starts it later, and its numbers; None if nothing does."""
    arrays = [Array(pointer, shape, dense_strides(shape), np.dtype(dtype), place.device,
                    place.stream, False, place.library, None)
              for pointer, (shape, dtype) in zip(
                  pointers, (*placed.inputs, *placed.outputs), strict=True)]
    count = len(placed.inputs)
    run_bound(placed.bound, arrays[:count], arrays[count:])
    if placed.call.spec.scatter_shapes or any(p & 15 for p in pointers):
        return None
    inputs = placed.bound.inputs(arrays[:count])
    prepared = find_prepared(placed.call.spec, inputs, arrays[count:], None,
                             casting="unsafe", checked=True)
    return None if prepared is None else (
        prepared.start, tuple([x for x in inputs if not isinstance(x, Array)]))


def run_bound(bound: Bound, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Run a call on arrays, and store its results in others."""
    spec = bound.call.spec
    for k in range(len(outputs) - len(spec.scatter_shapes), len(outputs)):
        zero(outputs[k])  # the kernel adds to it
    run(spec, bound.inputs(inputs), outs=outputs, casting="unsafe", checked=True)
