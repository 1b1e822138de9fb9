"""Descriptions of launches from which machine code starts them.

A bound start of a small launch does in Python what machine code does as well: it writes
addresses and numbers where the kernel reads them, and calls it.  So it says what it
does, as its attribute `native`, and `sequence` runs many of them without Python.
What threads share is an attribute of its own, `shared`: whoever starts it has to do
without where helpers sleep, as Python wakes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from ...support.records import record
from .objects import Entry
from .pool import POOL
from .schedule import order_of, runs_alone

__all__ = ["Arguments", "Fill", "Native", "Part", "joined", "moved", "native_of",
           "one_part", "shared_of", "shared_part", "with_native"]

#: The words of an order (`team`) that are a launch's lead.
_LEADS = (3, 7)

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
        these; ``"lead"``, the elements from a pointer to the first whole cache line.
    which
        Which pointer or number.
    add
        Is added to it; of a lead the binary logarithm of an element's bytes.
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
    offered
        Whether it is an order: if the entry gives something else than 0, it did
        nothing.
    """

    entry: Entry
    arguments: Arguments
    units: int
    counts: int = 0
    kept: Any = None
    offered: bool = False


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


def shared_part(entry: Entry, arguments: Arguments | None, units: int, weight: int = 1,
                row: int = 1, lead: tuple[int, int] | None = None,
                ) -> tuple[Part, ...] | None:
    """The only part of a launch whose units threads share; None of other launches.

    Parameters
    ----------
    row
        Units that a piece should not cut.
    lead
        The number of the pointer at whose cache lines pieces should begin, and bytes of
        an element.
    """
    if arguments is None or runs_alone(units, weight):
        return None
    order = order_of(entry, units, weight, row, lead is not None)
    if order is None:
        return (Part(entry, arguments, units),)
    head = len(order) // 8
    fills = [fill._replace(word=head + fill.word) for fill in arguments.fills]
    if lead is not None:
        which, itemsize = lead
        fills += [Fill(word, "lead", which, itemsize.bit_length() - 1)
                  for word in _LEADS]
    return (Part(POOL.program, Arguments(bytes(order) + arguments.words, tuple(fills)),
                 0, kept=order, offered=True),)


def with_native(start: S, parts: Sequence[Part] | None, room: int = 0, slots: int = 0,
                shared: Callable[[], Sequence[Part] | None] | None = None) -> S:
    """The start, or a part of one, which says what it does if `parts` are known.

    `shared` gives those of a start with orders, when they are asked for.
    """
    if parts is not None:
        start.native = Native(tuple(parts), room, slots)  # type: ignore[attr-defined]
    elif shared is not None:
        start.shared = shared, room  # type: ignore[attr-defined]
    return start


def native_of(start: Callable[..., Any] | None) -> Native | None:
    """The native description of a start; None if it has none."""
    return getattr(start, "native", None)


def shared_of(start: Callable[..., Any] | None) -> Native | None:
    """The description of a start with orders; None if it has none."""
    make, room = getattr(start, "shared", (None, 0))
    parts = make and make()
    return Native(tuple(parts), room) if parts else None


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
