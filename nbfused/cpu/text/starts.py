"""Starts of kernels by their frames: one kernel, or several with states in between."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arrays.libraries.numpy import NUMPY
from ...backend import Call, Start
from ..runtime.native import Part, one_part, shared_part, with_native
from ..runtime.objects import Entry
from ..runtime.schedule import LINE, bind_parallel
from .operands import Frame

__all__ = ["Step", "start_in_steps", "start_of"]

#: A kernel, its frame, a call as it sees it, integers that the launcher adds, units,
#: and elements in each.
Step = tuple[Entry, Frame, Call, tuple[int, ...], int, int]


def start_of(entry: Entry, frame: Frame, call: Call, extras: tuple[int, ...],
             units: int, weight: int) -> Start:
    """A start of one kernel."""
    pack, launch = frame.packer(call, *extras), bind_parallel(entry, units, weight)
    arguments = frame.arguments(call, *extras)
    return with_native(
        lambda pointers, scalars, _: launch(pack(pointers, scalars)),
        one_part(entry, arguments, units, weight),
        shared=lambda: shared_part(entry, arguments, units, weight))


def start_in_steps(sizes: Sequence[tuple[int, np.dtype]], steps: Sequence[Step],
                   ) -> Start:
    """A start of kernels that leave states to one another, in temporary memory.

    Parameters
    ----------
    sizes
        Length and dtype of each array of states, whose addresses are the last of the
        kernels' integers.
    """
    parts = [(frame.packer_with_extras(call, *extras), bind_parallel(entry, *work))
             for entry, frame, call, extras, *work in steps]
    addresses, address_of = struct.Struct(f"={len(sizes)}q").pack, NUMPY.pointer

    def start(pointers: Sequence[int], scalars: tuple[Any, ...], _: int) -> None:
        partial = [np.empty(size, dtype) for size, dtype in sizes]
        places = addresses(*map(address_of, partial))
        for pack, launch in parts:
            launch(pack(pointers, scalars, places))

    rooms, room = [], 0
    for size, dtype in sizes:
        rooms.append(room)
        room += -(-size * dtype.itemsize // LINE) * LINE
    return with_native(start, _native_steps(rooms, steps), room,
                       shared=lambda: _native_steps(rooms, steps, orders=True))


def _native_steps(rooms: Sequence[int], steps: Sequence[Step], orders: bool = False,
                  ) -> list[Part] | None:
    """The parts of such a start; None if threads share one that may be no order."""
    found: list[Part] = []
    for entry, frame, call, extras, units, weight in steps:
        arguments = frame.arguments(call, *extras, rooms=rooms)
        part = one_part(entry, arguments, units, weight)
        if part is None and orders:
            part = shared_part(entry, arguments, units, weight)
        if part is None:
            return None
        found += part
    return found
