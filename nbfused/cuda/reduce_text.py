"""The text of the kernels of Reduce."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..backend import Call, Signature
from ..scalar.print_numba import cast, decode, encode
from ..specs import TypedReduce
from .compile import Kernel
from .source import (
    INT64,
    LONGEST,
    Operand,
    Source,
    decoded,
    encoded,
    evaluate,
    is_wide,
    kernel_name,
    offsets,
    operand_list,
    statements_of,
    storage,
    width_of,
)
from .states import WARP, States, storage_name

__all__ = ["BLOCK", "COLUMN_LANES", "Plan", "ReduceText"]

BLOCK = 256
COLUMN_LANES = 32
#: Blocks that should run on a multiprocessor together: the assembler trades loads that
#: are under way for registers unless it is told how many it may use.
AT_LEAST = {"rows": 6, "columns": 4}
#: Accesses that a lane starts before it uses the first, at most.
AHEAD = 8
#: Bytes that a lane has under way: with fewer the memory idles.
IN_FLIGHT = 64


@dataclass(frozen=True)
class Plan:
    """One kernel of a Reduce.

    Attributes
    ----------
    kind
        ``"rows"`` or ``"columns"``.
    codes
        Empty for the general kernel; else the stride codes of the inputs in the loop
        that is vectorised.
    threads
        Per block.
    lanes
        *rows*: threads per kept point, at most a warp's or all of a block's.
    stage
        ``"whole"``, ``"partial"`` (chunks' states are stored) or ``"finish"`` (they are
        merged).
    ahead
        Accesses of each input that a lane starts before it uses the first.
    """

    kind: str
    codes: tuple[str, ...]
    threads: int
    lanes: int = 1
    stage: str = "whole"
    ahead: int = 4

    @property
    def depth(self) -> int:
        """*columns*: rows of threads below one another."""
        return self.threads // COLUMN_LANES


class ReduceText:
    """Writes the kernels of one Reduce.

    Parameters
    ----------
    name
        Of the function.
    typed, signature
        What to compute, on which dtypes and loops.
    """

    def __init__(self, name: str, typed: TypedReduce, signature: Signature) -> None:
        self.name, self.typed = name, typed
        self.kept_loops, self.reduced_loops = signature.ranks
        arrays = [t for t, k in zip(
            signature.inputs, [k for k in typed.kinds if k in ("element", "scalar")],
            strict=True) if k == "element"]
        operands = operand_list([*arrays, *signature.outputs], signature.inner)
        self.inputs, self.outputs = operands[:len(arrays)], operands[len(arrays):]
        codes = {o.code for o in self.inputs}
        self.rows_vector = self.reduced_loops == 1 and codes <= {"1", "0"} \
            and "1" in codes

    def width(self, codes: Sequence[str]) -> int:
        """Elements per access."""
        return width_of(o for o, c in zip(self.inputs, codes, strict=True) if c == "1")

    def plan_width(self, plan: Plan) -> int:
        """Neighbouring elements that a thread of `plan` takes."""
        return self.width(plan.codes) if plan.codes else 1

    def step(self, plan: Plan) -> int:
        """Reduced elements that a lane of *rows* takes in one iteration."""
        return plan.ahead*self.plan_width(plan)

    def ahead(self, codes: Sequence[str]) -> int:
        """Accesses at once, so that enough is under way and the text not too long."""
        width = self.width(codes) if codes else 1
        moved = sum(o.dtype.itemsize*(width if c == "1" else 1) for o, c in zip(
            self.inputs, codes or "s"*len(self.inputs), strict=True) if c != "0")
        length = statements_of(self.typed.element) + statements_of(self.typed.merge)
        most = min(AHEAD, IN_FLIGHT // max(moved, 1), LONGEST // (width*length))
        return 1 << max(0, most.bit_length() - 1)

    @property
    def finish_ahead(self) -> int:
        """States that a lane loads before it merges the first."""
        most = min(AHEAD, LONGEST // statements_of(self.typed.merge))
        return 1 << max(0, most.bit_length() - 1)

    def values(self, plan: Plan, call: Call, states: Sequence[int],
               numbers: Sequence[int]) -> list[Any]:
        """The kernel's arguments, in the order in which `kernel` declares them."""
        pointers = call.pointers
        chosen = [o.at for o in self._arrays(plan)]
        return [*(pointers[at] for at in chosen), *states, *call.shape, *numbers,
                *(s for at in chosen for s in call.strides[at]),
                *call.scalars, *call.scalars]

    def _arrays(self, plan: Plan) -> list[Operand]:
        return [*(self.inputs if plan.stage != "finish" else []),
                *(self.outputs if plan.stage != "partial" else [])]

    def kernel(self, plan: Plan) -> Kernel:
        """The text and parameters of one kernel."""
        return _Writer(self, plan).kernel()


