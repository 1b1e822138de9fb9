"""Launches one after another by machine code, without Python between them.

A launch of a few hundred elements takes 0.2 to 1.5 µs, and Python 1 to 2.5 to start it.
A plan's launches are known beforehand: their arguments are written once, the
*template*, with a list of the words that each call fills (addresses, numbers, temporary
memory).  A call is a copy of it and one call of machine code, which fills the words and
starts the kernels: benchmarks/notes/cpu.md#sequences.

The copy belongs to the call, and temporary memory to the thread, so that threads may
run one sequence at once.  Launches that threads share, and products by BLAS, are
started by Python as always, between sequences.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ...backend import NumberOf, SequencedCall, SequenceStart, Start
from .compile import build
from .native import Fill, Native, Part, native_of
from .objects import Entry, address_of
from .workspace import WORKSPACE

__all__ = ["machine_code", "sequence"]

#: Words that each call gives after its addresses and numbers.
_MEMORY = ("room", "control", "count")

#: ``kernel(block, fills, parts)``: where in the block the list of fills begins (word,
#: source, what is added), and how many parts follow it (kernel, arguments, units).
_TEXT = """\
# Sequence
def kernel(a, begin, end):
    at = begin + 1
    for k in range(a[begin]):
        a[a[at]] = a[a[at + 1]] + a[at + 2]
        at += 3
    here = address(a)
    for k in range(end):
        enter(a[at], here + 8*a[at + 1], 0, a[at + 2])
        at += 3
    return 0
"""

#: A part of a run of a sequence.
_Run = Callable[[Sequence[int], Sequence[Any]], None]


def sequence(calls: Sequence[SequencedCall]) -> SequenceStart | None:
    """Start these calls in their order; None if that is no faster than one by one."""
    starts = []
    for call in calls:
        bind = getattr(call.launcher, "bind", None)
        start = bind(call.call) if bind else None
        if start is None:
            return None
        starts.append(start)
    runs = _runs(calls, starts)
    if len(runs) == len(calls):
        return None
    if len(runs) == 1:
        only = runs[0]

        def run_one(addresses: Sequence[int], numbers: Sequence[Any], _: int) -> bool:
            only(addresses, numbers)
            return True

        return run_one

    def run(addresses: Sequence[int], numbers: Sequence[Any], _: int) -> bool:
        for one in runs:
            one(addresses, numbers)
        return True

    return run


def _runs(calls: Sequence[SequencedCall], starts: Sequence[Start]) -> list[_Run]:
    """Neighbours that are native together, the others one by one."""
    addresses = 1 + max((k for call in calls for k, _ in call.places), default=0)
    runs: list[_Run] = []
    group: list[tuple[SequencedCall, Native]] = []
    for call, start in zip(calls, starts, strict=True):
        native = native_of(start)
        if native is not None:
            group.append((call, native))
            continue
        if group:
            runs.append(_native_run(group, addresses))
            group = []
        runs.append(_python_run(call, start))
    if group:
        runs.append(_native_run(group, addresses))
    return runs


def _python_run(call: SequencedCall, start: Start) -> _Run:
    places, own = call.places, call.numbers

    def run(addresses: Sequence[int], numbers: Sequence[Any]) -> None:
        start([addresses[k] + more for k, more in places],
              tuple([numbers[n.position] if type(n) is NumberOf else n for n in own]),
              0)

    return run


@cache
def machine_code() -> Entry:
    """The program that starts native calls one after another."""
    return build(_TEXT)


def _native_run(group: Sequence[tuple[SequencedCall, Native]], addresses: int) -> _Run:
    """A run of native launches, by one call of machine code."""
    text = _Template(addresses)
    for call, native in group:
        for part in native.parts:
            text.add(call, part)
    room = max(native.room for _, native in group)
    slots = max(native.slots for _, native in group)
    template, begin, parts = text.pack()
    pack, wanted = text.packer(), [k for k, _ in text.numbers]
    program, take = machine_code(), WORKSPACE.take
    kept = [native for _, native in group]

    def run(given: Sequence[int], numbers: Sequence[Any],
            _: Any = kept) -> None:  # whose machine code is called by its address
        # Of a call that launches nothing, as one of no elements, nobody reads those
        # that come last.
        program(pack(*given[:addresses], *[numbers[k] for k in wanted],
                     *take(room, slots)) + template, begin, parts)

    return run


class _Template:
    """The block of a run: what each call gives, arguments of kernels, fills, parts.

    Attributes
    ----------
    numbers
        Positions of the run's numbers, and how each is written.
    """

    def __init__(self, addresses: int) -> None:
        self.numbers: dict[tuple[int, str], int] = {}
        self._addresses = addresses
        self._words: list[bytes] = []
        self._size = self._counted = 0
        self._fills: list[tuple[int, tuple[str, Any], int]] = []
        self._parts: list[tuple[int, int, int]] = []

    def add(self, call: SequencedCall, part: Part) -> None:
        """Append a part of a launch."""
        words, at = bytearray(part.arguments.words), self._size
        for fill in part.arguments.fills:
            self._fill(call, fill, at + fill.word, words)
        self._parts.append((address_of(part.entry), at, part.units))
        self._words.append(bytes(words))
        self._size += len(words) // 8
        self._counted += part.counts

    def _fill(self, call: SequencedCall, fill: Fill, word: int,
              words: bytearray) -> None:
        """Note a word that each call fills; a number that is known is written."""
        if fill.kind == "pointer":
            at, more = call.places[fill.which]
            self._fills.append((word, ("address", at), more + fill.add))
        elif fill.kind != "number":
            more = self._counted if fill.kind == "count" else fill.add
            self._fills.append((word, ("memory", fill.kind), more))
        elif isinstance(number := call.numbers[fill.which], NumberOf):
            which = number.position, fill.code
            self.numbers.setdefault(which, len(self.numbers))
            self._fills.append((word, ("number", which), 0))
        else:
            struct.pack_into(f"={fill.code}", words, 8 * fill.word, number)

    def packer(self) -> Callable[..., bytes]:
        """Pack what each call gives: addresses, numbers, memory."""
        codes = "".join(code for _, code in self.numbers)
        return struct.Struct(f"={self._addresses}q{codes}{len(_MEMORY)}q").pack

    def pack(self) -> tuple[bytes, int, int]:
        """The rest of the block, the word at which its fills begin, and its parts."""
        base = self._addresses + len(self.numbers) + len(_MEMORY)
        numbers = self._addresses + len(self.numbers)
        sources: dict[tuple[str, Any], int] = {
            ("memory", kind): numbers + k for k, kind in enumerate(_MEMORY)}
        sources |= {("number", which): self._addresses + k
                    for which, k in self.numbers.items()}
        sources |= {("address", k): k for k in range(self._addresses)}
        words = [len(self._fills)]
        for word, source, more in self._fills:
            words += base + word, sources[source], more
        for entry, at, units in self._parts:
            words += entry, base + at, units
        return (b"".join(self._words) + struct.pack(f"={len(words)}q", *words),
                base + self._size, len(self._parts))
