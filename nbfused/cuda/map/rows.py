"""Maps by lanes for each row: those that divide their index, or are not aligned.

`MapText` finds each element's place by divisions, some thirty instructions each.  A row
has one place in every operand; and where no multiple of a divisor lies inside of it, as
in a gather of rows, one quotient, and one multiple that remainders begin at.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod

from ...backend import Call, Signature
from ...gpu.operands import kernel_name
from ...scalar.ir.nodes import Let, Literal, Statement
from ...scalar.typing.divisions import Divided, divide_outside, divides_whole
from ...scalar.typing.types import Typed
from ...specs import TypedMap
from ..text.source import Source, decoded, offsets
from .text import MapText

__all__ = ["LONG", "RowsText", "divided", "shared_by"]

#: Threads of a block, lanes of a row at most, and elements of a lane; of rows that have
#: no more there are fewer: benchmarks/notes/memory.md#maps-by-rows.
THREADS, LANES, EACH = 256, 128, 8
#: Elements of a row from which lanes side by side read whole lines.
LONG = 32


def divided(typed: TypedMap, literals: bool) -> Divided | None:
    """The function without divisions of its index by numbers of a call.

    And by literals, if asked for: these are products, cheap for each element too.
    """
    function = typed.function
    kinds = dict(zip(function.function.params, typed.kinds, strict=True))

    def divisor(s: Statement) -> str | None:
        if not divides_whole(s, function):
            return None
        assert isinstance(s, Let)
        index, by = s.args
        if not isinstance(index, str) or kinds.get(index) != "index":
            return None
        if isinstance(by, Literal):
            return by.text if literals and by.kind == "int64" else None
        return by if kinds.get(by) == "scalar" else None

    return divide_outside(function, divisor)


def shared_by(columns: int) -> tuple[int, int]:
    """Elements of a lane, and lanes for a row of so many columns."""
    each = EACH if columns > EACH else EACH // 2
    return each, min(LANES, 1 << (-(-columns // each) - 1).bit_length())


class RowsText(MapText):
    """Writes the kernel of a Map by rows.

    Parameters
    ----------
    name, typed, signature
        As `MapText` takes them.
    without
        The function without its divisions, if it has some.
    columns
        Elements of a row.
    """

    resident = 4  # with no wish, ptxas spills to stay at 32 registers

    def __init__(self, name: str, typed: TypedMap, signature: Signature,
                 without: Divided | None, columns: int) -> None:
        super().__init__(name, typed, signature, vector=False, threads=THREADS)
        self._without = without
        self._each, self._lanes = share = shared_by(columns)
        self.name = kernel_name(name, "map", "rows", *map(str, share))

    def pieces(self, columns: int) -> int:
        """Pieces of a row, each for a group of lanes."""
        return -(-columns // (self._lanes*self._each))

    def blocks(self, shape: tuple[int, ...]) -> int:  # type: ignore[override]
        """Number of blocks for so many points."""
        groups = prod(shape[:-1])*self.pieces(shape[-1])
        return -(-groups*self._lanes // THREADS)

    def values(self, call: Call, more: Iterable[int] = ()) -> tuple[object, ...]:
        """The arguments; before the numbers, the pieces of a row."""
        return super().values(call, (*more, self.pieces(call.shape[-1])))

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
            self._given: dict[str, str] = {}
            if self._without is None:
                self._columns(out, self.typed.function)
                return
            out(f"begin = row*{last}")
            inside, self._given = self._quotients(out, self._without)
            with out.block(f"if {inside}:"):
                self._columns(out, self._without.typed)
            with out.block("else:"):
                self._one_by_one(
                    out, "first", f"min(first + {self._lanes*self._each}, most + 1)")

    def _starts(self, out: Source, of: str = "") -> None:
        """Name the beginning of the row, `of` a number, in each operand."""
        every = [replace(o, code="s") for o in self.looped]
        found = offsets(out, f"row{of}", self.extents[:-1], every, 0, f"r{of}")
        out(*(f"start{of}{k} = {text}" for k, text in found.items()))

    def _quotients(self, out: Source, without: Divided, of: str = "",
                   ) -> tuple[str, dict[str, str]]:
        """Name quotients and multiples of the row that begins at ``begin``.

        Returns when they are right, and the values of the function's parameters.
        """
        last = self.extents[-1]
        place = {d: f"{of}{k}" for k, d in enumerate(without.divisors)}
        given_by = {d: self.fixed.get(d, f"i64({d})") for d in place}
        for name, k in place.items():
            out(f"by{k} = max({given_by[name]}, i64(1))", f"quotient{k} = row{of}")
            with out.block(f"if by{k} != {last}:"):
                out(f"quotient{k} = i64(0)")
                with out.block(f"if begin{of} >= by{k}:"):
                    out(f"quotient{k} = divide(begin{of}, by{k})")
            out(f"multiple{k} = quotient{k}*by{k}")
        inside = " and ".join(
            f"begin{of} + {last} <= multiple{k} + by{k} and by{k} == "
            f"{given_by[name]}" for name, k in place.items())
        given = {p: f"quotient{place[d]}" for p, d in without.quotients.items()}
        given |= {p: f"multiple{place[d]}" for p, d in without.multiples.items()}
        return inside, given

    def _one_by_one(self, out: Source, first: str, stop: str) -> None:
        """The lane's elements of ``row`` by the function as it is."""
        out(f"j = {first}", f"stop = {stop}")
        with out.block("while j < stop:"):
            loads = {param: f"{o.pointer}[{self._place(o.at, 'j')}]"
                     for param, o in self.loaded}
            stored, = self._evaluate(out, [(loads, "(begin + j)")], "t")
            out(*(f"{o.pointer}[{self._place(o.at, 'j')}] = {text}"
                  for o, text in zip(self.results, stored, strict=True)))
            out(f"j += {self._lanes}")

    def _columns(self, out: Source, function: Typed) -> None:
        """Loads of all of a lane's elements, none on a condition; then the rest."""
        scatters, found = "scatter" in self.typed.kinds, []
        for k in range(self._each):
            out(f"j{k} = first + {k*self._lanes}", f"c{k} = min(j{k}, most)")
            loads = {}
            for param, o in self.loaded:
                out(f"x{o.at}_{k} = {o.pointer}[{self._place(o.at, f'c{k}')}]")
                loads[param] = f"x{o.at}_{k}"
            found.append(loads)
        values = [[] if scatters else self._point(out, function, loads, k)
                  for k, loads in enumerate(found)]
        for k, loads in enumerate(found):
            with out.block(f"if j{k} <= most:"):
                stored = self._point(out, function, loads, k) if scatters else values[k]
                out(*(f"{o.pointer}[{self._place(o.at, f'c{k}')}] = {text}"
                      for o, text in zip(self.results, stored, strict=True)), "pass")

    def _place(self, at: int, column: str) -> str:
        """The offset of an operand's element."""
        o, last = self.operands[at], len(self.extents) - 1
        step = {"0": "0", "1": column}.get(o.code, f"{column}*{o.stride(last)}")
        return f"start{at} + {step}"

    def _point(self, out: Source, function: Typed, loads: dict[str, str],
               k: int) -> list[str]:
        """Evaluate the function at a column; the texts of what is stored."""
        dtypes = {p: o.dtype for p, o in self.loaded}
        values = {p: decoded(dtypes[p], text) for p, text in loads.items()}
        index = f"(row*{self.extents[-1]} + c{k})"
        return self._printed(out, {**values, **self._given, **dict.fromkeys(
            self.indices, index)}, f"e{k}_", function)