class _Writer:
    """The text of one kernel under construction."""

    def __init__(self, text: ReduceText, plan: Plan) -> None:
        self.text, self.plan, self.typed = text, plan, text.typed
        self.width = text.plan_width(plan)
        loops = text.kept_loops + text.reduced_loops
        self.kept = [f"n{k}" for k in range(text.kept_loops)]
        self.reduced = [f"n{k}" for k in range(text.kept_loops, loops)]
        self.out = Source(kernel_name(text.name, "reduce", plan.kind, plan.stage))
        self.states = States(self.typed.merge, self.typed.identity, self.typed.state,
                             "z")
        self.stored = [f"w{k}" for k in range(len(self.typed.state))]
        self.steps = ["kept_step", "chunk_step"] if plan.stage == "finish" else []
        self._declare()

    def _declare(self) -> None:
        out, arrays = self.out, self.text._arrays(self.plan)
        for o in arrays:
            out.pointer(o.pointer, storage(o.dtype))
        if self.plan.stage != "whole":
            for name, dtype in zip(self.stored, self.typed.state, strict=True):
                out.pointer(name, storage(dtype))
        out.integer(*self.kept, *self.reduced, "chunks", "chunk", *self.steps,
                    *(o.stride(k) for o in arrays
                      for k in range(len(self.kept) + len(self.reduced))))
        element, post = self.typed.element, self.typed.post
        names = [p for p, k in zip(element.function.params, self.typed.kinds,
                                   strict=True) if k == "scalar"]
        self.scalars = {p: out.scalar(f"a{k}", element.dtypes[p])
                        for k, p in enumerate(names)}
        self.post_scalars = {
            p: out.scalar(f"b{k}", post.dtypes.get(p, element.dtypes[p]))
            for k, p in enumerate(names)}

    def kernel(self) -> Kernel:
        out = self.out
        out("thread = i64(cuda.threadIdx.x)", "block = i64(cuda.blockIdx.x)",
            f"kept = {'*'.join(self.kept)}", f"reduced = {'*'.join(self.reduced)}")
        if self.plan.kind == "rows":
            self._rows()
        else:
            self._columns()
        wide = is_wide(self.typed.state)
        return out.kernel(self.plan.threads,
                          max(1, 512 // self.plan.threads) if wide else
                          AT_LEAST[self.plan.kind]*BLOCK // self.plan.threads)

    # --- rows

    def _rows(self) -> None:
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
            for count in dict.fromkeys((plan.ahead, 1)):
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
            self._finish(state, "point", "group")

    def _chunk(self, flat: str) -> None:
        """Split a flat index into the kept point and its chunk of elements."""
        if self.plan.stage == "partial":
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

    def _stored(self, point: str, chunk: str, suffix: str) -> list[str]:
        """The state of a chunk, as the kernel before this one left it."""
        names = self.states.names(suffix)
        at = f"{point}*kept_step + ({chunk})*chunk_step"
        self.out(*(f"{n} = {decode(d, f'{w}[{at}]')}" for n, w, d in zip(
            names, self.stored, self.typed.state, strict=True)))
        return names

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
                out(f"{', '.join(names)}, = load{self.width}({o.pointer}, {index})")
            else:
                names = [f"x{o.at}_{tag}"]*self.width
                out(f"{names[0]} = {o.pointer}[{index}]")
            loads[o.at] = names
        return loads

    def _element(self, loads: dict[int, str], index: str, tag: str) -> list[str]:
        """The state of one element."""
        function = self.typed.element
        inputs, arguments = iter(self.text.inputs), dict[str, object]()
        for param, kind in zip(function.function.params, self.typed.kinds, strict=True):
            if kind == "element":
                o = next(inputs)
                arguments[param] = decoded(o.dtype, loads[o.at])
            elif kind == "scalar":
                arguments[param] = self.scalars[param]
            else:
                arguments[param] = index if kind == "index" else "reduced"
        names = self.states.names(f"_{tag}")
        self.states.assign(self.out, names, function, arguments)
        return names

    # --- columns

    def _columns(self) -> None:
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

    # --- results

    def _finish(self, state: list[str], point: str, slot: str, tag: str = "") -> None:
        """Store the state of a chunk, or the outputs of a kept point."""
        out, typed = self.out, self.typed
        if self.plan.stage == "partial":
            out(*(f"{w}[{slot}] = {encode(d, n)}" for w, n, d in
                  zip(self.stored, state, typed.state, strict=True)))
            return
        post, values = typed.post, iter(zip(state, typed.state, strict=True))
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
        out(*lines)
        outputs = [replace(o, code="s") for o in self.text.outputs]
        at = offsets(out, point, self.kept, outputs, 0, f"o{tag}")
        for o, dtype, name in zip(outputs, post.results, names, strict=True):
            out(f"{o.pointer}[{at[o.at]}] = {encoded(dtype, o.dtype, name)}")
