"""Rows of few elements: an iteration of the inner loop is a whole row.

Stages and results of a row are written out, in registers, and the loop runs over the
rows, as of short rows of a Map: `map_short`.  A norm of vectors, a softmax over five
classes, an average of three colours cost little more than their arithmetic then:
benchmarks/notes/cpu.md#short-rows
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..backend import Call, Signature, Start
from ..scalar.printing.numba import cast, literal, statements
from ..scalar.typing.types import Typed, compute_dtype
from ..specs import TypedRow
from ..specs.row import TypedStage
from .map_short import Way, is_vector, rows_nest, start_rows, ways_of
from .runtime.compile import build
from .runtime.objects import Entry
from .text.elements import Computed, Elements, Slot
from .text.fold import FIRST
from .text.function_names import CALLS
from .text.lines import indented, inlined, loop
from .text.operands import INT64, Frame, Operand, Scalar
from .text.reuse import cost_of, is_cheap

__all__ = ["ShortRow"]

#: Elements of a row at most; longer ones, up to 48, would be faster so, too.
_LONGEST = 32

#: Statements of all elements of a row at most, by `cost_of`: a softmax of 14 elements
#: takes 0.8 s to compile.  benchmarks/notes/cpu.md#short-rows
_STATEMENTS = 192


class ShortRow:
    """The kernels of a Row for rows of few elements, compiled when first needed."""

    def __init__(self, typed: TypedRow, signature: Signature) -> None:
        self._typed, self._signature = typed, signature
        self._functions = [*(f for s in typed.stages
                             for f in (s.element, s.merge, s.post)),
                           *(o.function for o in typed.outs)]
        self._statements = sum(map(cost_of, self._functions))
        self._possible = all(map(is_vector, self._functions)) and all(
            o.kind in ("element", "row") for o in typed.outs)
        self._kernels: dict[tuple[int, tuple[Way, ...]], tuple[Entry, Frame]] = {}

    def bind(self, call: Call) -> Start | None:
        """Bind a call; None where its rows are long, or lie in another way."""
        row = call.shape[-1]
        if not self._possible or row * self._statements > _STATEMENTS:
            return None
        results = [("1", row) if o.kind == "element" else ("1", 0)
                   for o in self._typed.outs]
        ways = ways_of(call, _LONGEST, results)
        if ways is None:
            return None
        known = self._kernels.get((row, ways))
        if known is None:
            lines, frame = self._text(row, ways)
            known = build("\n".join(lines)), frame
            self._kernels[row, ways] = known  # two threads may make it: no harm
        return start_rows(*known, call)

    def _text(self, row: int, ways: Sequence[Way]) -> tuple[list[str], Frame]:
        writer = _Writer(self._typed, self._signature, row, ways)
        point, names = writer.point()
        costly = not all(map(is_cheap, self._functions))
        run = loop("point", "j0", "j1", names, masked=costly)
        title = ", ".join(o.function.function.name for o in self._typed.outs)
        return [f"# Row of {row} {title}", *point, "def kernel(a, begin, end):",
                *["    wide_vectors()"] * costly,
                *indented(rows_nest(writer.frame, run))], writer.frame


class _Writer:
    """Writer of the function of a row.

    Attributes
    ----------
    frame
        The layout of the kernel's arguments.
    """

    def __init__(self, typed: TypedRow, signature: Signature, row: int,
                 ways: Sequence[Way]) -> None:
        self._typed, self._row = typed, row
        self._names: dict[str, None] = {}  # that the function takes
        self._table: dict[str, Slot] = {}
        rank = sum(signature.ranks) - 1
        arrays: list[Operand] = []
        scalars: list[Scalar] = []
        each = iter(ways)
        for name, kind, dtype in zip(typed.inputs, typed.kinds, signature.inputs,
                                     strict=True):
            if kind == "scalar":
                have = typed.dtypes.get(name, INT64)  # INT64: nothing reads it
                scalars.append(Scalar(f"c{len(scalars)}", have))
                self._table[name] = scalars[-1]
            else:
                assert isinstance(dtype, np.dtype)
                code, apart = next(each)
                arrays.append(Operand(f"x{len(arrays)}", dtype, code, rank, row=apart))
                self._table[name] = arrays[-1]
        self._outputs = [Operand(f"y{k}", dtype, code, rank, True, row=apart)
                         for k, (dtype, (code, apart))
                         in enumerate(zip(signature.outputs, each, strict=True))]
        self.frame = Frame([*arrays, *self._outputs], rank, scalars)

    def point(self) -> tuple[list[str], list[str]]:
        """Lines of the function of a row, and the names that it takes besides ``j``."""
        body: list[str] = []
        for k, stage in enumerate(self._typed.stages):
            body += self._stage(f"s{k}", stage)
        stores: list[str] = []
        for k, (out, y) in enumerate(zip(self._typed.outs, self._outputs, strict=True)):
            for at in range(self._row if out.kind == "element" else 1):
                result, dtype = f"r{k}_{at}", out.function.results[0]
                body += self._evaluated(at, out.function, [result], f"o{k}_{at}_")
                stores.append(replace(y, at=at).store("j", dtype, result))
        self._names |= dict.fromkeys(name for y in self._outputs for name in y.names)
        names = list(self._names)
        return inlined("point", ["j", *names], [*body, *stores]), names

    def _stage(self, tag: str, stage: TypedStage) -> list[str]:
        """Lines that fold a stage's elements, and finish it."""
        parts = range(len(stage.state))
        values = [f"{tag}_s{i}" for i in parts]
        lines = [f"{v} = {literal(d, i.value)}" for v, d, i
                 in zip(values, stage.state, stage.identity, strict=True)]
        for at in range(self._row):
            results = [f"{tag}_e{at}_{i}" for i in parts]
            lines += self._evaluated(at, stage.element, results, f"{tag}_{at}_")
            lines += _merged(stage, values, results, f"{tag}_m{at}_")
        known = {p: Computed(v, d) for p, v, d in zip(
            stage.post.function.params, values, stage.state, strict=False)}
        made = [f"{tag}_{i}" for i in range(len(stage.names))]
        lines += self._evaluated(0, stage.post, made, f"{tag}_p_", known)
        self._table |= {name: Computed(m, compute_dtype(d), given=True) for name, m, d
                        in zip(stage.names, made, stage.post.results, strict=True)}
        return lines

    def _evaluated(self, at: int, function: Typed, results: Sequence[str], prefix: str,
                   known: Mapping[str, Computed] = {}) -> list[str]:
        """Lines that compute a function of the element `at` of a row."""
        place = Computed(f"i64({at})", INT64, given=True)
        elements = Elements({
            **{name: replace(slot, at=at) if isinstance(slot, Operand) else slot
               for name, slot in self._table.items()}, "index": place, FIRST: place,
            "size": Computed(f"i64({self._row})", INT64, given=True)})
        self._names |= dict.fromkeys(elements.names(function, known=known))
        return elements.evaluate(function, results, prefix, known)


def _merged(stage: TypedStage, values: Sequence[str], others: Sequence[str],
            prefix: str) -> list[str]:
    """Lines that combine a state with an element's values."""
    cast_ = [cast(compute_dtype(have), d, e) for e, have, d in zip(
        others, stage.element.results, stage.state, strict=True)]
    results = [f"{prefix}{i}" for i in range(len(values))]
    lines = statements(stage.merge, dict(zip(
        stage.merge.function.params, (*values, *cast_), strict=True)), results,
        prefix=f"{prefix}v_", calls=CALLS)
    return [*lines, *(f"{v} = {cast(compute_dtype(have), d, r)}" for v, d, have, r
                      in zip(values, stage.state, stage.merge.results, results,
                             strict=True))]
