"""Work sharing between threads in machine code, without Python.

A thread that has just worked *lingers*: it looks for the next launch for a fraction of
a millisecond before it sleeps, and starts on it at once.  Waking a thread that sleeps
takes 50 µs and more, and two threads that take pieces in Python wait for each other's
turn of the interpreter.

Helpers were first given their pieces by Python: a launch took 12.3 µs of the caller and
takes 1.3 now (benchmarks/notes/cpu.md#threads).  What Python does before a launch takes
ten times as long where the launch before has emptied the caches.  So all that is the
same for many launches is packed once, as an *order*, and machine code does the rest: it
looks who lingers, takes a *record*, and puts the record's address on the board.

====================  ==================================================
``record[0]``         the next piece that nobody has taken
``record[8]``         how many other threads are looking at the record
``record[16] …``      pieces, units in each, the first unit, where they end; kernel
                      and arguments; how many other threads may help
``record[23]``        whether somebody launches with it
``record[24]``        the piece that is taken first: 0, or the last one
``board[0]``          the offered record, or 0
``board[8]``          how many threads linger
``board[16]``         counts how often those who linger were sent away
``board[24]``         the processor that the helpers stay away from, or -1
``board[25]``         counts the launches that turn round
``board[32] …``       records
====================  ==================================================

Launches *turn round*: every other one takes the last piece first.  Of arrays larger
than the last cache, their ends are there when a launch has gone through them.  The next
launch, which often reads the same arrays or what was stored, begins with these; from
the beginning it would drive them out before it came to them, and find nothing.

Records are used again: a thread that comes late finds one that is closed, because its
next piece is beyond all, or a launch that it may well help.
"""

from __future__ import annotations

import ctypes
import os
import struct
import time
from collections.abc import Callable
from functools import cache

from ..text.lines import indented, inlined, invoke
from .compile import build
from .objects import Entry, address_of

__all__ = ["Order", "Team", "current_processor", "machine_code"]

#: Glances at the board before a thread sleeps: some 700 µs, in which the others' last
#: pieces and the caller's Python pass.  Of 2¹³ to 2¹⁷ glances 2¹⁵ was the first from
#: which on little is gained: benchmarks/notes/cpu.md#threads.
_GLANCES = 1 << 15

#: Glances of a caller at helpers that still work, before it yields its processor; not
#: measured.
_PATIENCE = 1 << 10

_CLOSED = 1 << 62

#: Words of the board and of a record: no two that are waited for in one cache line.
_BOARD, _RECORD = 32, 32

#: Launches at once that others can help with.
_RECORDS = 64

#: What the program is asked for: to launch if nobody has to be woken or sent away
#: first, to launch anyway, to help.
_IF_READY, _ANYWAY, _SERVE = 0, 1, 2

_order = struct.Struct("=9q").pack


def _processor() -> Callable[[], int] | None:
    if not hasattr(os, "sched_setaffinity"):
        return None
    return getattr(ctypes.CDLL(None), "sched_getcpu", None)


#: Tells which processor the calling thread runs on, where it can be avoided.
current_processor = _processor()


class Order(bytes):
    """The header of a launch's arguments, which keeps its kernel alive."""

    entry: Entry


