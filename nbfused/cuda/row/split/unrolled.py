"""Rows of few columns as one map, whose operands are the columns.

A map reads neighbouring rows by whole accesses, many of them on their way together.  A
thread for each row has one access of one element in each column:
benchmarks/notes/rows.md#rows-of-few-columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd

import numpy as np

from ....backend import Call
from ....gpu.operands import ACCESS
from ....gpu.row_layout import read_names
from ....scalar.ir.nodes import Literal, Value
from ....scalar.typing.types import Typed, compute_dtype
from ....scalar.typing.values import INT64
from ....specs import TypedMap, TypedRow
from ....support.records import record
from ...map.columns import share_of
from ..text import RowText
from .joined import Joined
from .launches import Launches, Place
from .steps import COLUMN, SIZE, Step

__all__ = ["OPERANDS", "UnrolledRow", "could_unroll", "takes_rows",
           "unroll"]

#: Operands of a map: its addresses and strides are arguments, its elements registers.
#: An estimate.
OPERANDS = 24


def could_unroll(text: RowText, columns: int) -> bool:
    """Whether rows of so many columns are one map."""
    operands = len(text.elements) + len(text.written)
    return not text.sums and 0 < operands*columns <= OPERANDS


def takes_rows(text: RowText, call: Call) -> bool:
    """Whether a thread of that map reads and writes whole rows by few accesses.

    They lie one after the other in memory, see `map.columns`.
    """
    columns = call.shape[-1]
    if text.loops > 1 or not could_unroll(text, columns):
        return False
    whole = [*text.elements, *text.written]
    beside = [o for o in (*text.inputs.values(), *text.outputs) if o not in whole]
    if any(call.strides[o.at] != (columns, 1) for o in whole) or any(
            call.strides[o.at][0] not in (0, 1) for o in beside):
        return False
    read, written = ([(columns, o.dtype.itemsize) for o in own]
                     for own in (text.elements, text.written))
    share = share_of(read, written,
                     gcd(ACCESS, *(call.pointers[o.at] for o in whole)))
    return share is not None and not any(
        call.strides[o.at][0]
        and call.pointers[o.at] % min(share.access, share.rows*o.dtype.itemsize)
        for o in beside)


class UnrolledRow:
    """Runs a row as a map.

    Parameters
    ----------
    text
        Of the row.
    """

    def __init__(self, text: RowText) -> None:
        self._text = text
        self._launches = Launches(text)
        self._steps: dict[int, Step] = {}

    def __call__(self, call: Call) -> None:
        """Launch on the call's stream."""
        columns, typed = call.shape[-1], self._text.typed
        if columns not in self._steps:
            self._steps[columns] = unroll(typed, columns)
        arrays: dict[str | int, Place] = {}
        for name, place in self._launches.arrays(call).items():
            kind = self._text.kinds[name] if isinstance(name, str) \
                else typed.outs[name].kind
            arrays |= {own: place for own in [name] if kind == "row"}
            if kind in ("element", "column"):
                arrays |= {column_name(name, k): replace(
                    place, address=place.address + k*place.strides[-1]
                    * place.dtype.itemsize) for k in range(columns)}
        numbers = dict(zip(self._text.scalars, call.scalars, strict=True))
        self._launches.launch(self._steps[columns], call, arrays, numbers)


def column_name(name: str | int, column: int) -> str:
    """The name of a column of an input, by its name, or of an output, by its number."""
    return f"{name}_at{column}_" if isinstance(name, str) else f"{name}:{column}"


def unroll(row: TypedRow, columns: int) -> Step:
    """A row of so many columns, one at least, as a map; it has no sums over rows."""
    return _Unrolled(row, columns).step()


@record(frozen=True)
class _Names:
    """Parameters of the map: arrays and numbers, each with the dtype it is read in."""

    arrays: dict[str, np.dtype]
    numbers: dict[str, np.dtype]


class _Unrolled:
    """Writes the map: each stage's elements one after the other, then the outputs."""

    def __init__(self, row: TypedRow, columns: int) -> None:
        self._row, self._columns = row, columns
        self._kinds = dict(zip(row.inputs, row.kinds, strict=True))
        self._names = self._parameters()
        self._joined = Joined(self._names.arrays | self._names.numbers)
        self._joined.values[SIZE] = _number(columns)

    def step(self) -> Step:
        """The launch."""
        for number in range(len(self._row.stages)):
            self._stage(number)
        outputs: list[str | int] = []
        results: list[tuple[Value, np.dtype]] = []
        for number, out in enumerate(self._row.outs):
            dtype = out.function.results[0]
            dtype = compute_dtype(dtype) if out.saved else dtype
            each = out.kind == "element"
            for k in range(self._columns if each else 1):
                (value, _), = self._call(out.function, k)
                results.append((value, dtype))
                outputs.append(column_name(number, k) if each else number)
        names = self._names
        kinds = ("element",)*len(names.arrays) + ("scalar",)*len(names.numbers)
        return Step(f"of{self._columns}", ("rows",), (), TypedMap(
            self._joined.typed("unrolled", results), kinds),
            tuple(names.arrays), tuple(names.numbers), tuple(outputs))

    def _parameters(self) -> _Names:
        functions = [*(f for s in self._row.stages for f in (s.element, s.post)),
                     *(o.function for o in self._row.outs)]
        found = _Names({}, {})
        for name in dict.fromkeys(p for f in functions for p in read_names(f)):
            kind, dtype = self._kinds.get(name), self._row.dtypes.get(name)
            if kind is None or dtype is None:
                continue
            if kind == "scalar":
                found.numbers[name] = compute_dtype(dtype)
            elif kind == "row":
                found.arrays[name] = compute_dtype(dtype)
            else:
                found.arrays.update({column_name(name, k): compute_dtype(dtype)
                                     for k in range(self._columns)})
        return found

    def _stage(self, number: int) -> None:
        stage, joined = self._row.stages[number], self._joined
        state: list[tuple[Value, np.dtype]] = list(
            zip(stage.identity, stage.state, strict=True))
        for k in range(self._columns):
            element = [(joined.cast(v, have, want), want) for (v, have), want in zip(
                self._call(stage.element, k), stage.state, strict=True)]
            merged = self._call(stage.merge, k, [*state, *element])
            state = [(joined.cast(v, have, want), want)
                     for (v, have), want in zip(merged, stage.state, strict=True)]
        values = self._call(stage.post, 0, state)
        joined.values |= dict(zip(stage.names, values, strict=True))

    def _call(self, function: Typed, column: int,
              first: Sequence[tuple[Value, np.dtype]] = (),
              ) -> list[tuple[Value, np.dtype]]:
        """Write a function of a column, whose `first` parameters are given."""
        names = [f"first{k}:" for k in range(len(first))]
        self._joined.values |= dict(zip(names, first, strict=True))
        self._joined.values[COLUMN] = _number(column)
        params = function.function.params
        return self._joined.call(function, {
            p: column_name(p, column) for p in params[len(first):]
            if self._kinds.get(p) in ("element", "column")}
            | dict(zip(params, names, strict=False)))


def _number(value: int) -> tuple[Value, np.dtype]:
    return Literal("int64", str(value)), INT64
