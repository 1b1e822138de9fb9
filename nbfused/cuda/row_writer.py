"""The text of Row's kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..scalar.print_numba import cast
from ..scalar.types import Typed
from .compile import Kernel
from .row_bulk import Bulk
from .row_cluster import ClusterSlots
from .row_elements import LARGE, Again, Elements, Kept, Staged
from .row_index import CALLS as COLUMN_CALLS
from .row_index import compared_short
from .row_pipeline import write_pipeline
from .row_plan import RowPlan
from .row_reductions import Pair, Single, reductions
from .row_streamed import STREAMING, Streamed
from .row_sums import RowSums
from .row_text import RowText, read
from .source import (
    INT64,
    ROUGH,
    Operand,
    Source,
    calls_for,
    decoded,
    encoded,
    evaluate,
    is_wide,
    kernel_name,
    offsets,
    storage,
)
from .states import Reduced, across_threads, storage_name

__all__ = ["RowWriter"]

#: Threads per multiprocessor that there should be where a lane keeps so many registers.
BUSY, FEW = 1024, 32
#: The same for large blocks, of which one more or less is much.
FULL, FEWER = 2048, 8


class RowWriter:
    """The text of one kernel under construction.

    Parameters
    ----------
    text, plan
        What the kernel is for.
    """

    def __init__(self, text: RowText, plan: RowPlan) -> None:
        self.text, self.plan, self.typed = text, plan, text.typed
        if plan.kept:  # so its columns are few
            self.typed = replace(
                text.typed,
                stages=tuple(replace(s, element=compared_short(s.element))
                             for s in text.typed.stages),
                outs=tuple(replace(o, function=compared_short(o.function))
                           for o in text.typed.outs))
        self.out = Source(kernel_name(text.name, "row"))
        self.extents = [f"n{k}" for k in range(text.loops)]
        self.values: dict[str, str] = {"size": "columns"}
        self.base: dict[int, str] = {}
        calls = calls_for(o for o, t in zip(text.outputs, text.typed.outs, strict=True)
                          if not t.saved)
        self.calls = {**calls, **COLUMN_CALLS, ("div", "float32"): "divide_nearly"
                      if calls is ROUGH else "divide_near"}
        self.sums = RowSums(self.out, text, plan)
        self.looped = plan.resident > 0
        #: Values that a row has one of are loaded with the elements, a row before.
        self.early = self.looped and plan.kept > 0
        #: Sums relative to a maximum go with it, where a pass costs a reading.
        self.together = not plan.kept
        self.levels = text.levels(together=self.together)
        #: Blocks that wait for one another.
        self.linked = plan.cluster if self.levels else 1
        self.cluster = ClusterSlots(plan.threads, plan.cluster, len(self.levels),
                                    plan.turns)
        self.elements: Elements = Staged(self) if plan.staged else \
            Bulk(self) if plan.bulk else \
            Kept(self) if plan.kept else Streamed(self) if plan.ahead else Again(self)
        self._declare()

    def _declare(self) -> None:
        out, text = self.out, self.text
        for o in text.operands:
            out.pointer(o.pointer, storage(o.dtype))
        self.sums.declare()
        out.integer(*self.extents, "columns", *(
            o.stride(k) for o in text.operands for k in range(text.loops + 1)))
        for k, name in enumerate(text.scalars):
            dtype = self.typed.dtypes.get(name, INT64)
            self.values[name] = out.scalar(f"a{k}", dtype)

    def kernel(self) -> Kernel:
        """The text and parameters."""
        out, plan = self.out, self.plan
        out("thread = i64(cuda.threadIdx.x)", "block = i64(cuda.blockIdx.x)",
            f"rows = {'*'.join(self.extents)}", f"lane = thread & {plan.lanes - 1}",
            f"group = divide(thread, i64({plan.lanes}))", "turn = i64(0)",
            f"base = divide(block, i64({plan.cluster}))*{plan.groups}",
            f"step = divide(i64(cuda.gridDim.x), i64({plan.cluster}))*{plan.groups}")
        if self.linked > 1:
            self.cluster.prepare(out)
        elif plan.cluster > 1:
            out(f"rank = block - base*{plan.cluster}")
        self.elements.prepare()
        self.sums.start()
        if self.looped:
            if self.early:
                out(*(f"ahead_{n} = {storage_name(o.dtype)}(0)"
                      for n, o in self.row_inputs.items()))
            self.elements.begin()
        if plan.staged:
            write_pipeline(self)
        elif self.looped:
            with out.block("while base < rows:"):
                self._row()
                out("base += step")
                if self.linked > 1:
                    self.cluster.turn(out)
        else:
            self._row()
        if self.looped:
            self.sums.finish(self.elements.starts, self.elements.last)
        return out.kernel(plan.threads, self._blocks(), cluster=self.linked)

    def _blocks(self) -> int:
        """How many blocks the registers should suffice for."""
        states = [d for s in self.typed.stages for d in s.state]
        if is_wide((*states, *self.typed.dtypes.values())):
            return max(1, 512 // self.plan.threads)
        if self.looped:
            return max(1, self.plan.resident // self.plan.threads)
        if self.plan.ahead:
            little = self.text.once() and \
                self.plan.ahead*self.text.registers() <= FEW // 2
            return (STREAMING if little else BUSY) // self.plan.threads
        registers = self.plan.kept*self.text.registers()
        if self.plan.lanes >= LARGE and 0 < registers <= FEWER:
            return FULL // self.plan.threads
        return BUSY // self.plan.threads if 0 < registers <= FEW else 0

    # --- one row

    def _row(self) -> None:
        out = self.out
        out("inside = base + group < rows",
            "row = base + group if inside else i64(0)",
            "end = columns if inside else i64(0)")
        self.place("row")
        self.take_values("ahead" if self.early else "")
        self.elements.load()
        for each in self.text.passes(together=self.together):
            for at in each.points:
                self._point(at)
            if each.stages:
                found = self.sum_level(each.stages)
                self._across([(r.states, r.state) for r in found])
                self.posts(each.stages, found)
        self.finish()

    def places(self, row: str, prefix: str) -> dict[int, str]:
        """Where the row begins in each operand that has several."""
        if self.text.later:
            row = f"(rows - 1 - {row})"
        moving = [replace(o, code="s") for o in self.text.operands
                  if o not in self._still()]
        return offsets(self.out, row, self.extents, moving, 0, prefix)

    def place(self, row: str) -> None:
        """Where a row begins in each operand."""
        at = self.places(row, "r")
        self.out(*(f"base{k} = {place}" for k, place in at.items()))
        self.base = {o.at: f"base{o.at}" if o.at in at else "i64(0)"
                     for o in self.text.operands}

    @property
    def row_inputs(self) -> dict[str, Operand]:
        """The inputs that a row has one of."""
        return {n: o for n, o in self.text.inputs.items()
                if self.text.kinds[n] == "row"}

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
        for p in read(typed):
            have = INT64 if p in ("index", "size") else self.typed.dtypes.get(p, INT64)
            found[p] = cast(have, typed.dtypes.get(p, have), known[p])
        return found

    # --- stages and results

    def _point(self, at: int) -> None:
        """A stage that needs one column; every lane has its value."""
        out, column, stage = self.out, self.text.points[at], Single(self, at)
        lines, (place,) = evaluate(column, self.arguments(column, {}), f"c{at}_",
                                   self.calls)
        out(*lines)
        with out.block(f"if {place} >= 0 and {place} < columns:"):
            names = self.elements.names([self.typed.stages[at].element])
            stage.add([place], self.elements.at(names, [place]))
        self._post(at, stage.state)

    def sum_level(self, level: list[int]) -> list[Single | Pair]:
        """A lane's part of stages that do not need one another's values."""
        found = reductions(self, level)

        def body(access: int, columns: list[str], loads: list[dict[str, str]]) -> None:
            for each in found:
                each.add(columns, loads)

        self.elements.each([self.typed.stages[at].element for at in level], body)
        for each in found:
            each.close()
        return found

    def _across(self, reduced: Reduced) -> None:
        """Every lane of a row gets the row's states."""
        if self.plan.cluster > 1:
            self.cluster.across(self.out, reduced)
        elif self.plan.threads > self.plan.lanes:
            for states, state in reduced:
                states.across_lanes(self.out, state, self.plan.lanes)
        else:  # another reduction's barrier comes before the memory is used again
            again = self.looped and len(self.levels) == 1
            across_threads(self.out, reduced, self.plan.threads, again=again)

    def posts(self, level: list[int], found: list[Single | Pair]) -> None:
        """The values that a level's stages give each row."""
        states: dict[int, list[str]] = {}
        for each in found:
            states |= each.finish()
        for at in level:
            self._post(at, states[at])

    def _post(self, at: int, state: Sequence[str]) -> None:
        """The values that a stage gives each row."""
        stage = self.typed.stages[at]
        post, count = stage.post, len(state)
        arguments = {**self._wired(post, count), **{
            p: cast(d, post.dtypes.get(p, d), n) for p, d, n in zip(
                post.function.params[:count], stage.state, state, strict=True)}}
        lines, results = evaluate(post, arguments, f"v{at}_", self.calls)
        self.out(*lines)
        self.values |= dict(zip(stage.names, results, strict=True))

    def _wired(self, post: Typed, count: int) -> dict[str, object]:
        """Arguments of a post function after the state."""
        rest = set(post.function.params[count:])
        inner = [p for p in read(post) if p in rest]
        return {p: cast(self.typed.dtypes.get(p, INT64), post.dtypes[p],
                        self.values[p]) for p in inner}

    def finish(self) -> None:
        """All outputs of a row."""
        self._outs()
        self._row_outs()

    def _outs(self) -> None:
        """Everything that needs the elements once more."""
        typed = self.typed.outs
        wanted = [k for k, t in enumerate(typed) if t.kind != "row"]
        if not wanted:
            return
        self.count = 0

        def body(access: int, columns: list[str], loads: list[dict[str, str]]) -> None:
            self.count += 1
            for k in wanted:
                function, names = typed[k].function, []
                for e, (column, values) in enumerate(zip(columns, loads, strict=True)):
                    lines, (name,) = evaluate(
                        function, self.arguments(
                            function, {**values, "index": column}),
                        f"y{self.count}_{k}_{e}_", self.calls)
                    self.out(*lines)
                    names.append(name)
                self._put(k, access, columns, names)

        with self.out.block("if inside:"):
            self.elements.each([typed[k].function for k in wanted], body)

    def _put(self, k: int, access: int, columns: list[str], names: list[str]) -> None:
        """Store elements, or add them to the sums over rows."""
        out, typed, o = self.out, self.typed.outs[k], self.text.outputs[k]
        result = typed.function.results[0]
        if typed.kind == "element":
            parts = [encoded(result, o.dtype, n) for n in names]
            if self.plan.vector:
                out(f"store{len(parts)}({o.pointer}, {self.base[o.at]} + {columns[0]}, "
                    f"({', '.join(parts)},))")
            else:
                out(*(f"{o.pointer}[{self.elements.place(o, c)}] = {p}"
                      for c, p in zip(columns, parts, strict=True)))
            return
        self.sums.add(k, access, columns, [(result, n) for n in names])

    def _row_outs(self) -> None:
        out, wanted = self.out, [k for k, t in enumerate(self.typed.outs)
                                 if t.kind == "row"]
        if not wanted:
            return
        first = " and rank == 0" if self.plan.cluster > 1 else ""
        with out.block(f"if inside and lane == 0{first}:"):
            for k in wanted:
                function, o = self.typed.outs[k].function, self.text.outputs[k]
                lines, (name,) = evaluate(function, self.arguments(function, {}),
                                          f"q{k}_", self.calls)
                stored = encoded(function.results[0], o.dtype, name)
                out(*lines, f"{o.pointer}[{self.base[o.at]}] = {stored}")
