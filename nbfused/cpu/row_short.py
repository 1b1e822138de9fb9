"""Generated text of the kernels of `Row` for rows of few elements: see `short_rows`.

Stages and results of a row are written out, in registers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..backend import Signature
from ..scalar.printing.numba import cast, literal
from ..scalar.typing.types import Typed, compute_dtype
from ..specs import TypedRow
from ..specs.row import TypedStage
from .runtime.objects import has_wide_vectors
from .short_rows import ShortRows, Way, is_vector, kernel_of_rows
from .text.elements import Computed, Elements, bind_operands
from .text.fold import FIRST, merged
from .text.operands import INT64, Frame, Operand
from .text.reuse import is_cheap

__all__ = ["short_row", "widest_number"]

#: Elements of a row at most; up to 48 they would be faster so, too.
#: benchmarks/notes/cpu.md#short-rows
_LONGEST = 32

#: And bytes, as they are computed, of rows that take exponentials or have a result for
#: each element, where vectors have 64 bytes: longer ones are faster side by side.
#: benchmarks/notes/cpu.md#short-rows
_WIDE_BYTES = 32, 60


def short_row(typed: TypedRow, signature: Signature) -> ShortRows | None:
    """The kernels of a Row for rows of few elements; None of one that has none."""
    functions = [*(f for s in typed.stages for f in (s.element, s.merge, s.post)),
                 *(o.function for o in typed.outs)]
    kinds = [o.kind for o in typed.outs]
    if not (all(map(is_vector, functions)) and set(kinds) <= {"element", "row"}):
        return None

    def write(row: int, ways: Sequence[Way]) -> tuple[list[str], Frame]:
        writer = _Writer(typed, signature, row, ways)
        title = ", ".join(o.function.function.name for o in typed.outs)
        lines, names = writer.lines()
        return kernel_of_rows(f"Row of {row} {title}", functions, lines, names,
                              writer.frame), writer.frame

    whole = [kind == "element" for kind in kinds]
    return ShortRows(functions, _longest(typed), whole, write)


def _longest(typed: TypedRow) -> int:
    """Elements at most of a row whose elements are written out."""
    functions = [s.element for s in typed.stages]
    if not has_wide_vectors() or (all(map(is_cheap, functions)) and not any(
            o.kind == "element" for o in typed.outs)):
        return _LONGEST
    itemsize = widest_number(typed)
    return _WIDE_BYTES[itemsize > 4] // itemsize


def widest_number(typed: TypedRow) -> int:
    """Bytes of the widest number that is computed of each element, 4 at least."""
    inputs = (typed.dtypes[name] for name, kind in zip(
        typed.inputs, typed.kinds, strict=True) if kind in ("element", "column"))
    states = (d for stage in typed.stages for d in stage.state)
    outs = (o.accumulator for o in typed.outs if o.kind != "row")
    return max([4, *(d.itemsize for d in (*inputs, *states, *outs))])


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
        self._names: dict[str, None] = {}  # that the lines need
        each, rank = iter(ways), sum(signature.ranks) - 1

        def operand(name: str, dtype: np.dtype, output: bool) -> Operand:
            code, apart = next(each)
            return Operand(name, dtype, code, rank, output, row=apart)

        arrays, self._outputs, scalars, self._table = bind_operands(
            typed, signature, operand)
        self.frame = Frame([*arrays, *self._outputs], rank, scalars)

    def lines(self) -> tuple[list[str], list[str]]:
        """Lines that compute the row ``j``, and the names that they need besides."""
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
        return [*body, *stores], list(self._names)

    def _stage(self, tag: str, stage: TypedStage) -> list[str]:
        """Lines that fold a stage's elements, and finish it."""
        parts = range(len(stage.state))
        values = [f"{tag}_s{i}" for i in parts]
        lines = [f"{v} = {literal(d, i.value)}" for v, d, i
                 in zip(values, stage.state, stage.identity, strict=True)]
        for at in range(self._row):
            results = [f"{tag}_e{at}_{i}" for i in parts]
            lines += self._evaluated(at, stage.element, results, f"{tag}_{at}_")
            others = [cast(compute_dtype(have), d, e) for e, have, d in zip(
                results, stage.element.results, stage.state, strict=True)]
            lines += merged(stage.merge, stage.state, values, others, f"{tag}_m{at}_")
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
