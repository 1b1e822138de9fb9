"""Threads that share the pieces of a kernel's launch without Python.

A thread that has just worked *lingers*: it looks for the next launch for a fraction of
a millisecond before it sleeps, and starts on it at once.  Waking a thread that sleeps
takes 50 µs and more, and two threads that take pieces in Python wait for each other's
turn of the interpreter.

A launch is a *record*, and the board has the address of the one that is offered:

====================  ==================================================
``record[0]``         the next piece that nobody has taken
``record[8]``         how many other threads are looking at the record
``record[16] …``      pieces, units in each, the first unit, where they end; kernel
                      and arguments; how many other threads may help
``board[0]``          the offered record, or 0
``board[8]``          how many threads linger
``board[16]``         counts what else there is to do: nobody lingers then
====================  ==================================================

Records are kept for ever and used again: a thread that comes late finds one that is
closed, because its next piece is beyond all, or a launch that it may well help.
"""

from __future__ import annotations

import ctypes
import struct
import time
from functools import cache
from typing import Any

from .compile import build
from .objects import Entry
from .text import indented, inlined, invoke

__all__ = ["Team"]

#: Glances at the board before a thread sleeps: some 700 µs.  Who is done first sees the
#: others' last pieces and the caller's Python pass before there is another launch.
_GLANCES = 1 << 15

#: Glances of a caller at who still works, before it lets others have its processor.
_PATIENCE = 1 << 10

_CLOSED = 1 << 62
_Words = ctypes.c_int64 * 24  # no two words that are waited for in one cache line


class Team:
    """The board of a pool, and its records.

    Attributes
    ----------
    patient
        Whether to linger: not where there are more threads than processors.
    """

    def __init__(self) -> None:
        self.patient = True
        self._board = _Words()
        self._at = ctypes.addressof(self._board)
        self._records: list[ctypes.Array[ctypes.c_int64]] = []
        self._free: list[ctypes.Array[ctypes.c_int64]] = []

    @property
    def lingering(self) -> int:
        """How many threads would start at once."""
        return self._board[8]

    @property
    def calls(self) -> int:
        """How often `call` was called."""
        return self._board[16]

    def call(self) -> None:
        """Tell those who linger that there is something to do in Python."""
        self._board[16] += 1

    def launch(self, entry: Entry, block: bytes, first: int, units: int, step: int,
               helpers: int) -> None:
        """Run ``entry`` on ``first … units - 1``, `step` at a time, with who comes.

        More than `helpers` may linger since a launch that wanted more.
        """
        record = self._record()
        held = ctypes.c_char_p(block)
        record[16:23] = [-(-(units - first) // step), step, first, units,
                         _address(entry), _address(held), helpers]
        _program()(struct.pack("=2q", self._at, ctypes.addressof(record)), 0, 0)
        self._free.append(record)

    def serve(self, calls: int) -> None:
        """Help with launches; linger until there is none, or `calls` is out of date."""
        glances = _GLANCES if self.patient else 1
        _program()(struct.pack("=3q", self._at, calls, glances), 1, 0)

    def dismiss(self) -> None:
        """Have nobody linger, within a second: at exit the memory may go."""
        self.call()
        end = time.monotonic() + 1.0
        while self.lingering and time.monotonic() < end:
            time.sleep(1e-4)

    def _record(self) -> ctypes.Array[ctypes.c_int64]:
        try:
            return self._free.pop()
        except IndexError:
            record = _Words()
            record[0] = _CLOSED
            self._records.append(record)
            return record


def _address(pointer: Any) -> int:
    return ctypes.c_void_p.from_buffer(pointer).value or 0


@cache
def _program() -> Entry:
    """What callers run (``begin`` is 0), and helpers."""
    return build("\n".join([
        "# Team",
        *inlined("work", ["record"], [
            "r = i64_pointer(record)", "k = word_add(record, 1)", "while k < r[16]:",
            "    first = r[18] + k*r[17]",
            "    enter(r[20], r[21], first, min(r[19], first + r[17]))",
            "    k = word_add(record, 1)"]),
        *inlined("join", ["record"], [
            "if word_add(record + 64, 1) < i64_pointer(record)[22]:",
            f"    {invoke('work', ['record'])}", "word_add(record + 64, -1)"]),
        "def kernel(a, begin, end):", "    board = a[0]", "    glances = 0",
        "    if begin == 0:", *indented(indented(_calling())),
        "    else:", *indented(indented(_serving()))]))


def _calling() -> list[str]:
    return [
        "record = a[1]", "word_write(record, 0)", "offered = word_take(board, record)",
        invoke("work", ["record"]), "if offered:", "    word_write(board, 0)",
        f"word_write(record, {_CLOSED})",
        "while word_read(record + 64) != 0:", "    pause()", "    glances += 1",
        f"    if glances > {_PATIENCE}:", "        give_way()"]


def _serving() -> list[str]:
    return [
        "word_add(board + 64, 1)",
        "while glances < a[2] and word_read(board + 128) == a[1]:",
        "    offer = word_read(board)", "    glances += 1",
        "    if offer != 0 and word_read(offer + 64) < i64_pointer(offer)[22]:",
        f"        {invoke('join', ['offer'])}", "        glances = 0", "    pause()",
        "word_add(board + 64, -1)",
        "offer = word_read(board)  # by somebody who counted on this thread",
        "if offer != 0:", f"    {invoke('join', ['offer'])}"]
