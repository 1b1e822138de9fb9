"""Launches of a Row of few long rows: its phases, one after another."""

from __future__ import annotations

from math import prod

import numpy as np

from ...backend import Call, Signature, Start
from ...specs import TypedRow
from ..runtime.compile import build
from ..runtime.objects import Entry
from ..text.fold import FIRST
from ..text.starts import start_in_steps
from .text import HoldingLongRowText, LongRowText

__all__ = ["LongRows"]

#: Rows at most, and elements of a row at least.
_ROWS, _LEAST = 8, 1 << 16

#: Elements of a chunk at least, and chunks of a row at most.
_CHUNK, _CHUNKS = 1 << 13, 128

#: Bytes that are held at most.
_HELD = 1 << 25


class LongRows:
    """Binds calls of few long rows, and compiles each kernel when first needed."""

    def __init__(self, typed: TypedRow, signature: Signature) -> None:
        self._typed, self._signature = typed, signature
        self._fits = not any(FIRST in s.element.function.params for s in typed.stages)
        self._kernels: dict[type[LongRowText], tuple[Entry, LongRowText]] = {}

    def bind(self, call: Call) -> Start | None:
        """Bind a call; None where its rows are short, or many."""
        rows, columns = prod(call.shape[:-1]), call.shape[-1]
        if not self._fits or not 0 < rows <= _ROWS or columns < _LEAST:
            return None
        entry, text = self._kernel(
            HoldingLongRowText if 4*rows*columns <= _HELD else LongRowText)
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

    def _kernel(self, write: type[LongRowText]) -> tuple[Entry, LongRowText]:
        known = self._kernels.get(write)
        if known is None:
            text = write(self._typed, self._signature)
            known = build("\n".join(text.lines())), text
            self._kernels[write] = known  # two threads may make it: no harm
        return known
