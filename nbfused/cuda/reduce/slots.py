"""The text of one kernel of Reduce, and the slots of its skeleton."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...gpu.operands import kernel_name
from ...scalar.printing.numba import cast
from ...scalar.typing.promotion import compute_dtype
from ...scalar.typing.values import INT64
from ...support.dtypes import storage
from ..text.hints import loaded_text
from ..text.skeletons import as_operand
from ..text.source import Source, decoded, encoded, evaluate, offsets
from .parts import states_of
from .text import Plan, ReduceText

__all__ = ["ReduceSource", "State"]

#: The names of a state's parts.
State = list[str]
#: Names of loaded elements by the number of their input.
Load = dict[int, str]


class ReduceSource(Source):
    """One kernel of a Reduce: parameters, elements, results.

    Parameters
    ----------
    text
        Of the Reduce.
    plan
        Which of its kernels.
    """

    def __init__(self, text: ReduceText, plan: Plan) -> None:
        super().__init__(kernel_name(text.name, "reduce", plan.kind, plan.stage))
        self.text, self.plan, self.typed = text, plan, text.typed
        self.width = text.plan_width(plan)
        loops = text.kept_loops + text.reduced_loops
        self.kept = [f"n{k}" for k in range(text.kept_loops)]
        self.reduced = [f"n{k}" for k in range(text.kept_loops, loops)]
        #: The extents of kept points, of *columns* in accesses.
        self.points = [*self.kept]
        if plan.kind == "columns" and self.width > 1:
            self.points[-1] = "accesses"
        self.states = states_of(self.typed, "z")
        self.stored = [f"w{k}" for k in range(len(self.typed.state))]
        self.inputs = text.inputs_of(plan)
        self.stored_elements = [] if plan.stage == "finish" else text.stored
        self._places: dict[str, dict[int, str]] = {}
        self._declare()

    def _declare(self) -> None:
        arrays = self.text.arrays(self.plan)
        for o in arrays:
            self.pointer(o.pointer, storage(o.dtype))
        if self.plan.stage != "whole":
            for name, dtype in zip(self.stored, self.typed.state, strict=True):
                self.pointer(name, storage(dtype))
        if self.plan.stage == "last":
            self.pointer("tickets", "uint32")
        steps = ["kept_step", "chunk_step"] if self.plan.stage == "finish" else \
            ["rows", "before"] if self.plan.numbered else []
        self.integer(*self.kept, *self.reduced, "chunks", "chunk", *steps,
                    *(o.stride(k) for o in arrays
                      for k in range(len(self.kept) + len(self.reduced))))
        if self.plan.near:
            self.integer(*(f"inverse{k}" for k in self.text.divided))
        element, post = self.typed.element, self.typed.post
        names = [p for p, k in zip(element.function.params, self.typed.kinds,
                                   strict=True) if k == "scalar"]
        self.scalars = {p: self.scalar(f"a{k}", element.dtypes[p])
                        for k, p in enumerate(names)}
        self.post_scalars = {
            p: self.scalar(f"b{k}", post.dtypes.get(p, element.dtypes[p]))
            for k, p in enumerate(names)}

    def bases(self, point: str, extents: Sequence[str]) -> None:
        """Offsets of a kept point's first element of each input, as ``base0``."""
        moving, inner = [*self.inputs, *self.stored_elements], str(self.width)
        if self.plan.kind == "rows":
            moving, inner = [replace(o, code="s") for o in moving], ""
        at = offsets(self, point, extents, moving, 0, "k", inner=inner,
                     short=self.plan.near)
        self(*(f"base{k} = {text}" for k, text in at.items()))
        if self.plan.numbered:
            self._number(point)

    def _number(self, point: str) -> None:
        """Each kept point's first index, as ``number0``: see `folded`."""
        points = self.width if self.plan.kind == "columns" else 1
        self(f"apart = divide({self.kept[0]}, rows)")
        self(*(f"number{v} = before + divide({point}*{points} + {v}, apart)"
               for v in range(points)))

    def load(self, place: str, tag: str, wide: bool) -> list[Load]:
        """Elements of each input from a place in the reduced loops on: *rows*."""
        at = offsets(self, f"({place})", self.reduced,
                     [*self.inputs, *self.stored_elements], self.text.kept_loops,
                     f"r{tag}", short=self.plan.near)
        self._places[tag] = at
        return self._load(at, tag, wide)

    def until_whole(self) -> str:
        """The number of a row's elements before its first whole access: *rows*."""
        o = next(o for o in self.inputs if o.code == "1")
        return f"until_aligned{self.width}({o.pointer}, base{o.at})"

    def load_row(self, row: str, k: int) -> list[Load]:
        """Neighbouring kept points' elements of each input in a row: *columns*.

        Rows after the first of several begin a step further on.
        """
        if k == 0 or len(self.reduced) > 1:
            strided = [replace(o, code="s") for o in self.inputs]
            at = offsets(self, f"({row})", self.reduced, strided,
                         self.text.kept_loops, f"r{k}_", short=self.plan.near)
        else:
            at = {o.at: f"r{o.at}_at + step{o.at}" for o in self.inputs}
        self(*(f"r{o}_at = {text}" for o, text in at.items()))
        return self._load({o: f"r{o}_at" for o in at}, str(k), self.width > 1)

    def _load(self, at: dict[int, str], tag: str, wide: bool) -> list[Load]:
        count = self.width if wide else 1
        loads = [Load() for _ in range(count)]
        for o in self.inputs:
            index, whole = f"base{o.at} + {at[o.at]}", wide and o.code == "1"
            names = [f"x{o.at}_{tag}_{e}" if whole else f"x{o.at}_{tag}"
                     for e in range(len(loads))]
            if whole:
                load = loaded_text(o, self.width, index, self.plan.hint)
                self(f"{', '.join(names)}, = {load}")
            else:
                self(f"{names[0]} = {o.pointer}[{index}]")
            for elements, name in zip(loads, names, strict=True):
                elements[o.at] = name
        return loads

    def element(self, load: Load, index: str, tag: str, part: int = 0) -> State:
        """Emit one element's contribution to the state.

        In *columns* of a `part` of an access.
        """
        function = self.typed.element
        if self.plan.numbered:
            index = f"({index})*rows + number{part}"
        inputs, arguments = iter(self.text.inputs), dict[str, object]()
        for param, kind in zip(function.function.params, self.typed.kinds, strict=True):
            if kind == "element":
                o = next(inputs)
                arguments[param] = decoded(o.dtype, load[o.at])
            elif kind == "scalar":
                arguments[param] = self.scalars[param]
            else:
                arguments[param] = f"({index})" if kind == "index" else "reduced"
        names = self.states.names(f"_{tag}")
        if not self.stored_elements:
            self.states.assign(self, names, function, arguments)
            return names
        lines, results = evaluate(function, arguments, f"e{tag}_")
        self(*lines, *(f"{n} = {cast(compute_dtype(d), s, r)}" for n, d, s, r in zip(
            names, function.results, self.typed.state, results, strict=False)))
        return names

    def elements(self, state: State, near: Sequence[Load], place: str, tag: str,
                 ) -> list[State]:
        """Emit what neighbours contribute to the state.

        Where elements are stored it is merged at once, and nothing left to merge:
        results and states of several accesses would not fit into registers.
        """
        found = [self.element(load, f"{place} + {e}", f"{tag}_{e}")
                 for e, load in enumerate(near)]
        if not self.stored_elements:
            return found
        self._store(tag, len(near))
        self.states.tree(self, state, found)
        return []

    def _store(self, tag: str, count: int) -> None:
        first = len(self.typed.state)
        for k, (o, dtype) in enumerate(zip(self.stored_elements, self.typed.stored,
                                           strict=True)):
            at = f"base{o.at} + {self._places[tag][o.at]}"
            values = [encoded(dtype, o.dtype, f"e{tag}_{e}_r{first + k}")
                      for e in range(count)]
            self(f"store{count}({o.pointer}, {at}, ({', '.join(values)},))"
                 if count > 1 else f"{o.pointer}[{at}] = {values[0]}")

    def results(self, state: State, point: str, tag: str = "", part: int = 0) -> None:
        """Store the outputs of a kept point; of *columns* of a `part` of an access."""
        typed, post = self.typed, self.typed.post
        values = iter(zip(state, typed.state, strict=True))
        arguments: dict[str, object] = {}
        for param, kind in zip(post.function.params, typed.post_kinds, strict=True):
            if kind == "state":
                name, dtype = next(values)
                arguments[param] = cast(dtype, post.dtypes[param], name)
            elif kind == "size":
                arguments[param] = cast(INT64, post.dtypes[param], "reduced")
            else:
                arguments[param] = self.post_scalars[param]
        lines, names = evaluate(post, arguments, f"y{tag}")
        self(*lines)
        outputs = [replace(o, code="s") for o in self.text.outputs]
        inner = str(self.width) if self.plan.kind == "columns" else ""
        at = offsets(self, as_operand(point), self.points, outputs, 0, f"o{tag}",
                     inner=inner, short=self.plan.near)
        if part:
            last = self.text.kept_loops - 1
            at = {k: f"{text} + {part}*s{k}_{last}" for k, text in at.items()}
        for o, dtype, name in zip(outputs, post.results, names, strict=True):
            self(f"{o.pointer}[{at[o.at]}] = {encoded(dtype, o.dtype, name)}")
