"""Reduce where each kept point has a group of lanes that walk its elements."""

from __future__ import annotations

from dataclasses import replace

from .hints import loaded_text
from .reduce_writer import Writer
from .source import offsets
from .states import WARP

__all__ = ["Rows"]


class Rows(Writer):
    """A group of lanes for each kept point: neighbours take neighbouring elements."""

    def _body(self) -> None:
        out, plan = self.out, self.plan
        lanes, groups = plan.lanes, plan.threads // plan.lanes
        out(f"lane = thread & {lanes - 1}",
            f"group = block*{groups} + divide(thread, i64({lanes}))")
        self._chunk("group")
        out("inside = point < kept")
        state = self.states.start(out)
        with out.block("if inside:"):
            base = self._kept_offsets("point")
            out("first = begin")
            for count in self.text.counts(plan.ahead):
                step = lanes*self.width
                with out.block(f"while first + {count*step} <= end:"):
                    self._take(state, base, [f"first + {k*step} + lane*{self.width}"
                                             for k in range(count)])
                    out(f"first += {count*step}")
            out("j = first + lane")
            with out.block("while j < end:"):
                self._take(state, base, ["j"], alone=True)
                out(f"j += {lanes}")
        if plan.lanes <= WARP:
            self.states.across_lanes(out, state, lanes)
        else:
            self.states.across_block(out, state, plan.threads, again=False)
        with out.block("if inside and lane == 0:"):
            if plan.stage in ("whole", "finish"):
                self._results(state, "point")
            else:
                self._store_state(state, "group")
        if plan.stage == "last":
            with self._last_block("point"):
                self._merge_chunks(state)

    def _merge_chunks(self, state: list[str]) -> None:
        """The states of a kept point by all of a block, which it has to itself."""
        out, threads = self.out, self.plan.threads
        self.states.start(out)
        out("kept_step = chunks", "chunk_step = i64(1)", "j = thread")
        for count in self.text.counts(self.text.finish_ahead):
            with out.block(f"while j + {(count - 1)*threads} < chunks:"):
                self.states.tree(out, state, [
                    self._stored("point", f"j + {k*threads}", f"_{k}")
                    for k in range(count)])
                out(f"j += {count*threads}")
        self.states.across_block(out, state, threads, again=False)
        with out.block("if thread == 0:"):
            self._results(state, "point", "last")

    def _chunk(self, flat: str) -> None:
        """Split a flat index into the kept point and its chunk of elements."""
        if self.plan.stage in ("partial", "last"):
            self.out(f"point = divide({flat}, chunks)",
                     f"begin = ({flat} - point*chunks)*chunk",
                     "end = min(begin + chunk, reduced)")
        else:
            end = "chunk" if self.plan.stage == "finish" else "reduced"
            self.out(f"point = {flat}", "begin = i64(0)", f"end = {end}")

    def _kept_offsets(self, point: str) -> dict[int, str]:
        """Where the reduced elements of a kept point begin."""
        if self.plan.stage == "finish":
            return {}
        inputs = [replace(o, code="s") for o in self.text.inputs]
        at = offsets(self.out, point, self.kept, inputs, 0, "k")
        self.out(*(f"base{k} = {text}" for k, text in at.items()))
        return {k: f"base{k}" for k in at}

    def _take(self, state: list[str], base: dict[int, str], places: list[str], *,
              alone: bool = False) -> None:
        """Load at several places, map, merge into the state."""
        out, parts = self.out, []
        if self.plan.stage == "finish":
            parts = [self._stored("point", place, f"_{k}")
                     for k, place in enumerate(places)]
        else:
            wide = bool(self.plan.codes) and not alone
            loads = [self._load(base, place, str(k), wide)
                     for k, place in enumerate(places)]
            for k, (place, load) in enumerate(zip(places, loads, strict=True)):
                for e in range(self.width if wide else 1):
                    parts.append(self._element(
                        {o: texts[e] for o, texts in load.items()},
                        f"({place} + {e})", f"{k}_{e}"))
        self.states.tree(out, state, parts)


    def _load(self, base: dict[int, str], place: str, tag: str,
              wide: bool) -> dict[int, list[str]]:
        """Elements of each input from a place in the reduced loops on."""
        out, loads = self.out, {}
        at = offsets(out, f"({place})", self.reduced, self.text.inputs,
                     self.text.kept_loops, f"r{tag}")
        for o in self.text.inputs:
            index = f"{base[o.at]} + {at[o.at]}"
            if wide and o.code == "1":
                names = [f"x{o.at}_{tag}_{e}" for e in range(self.width)]
                load = loaded_text(o, self.width, index, self.plan.hint)
                out(f"{', '.join(names)}, = {load}")
            else:
                names = [f"x{o.at}_{tag}"]*self.width
                out(f"{names[0]} = {o.pointer}[{index}]")
            loads[o.at] = names
        return loads
