"""Launchers that are asked once for all calls of a layout.

A launcher decides from extents, strides and alignment, and ends in `Program.launch`.
For calls that are alike in these it would decide the same, so it is run once with its
launch only noted.  If that is one kernel that takes the call's own pointers, or places
so many bytes from them, later calls write pointers and numbers where the kernel reads
them, and start it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...backend import Call, Launcher, NumberOf, Start
from ..tuning.tuner import measuring
from .driver import device
from .notes import Address, Launched, noted

__all__ = ["Bindable"]


#: In a stream's place, and not a number: memory asked for in the default one would
#: break the capture of another.
_STREAM = object()


class Bindable:
    """A launcher with `bind`.

    Parameters
    ----------
    launcher
        It must do nothing with the call's arrays but by `Program.launch`.
    """

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher

    def __call__(self, call: Call) -> None:
        """Launch on the call's stream."""
        self._launcher(call)

    def bind(self, call: Call) -> Start | None:
        """Decide now for all calls like `call`: see `backend.Launcher`."""
        if measuring():  # which takes a call's own addresses
            return None
        pointers = tuple(Address(p, k) for k, p in enumerate(call.pointers))
        stream: Any = _STREAM
        numbers: tuple[Any, ...] = tuple(map(NumberOf, range(len(call.scalars))))
        try:
            with noted() as notes:
                self._launcher(replace(call, pointers=pointers, scalars=numbers,
                                       stream=stream))
        except TypeError:  # it computes with numbers, or asks for memory
            return None
        places = _places(notes[0]) if len(notes) == 1 else None
        if places is None:
            return None
        start = notes[0].program.bind(device(call.device), notes[0])
        own = [(k, 0) for k in range(len(pointers))]
        return start if places == own else _moved(start, places)


def _places(launched: Launched) -> list[tuple[int, int]] | None:
    """The number of the call's pointer for each parameter, and the bytes from there.

    None if some is neither that nor an integer behind them.
    """
    values, count = launched.values, launched.pointers
    found = [(v.index, v.offset) for v in values[:count]
             if isinstance(v, Address) and v.index is not None]
    plain = all(isinstance(v, (int, NumberOf)) and not isinstance(v, Address)
                for v in values[count:])
    return found if plain and len(found) == count else None


def _moved(start: Start, places: Sequence[tuple[int, int]]) -> Start:
    """`start` with pointers so many bytes from those of a call."""
    def moved(pointers: Sequence[int], scalars: tuple[Any, ...], stream: int) -> None:
        # A tuple: machine code reads it.
        start(tuple([pointers[k] + offset for k, offset in places]), scalars, stream)

    return moved
