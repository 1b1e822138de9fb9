"""Maps by rows whose elements read neighbours in rows of raw arrays, as a gather does.

The row is found once, not for each element; its elements are moved by accesses that are
as wide as the memory's alignment allows.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from math import prod
from typing import NamedTuple

from ...backend import Call, Signature
from ...gpu.operands import Operand, are_aligned, kernel_name, width_of
from ...scalar.ir.nodes import EFFECTS, Let, walk
from ...scalar.typing.divisions import Divided
from ...scalar.typing.row_loads import RowLoads, row_loads
from ...specs import TypedMap
from ..text.source import Source, affordable, decoded, evaluate
from .rows import THREADS, RowsText, divided
from .text import MapText

__all__ = ["RowGather", "RowGathersText", "divided_and_loads", "row_gather"]

#: Lanes of a row at most, and bytes of neighbours that they should read: at any price,
#: and if no more idle for it.
LANES, SECTOR, LINE = 128, 16, 128
#: Accesses and bytes of a lane in a row at most; bytes of a lane up to which a group
#: has more rows, and how many: benchmarks/notes/memory.md#gathers-of-rows.
EACH, BYTES, FLIGHT, ROWS = 8, 64, 128, 4


class RowGather(NamedTuple):
    """Shares of the work.

    Attributes
    ----------
    width
        Elements of an access.
    each, sure
        Accesses of a lane in a piece of a row, and how many of them all lanes have.
    lanes
        Threads of a piece.
    rows
        Rows of a group of lanes.
    """

    width: int
    each: int
    sure: int
    lanes: int
    rows: int


def divided_and_loads(text: MapText) -> tuple[Divided | None, RowLoads | None]:
    """A Map's function without divisions of its index, and its loads of rows.

    Where there are no loads, divisions by literals stay.
    """
    without = divided(text.typed, literals=True)
    found = None if without is None else _row_loads_in(text, without)
    return (divided(text.typed, literals=False), None) if found is None else (
        without, found)


def _row_loads_in(text: MapText, without: Divided) -> RowLoads | None:
    """The loads of rows in a function without divisions of its index."""
    statements = walk(without.typed.function.body)
    if any(isinstance(s, Let) and s.op in EFFECTS for s in statements):
        return None
    params = text.typed.function.function.params
    index = {p for p, kind in zip(params, text.typed.kinds, strict=True)
             if kind == "index"}
    return row_loads(without.typed, index, without.multiples,
                     index | {p for p, o in text.loaded if o.code != "0"})


def row_gather(text: MapText, found: RowLoads, call: Call) -> RowGather | None:
    """The shares for a call; None where its arrays do not allow them."""
    raws = [text.raws[load.raw] for load in found.loads]
    if any(call.strides[o.at][-1] != 1 for o in raws) or any(
            o.code != "1" for o in text.results):
        return None
    unit = [*text.unit, *raws]
    width = affordable(found.rest, _width(unit, call))
    item = width*max(o.dtype.itemsize for o in unit)
    most = affordable(found.rest, min(EACH, max(1, BYTES // item))*width) // width
    accesses = call.shape[-1] // width
    lanes = min(LANES, _power(-(-accesses // most)))
    while lanes < min(accesses, LANES) and (lanes*item < SECTOR or (
            lanes*item < LINE  # where no more would idle
            and -(-accesses // (2*lanes))*2 <= -(-accesses // lanes))):
        lanes *= 2
    _, length, longer = pieces_of(accesses, lanes*most)
    each, sure = -(-(length + bool(longer)) // lanes), length // lanes
    rows = 1
    while rows < ROWS and 2*rows*each*item <= FLIGHT and affordable(
            found.rest, 2*rows*each*width) == 2*rows*each*width:
        rows *= 2
    return RowGather(width, each, sure, lanes, rows)


def pieces_of(accesses: int, most: int) -> tuple[int, int, int]:
    """Pieces of a row, accesses of each, at most `most`, and how many have one more."""
    pieces = -(-accesses // most)
    return pieces, *divmod(accesses, pieces)


def _power(number: int) -> int:
    """The least power of two that is not below a number."""
    return 1 << (number - 1).bit_length()


def _width(unit: list[Operand], call: Call) -> int:
    """Elements of an access, as far as the call's addresses and strides allow."""
    width = width_of(unit)
    while width > 1 and not _allows(unit, call, width):
        width //= 2
    return width


