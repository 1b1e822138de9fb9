"""Reduce where neighbouring lanes have neighbouring kept points."""

from __future__ import annotations

from dataclasses import replace

from ..scalar.print_numba import decode, encode
from .reduce_text import COLUMN_LANES
from .reduce_writer import Writer
from .source import Operand, offsets
from .states import storage_name

__all__ = ["Columns"]


class Columns(Writer):
    """Lanes side by side, rows of them below one another: each walks down."""

    def _body(self) -> None:
        out, width = self.out, self.width
        out(f"lane = thread & {COLUMN_LANES - 1}",
            f"row = divide(thread, i64({COLUMN_LANES}))",
            f"points = divide(kept, i64({width}))",
            f"across = divide(points + {COLUMN_LANES - 1}, i64({COLUMN_LANES}))",
            "part = divide(block, across)" if self.plan.stage == "partial"
            else "part = i64(0)",
            f"point = (block - part*across)*{COLUMN_LANES} + lane",
            "begin = part*chunk", "end = chunk" if self.plan.stage == "finish"
            else "end = min(begin + chunk, reduced)", "inside = point < points")
        states = [self.states.start(out, f"_v{v}") for v in range(width)]
        extents = self.kept
        if width > 1:
            out(f"short = divide({self.kept[-1]}, i64({width}))")
            extents = [*self.kept[:-1], "short"]
        with out.block("if inside:"):
            inputs = [] if self.plan.stage == "finish" else [
                replace(o, code=c) for o, c in zip(
                    self.text.inputs, self.plan.codes or "s"*len(self.text.inputs),
                    strict=True)]
            at = offsets(out, "point", extents, inputs, 0, "k", inner=str(width))
            out(*(f"base{k} = {text}" for k, text in at.items()), "j = begin + row",
                *(f"step{o.at} = {o.stride(self.text.kept_loops)}*{self.plan.depth}"
                  for o in inputs))
            for count in dict.fromkeys((self.plan.ahead, 1)):
                with out.block(f"while j + {(count - 1)*self.plan.depth} < end:"):
                    self._down(states, inputs, count)
        self._across_rows(states)
        with out.block("if inside and row == 0:"):
            for v, state in enumerate(states):
                out(f"at{v} = point*{width} + {v}")
                self._finish(state, f"at{v}", f"part*kept + at{v}", f"v{v}_")

    def _down(self, states: list[list[str]], inputs: list[Operand],
              count: int) -> None:
        """Take `count` rows below one another into the states."""
        out, rows = self.out, [f"j + {k*self.plan.depth}" for k in range(count)]
        if self.plan.stage == "finish":
            parts = [self._stored("point", row, f"_{k}") for k, row in enumerate(rows)]
            self.states.tree(out, states[0], parts)
        else:
            loads = [self._load_row(inputs, row, k) for k, row in enumerate(rows)]
            for v, state in enumerate(states):
                self.states.tree(out, state, [
                    self._element({o: texts[v] for o, texts in load.items()},
                                  f"({row})", f"{k}_{v}")
                    for k, (row, load) in enumerate(zip(rows, loads, strict=True))])
        out(f"j += {count*self.plan.depth}")

    def _load_row(self, inputs: list[Operand], row: str,
                  k: int) -> dict[int, list[str]]:
        """Neighbouring elements of each input in a row."""
        out, load = self.out, {}
        at = self._row_offsets(inputs, row, k)
        for o in inputs:
            index = f"base{o.at} + {at[o.at]}"
            names = [f"x{o.at}_{k}"]*self.width
            if o.code == "1" and self.width > 1:
                names = [f"x{o.at}_{k}_{v}" for v in range(self.width)]
                out(f"{', '.join(names)}, = load{self.width}({o.pointer}, {index})")
            else:
                out(f"{names[0]} = {o.pointer}[{index}]")
            load[o.at] = names
        return load

    def _row_offsets(self, inputs: list[Operand], row: str, k: int) -> dict[int, str]:
        """Where a row begins; those after the first of several by addition."""
        if k == 0 or len(self.reduced) > 1:
            strided = [replace(o, code="s") for o in inputs]
            at = offsets(self.out, f"({row})", self.reduced, strided,
                         self.text.kept_loops, f"r{k}_")
        else:
            at = {o.at: f"r{o.at}_at + step{o.at}" for o in inputs}
        self.out(*(f"r{o}_at = {text}" for o, text in at.items()))
        return {o: f"r{o}_at" for o in at}

    def _across_rows(self, states: list[list[str]]) -> None:
        """The states of a block's rows of threads to those of its first row."""
        out, dtypes, block = self.out, self.typed.state, self.plan.threads
        shared = [f"shared{k}" for k in range(len(dtypes))]
        out(*(f"{s} = cuda.shared.array({block*self.width}, {storage_name(d)})"
              for s, d in zip(shared, dtypes, strict=True)))
        for v, state in enumerate(states):
            out(*(f"{s}[{v*block} + thread] = {encode(d, n)}" for s, n, d in
                  zip(shared, state, dtypes, strict=True)))
        out("cuda.syncthreads()", f"half = {self.plan.depth // 2}")
        with out.block("while half > 0:"):
            with out.block("if row < half:"):
                for v, state in enumerate(states):
                    other = [f"{n}_o" for n in state]
                    slot = f"{v*block} + thread + half*{COLUMN_LANES}"
                    out(*(f"{o} = {decode(d, f'{s}[{slot}]')}" for o, s, d in
                          zip(other, shared, dtypes, strict=True)))
                    self.states.merge(out, state, state, other)
                    out(*(f"{s}[{v*block} + thread] = {encode(d, n)}" for s, n, d in
                          zip(shared, state, dtypes, strict=True)))
            out("cuda.syncthreads()", "half = half >> 1")
