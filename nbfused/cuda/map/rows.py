"""Maps that divide their index, as a gather of rows does: by lanes for each row.

Where no multiple of a divisor lies inside of a row, the row has one quotient, and one
multiple that remainders begin at: `MapText` would divide for each element anew, some
thirty instructions each time.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ...backend import Call, Signature
from ...gpu.operands import kernel_name
from ...scalar.ir.nodes import Let, Statement
from ...scalar.typing.divisions import Divided, divide_outside, divides_whole
from ...specs import TypedMap
from ..text.source import Source, decoded, encoded, evaluate, offsets
from .text import MapText

__all__ = ["RowsText", "divided"]

#: Threads of a block, lanes of a row at most, and elements of a lane of a longer row:
#: estimates, benchmarks/notes/memory.md#rows-that-are-gathered.
THREADS, LANES, EACH = 256, 128, 8


def divided(typed: TypedMap) -> Divided | None:
    """The function without divisions of its index by numbers of a call."""
    function = typed.function
    kinds = dict(zip(function.function.params, typed.kinds, strict=True))

    def divisor(s: Statement) -> str | None:
        if not divides_whole(s, function):
            return None
        assert isinstance(s, Let)
        index, by = (a if isinstance(a, str) else "" for a in s.args)
        whole = kinds.get(index) == "index" and kinds.get(by) == "scalar"
        return by if whole else None

    return divide_outside(function, divisor)


class RowsText(MapText):
    """Writes the kernel of a Map by rows.

    Parameters
    ----------
    name, typed, signature
        As `MapText` takes them.
    without
        The function without its divisions.
    lanes, each
        Threads for a row, and elements of each.
    """

    resident = 5  # with no wish, ptxas spills to stay at 32 registers

    def __init__(self, name: str, typed: TypedMap, signature: Signature,
                 without: Divided, lanes: int, each: int) -> None:
        super().__init__(name, typed, signature, vector=False, threads=THREADS)
        self._without, self._lanes, self._each = without, lanes, each
        self.name = kernel_name(name, "map", "rows", str(lanes), str(each))

    def pieces(self, columns: int) -> int:
        """Pieces of a row, each for a group of lanes."""
        return -(-columns // (self._lanes*self._each))

    def blocks(self, shape: tuple[int, ...]) -> int:  # type: ignore[override]
        """Number of blocks for so many points."""
        groups = prod(shape[:-1])*self.pieces(shape[-1])
        return -(-groups*self._lanes // THREADS)

    def values(self, call: Call) -> tuple[object, ...]:
        """The arguments; before the numbers, the pieces of a row."""
        found, numbers = super().values(call), len(call.scalars)
        return (*found[:len(found) - numbers], self.pieces(call.shape[-1]),
                *call.scalars)

    def _declare_arguments(self, out: Source) -> None:
        out.integer("pieces")
        super()._declare_arguments(out)

    def _body(self, out: Source) -> None:
        lanes, last = self._lanes, self.extents[-1]
        out("thread = i64(cuda.threadIdx.x)",
            f"place = i64(cuda.blockIdx.x)*{THREADS // lanes} + (thread >> "
            f"{lanes.bit_length() - 1})",
            "row = place if pieces == 1 else divide(place, pieces)",
            f"first = (place - row*pieces)*{lanes*self._each} + (thread & {lanes - 1})")
        rows = "*".join(self.extents[:-1])
        with out.block(f"if row < {rows}:"):
            self._starts(out)
            out(f"most = {last} - 1")
            self._quotients(out)
            with out.block(f"if {' and '.join(self._inside)}:"):
                self._columns(out)
            with out.block("else:"):
                self._one_by_one(out)

    def _starts(self, out: Source) -> None:
        """Where the row begins in each operand."""
        every = [replace(o, code="s") for o in self.looped]
        found = offsets(out, "row", self.extents[:-1], every, 0, "r")
        out(*(f"start{k} = {text}" for k, text in found.items()))

    def _quotients(self, out: Source) -> None:
        """What the row has one of, if it has: ``inside``."""
        without, last = self._without, self.extents[-1]
        place = {d: k for k, d in enumerate(without.divisors)}
        out(f"begin = row*{last}")
        for name, k in place.items():
            by = self.fixed[name]
            out(f"by{k} = max({by}, i64(1))", f"quotient{k} = divide(begin, by{k})",
                f"multiple{k} = quotient{k}*by{k}")
        self._inside = [f"begin + {last} <= multiple{k} + by{k} and by{k} == "
                        f"{self.fixed[name]}" for name, k in place.items()]
        self._given = {p: f"quotient{place[d]}" for p, d in without.quotients.items()}
        self._given |= {p: f"multiple{place[d]}" for p, d in without.multiples.items()}

    def _one_by_one(self, out: Source) -> None:
        """The lane's elements by the function as it is."""
        out("j = first", f"stop = min(first + {self._lanes*self._each}, most + 1)")
        with out.block("while j < stop:"):
            loads = {param: f"{o.pointer}[{self._place(o.at, 'j')}]"
                     for param, o in self.loaded}
            stored, = self._evaluate(out, [(loads, "(begin + j)")], "t")
            out(*(f"{o.pointer}[{self._place(o.at, 'j')}] = {text}"
                  for o, text in zip(self.results, stored, strict=True)))
            out(f"j += {self._lanes}")

    def _columns(self, out: Source) -> None:
        """Loads of all of a lane's elements, none on a condition; then the rest."""
        scatters, found = "scatter" in self.typed.kinds, []
        for k in range(self._each):
            out(f"j{k} = first + {k*self._lanes}", f"c{k} = min(j{k}, most)")
            loads = {}
            for param, o in self.loaded:
                out(f"x{o.at}_{k} = {o.pointer}[{self._place(o.at, f'c{k}')}]")
                loads[param] = f"x{o.at}_{k}"
            found.append(loads)
        values = [[] if scatters else self._point(out, loads, k)
                  for k, loads in enumerate(found)]
        for k, loads in enumerate(found):
            with out.block(f"if j{k} <= most:"):
                stored = self._point(out, loads, k) if scatters else values[k]
                out(*(f"{o.pointer}[{self._place(o.at, f'c{k}')}] = {text}"
                      for o, text in zip(self.results, stored, strict=True)), "pass")

    def _place(self, at: int, column: str) -> str:
        """The offset of an operand's element."""
        o, last = self.operands[at], len(self.extents) - 1
        step = {"0": "0", "1": column}.get(o.code, f"{column}*{o.stride(last)}")
        return f"start{at} + {step}"

    def _point(self, out: Source, loads: dict[str, str], k: int) -> list[str]:
        """Evaluate the function at a column; the texts of what is stored."""
        dtypes = {p: o.dtype for p, o in self.loaded}
        values = {p: decoded(dtypes[p], text) for p, text in loads.items()}
        index = f"(begin + c{k})"
        arguments = {**self.fixed, **values, **self._given,
                     **dict.fromkeys(self.indices, index)}
        lines, names = evaluate(self._without.typed, arguments, f"e{k}_", self.calls)
        out(*lines)
        return [encoded(d, o.dtype, n) for d, o, n in zip(
            self.typed.function.results, self.results, names, strict=True)]
