"""Rows that are too long to keep: several accesses on their way together."""

from __future__ import annotations

from collections.abc import Sequence

from ...gpu.operands import Operand
from ...scalar.typing.types import Typed
from .elements import Body, Elements

__all__ = ["AHEAD", "LONG", "STREAMING", "Streamed", "lanes_of_few", "lanes_once"]

#: Accesses of a lane that are on their way together.
AHEAD = 4
#: Accesses of a lane of a row that is read once; with fewer, blocks that begin and end
#: leave the memory idle.  Measured, as is `LONG`:
#: benchmarks/notes/rows.md#rows-read-once.
EACH = 15
#: The same where rows are few, and threads of a multiprocessor up to which they are: a
#: row's loads are on their way together, see benchmarks/notes/rows.md#few-rows.
EACH_OF_FEW, FEW = AHEAD, 1024
#: Lanes at least: there are fewer elements outside of the aligned accesses.
LEAST_LANES = 16
#: With so many lanes that is faster than to keep the row in registers.
LONG = 128
#: Threads of a multiprocessor where there is little else to keep: three blocks of 512,
#: benchmarks/notes/rows.md#rows-read-once.
STREAMING = 1536


def lanes_once(accesses: int, most: int) -> int:
    """Threads for a row of so many accesses that is read once."""
    lanes = LEAST_LANES
    while lanes < most and 2*lanes*EACH <= accesses:
        lanes *= 2
    return lanes


def lanes_of_few(lanes: int, accesses: int, most: int, rows: float) -> int:
    """More threads for a row, where a multiprocessor has so few rows."""
    while lanes < most and 2*lanes*rows <= FEW and 2*lanes*EACH_OF_FEW <= accesses:
        lanes *= 2
    return lanes


class Streamed(Elements):
    """Each pass reads the elements from memory.

    Where rows begin anywhere, the few elements before the first aligned access and
    after the last one are taken one by one.
    """

    def each(self, functions: Sequence[Typed], body: Body) -> None:
        """Call `body` for every few elements of this lane."""
        out, names = self.out, self.names(functions)
        self._loaded = [o for n, o in self.text.inputs.items()
                        if n in names and o in self.text.kept]
        step, width, first, stop = self.plan.lanes*self.width, self.width, "0", "end"
        if self.plan.ragged:
            first, stop = "head", "tail"
            self._ends(names, body)
        columns = [f"(j + {k*step})" if k else "j" for k in range(self.plan.ahead)]
        out(f"j = {first} + lane*{width}")
        with out.block(f"while j < {stop}:"):
            for k, column in enumerate(columns):
                out(*(f"{', '.join(self._parts(o, k))}, = load_if{width}({o.pointer}, "
                      f"{self.scope.base[o.at]} + {column}, {column} < {stop})"
                      for o in self._loaded))
            for k, column in enumerate(columns):
                self._access = k
                with out.block(f"if {column} < {stop}:" if k else "if True:"):
                    loads = self._vectors(names, column)
                    body(0, [column, *(f"({column} + {e})" for e in range(1, width))],
                         loads)
            out(f"j += {self.plan.ahead*step}")

    def _ends(self, names: Sequence[str], body: Body) -> None:
        """The elements outside of the aligned accesses, which are few."""
        (o,), out = self.text.unit, self.out
        out(f"head = until_aligned{self.width}({o.pointer}, {self.scope.base[o.at]})",
            "head = min(head, end)", f"tail = head + ((end - head) & -{self.width})")
        with out.block("if lane < head + end - tail:"):
            out("j = lane if lane < head else lane + tail - head")
            body(0, ["j"], self.at(names, ["j"]))

    def _vector(self, o: Operand, column: str) -> list[str]:
        return self._parts(o, self._access) if o in self._loaded else \
            super()._vector(o, column)

    def _parts(self, o: Operand, access: int) -> list[str]:
        return [f"x{o.at}_{access}_{e}" for e in range(self.width)]
