"""The kernel of a Map with windows: a thread has one column, and some rows of it.

Rows that lie above one another are read by the same block, so that what a stencil reads
of them is in its cache: benchmarks/notes/table.md#stencils.  Where all boxes that hold
most points are there and no others, nothing is asked for the single element.  A
window that wraps is there at all points: its address moves by an extent outside of its
box.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...backend import Call, Signature
from ...gpu.operands import Operand
from ...scalar.printing.numba import literal
from ...scalar.typing.promotion import compute_dtype
from ...specs import TypedMap
from ..text.source import Source, affordable, decoded
from .text import MapText

__all__ = ["WindowText", "columns_for"]

#: Rows of one thread.
_ROWS = 8
#: Columns of one block.
_COLUMNS = (4, 32, 64, 128)
#: Loads of a thread that are on their way at once where each row has its question.
_AHEAD = 32


def columns_for(call: Call) -> int:
    """Columns of a block: all there are, or as many as there are threads."""
    return next((n for n in _COLUMNS if call.shape[-1] <= n), _COLUMNS[-1])


class WindowText(MapText):
    """Writes the kernel of a Map with windows.

    Attributes
    ----------
    each
        Neighbouring columns of one thread.
    apart
        Rows from one of a thread's to its next.

    Parameters
    ----------
    name, typed, signature, threads
        As of `MapText`.
    columns
        Of a block; its other threads have further rows.
    """

    each = 1

    def __init__(self, name: str, typed: TypedMap, signature: Signature, *,
                 threads: int, columns: int) -> None:
        super().__init__(name, typed, signature, vector=False, threads=threads)
        self.columns = min(columns, threads)
        self.apart = self.lanes = threads // self.columns
        self.rows = affordable(typed.function, _ROWS) if self.rank > 1 else 1
        self.name = f"{self.name}_windows"

    def __str__(self) -> str:
        return f"columns={self.columns} rows={self.rows} threads={self.threads}"

    def blocks(self, shape: Sequence[int]) -> int:
        """Number of blocks for so many points."""
        across = self.columns*self.each if self.rank > 1 else self.threads
        columns = -(-shape[-1] // across)
        rows = -(-shape[-2] // (self.rows*self.lanes)) if self.rank > 1 else 1
        return int(prod(shape[:-2]))*rows*columns

    def _body(self, out: Source) -> None:
        self.boxes = range(len(self.typed.inner))
        out.integer(*(f"b{k}_{side}{d}" for k in self.boxes for d in range(self.rank)
                      for side in ("l", "h")))
        last = self.extents[-1]
        if self.rank == 1:
            out(f"j = i64(cuda.blockIdx.x)*{self.threads} + i64(cuda.threadIdx.x)")
            self._fixed(out, [])
            with out.block(f"if j < {last}:"):
                self._row(out, "", "i64(0)")
            return
        rows, lane = self.extents[-2], "i64(cuda.threadIdx.x)"
        width = self.columns*self.each
        out(f"across = divide({last} + {width - 1}, i64({width}))",
            f"down = divide({rows} + {self.rows*self.lanes - 1}, "
            f"i64({self.rows*self.lanes}))",
            # The last rows begin: at their ends each element has its question.
            "tile = i64(cuda.blockIdx.x) - across",
            "tile += i64(cuda.gridDim.x) if tile < 0 else i64(0)",
            "q = divide(tile, across)",
            f"j = ((tile - q*across)*{self.columns} + ({lane} & {self.columns - 1}))*"
            f"{self.each}",
            "outer = divide(q, down)",
            f"i = (q - outer*down)*{self.rows*self.lanes} + "
            f"divide({lane}, i64({self.columns}))"
            + f"*{self.rows}"*(self.apart == 1))
        rest, coordinates = "outer", []
        for d in range(self.rank - 3, 0, -1):
            out(f"o{d} = divide({rest}, {self.extents[d]})",
                f"c{d} = {rest} - o{d}*{self.extents[d]}")
            coordinates.append((d, f"c{d}"))
            rest = f"o{d}"
        if self.rank > 2:
            coordinates.append((0, rest))
        self._columns(out, coordinates)

    def _columns(self, out: Source, coordinates: Sequence[tuple[int, str]]) -> None:
        """All that a thread does, which knows the outer coordinates."""
        self._fixed(out, coordinates)
        with out.block(f"if j < {self.extents[-1]}:"):
            self._rows(out, self.extents[-2])

    def _fixed(self, out: Source, coordinates: Sequence[tuple[int, str]],
               j: str = "j") -> None:
        """Offsets and boxes, as far as all rows of a column have them in common."""
        last = self.rank - 1
        self._offsets(out, coordinates, j)
        for o, k in self.around:
            if o.code != "0":
                each = f"*{o.stride(last)}"*(o.code == "s")
                out(f"at{o.at} += {self._turn(k, last, j)}{each}")
        for k in self.boxes:
            if not self.typed.wraps[k]:
                out(f"there{k} = " + self._between(k, [*coordinates, (last, j)]))

    def _between(self, k: int, coordinates: Sequence[tuple[int, str]]) -> str:
        """Whether coordinates are in a box."""
        return " and ".join(f"b{k}_l{d} <= {c} and {c} < b{k}_h{d}"
                            for d, c in coordinates)

    def _offsets(self, out: Source, coordinates: Sequence[tuple[int, str]],
                 j: str) -> None:
        """Offsets of a column that is inside of the boxes of windows that wrap."""
        last = self.rank - 1
        for o in self.looped:
            terms = [f"{c}*{o.stride(d)}" for d, c in coordinates]
            terms += [j] if o.code == "1" else [f"{j}*{o.stride(last)}"]*(o.code == "s")
            out(f"at{o.at} = {' + '.join(terms) or 'i64(0)'}")
        for o, k in self.around:
            for d, c in coordinates:
                out(f"at{o.at} += {self._turn(k, d, c)}*{o.stride(d)}")

    @property
    def around(self) -> list[tuple[Operand, int]]:
        """The operands whose windows wrap, and the numbers of their boxes."""
        box_of, wraps = self.typed.box_of, self.typed.wraps
        return [(o, box_of[p]) for p, o in self.loaded
                if p in box_of and wraps[box_of[p]]]

    def _turn(self, k: int, d: int, c: str) -> str:
        """By how many points a window that wraps moves at a coordinate."""
        n = self.extents[d]
        return (f"({n} if {c} < b{k}_l{d} else (-{n} if {c} >= b{k}_h{d} "
                "else i64(0)))")

    def _rows(self, out: Source, extent: str) -> None:
        if self.rows > 1 or any(self.typed.wraps):
            end = f"i + {(self.rows - 1)*self.apart}"
            usual = [self._is_usual(k, end) for k in self.boxes]
            with out.block(f"if {' and '.join([f'{end} < {extent}', *usual])}:"):
                self._usual(out)
            with out.block("else:"):
                self._some(out, extent)
        else:
            self._some(out, extent)

    def _is_usual(self, k: int, end: str) -> str:
        """Whether a thread's rows are all in a box, or none is, as most points are."""
        row = self.rank - 2
        if self.typed.wraps[k]:
            return f"b{k}_l{row} <= i and {end} < b{k}_h{row}"
        if self.typed.inner[k]:
            return f"there{k} and b{k}_l{row} <= i and {end} < b{k}_h{row}"
        return f"(not there{k} or {end} < b{k}_l{row} or b{k}_h{row} <= i)"

    def _usual(self, out: Source) -> None:
        """All rows of a thread at once, where nothing has to be asked."""
        elements, row = [], self.rank - 2
        for o in self.looped:
            out(f"row{o.at} = at{o.at} + i*{o.stride(row)}",
                f"next{o.at} = {self.apart}*{o.stride(row)}")
        inside = {p: str(self.typed.inner[k]) for p, k in self.typed.box_of.items()}
        for k in range(self.rows):
            loads = {}
            for p, o in self.loaded:
                if inside.get(p) == "False":
                    continue
                out(f"x{o.at}_{k} = {o.pointer}[row{o.at} + {k}*next{o.at}]")
                loads[p] = decoded(o.dtype, f"x{o.at}_{k}")
            elements.append(loads)
        for k, loads in enumerate(elements):
            gone = {p: self._zero(o) for p, o in self.loaded if p not in loads}
            self._store(out, f"e{k}_", {**loads, **gone, **{
                p: inside[p] for p in self.asked}}, [
                    f"row{o.at} + {k}*next{o.at}" for o in self.results])

    def _some(self, out: Source, extent: str) -> None:
        """A question for each window of each row.

        Row by row, where this is for borders or a row loads much; else, as for arrays
        that are joined, all rows are loaded before one is stored.
        """
        if any(self.typed.inner) or self.rows*len(self.loaded) > _AHEAD:
            out("t = i64(0)")
            with out.block(f"while t < {self.rows} and i < {extent}:"):
                self._row(out, "i*", "i")
                out(f"i += {self.apart}", "t += 1")
            return
        rows = [f"i{k}" for k in range(self.rows)]
        out(*(f"{i} = i + {k*self.apart}" for k, i in enumerate(rows)))
        found = [self._loads(out, f"{i}*", i, f"_{i}", f"{i} < {extent}") for i in rows]
        for i, loads in zip(rows, found, strict=True):
            with out.block(f"if {i} < {extent}:"):
                self._store(out, f"e_{i}_", loads, self._stored_at(f"{i}*"))

    def _row(self, out: Source, place: str, i: str) -> None:
        loads = self._loads(out, place, i)
        self._store(out, "e_", loads, self._stored_at(place))

    def _stored_at(self, place: str) -> list[str]:
        """The places of results in a row, which is named before a stride."""
        row = self.rank - 2
        return [f"at{o.at}" + (f" + {place}{o.stride(row)}" if place else "")
                for o in self.results]

    def _loads(self, out: Source, place: str, i: str, mark: str = "",
               exists: str = "") -> dict[str, str]:
        """Name the values the function is given at a row, by parameter.

        Parameters
        ----------
        place, i
            The row: before a stride, and alone.
        mark
            The end of names.
        exists
            Tells whether there is such a row; nothing if there is.
        """
        row, loads = self.rank - 2, {}
        around = {o.at: k for o, k in self.around}
        for k in self.boxes:
            if self.typed.wraps[k]:
                continue
            own = f" and b{k}_l{row} <= {i} and {i} < b{k}_h{row}" if place else ""
            out(f"in{k}{mark} = there{k}{own}")
        for p, o in self.loaded:
            at, here = f"at{o.at}", place
            if o.at in around:
                here = f"({i} + {self._turn(around[o.at], row, i)})*"
            at += f" + {here}{o.stride(row)}" if place else ""
            loaded = decoded(o.dtype, f"{o.pointer}[{at}]")
            inside = f"in{self.typed.box_of[p]}{mark}" if p in self.typed.box_of \
                and o.at not in around else exists
            if not inside:
                loads[p] = loaded
                continue
            loads[p] = f"w{o.at}{mark}"
            out(f"{loads[p]} = {self._zero(o)}")
            with out.block(f"if {inside}:"):
                out(f"{loads[p]} = {loaded}")
        return {**loads, **{p: f"in{self.typed.box_of[p]}{mark}" for p in self.asked}}

    def _store(self, out: Source, prefix: str, values: dict[str, str],
               places: Sequence[str]) -> None:
        for o, at, text in zip(self.results, places, self._printed(out, values, prefix),
                               strict=True):
            out(f"{o.pointer}[{at}] = {text}")

    @staticmethod
    def _zero(o: Operand) -> str:
        return literal(compute_dtype(o.dtype), 0)
