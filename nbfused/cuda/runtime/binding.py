"""Launchers that are asked once for all calls of a layout.

A launcher decides from extents, strides and alignment, and ends in `Program.launch`.
For calls that are alike in these it would decide the same, so it is run once with its
launch only noted.  If that is one kernel that takes the call's own pointers, later
calls write pointers and numbers where the kernel reads them, and start it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...backend import Call, Launcher, NumberOf, Start
from ..tuning.tuner import measuring
from .driver import device
from .notes import Launched, noted

__all__ = ["Bindable"]


class _Address(int):
    """A pointer of the call; what is computed from it is a plain integer."""


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
        pointers = tuple(map(_Address, call.pointers))
        stream: Any = _STREAM
        numbers: tuple[Any, ...] = tuple(map(NumberOf, range(len(call.scalars))))
        try:
            with noted() as notes:
                self._launcher(replace(call, pointers=pointers, scalars=numbers,
                                       stream=stream))
        except TypeError:  # it computes with numbers, or asks for memory
            return None
        if len(notes) != 1 or not _plain(notes[0], pointers):
            return None
        return notes[0].program.bind(device(call.device), notes[0])


def _plain(launched: Launched, pointers: tuple[_Address, ...]) -> bool:
    """Whether the parameters are the call's pointers, each once, and then integers."""
    first, rest = launched.values[:len(pointers)], launched.values[len(pointers):]
    return (launched.pointers == len(pointers) == len(first)
            and all(a is b for a, b in zip(first, pointers, strict=True))
            and all(isinstance(v, (int, NumberOf)) for v in rest))
