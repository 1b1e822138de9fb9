"""Names in scope in a kernel of Row: values, and where the row begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...gpu.operands import Operand, kernel_name
from ...gpu.row_layout import read_names
from ...scalar.printing.numba import cast
from ...scalar.typing.types import Typed
from ...scalar.typing.values import INT64
from ...specs import TypedRow
from ...support.dtypes import storage
from ..text.source import ROUGH, Source, calls_for, decoded, offsets
from ..text.states import storage_name
from .index import CALLS as COLUMN_CALLS
from .index import compared_short
from .plan import RowPlan
from .text import RowText

__all__ = ["RowScope"]


class RowScope:
    """The text of a kernel under construction, and what it has named so far.

    Parameters
    ----------
    text, plan
        What the kernel is for.

    Attributes
    ----------
    out
        The text.
    values
        Texts of what a row has one of, by name.
    base
        Texts of where the row begins in each operand, by number.
    """

    def __init__(self, text: RowText, plan: RowPlan) -> None:
        self.text, self.plan, self.typed = text, plan, _typed(text, plan)
        self.out = Source(kernel_name(text.name, "row"))
        self.extents = [f"n{k}" for k in range(text.loops)]
        self.values: dict[str, str] = {"size": "columns"}
        self.base: dict[int, str] = {}
        calls = calls_for(o for o, t in zip(text.outputs, text.typed.outs, strict=True)
                          if not t.saved)
        self.calls = {**calls, **COLUMN_CALLS, ("div", "float32"): "divide_nearly"
                      if calls is ROUGH else "divide_near"}
        #: The inputs that a row has one of.
        self.row_inputs = {n: o for n, o in text.inputs.items()
                           if text.kinds[n] == "row"}
        self._declare()

    def _declare(self) -> None:
        out, text = self.out, self.text
        for o in text.operands:
            out.pointer(o.pointer, storage(o.dtype))
        for k, dtype in text.accumulators.items():  # a pointer to partial sums
            out.pointer(f"w{k}", dtype.name)
        out.integer(*self.extents, "columns", *(
            o.stride(k) for o in text.operands for k in range(text.loops + 1)))
        for k, name in enumerate(text.scalars):
            dtype = self.typed.dtypes.get(name, INT64)
            self.values[name] = out.scalar(f"a{k}", dtype)

    def places(self, row: str, prefix: str) -> dict[int, str]:
        """Offsets of a row in each operand that has several."""
        if self.text.later:
            row = f"(rows - 1 - {row})"
        moving = [replace(o, code="s") for o in self.text.operands
                  if o not in self._still()]
        return offsets(self.out, row, self.extents, moving, 0, prefix)

    def place(self, row: str) -> None:
        """Name where a row begins in each operand."""
        at = self.places(row, "r")
        self.out(*(f"base{k} = {place}" for k, place in at.items()))
        self.base = {o.at: f"base{o.at}" if o.at in at else "i64(0)"
                     for o in self.text.operands}

    def start_values(self) -> None:
        """Names of a later row's values, before the first row."""
        self.out(*(f"ahead_{n} = {storage_name(o.dtype)}(0)"
                   for n, o in self.row_inputs.items()))

    def copy_values(self, into: str, source: str) -> None:
        """The values that a row has one of, from names that begin so to others."""
        self.out(*(f"{into}_{n} = {source}_{n}" for n in self.row_inputs))

    def fetch_values(self, at: Mapping[int, str]) -> None:
        """Load a later row's values, of which nobody should wait for memory."""
        self.out(*(f"ahead_{n} = {o.pointer}[{at[o.at]}]"
                   for n, o in self.row_inputs.items()))

    def take_values(self, where: str = "") -> None:
        """The values that a row has one of, from memory or names that begin so."""
        for name, o in self.row_inputs.items():
            element = f"{where}_{name}" if where else f"{o.pointer}[{self.base[o.at]}]"
            self.out(f"in_{name} = {decoded(o.dtype, element)}")
            self.values[name] = f"in_{name}"

    def _still(self) -> list[Operand]:
        """Operands that are the same for every row."""
        text = self.text
        return [*(o for n, o in text.inputs.items() if text.kinds[n] == "column"),
                *(text.outputs[k] for k in text.sums)]

    def arguments(self, typed: Typed, extra: Mapping[str, str]) -> dict[str, object]:
        """Texts of a function's parameters, in the dtypes that it wants."""
        known = {**self.values, **extra}
        found: dict[str, object] = {}
        for p in read_names(typed):
            have = INT64 if p in ("index", "size") else self.typed.dtypes.get(p, INT64)
            found[p] = cast(have, typed.dtypes.get(p, have), known[p])
        return found


def _typed(text: RowText, plan: RowPlan) -> TypedRow:
    """The functions; with short column numbers where few columns are kept."""
    if not plan.kept:
        return text.typed
    return replace(
        text.typed,
        stages=tuple(replace(s, element=compared_short(s.element))
                     for s in text.typed.stages),
        outs=tuple(replace(o, function=compared_short(o.function))
                   for o in text.typed.outs))