class Team:
    """The shared memory through which a pool's threads find work.

    Attributes
    ----------
    patient
        Whether to linger: not where there are more threads than processors.
    """

    def __init__(self) -> None:
        self._board = (ctypes.c_int64 * (_BOARD + _RECORDS*_RECORD))()
        self._at = ctypes.addressof(self._board)
        self.reset()

    def reset(self) -> None:
        """Initialise the shared memory; orders stay valid after a fork."""
        self.patient = True
        ctypes.memset(self._board, 0, ctypes.sizeof(self._board))
        for k in range(_RECORDS):
            self._board[_BOARD + k*_RECORD] = _CLOSED
        self.avoided = -1

    @property
    def lingering(self) -> int:
        """Number of threads that wait for work in machine code."""
        return self._board[8]

    @property
    def avoided(self) -> int:
        """The processor that helpers stay away from, or -1."""
        return self._board[24]

    @avoided.setter
    def avoided(self, processor: int) -> None:
        self._board[24] = processor

    def order(self, entry: Entry, first: int, units: int, step: int, helpers: int,
              lead: int = 0, turns: bool = False) -> Order:
        """Pack the header of a launch's arguments: see `Pool.order`."""
        made = Order(_order(self._at, -(-(units - first) // step), step, first, units,
                            address_of(entry), helpers, lead, turns))
        made.entry = entry
        return made

    @property
    def program(self) -> Entry:
        """The machine code that `launch` calls."""
        return machine_code()

    def launch(self, order: bytes, anyway: bool = False) -> int:
        """Launch an order followed by the kernel's arguments.

        Returns
        -------
        int
            0; else nothing was done: fewer linger than might help, or the caller is on
            another processor than before.
        """
        return machine_code()(order, _ANYWAY if anyway else _IF_READY, 0)

    def serve(self) -> None:
        """Help with launches until there has been none for a while."""
        glances = _GLANCES if self.patient else 1
        machine_code()(struct.pack("=2q", self._at, glances), _SERVE, 0)

    def dismiss(self) -> None:
        """Send lingering threads away within a second, before memory goes at exit."""
        self._board[16] += 1
        end = time.monotonic() + 1.0
        while self.lingering and time.monotonic() < end:
            time.sleep(1e-4)


@cache
def machine_code() -> Entry:
    """Compile the program that callers and helpers run."""
    return build("\n".join([
        "# Team",
        *inlined("work", ["record"], [
            "r = i64_pointer(record)", "k = word_add(record, 1)", "while k < r[16]:",
            "    first = r[18] + abs(r[24] - k)*r[17]",
            "    enter(r[20], r[21], first, min(r[19], first + r[17]))",
            "    k = word_add(record, 1)"]),
        *inlined("join", ["record"], [
            "if word_add(record + 64, 1) < i64_pointer(record)[22]:",
            f"    {invoke('work', ['record'])}", "word_add(record + 64, -1)"]),
        "def kernel(a, begin, end):", "    board = a[0]", "    glances = 0",
        f"    if begin == {_SERVE}:", *indented(indented([*_serving(), "return 0"])),
        *indented(_calling()), "    return 0"]))


def _calling() -> list[str]:
    here = "-1" if current_processor is None else "this_processor()"
    owner = "record + 184"
    return [
        f"if begin == {_IF_READY} and (word_read(board + 64) < a[6] or "
        f"word_read(board + 192) != {here}):", "    return 1",
        "arguments = address(a) + 72",
        "if a[7] > 0:", "    enter(a[5], arguments, 0, a[7])",
        f"record = board + {8*_BOARD}", f"last = record + {8*_RECORD*_RECORDS}",
        f"while record < last and not word_take({owner}, 1):",
        f"    record += {8*_RECORD}",
        "if record == last:", "    enter(a[5], arguments, a[3], a[4])", "    return 0",
        "r = i64_pointer(record)",
        *(f"r[{16 + k}] = a[{1 + k}]" for k in range(5)),
        "r[21] = arguments", "r[22] = a[6]", "r[24] = 0",
        "if a[8] != 0 and word_add(board + 200, 1) & 1 != 0:", "    r[24] = a[1] - 1",
        "word_write(record, 0)", "offered = word_take(board, record)",
        invoke("work", ["record"]), "if offered:", "    word_write(board, 0)",
        f"word_write(record, {_CLOSED})",
        "while word_read(record + 64) != 0:", "    pause()", "    glances += 1",
        f"    if glances > {_PATIENCE}:", "        give_way()",
        f"word_write({owner}, 0)"]


def _serving() -> list[str]:
    return [
        "sent_away = word_read(board + 128)", "word_add(board + 64, 1)",
        "while glances < a[1] and word_read(board + 128) == sent_away:",
        "    offer = word_read(board)", "    glances += 1",
        "    if offer != 0 and word_read(offer + 64) < i64_pointer(offer)[22]:",
        f"        {invoke('join', ['offer'])}", "        glances = 0", "    pause()",
        "word_add(board + 64, -1)",
        "offer = word_read(board)  # by somebody who counted on this thread",
        "if offer != 0:", f"    {invoke('join', ['offer'])}"]
