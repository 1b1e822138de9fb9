"""Generated text of the kernel of `Row`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from ..backend import Signature
from ..scalar.ir.nodes import Literal
from ..scalar.printing.numba import cast, literal
from ..scalar.typing.types import Typed, compute_dtype, specialize
from ..specs import TypedRow
from ..specs.combine import sum_combine
from ..specs.fusion.row_forms import points
from ..specs.row import TypedOut, TypedStage
from ..support.dtypes import short
from .text.elements import Computed, Elements, bind_operands
from .text.fold import FIRST, FIRST_LANE, Fold, sum_text
from .text.lines import indented, inlined, local, loop, unravel
from .text.operands import INT64, Frame, Operand, offset
from .text.reuse import (
    is_cheap,
    reused_value,
    substitute_trees,
    vector_bytes,
    vectors,
)

__all__ = ["SCRATCH", "RowText", "StackedRowText", "state_names"]

#: Values of a row at most that are kept on the stack until they are reused, where no
#: output can hold them: benchmarks/notes/cpu.md#rows-and-reductions-on-the-cpu.
SCRATCH = 1 << 12

#: Reads of a strided row from which it is copied to the stack for them:
#: benchmarks/notes/cpu.md#strided-elements.
_AGAIN = 2


class RowText:
    """Writer of the kernel of one Row.

    Attributes
    ----------
    frame
        The layout of its arguments; the launcher adds the rows in a chunk, the number
        of chunks, whether to finish, and the address of each partial sum.
    sums
        Kind and accumulator of each output that is a sum over rows.
    scratch, copied, copied_rows
        Local arrays for the values of a row that no output can hold, and their dtypes;
        the inputs that are copied to the stack, once or with each row.
    on_stack, rooms, launched, inner, index
        Whether values that no output can hold are kept on the stack; codes of outputs
        that may hold a stage's values; what the launcher adds to the arguments; the
        inner loop; the text of the column's index.
    """

    on_stack: ClassVar[bool] = False
    rooms: ClassVar[tuple[str, ...]] = ("1",)
    launched: ClassVar[tuple[str, ...]] = ("step", "chunks", "finish")
    inner: ClassVar[int] = -1
    index: ClassVar[str] = "j"

    def __init__(self, typed: TypedRow, signature: Signature,
                 inner_codes: Sequence[str] = ()) -> None:
        self.typed = typed
        self.scratch: dict[str, np.dtype] = {}
        self.points = points(typed)
        self.kept: dict[str, Hashable] = {}  # where a stage's values are found again
        rank = sum(signature.ranks)
        self.rows = [f"n{d}" for d in range(rank - 1)]
        self.columns = f"n{rank - 1}"
        self.length = self.columns
        self.elements = Elements(index=self.index, given=tuple(
            {self.index} - {"j"}))
        codes = iter(inner_codes or signature.inner)
        self.inputs, self.outputs, scalars, table = bind_operands(
            typed, signature, lambda name, dtype, output: Operand(
                name, dtype, next(codes), rank, output, self.inner))
        self.copied = self._strided("column", 1) if self.on_stack else []
        rows = self._strided("element", _AGAIN) if self.on_stack else []
        moved = {o: replace(o, code="1") for o in (*self.copied, *rows)}
        self.copied_rows = [moved[o] for o in rows]
        self.inputs = [moved.get(o, o) for o in self.inputs]
        table = {name: moved.get(slot, slot) if isinstance(slot, Operand) else slot
                 for name, slot in table.items()}
        self.elements.table |= {**table, "index": Computed("index", INT64),
                                "size": Computed(self.columns, INT64),
                                FIRST: Computed(FIRST_LANE, INT64, given=True)}
        self.sums = [(o.kind, o.accumulator) for o in typed.outs
                     if o.kind in ("column", "scalar")]
        self.partial = {k: f"p{k}" for k, o in enumerate(typed.outs)
                        if o.kind in ("column", "scalar")}
        extras = [*self.launched, *(f"{p}_at" for p in self.partial.values())]
        self.frame = Frame([*self.inputs, *self.outputs], rank, scalars, extras)

    def lines(self) -> list[str]:
        """The lines of the kernel."""
        return self.body([vectors(*self._each())])

    @property
    def fits(self) -> bool:
        """Whether rows of any length do: nothing of a row is on the stack."""
        return not (self.scratch or self.copied or self.copied_rows)

    def _each(self) -> list[Typed]:
        """The functions of a row's elements."""
        return [*(s.element for s in self.typed.stages),
                *(o.function for _, o in self._outs("element", "column", "scalar"))]

    def body(self, narrow: Sequence[str]) -> list[str]:
        """The lines of the kernel, which begins with `narrow`."""
        functions: list[str] = []
        row: list[str] = []
        folds: list[Fold] = []
        for k, stage in enumerate(self.typed.stages):
            fold, defined, body = self._stage(k, stage)
            folds.append(fold)
            functions += defined
            row += body
        for add in (self._element_outs, self._row_outs):
            defined, body = add()
            functions += defined
            row += body
        for k, out in self._outs("scalar"):
            fold, defined, body = self._scalar_sum(k, out)
            folds.append(fold)
            functions += defined
            row += body
        finishing, finish = self._finish()
        begin, end = self._chunk_ends()
        reserved = [line for fold in folds for line in fold.locals()]
        reserved += self.reserved()
        return [f"# Row {', '.join(o.function.function.name for o in self.typed.outs)}",
                *functions, *finishing, *begin,
                "def kernel(a, begin, end):", *indented([
                    *narrow, *self.frame.unpack(), *self._pointers(), *reserved,
                    f"rows = {' * '.join(self.rows)}",
                    "if finish:", *indented(finish or ["pass"]), "else:",
                    *indented(self._copies()), "    for u in range(begin, end):",
                    *indented(indented([*end, *self._rows(row)]))])]

    def reserved(self) -> list[str]:
        """Lines that reserve room for values and copies of inputs on the stack."""
        copies = [(f"{o.name}_copy", o.dtype)
                  for o in (*self.copied, *self.copied_rows)]
        return [local(*one, SCRATCH) for one in (*self.scratch.items(), *copies)]

    # Copies to the stack -----------------------------------------------------------

    def _strided(self, wanted: str, reads: int) -> list[Operand]:
        """The inputs of a kind whose elements lie apart, and are read so often."""
        inputs = [(name, kind) for name, kind in zip(
            self.typed.inputs, self.typed.kinds, strict=True) if kind != "scalar"]
        each = [f.function.params for f in self._each()]
        return [o for o, (name, kind) in zip(self.inputs, inputs, strict=True)
                if kind == wanted and o.code == "s"
                and sum(name in params for params in each) >= reads]

    def _copies(self) -> list[str]:
        """Lines that copy strided columns to the stack, where each row reads them."""
        return [line for o in self.copied for line in (
            o.bind()[0], *o.copied(f"{o.name}_copy", self.length),
            f"{o.name}_at = address({o.name}_copy)")]

    def _copied_rows(self, place: Sequence[str], indices: Sequence[str]) -> list[str]:
        """Lines that copy rows to the stack, as many as have room.

        A row that is read right after it was stored, number by number, is waited for.
        """
        return ["for row in range(first, last):", *indented([*place, *(
            line for o in self.copied_rows for line in (
                *o.bind(offset(o, indices)), f"to = {self._row_copy(o)}",
                *o.copied("to", self.length)))])]

    def _row_copy(self, o: Operand) -> str:
        """The pointer to the copy of the row ``row``."""
        at = f"address({o.name}_copy) + {o.dtype.itemsize}*(row - first)*{self.columns}"
        return f"{short(o.dtype)}_pointer({at})"

    def _outs(self, *kinds: str) -> list[tuple[int, TypedOut]]:
        return [(k, o) for k, o in enumerate(self.typed.outs) if o.kind in kinds]

    def reusing(self, outs: Iterable[tuple[int, TypedOut]]) -> dict[int, Typed]:
        """Functions of outputs that read what a stage has kept."""
        return {k: substitute_trees(o.function, self.kept) for k, o in outs}

    def _names(self, *functions: Typed, known: Iterable[str] = ()) -> list[str]:
        return self.elements.names(*functions, known=dict.fromkeys(known))

    def _pointers(self) -> list[str]:
        return [f"{p} = {short(self.typed.outs[k].accumulator)}_pointer({p}_at)"
                for k, p in self.partial.items()]

    # A row -------------------------------------------------------------------------

    def _rows(self, row: Sequence[str]) -> list[str]:
        """The loop over the rows of a chunk."""
        indices = [f"k{d}" for d in range(len(self.rows))]
        place = unravel("row", self.rows, indices)
        bound = [line for o in (*self.inputs, *self.outputs)
                 if o not in self.copied_rows for line in o.bind(offset(o, indices))]
        if not self.copied_rows:
            return ["for row in range(u*step, min(rows, (u + 1)*step)):",
                    *indented([*place, *bound, *row])]
        bound += [f"{o.name} = {self._row_copy(o)}" for o in self.copied_rows]
        return [f"some = max(1, {SCRATCH} // max({self.columns}, 1))",
                "end_row = min(rows, (u + 1)*step)",
                "for first in range(u*step, end_row, some):", *indented([
                    "last = min(end_row, first + some)",
                    *self._copied_rows(place, indices),
                    "for row in range(first, last):",
                    *indented([*place, *bound, *row])])]

    def _stage(self, k: int, stage: TypedStage) -> tuple[Fold, list[str], list[str]]:
        """The fold of a stage, its functions, and lines that fold and finish it."""
        fold, functions, body = self.folded(k, stage)
        values = state_names(fold.tag, stage)
        body += [f"{v} = {text}" for v, text
                 in zip(values, fold.values(fold.top, "0"), strict=True)]
        return fold, functions, [*body, *self.finished(k, stage)]

    def folded(self, k: int, stage: TypedStage) -> tuple[Fold, list[str], list[str]]:
        """The same, but lines that fold it only, into lane 0."""
        fold = Fold(f"s{k}", stage.state, stage.identity, stage.merge, stage.element,
                    vector_bytes(*self._each()))
        results = [f"e{i}" for i in range(len(stage.state))]
        names, element = self._element(k, stage)
        functions = fold.functions(element, results, names, stage.element.results)
        body = self._point(k, fold, names) if k in self.points else \
            fold.whole(self.length, names)
        return fold, functions, body

    def finished(self, k: int, stage: TypedStage) -> list[str]:
        """Lines that compute what a stage gives from its folded state."""
        known = {p: Computed(v, d) for p, v, d in zip(
            stage.post.function.params, state_names(f"s{k}", stage), stage.state,
            strict=False)}
        made = [f"s{k}_{i}" for i in range(len(stage.names))]
        lines = self.elements.evaluate(stage.post, made, f"v{k}_", known)
        self.elements.table |= {
            name: Computed(m, compute_dtype(d)) for name, m, d
            in zip(stage.names, made, stage.post.results, strict=True)}
        return lines

    def _element(self, k: int, stage: TypedStage) -> tuple[list[str], list[str]]:
        """Names, and lines that compute a stage's elements ``e0``, … of them."""
        typed = substitute_trees(stage.element, self.kept)
        results = [f"e{i}" for i in range(len(stage.state))]
        names = self._names(typed)
        found = self._keep(k, typed)
        if found is None:
            return names, self.elements.evaluate(typed, results)
        value, room = found
        names = list(dict.fromkeys((*names, *room.names)))
        function = typed.function
        both = replace(typed, results=(*typed.results, typed.dtypes[value]),
                       function=replace(function, body=replace(
                           function.body, yields=(*function.results, value))))
        return names, [*self.elements.evaluate(both, [*results, "held"]),
                       room.store("j", room.dtype, "held")]

    def _point(self, k: int, fold: Fold, names: Sequence[str]) -> list[str]:
        """Lines that add one column's element, if there is such a column."""
        c = f"c{k}_at"
        return [*self.elements.evaluate(self.points[k], [c], f"c{k}_"),
                fold.fill(fold.top, "1"), *self.in_place(c),
                f"if 0 <= {c} < {self.length}:",
                f"    {fold.lane(fold.top, '1', c, names)}"]

    def in_place(self, column: str) -> list[str]:
        """Lines that make a column's number one of the inner loop."""
        return []

    def _keep(self, k: int, element: Typed) -> tuple[str, Operand] | None:
        """A value of a stage's elements that is reused, and what holds it till then."""
        later = [s.element for s in self.typed.stages[k + 1:]]
        later += [o.function for _, o in self._outs("element", "column")]
        found = reused_value(element, later)
        if found is None:
            return None
        value, tree = found
        dtype = element.dtypes[value]
        for i, _ in self._outs("element"):
            room = self.outputs[i]
            if (room.code in self.rooms and room.dtype == dtype
                    and room.name not in self.kept):
                return value, self._held(room, tree)
        if not self.on_stack:
            return None
        name = f"held{len(self.scratch)}"
        self.scratch[name] = dtype
        return value, self._held(Operand(name, dtype, "1", 0), tree)

    def _held(self, room: Operand, tree: Hashable) -> Operand:
        self.kept[room.name] = tree
        self.elements.table[room.name] = room
        return room

    def _element_outs(self) -> tuple[list[str], list[str]]:
        """Lines of the loop that computes all element outputs."""
        outs = self._outs("element", "column")
        if not outs:
            return [], []
        lines: list[str] = []
        stores: list[str] = []
        functions = self.reusing(outs)
        names = self._names(*functions.values())
        for k, o in outs:
            lines += self.elements.evaluate(functions[k], [f"r{k}"], f"v{k}_")
            names += self.outputs[k].names if o.kind == "element" else (f"q{k}",)
            stores.append(self.outputs[k].store("j", o.function.results[0], f"r{k}")
                          if o.kind == "element" else _add(k, o))
        names = list(dict.fromkeys(names))
        return (inlined("outs", ["j", *names], [*lines, *stores]),
                [loop("outs", "0", self.length, names, masked=not all(
                    map(is_cheap, functions.values())))])

    def _row_outs(self) -> tuple[list[str], list[str]]:
        body: list[str] = []
        for k, o in self._outs("row"):
            body += self.elements.evaluate(o.function, [f"r{k}"], f"w{k}_")
            body.append(self.outputs[k].store("0", o.function.results[0], f"r{k}"))
        return [], body

    def _scalar_sum(self, k: int, out: TypedOut) -> tuple[Fold, list[str], list[str]]:
        """Lines that add a row's sum to the chunk's sum over all elements."""
        dtype = out.accumulator
        add = specialize(sum_combine(1).merge, (dtype, dtype))
        zero = Literal(dtype.name, "0.0" if dtype.kind == "f" else "0")
        fold = Fold(f"o{k}", (dtype,), (zero,), add, out.function,
                    vector_bytes(*self._each()))
        names = self._names(out.function)
        element = self.elements.evaluate(out.function, ["e0"])
        functions = fold.functions(element, ["e0"], names, out.function.results)
        p = self.partial[k]
        total = sum_text(dtype, f"{p}[u]", f"{fold.top[0]}[0]")
        return fold, functions, [*fold.whole(self.length, names), f"{p}[u] = {total}"]

    # Sums over rows ----------------------------------------------------------------

    def _chunk_ends(self) -> tuple[list[str], list[str]]:
        """Functions and lines that set a chunk's sums to zero."""
        functions: list[str] = []
        lines: list[str] = []
        for k, o in self._outs("column", "scalar"):
            zero, p = literal(o.accumulator, 0), self.partial[k]
            if o.kind == "scalar":
                lines.append(f"{p}[u] = {zero}")
                continue
            address = f"{p}_at + {o.accumulator.itemsize}*u*{self.columns}"
            functions += inlined(f"zero{k}", ["l", f"q{k}"], [f"q{k}[l] = {zero}"])
            lines += [f"q{k} = {short(o.accumulator)}_pointer({address})",
                      loop(f"zero{k}", "0", self.columns, [f"q{k}"])]
        return functions, lines

    def _finish(self) -> tuple[list[str], list[str]]:
        """Functions and lines that add up the chunks and store the sums."""
        functions: list[str] = []
        lines = [f"hi = min(end, {self.columns})"]
        for k, o in self._outs("column", "scalar"):
            p, y, d = self.partial[k], self.outputs[k], o.accumulator
            at, last = ("l", "hi") if o.kind == "column" else ("0", "1")
            functions += inlined(f"add{k}", ["l", p, "c"], [
                f"{p}[l] = {sum_text(d, f'{p}[l]', f'{p}[l + c]')}"])
            functions += inlined(f"store{k}", ["l", p, *y.names], [
                "r0 = " + cast(d, compute_dtype(o.function.results[0]), f"{p}[l]"),
                y.store(at, o.function.results[0], "r0")])
            width = self.columns if o.kind == "column" else "1"
            lines += [*y.bind(), "for c in range(1, chunks):",
                      f"    {loop(f'add{k}', 'begin', last, [p, f'c*{width}'])}",
                      loop(f"store{k}", "begin", last, [p, *y.names])]
        return functions, lines


class StackedRowText(RowText):
    """Writer of the kernel of one Row of at most `SCRATCH` elements."""

    on_stack: ClassVar[bool] = True


def state_names(tag: str, stage: TypedStage) -> list[str]:
    """Names of the parts of a stage's folded state."""
    return [f"{tag}_s{i}" for i in range(len(stage.state))]


def _add(k: int, out: TypedOut) -> str:
    value = cast(compute_dtype(out.function.results[0]), out.accumulator, f"r{k}")
    return f"q{k}[j] = {sum_text(out.accumulator, f'q{k}[j]', value)}"

