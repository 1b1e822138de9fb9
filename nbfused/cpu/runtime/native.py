"""Descriptions of launches that one thread runs, from which machine code starts them.

A bound start of a small launch does in Python what machine code does as well: it writes
addresses and numbers where the kernel reads them, and calls it.  So it says what it
does, as its attribute `native`, and `sequence` runs many of them without Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from ...support.records import record
from .objects import Entry
from .schedule import runs_alone

__all__ = ["Arguments", "Fill", "Native", "Part", "joined", "moved", "native_of",
           "one_part", "with_native"]

#: A start, or what it calls with pointers and numbers of its own.
S = TypeVar("S", bound=Callable[..., Any])


class Fill(NamedTuple):
    """A word of a kernel's arguments that each call gives.

    Attributes
    ----------
    word
        Which one.
    kind
        ``"pointer"`` or ``"number"`` of the start; ``"room"``, its temporary memory;
        ``"control"``, words that threads share; ``"count"``, what stood in the first of
        these.
    which
        Which pointer or number.
    add
        Is added to it.
    code
        How `struct` writes a number: ``"q"``, ``"Q"``, ``"d"``.
    """

    word: int
    kind: str
    which: int = 0
    add: int = 0
    code: str = "q"


class Arguments(NamedTuple):
    """A kernel's arguments, with zeros where they are filled."""

    words: bytes
    fills: tuple[Fill, ...]


@record(frozen=True)
class Part:
    """A call of a kernel on all of its units.

    Attributes
    ----------
    counts
        How much it adds to the first of the control words.
    kept
        What must live as long as the part.
    """

    entry: Entry
    arguments: Arguments
    units: int
    counts: int = 0
    kept: Any = None


@record(frozen=True)
class Native:
    """The calls of kernels that a start makes, one after another.

    Attributes
    ----------
    room
        Bytes of temporary memory.
    slots
        As of `gemm`: how many threads could share the control words.
    """

    parts: tuple[Part, ...]
    room: int = 0
    slots: int = 0


def one_part(entry: Entry, arguments: Arguments | None, units: int, weight: int = 1,
             ) -> tuple[Part, ...] | None:
    """The only part of a launch; None if threads share its units."""
    if arguments is None or not runs_alone(units, weight):
        return None
    return (Part(entry, arguments, units),)


def with_native(start: S, parts: Sequence[Part] | None, room: int = 0,
                slots: int = 0) -> S:
    """The start, or a part of one, which says what it does if `parts` are known."""
    if parts is not None:
        start.native = Native(tuple(parts), room, slots)  # type: ignore[attr-defined]
    return start


def native_of(start: Callable[..., Any] | None) -> Native | None:
    """What a start does natively; None if only it can do it."""
    return getattr(start, "native", None)


def joined(natives: Iterable[Native | None],
           ) -> tuple[list[Part] | None, int, int]:
    """Parts, room and slots of starts one after another; None if one is not native."""
    parts: list[Part] = []
    room = slots = 0
    for native in natives:
        if native is None:
            return None, 0, 0
        parts += native.parts
        room, slots = max(room, native.room), max(slots, native.slots)
    return parts, room, slots


def moved(native: Native, pointers: Callable[[Fill], Fill]) -> list[Part]:
    """The parts with other pointers: those that `pointers` gives for their fills."""
    return [replace(part, arguments=Arguments(part.arguments.words, tuple(
        [pointers(fill) if fill.kind == "pointer" else fill
         for fill in part.arguments.fills]))) for part in native.parts]
