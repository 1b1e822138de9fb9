"""Generated text of the kernel of `Row` that runs across rows.

A lane is a row: the inner loops run over neighbouring rows, the outer ones over the
columns.  So rows along any axis are read as they lie in memory, without a transposed
copy, and short rows cost nothing beside their elements.  Short rows that do not lie
across are *staged*: transposed to local memory first, and results of theirs in the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

from ..backend import Signature
from ..scalar.printing.numba import cast, literal
from ..scalar.typing.types import compute_dtype
from ..specs import TypedRow
from ..specs.row import TypedOut, TypedStage
from ..support.dtypes import short
from .contract.tile import SQUARED, square_lanes
from .row_text import RowText
from .text.elements import Computed
from .text.fold import FIRST, Fold, sum_text
from .text.lines import indented, inlined, local, loop, unravel
from .text.operands import INT64, Operand, offset
from .text.reuse import vector_bytes

__all__ = ["BLOCK", "LANES", "NARROW", "RowAcross"]

#: Rows that are computed together at most: states for as many are on the stack.
BLOCK = 512

#: Rows that are computed together where they are staged, or there are sums over rows:
#: there is local memory for so many of each column.
LANES = 64

#: Columns at most of what is staged, or summed over rows.
NARROW = 48

#: Columns that a square of vectors may have beyond `NARROW`.
_BEYOND = 16

#: The code of an array that is staged.
STAGED = "t"


class RowAcross(RowText):
    """Writer of the kernel of one Row that runs across rows.

    The launcher adds to the arguments of `RowText` how many rows are computed together,
    how many columns go to the first level of a fold, and whether blocks of the same
    rows come after one another for all other loops, which share their cache lines.
    """

    rooms: ClassVar[tuple[str, ...]] = ("1", "s")
    launched: ClassVar[tuple[str, ...]] = ("step", "chunks", "finish", "block", "group",
                                           "turned")
    inner: ClassVar[int] = -2
    index: ClassVar[str] = "c"

    def __init__(self, typed: TypedRow, signature: Signature,
                 inner_codes: Sequence[str]) -> None:
        super().__init__(typed, signature, inner_codes)
        self.elements.table[FIRST] = Computed(self.index, INT64)
        self.staged = [o for o in (*self.inputs, *self.outputs) if o.code == STAGED]
        self.inputs = [_near(o) for o in self.inputs]
        self.outputs = [_near(o) for o in self.outputs]
        for name, slot in self.elements.table.items():
            if isinstance(slot, Operand):
                self.elements.table[name] = _near(slot)
        for k, code in enumerate(signature.inner[len(self.inputs):]):
            if k in self.partial:  # it is stored along the columns in the end
                self.outputs[k] = replace(self.outputs[k], code=code, inner=-1)

    def body(self, narrow: Sequence[str]) -> list[str]:
        """The lines of the kernel."""
        functions: list[str] = []
        lines: list[str] = []
        reserved: list[str] = []
        for k, stage in enumerate(self.typed.stages):
            for part, more in zip((reserved, functions, lines),
                                  self._fold_stage(k, stage), strict=True):
                part += more
        for add in (self._stored, self._by_row):
            defined, run = add()
            functions += defined
            lines += run
        summing, begin, end = self._lane_sums()
        finishing, finish = self._finish()
        title = ", ".join(o.function.function.name for o in self.typed.outs)
        return [f"# Row across {title}", *functions, *summing, *finishing,
                *inlined("copy", ["l", "x", "s", "y", "t"], ["y[l*t] = x[l*s]"]),
                "def kernel(a, begin, end):", *indented([
                    *narrow, *self.frame.unpack(), *self._pointers(), *reserved,
                    *self._reserved_sums(), *self._rooms(), "if finish:",
                    *indented(finish or ["pass"]), "else:",
                    "    for u in range(begin, end):",
                    *indented(indented([*begin, *self._blocks(lines), *end]))])]

    def _blocks(self, lines: Sequence[str]) -> list[str]:
        """The loop over the blocks of rows of a unit."""
        inner, others = self.rows[-1], " * ".join(self.rows[:-1]) or "1"
        return [f"units = ({inner} + step - 1) // step",
                "o = u // units", "b = u - o*units", "if turned:",
                f"    b = u // ({others})", f"    o = u - b*({others})",
                "j0 = b*step", f"hi = min({inner}, j0 + step)",
                *unravel("o", self.rows[:-1], self._outer),
                "while j0 < hi:", "    m = min(block, hi - j0)", *indented([
                    *(line for o in self.staged if not o.output
                      for line in self._staging(o)), *lines,
                    *(line for o in self.staged if o.output
                      for line in self._staging(o))]), "    j0 += m"]

    @property
    def _outer(self) -> list[str]:
        return [f"k{d}" for d in range(len(self.rows) - 1)]

    def _bound(self, names: Iterable[str], column: str) -> list[str]:
        """Lines that point the operands with these names to the block's column."""
        known, near = set(names), {o.name for o in self.staged}
        indices = [*self._outer, "j0", column]
        return [line for o in (*self.inputs, *self.outputs) if o.names[0] in known
                for line in (_bound_near(o, column) if o.name in near else
                             o.bind(offset(o, indices)))]

    # Staging -----------------------------------------------------------------------

    def _rooms(self) -> list[str]:
        """Lines that reserve local memory for what is staged."""
        return [line for o in self.staged for line in (
            local(f"{o.name}_room", o.dtype, LANES*(NARROW + _BEYOND)),
            f"{o.name}_near = address({o.name}_room)")]

    def _staging(self, o: Operand) -> list[str]:
        """Lines that copy an array's block of rows to local memory, or from there.

        By squares of vectors, if columns are neighbours; what is left row by row.
        """
        kind, size = short(o.dtype), o.dtype.itemsize
        at = f"{o.name}_at + {size}*({offset(o, [*self._outer, 'j0'])})"
        down, along = o.strides[-2:]
        lines = [f"base = {at}", "r = 0"]
        if o.dtype.name in SQUARED:
            lanes = square_lanes(size)
            far = f"base + {size}*(r*{down} + q), {down}"
            near = f"{o.name}_near + {size}*({LANES}*q + r), {LANES}"
            call = f"square_to_{kind}({near}, {far}, {self.columns} - q)" if o.output \
                else f"square_from_{kind}({far}, {near}, {self.columns} - q)"
            lines += [f"while {along} == 1 and r + {lanes} <= m:", *indented([
                "q = 0", f"while q < {self.columns}:", f"    {call}",
                f"    q += {lanes}", f"r += {lanes}"])]
        outside, inside = ["far", o.step], ["near", "1"]
        return [*lines, f"for c in range({self.columns}):", *indented([
            f"far = {kind}_pointer(base + {size}*c*{along})",
            f"near = {kind}_pointer({o.name}_near + {size * LANES}*c)",
            loop("copy", "r", "m", [*inside, *outside] if o.output else
                 [*outside, *inside])])]

    # Stages ------------------------------------------------------------------------

    def _fold_stage(self, k: int, stage: TypedStage,
                    ) -> tuple[list[str], list[str], list[str]]:
        """Lines that reserve room, functions, and lines that fold all columns."""
        fold = Fold(f"s{k}", stage.state, stage.identity, stage.merge, stage.element,
                    vector_bytes(stage.element))
        names, element = self._element(k, stage)
        results = [f"e{i}" for i in range(len(stage.state))]
        functions = fold.functions(element, results, names, stage.element.results, "l")
        lines = [fold.fill(fold.top, "m"), "c = 0", f"while c < {self.columns}:",
                 *indented([fold.fill(fold.low, "m"),
                            f"stop = min({self.columns}, c + group)", "while c < stop:",
                            *indented([*self._bound(names, "c"),
                                       fold.lane(fold.low, "m", "0", names), "c += 1"]),
                            fold.join("m")])]
        made = [Operand(f"{fold.tag}_{i}", compute_dtype(d), "1", 0)
                for i, d in enumerate(stage.post.results)]
        post, run = self._post(fold, stage, made)
        reserved = [*fold.locals(BLOCK), *(local(o.name, o.dtype, BLOCK) for o in made)]
        self.elements.table |= dict(zip(stage.names, made, strict=True))
        return reserved, [*functions, *post], [*lines, *run]

    def _post(self, fold: Fold, stage: TypedStage, made: Sequence[Operand],
              ) -> tuple[list[str], list[str]]:
        """The function that finishes a stage of one row, and lines that run it."""
        values = [f"{fold.tag}_s{i}" for i in range(len(stage.state))]
        known = {p: Computed(v, d) for p, v, d in zip(
            stage.post.function.params, values, stage.state, strict=False)}
        results = [f"r{i}" for i in range(len(made))]
        body = [f"{v} = {text}" for v, text
                in zip(values, fold.values(fold.top, "j"), strict=True)]
        body += self.elements.evaluate(stage.post, results, known=known)
        body += [o.store("j", d, r) for o, d, r
                 in zip(made, stage.post.results, results, strict=True)]
        names = [*fold.top, *(o.name for o in made),
                 *self.elements.names(stage.post, known=known)]
        return (inlined(f"{fold.tag}_post", ["j", *names], body),
                [*self._bound(names, "0"), loop(f"{fold.tag}_post", "0", "m", names)])

    # Outputs -----------------------------------------------------------------------

    def _stored(self) -> tuple[list[str], list[str]]:
        """The function that computes all elements of a column, and its loop."""
        outs = self._outs("element", "column", "scalar")
        if not outs:
            return [], []
        body: list[str] = []
        stores: list[str] = []
        functions = self.reusing(outs)
        names = self._names(*functions.values())
        for k, o in outs:
            body += self.elements.evaluate(functions[k], [f"r{k}"], f"v{k}_")
            if o.kind == "element":
                names += self.outputs[k].names
                stores.append(self.outputs[k].store("j", o.function.results[0],
                                                    f"r{k}"))
            else:
                names += [f"q{k}", *["c"]*(o.kind == "column")]
                stores.append(_add(k, o))
        names = list(dict.fromkeys(names))
        return (inlined("outs", ["j", *names], [*body, *stores]),
                [f"for c in range({self.columns}):", *indented([
                    *self._bound(names, "c"), loop("outs", "0", "m", names)])])

    def _by_row(self) -> tuple[list[str], list[str]]:
        """The function that stores what there is one of for each row."""
        outs = self._outs("row")
        if not outs:
            return [], []
        body: list[str] = []
        names = self._names(*(o.function for _, o in outs))
        for k, o in outs:
            body += self.elements.evaluate(o.function, [f"r{k}"], f"w{k}_")
            body.append(self.outputs[k].store("j", o.function.results[0], f"r{k}"))
            names += self.outputs[k].names
        names = list(dict.fromkeys(names))
        return (inlined("by_row", ["j", *names], body),
                [*self._bound(names, "0"), loop("by_row", "0", "m", names)])

    # Sums over rows ----------------------------------------------------------------

    def _reserved_sums(self) -> list[str]:
        return [local(f"q{k}", o.accumulator,
                      LANES*(NARROW if o.kind == "column" else 1))
                for k, o in self._outs("column", "scalar")]

    def _lane_sums(self) -> tuple[list[str], list[str], list[str]]:
        """Functions; lines that clear the lanes' sums; lines that store their total."""
        functions: list[str] = []
        begin: list[str] = []
        end: list[str] = []
        for k, o in self._outs("column", "scalar"):
            q, p, d = f"q{k}", self.partial[k], o.accumulator
            count = f"{self.columns}" if o.kind == "column" else "1"
            functions += inlined(f"clear{k}", ["l", q], [f"{q}[l] = {literal(d, 0)}"])
            functions += inlined(f"join{k}", ["l", q, "at", "w"], [
                f"{q}[at + l] = {sum_text(d, f'{q}[at + l]', f'{q}[at + w + l]')}"])
            begin.append(loop(f"clear{k}", "0", f"{LANES}*{count}", [q]))
            widths = [LANES >> s for s in range(1, LANES.bit_length())]
            end += [f"for c in range({count}):", *indented([
                *(loop(f"join{k}", "0", f"{w}", [q, f"{LANES}*c", f"{w}"], rolled=True)
                  for w in widths),
                f"{p}[u*{count} + c] = {q}[{LANES}*c]"])]
        return functions, begin, end


def _near(o: Operand) -> Operand:
    """The local copy of an array, if it is staged."""
    return replace(o, code="1") if o.code == STAGED else o


def _bound_near(o: Operand, column: str) -> list[str]:
    """A line that points an operand to a column of its local copy."""
    return [f"{o.name} = {short(o.dtype)}_pointer("
            f"{o.name}_near + {o.dtype.itemsize * LANES}*{column})"]


def _add(k: int, out: TypedOut) -> str:
    """A line that adds a value to its lane's sum."""
    value = cast(compute_dtype(out.function.results[0]), out.accumulator, f"r{k}")
    at = f"q{k}[{LANES}*c + j]" if out.kind == "column" else f"q{k}[j]"
    return f"{at} = {sum_text(out.accumulator, at, value)}"
