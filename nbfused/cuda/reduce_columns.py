"""Reduce where neighbouring lanes have neighbouring kept points."""

from __future__ import annotations

from dataclasses import replace

from ..scalar.print_numba import decode, encode
from .hints import loaded_text
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
            "part = divide(block, across)" if self.plan.stage in ("partial", "last")
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
            inputs = None if self.plan.stage == "finish" else [
                replace(o, code=c) for o, c in zip(
                    self.text.inputs, self.plan.codes or "s"*len(self.text.inputs),
                    strict=True)]
            at = offsets(out, "point", extents, inputs or [], 0, "k", inner=str(width))
            out(*(f"base{k} = {text}" for k, text in at.items()), "j = begin + row",
                *(f"step{o.at} = {o.stride(self.text.kept_loops)}*{self.plan.depth}"
                  for o in inputs or []))
            self._walk(states, inputs, self.plan.ahead)
        shared = self._shared()
        self._across_rows(states, shared)
        points = [f"at{v}" for v in range(width)]
        with out.block("if inside and row == 0:"):
            out(*(f"{p} = point*{width} + {v}" for v, p in enumerate(points)))
            for state, p in zip(states, points, strict=True):
                if self.plan.stage in ("whole", "finish"):
                    self._results(state, p, p)
                else:
                    self._store_state(state, f"part*kept + {p}")
        if self.plan.stage == "last":
            with self._last_block("block - part*across"):
                self._merge_chunks(states, shared)

    def _merge_chunks(self, states: list[list[str]], shared: list[str]) -> None:
        """The states of the columns of this block and of those below it."""
        out = self.out
        for v in range(self.width):
            self.states.start(out, f"_v{v}")
        out("kept_step = i64(1)", "chunk_step = kept")
        with out.block("if inside:"):
            out("j = row", "end = chunks")
            self._walk(states, None, max(1, self.text.finish_ahead // self.width))
        self._across_rows(states, shared)
        with out.block("if inside and row == 0:"):
            for v, state in enumerate(states):
                self._results(state, f"(point*{self.width} + {v})", f"last{v}")

    def _walk(self, states: list[list[str]], inputs: list[Operand] | None,
              ahead: int) -> None:
        """From `j` to `end`, several rows at once; without inputs those of states."""
        for count in self.text.counts(ahead):
            with self.out.block(f"while j + {(count - 1)*self.plan.depth} < end:"):
                self._down(states, inputs, count)

    def _down(self, states: list[list[str]], inputs: list[Operand] | None,
              count: int) -> None:
        """Take `count` rows below one another into the states."""
        out, rows = self.out, [f"j + {k*self.plan.depth}" for k in range(count)]
        loads = [self._load_row(inputs, row, k) for k, row in enumerate(rows)] \
            if inputs is not None else []
        stored = [] if inputs is not None else [
            [self._stored(f"(point*{self.width} + {v})", row, f"_{k}_{v}")
             for k, row in enumerate(rows)] for v in range(self.width)]
        for v, state in enumerate(states):
            self.states.tree(out, state, stored[v] if stored else [
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
                whole = loaded_text(o, self.width, index, self.plan.hint)
                out(f"{', '.join(names)}, = {whole}")
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

    def _shared(self) -> list[str]:
        """Memory for the states of a block."""
        names = [f"shared{k}" for k in range(len(self.typed.state))]
        self.out(*(f"{s} = cuda.shared.array({self.plan.threads*self.width}, "
                   f"{storage_name(d)})"
                   for s, d in zip(names, self.typed.state, strict=True)))
        return names

    def _across_rows(self, states: list[list[str]], shared: list[str]) -> None:
        """The states of a block's rows of threads to those of its first row."""
        out, dtypes, block = self.out, self.typed.state, self.plan.threads
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
