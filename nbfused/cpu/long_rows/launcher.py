"""Launches of a Row of few long rows: its phases, one after another."""

from __future__ import annotations

from math import prod

from ...backend import Call, Signature, Start
from ...specs import TypedRow
from ...support.forks import cached_property
from ..runtime.compile import build
from ..runtime.objects import Entry
from ..text.fold import FIRST
from ..text.starts import start_in_steps
from .text import HoldingLongRowText, LongRowText

__all__ = ["LongRows"]

#: Rows at most, and elements of a row at least: more rows are shared as they are.
#: benchmarks/notes/cpu.md#long-rows
_ROWS, _LEAST = 7, 1 << 15

#: Elements of a chunk at least, 4 to 32 k are alike, and chunks of a row at most.
_CHUNK, _CHUNKS = 1 << 13, 128

#: Bytes that are held at most: benchmarks/notes/cpu.md#long-rows.
_HELD = 3 << 23


class LongRows:
    """Binds calls of few long rows, and compiles each kernel when first needed."""

    def __init__(self, typed: TypedRow, signature: Signature) -> None:
        self._typed, self._signature = typed, signature
        self._fits = not any(FIRST in s.element.function.params for s in typed.stages)
        self._kernels: dict[bool, tuple[Entry, LongRowText]] = {}

    def bind(self, call: Call) -> Start | None:
        """Bind a call; None where its rows are short, or many."""
        rows, columns = prod(call.shape[:-1]), call.shape[-1]
        if not self._fits or not 0 < rows <= _ROWS or columns < _LEAST:
            return None
        held = sum(room.dtype.itemsize for room in self._holding.rooms_apart
                   if room.per == "element")
        entry, text = self._kernel(held*rows*columns <= _HELD)
        chunk = max(_CHUNK, -(-columns // (_CHUNKS*64))*64)
        chunks = -(-columns // chunk)
        counts = {"chunk": rows*chunks, "column": columns, "element": rows*columns}
        units = [rows*chunks]*text.schedule.last + [
            chunks if text.partial else rows*chunks]
        weights = [chunk]*text.schedule.last + [rows*columns // units[-1]]
        if any(kind == "scalar" for kind, _ in text.sums):
            units.append(1)
            weights.append(chunks)
        return start_in_steps(
            [(counts[room.per], room.dtype) for room in text.rooms_apart],
            [(entry, text.frame, call, (phase, chunk, chunks), count, weight)
             for phase, (count, weight) in enumerate(zip(units, weights, strict=True))])

    @cached_property
    def _holding(self) -> LongRowText:
        """The writer of the kernel that holds values."""
        return HoldingLongRowText(self._typed, self._signature)

    def _kernel(self, holds: bool) -> tuple[Entry, LongRowText]:
        known = self._kernels.get(holds)
        if known is None:
            text = self._holding if holds else LongRowText(
                self._typed, self._signature)
            known = build("\n".join(text.lines())), text
            self._kernels[holds] = known  # two threads may make it: no harm
        return known