def _allows(unit: list[Operand], call: Call, width: int) -> bool:
    return call.shape[-1] % width == 0 and are_aligned(call, unit, width, ()) and \
        not any(stride % width for o in unit for stride in call.strides[o.at][:-1])


class RowGathersText(RowsText):
    """Writes the kernel of a Map with loads of rows.

    Parameters
    ----------
    name, typed, signature, without
        As `RowsText` takes them.
    found
        The loads in `without`.
    shares
        What `row_gather` says of a call.
    """

    def __init__(self, name: str, typed: TypedMap, signature: Signature,
                 without: Divided, found: RowLoads, shares: RowGather) -> None:
        super().__init__(name, typed, signature, without, 1)
        self._found, self._shares, self._divisions = found, shares, without
        self._lanes = shares.lanes
        self.name = kernel_name(name, "map", "gathers", *map(str, shares))

    def _pieces(self, columns: int) -> tuple[int, int, int]:
        s = self._shares
        return pieces_of(columns // s.width, s.lanes*s.each)

    def blocks(self, shape: tuple[int, ...]) -> int:  # type: ignore[override]
        """Number of blocks for so many points."""
        groups = -(-prod(shape[:-1]) // self._shares.rows)*self._pieces(shape[-1])[0]
        return -(-groups*self._lanes // THREADS)

    def values(self, call: Call, more: Iterable[int] = ()) -> tuple[object, ...]:
        """The arguments; before the numbers, how rows are cut up."""
        return MapText.values(self, call, (*more, *self._pieces(call.shape[-1])))

    def _declare_arguments(self, out: Source) -> None:
        out.integer("pieces", "length", "longer")
        MapText._declare_arguments(self, out)

    def _body(self, out: Source) -> None:
        lanes, count = self._lanes, self._shares.rows
        out("thread = i64(cuda.threadIdx.x)", f"lane = thread & {lanes - 1}",
            f"place = i64(cuda.blockIdx.x)*{THREADS // lanes} + (thread >> "
            f"{lanes.bit_length() - 1})",
            "group = place if pieces == 1 else divide(place, pieces)",
            "number = place - group*pieces",
            "piece = number*length + min(number, longer)",
            "end = piece + length + i64(number < longer)",
            f"rows = {'*'.join(self.extents[:-1])}",
            # Rows of a group lie apart: threads side by side have neighbours.
            f"apart = (rows + {count - 1}) >> {count.bit_length() - 1}")
        with out.block("if group < apart:"):
            names = "abcd"[:count]
            for k, row in enumerate(names):
                at = f"group + {k}*apart"
                out(f"row{row} = {f'min({at}, rows - 1)' if k else 'group'}")
                self._starts(out, row)
            loaded = {row: self._same(out, row) for row in names}
            inside, given = zip(*(self._inside(out, row) for row in names), strict=True)
            with out.block(f"if {' and '.join(inside)}:"):
                self._moved(out, {row: {**loaded[row], **known}
                                  for row, known in zip(names, given, strict=True)})
            with out.block("else:"):
                self._apart(out)

    def _same(self, out: Source, row: str) -> dict[str, str]:
        """Load the elements that are the same for a row."""
        same = [(p, o) for p, o in self.loaded if o.code == "0"]
        out(*(f"x{row}{o.at} = {o.pointer}[start{row}{o.at}]" for _, o in same))
        return {p: decoded(o.dtype, f"x{row}{o.at}") for p, o in same}

    def _inside(self, out: Source, row: str) -> tuple[str, dict[str, str]]:
        """Whether a row has one quotient, and whole accesses; parameters' values."""
        out(f"begin{row} = row{row}*{self.extents[-1]}")
        inside, given = self._quotients(out, self._divisions, row)
        if self._shares.width > 1:
            starts = sorted({load.start for load in self._found.loads})
            inside += "".join(f" and (begin{row} - {given[start]}) & "
                              f"{self._shares.width - 1} == 0" for start in starts)
        return inside, given

    def _moved(self, out: Source, values: dict[str, dict[str, str]]) -> None:
        """Loads of all of a lane's accesses, none on a condition; then the rest."""
        width, each, sure, lanes, _ = self._shares
        for row, known in values.items():
            self._origins(out, row, known)
        out(f"column = (piece + lane)*{width}",
            *(f"column{k} = min(piece + lane + {k*lanes}, end - 1)*{width}"
              for k in range(sure, each)))
        columns = [f"(column + {k*lanes*width})" if k < sure else f"column{k}"
                   for k in range(each)]
        loaded = {(row, k): self._loads(out, row, columns[k], f"{row}{k}")
                  for row in values for k in range(each)}
        stored = {(row, k): self._results(out, values[row], found, row, columns[k], k)
                  for (row, k), found in loaded.items()}
        for n, row in enumerate(values):
            with out.block(f"if group + {n}*apart < rows:") if n else nullcontext():
                for k, column in enumerate(columns):
                    with out.block(f"if piece + lane + {k*lanes} < end:"
                                   ) if k >= sure else nullcontext():
                        out(*(f"store{width}({o.pointer}, start{row}{o.at} + {column}, "
                              f"({', '.join(texts)},))" for o, texts in zip(
                                  self.results, stored[row, k], strict=True)))

    def _origins(self, out: Source, row: str, known: dict[str, str]) -> None:
        """Name where each load's row begins, less what its first column is."""
        lines, rows = evaluate(self._found.places, {**self.fixed, **known}, f"g{row}_",
                               self.calls)
        with out.repeated(rows):
            out(*lines)
        of_load = iter(rows)
        for k, load in enumerate(self._found.loads):
            raw = self.raws[load.raw]
            terms = [f"{next(of_load)}*{raw.stride(n)}" for n in range(load.rank)]
            out(f"origin{row}{k} = {' + '.join([*terms, f'begin{row}'])} - "
                f"{known[load.start]}")

    def _loads(self, out: Source, row: str, column: str, name: str,
               ) -> dict[str, list[str]]:
        """Load an access of what varies along rows; the elements by parameter."""
        width, found = self._shares.width, {}
        places = [(p, o, f"start{row}{o.at}") for p, o in self.loaded if o.code != "0"]
        places += [(load.name, self.raws[load.raw], f"origin{row}{k}")
                   for k, load in enumerate(self._found.loads)]
        for n, (param, o, start) in enumerate(places):
            names = [f"x{name}_{n}_{e}" for e in range(width)]
            if o.code == "s":
                step = o.stride(len(self.extents) - 1)
                out(*(f"{x} = {o.pointer}[{start} + ({column} + {e})*{step}]"
                      for e, x in enumerate(names)))
            else:
                out(f"{', '.join(names)}, = load{width}({o.pointer}, {start} + "
                    f"{column})")
            found[param] = names
        return found

    def _results(self, out: Source, known: dict[str, str], loaded: dict[str, list[str]],
                 row: str, column: str, k: int) -> list[list[str]]:
        """Evaluate what is left of the function; the texts stored of each result."""
        copied = self._found.copied
        if copied is not None and self.raws[copied].dtype == self.results[0].dtype:
            return [loaded[self._found.loads[0].name]]
        dtypes = {p: o.dtype for p, o in self.loaded} | {
            load.name: self.raws[load.raw].dtype for load in self._found.loads}
        elements = []
        for e in range(self._shares.width):
            index = f"(begin{row} + {column} + {e})"
            values = {p: decoded(dtypes[p], texts[e]) for p, texts in loaded.items()}
            elements.append(self._printed(
                out, {**known, **values, **dict.fromkeys(self.indices, index)},
                f"e{row}{k}_{e}_", self._found.rest))
        return [list(texts) for texts in zip(*elements, strict=True)]

    def _apart(self, out: Source) -> None:
        """The elements of a group's rows one by one, by the function as it is."""
        out("row = group")
        with out.block("while row < rows:"):
            self._starts(out)
            out(f"begin = row*{self.extents[-1]}")
            self._one_by_one(out, f"piece*{self._shares.width} + lane",
                             f"end*{self._shares.width}")
            out("row += apart")
