"""The text of Row's kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..backend import Signature
from ..scalar.ir import used_params
from ..scalar.print_numba import cast
from ..scalar.types import Typed
from ..specs import TypedRow
from .compile import Kernel
from .row_plan import RowPlan
from .row_sums import RowSums, own_columns, sum_of
from .source import (
    INT64,
    Operand,
    Source,
    calls_for,
    decoded,
    encoded,
    evaluate,
    is_wide,
    kernel_name,
    offsets,
    operand_list,
    storage,
    width_of,
)
from .states import WARP, States

__all__ = ["RESIDENT", "RowText"]

#: What is printed for a few columns: their indices, and the inputs at each.
Body = Callable[[list[str], list[dict[str, str]]], None]
#: Threads per multiprocessor that sums over rows are cut up for.
RESIDENT = 1024
#: Elements that a lane takes at once where they are not neighbours.
SCATTERED = 4


class RowText:
    """What all kernels of one Row share.

    Parameters
    ----------
    name
        Of the row function.
    typed, signature
        What to compute, on which dtypes and loops.
    """

    def __init__(self, name: str, typed: TypedRow, signature: Signature) -> None:
        self.name, self.typed, self.loops = name, typed, signature.ranks[0]
        named = [(n, k, t) for n, k, t in zip(typed.inputs, typed.kinds,
                                              signature.inputs, strict=True)]
        arrays = [(n, k, t) for n, k, t in named if k != "scalar"]
        operands = operand_list([*(t for _, _, t in arrays), *signature.outputs],
                                signature.inner)
        self.operands = operands
        self.inputs = {n: o for (n, _, _), o in zip(arrays, operands, strict=False)}
        self.kinds = {n: k for n, k, _ in named}
        self.outputs = operands[len(arrays):]
        self.scalars = [n for n, k, _ in named if k == "scalar"]
        self.elements = [o for n, o in self.inputs.items()
                         if self.kinds[n] == "element"]
        self.written = [o for o, t in zip(self.outputs, typed.outs, strict=True)
                        if t.kind == "element"]
        self.sums = [k for k, t in enumerate(typed.outs)
                     if t.kind in ("column", "scalar")]
        self.columns = [k for k in self.sums if typed.outs[k].kind == "column"]
        self.accumulators = {k: sum_of(typed.outs[k].accumulator).state[0]
                             for k in self.sums}
        along = [*(o for n, o in self.inputs.items() if self.kinds[n] != "row"),
                 *self.written]
        self.unit = [o for o in along if o.code == "1"]
        self.could_vector = bool(self.unit) and all(o.code in "10" for o in along) \
            and all(o.code == "1" for o in self.written)
        self.width = width_of(self.unit)

    def passes(self) -> int:
        """How often the elements of a row are read."""
        functions = [s.element for s in self.typed.stages]
        last = [o.function for o in self.typed.outs if o.kind != "row"]
        names = {n for n, k in self.kinds.items() if k == "element"}
        return sum(bool(names & set(_read(f))) for f in functions) + any(
            names & set(_read(f)) for f in last)

    def row_bytes(self, columns: int, plan: RowPlan) -> int:
        """Bytes of shared memory for each row that a block works on at a time."""
        sizes = [o.dtype.itemsize for o in self.elements] if plan.cached else []
        if plan.sums == "shared":
            sizes += [self.accumulators[k].itemsize for k in self.columns]
        return sum(-(-columns*size // 16)*16 for size in sizes)

    def kernel(self, plan: RowPlan) -> Kernel:
        """The text and parameters of one kernel."""
        return _Writer(self, plan).kernel()


def _read(typed: Typed) -> list[str]:
    """Names of the parameters that a function reads."""
    function = typed.function
    return [p for p, u in zip(function.params, used_params(function), strict=True) if u]


class _Writer:
    """The text of one kernel under construction."""

    def __init__(self, text: RowText, plan: RowPlan) -> None:
        self.text, self.plan, self.typed = text, plan, text.typed
        self.out = Source(kernel_name(text.name, "row"))
        self.width = text.width if plan.vector else 1
        self.extents = [f"n{k}" for k in range(text.loops)]
        self.values: dict[str, str] = {"size": "columns"}
        self.cache: dict[int, str] = {}
        self.calls = calls_for(text.outputs)
        self.sums = RowSums(self.out, text, plan)
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
        out, plan, looped = self.out, self.plan, bool(self.text.sums)
        out("thread = i64(cuda.threadIdx.x)", "block = i64(cuda.blockIdx.x)",
            f"rows = {'*'.join(self.extents)}", f"lane = thread & {plan.lanes - 1}",
            f"group = divide(thread, i64({plan.lanes}))")
        self._shared_memory()
        self.sums.start()
        out(f"base = block*{plan.groups}")
        if looped:
            with out.block("while base < rows:"):
                self._row(again=True)
                out(f"base += i64(cuda.gridDim.x)*{plan.groups}")
            self.sums.finish()
        else:
            self._row(again=False)
        return out.kernel(plan.threads, self._blocks())

    def _blocks(self) -> int:
        """How many blocks the registers should suffice for."""
        states = [d for s in self.typed.stages for d in s.state]
        if is_wide((*states, *self.typed.dtypes.values())):
            return max(1, 512 // self.plan.threads)
        return max(1, RESIDENT // self.plan.threads) if self.text.sums else 0

    # --- one row

    def _row(self, *, again: bool) -> None:
        out, typed = self.out, self.typed
        out("inside = base + group < rows",
            "row = base + group if inside else i64(0)",
            "end = columns if inside else i64(0)")
        self._places()
        if self.plan.cached:
            self._copy()
        for k, stage in enumerate(typed.stages):
            self._stage(k, stage.names, again)
        self._outs()
        self._row_outs()

    def _places(self) -> None:
        """Where each operand's row begins; the values that a row has one of."""
        out, text = self.out, self.text
        moving = [replace(o, code="s") for o in text.operands
                  if o not in self._still()]
        at = offsets(out, "row", self.extents, moving, 0, "r")
        out(*(f"base{k} = {place}" for k, place in at.items()))
        self.base = {o.at: f"base{o.at}" if o.at in at else "i64(0)"
                     for o in text.operands}
        for name, o in text.inputs.items():
            if text.kinds[name] == "row":
                element = f"{o.pointer}[{self.base[o.at]}]"
                out(f"in_{name} = {decoded(o.dtype, element)}")
                self.values[name] = f"in_{name}"

    def _still(self) -> list[Operand]:
        """Operands that are the same for every row."""
        text = self.text
        return [*(o for n, o in text.inputs.items() if text.kinds[n] == "column"),
                *(text.outputs[k] for k in text.sums)]

    def _copy(self) -> None:
        """Start the copies of all elements before any is waited for."""
        out = self.out
        with own_columns(out, self.plan, self.width):
            for o in self.text.elements:
                if o.code == "1":
                    out(f"copy_async{self.width}({self.cache[o.at]}, j, "
                        f"{o.pointer}, {self.base[o.at]} + j)")
        out("copy_wait()")

    def _each(self, functions: Sequence[Typed], body: Body) -> None:
        """Call ``body(columns, loads)`` for every few elements of this lane."""
        names = sorted({n for f in functions for n in _read(f)} & set(self._along()))
        if self.plan.vector:
            with own_columns(self.out, self.plan, self.width):
                loads = self._vectors(names)
                body([f"(j + {k})" if k else "j" for k in range(self.width)], loads)
            return
        lanes = self.plan.lanes
        self.out("j = lane")
        for count in (SCATTERED, 1):
            last = (count - 1)*lanes
            with self.out.block(f"while j + {last} < end:"):
                columns = [f"(j + {k*lanes})" if k else "j" for k in range(count)]
                body(columns, self._scattered(names, columns))
                self.out(f"j += {count*lanes}")

    def _along(self) -> list[str]:
        """Inputs that differ from column to column."""
        return [n for n in self.text.inputs if self.text.kinds[n] != "row"]

    def _vectors(self, names: Sequence[str]) -> list[dict[str, str]]:
        """For each of an access's elements, the values of the inputs."""
        out, found = self.out, [dict[str, str]() for _ in range(self.width)]
        for name in names:
            o = self.text.inputs[name]
            parts = [f"x{o.at}_{k}" for k in range(self.width)]
            if o.code == "0":
                out(f"x{o.at}_0 = {o.pointer}[{self.base[o.at]}]")
                parts = [parts[0]]*self.width
            else:
                source, place = (self.cache[o.at], "j") if o.at in self.cache else (
                    o.pointer, f"{self.base[o.at]} + j")
                out(f"{', '.join(parts)}, = load{self.width}({source}, {place})")
            for values, part in zip(found, parts, strict=True):
                values[name] = decoded(o.dtype, part)
        return found

    def _scattered(self, names: Sequence[str],
                   columns: Sequence[str]) -> list[dict[str, str]]:
        out, found = self.out, []
        for k, column in enumerate(columns):
            values = {}
            for name in names:
                o = self.text.inputs[name]
                out(f"x{o.at}_{k} = {o.pointer}[{self._place(o, column)}]")
                values[name] = decoded(o.dtype, f"x{o.at}_{k}")
            found.append(values)
        return found

    def _place(self, o: Operand, column: str) -> str:
        if o.code == "0":
            return self.base[o.at]
        along = column if o.code == "1" else f"{column}*{o.stride(self.text.loops)}"
        return f"{self.base[o.at]} + {along}"

    def _arguments(self, typed: Typed, extra: Mapping[str, str]) -> dict[str, object]:
        """Texts of a function's parameters, in the dtypes that it wants."""
        known = {**self.values, **extra}
        found: dict[str, object] = {}
        for p in _read(typed):
            have = INT64 if p in ("index", "size") else self.typed.dtypes.get(p, INT64)
            found[p] = cast(have, typed.dtypes.get(p, have), known[p])
        return found

    # --- stages and results

    def _stage(self, at: int, names: Sequence[str], again: bool) -> None:
        out, stage = self.out, self.typed.stages[at]
        states = States(stage.merge, stage.identity, stage.state, f"z{at}_",
                        self.calls)
        state = states.start(out)

        def body(columns: list[str], loads: list[dict[str, str]]) -> None:
            parts = []
            for k, (column, values) in enumerate(zip(columns, loads, strict=True)):
                parts.append(states.names(f"_{k}"))
                states.assign(out, parts[-1], stage.element, self._arguments(
                    stage.element, {**values, "index": column}))
            states.tree(out, state, parts)

        self._each([stage.element], body)
        if self.plan.lanes <= WARP:
            states.across_lanes(out, state, self.plan.lanes)
        else:
            states.across_block(out, state, self.plan.threads, again=again)
        post = stage.post
        count = len(state)
        arguments = {**self._wired(post, count), **{
            p: cast(d, post.dtypes.get(p, d), n) for p, d, n in zip(
                post.function.params[:count], stage.state, state, strict=True)}}
        lines, results = evaluate(post, arguments, f"v{at}_", self.calls)
        out(*lines)
        self.values |= dict(zip(names, results, strict=True))

    def _wired(self, post: Typed, count: int) -> dict[str, object]:
        """Arguments of a post function after the state."""
        rest = set(post.function.params[count:])
        inner = [p for p in _read(post) if p in rest]
        return {p: cast(self.typed.dtypes.get(p, INT64), post.dtypes[p],
                        self.values[p]) for p in inner}

    def _outs(self) -> None:
        """Everything that needs the elements once more."""
        typed = self.typed.outs
        wanted = [k for k, t in enumerate(typed) if t.kind != "row"]
        if not wanted:
            return
        self.count = 0

        def body(columns: list[str], loads: list[dict[str, str]]) -> None:
            self.count += 1
            for k in wanted:
                function, names = typed[k].function, []
                for e, (column, values) in enumerate(zip(columns, loads, strict=True)):
                    lines, (name,) = evaluate(
                        function, self._arguments(
                            function, {**values, "index": column}),
                        f"y{self.count}_{k}_{e}_", self.calls)
                    self.out(*lines)
                    names.append(name)
                self._put(k, columns, names)

        self._each([typed[k].function for k in wanted], body)

    def _put(self, k: int, columns: list[str], names: list[str]) -> None:
        """Store elements, or add them to the sums over rows."""
        out, typed, o = self.out, self.typed.outs[k], self.text.outputs[k]
        result = typed.function.results[0]
        if typed.kind == "element":
            parts = [encoded(result, o.dtype, n) for n in names]
            if self.plan.vector:
                out(f"store{self.width}({o.pointer}, {self.base[o.at]} + j, "
                    f"({', '.join(parts)},))")
            else:
                out(*(f"{o.pointer}[{self._place(o, c)}] = {p}"
                      for c, p in zip(columns, parts, strict=True)))
            return
        self.sums.add(k, columns, [(result, n) for n in names])

    def _row_outs(self) -> None:
        out, wanted = self.out, [k for k, t in enumerate(self.typed.outs)
                                 if t.kind == "row"]
        if not wanted:
            return
        with out.block("if inside and lane == 0:"):
            for k in wanted:
                function, o = self.typed.outs[k].function, self.text.outputs[k]
                lines, (name,) = evaluate(function, self._arguments(function, {}),
                                          f"q{k}_", self.calls)
                stored = encoded(function.results[0], o.dtype, name)
                out(*lines, f"{o.pointer}[{self.base[o.at]}] = {stored}")

    # --- shared memory

    def _shared_memory(self) -> None:
        """Where each group's part of dynamic shared memory begins."""
        out, text = self.out, self.text
        kept = [(f"cache{o.at}", storage(o.dtype), o.dtype.itemsize)
                for o in text.elements] if self.plan.cached else []
        kept += self.sums.shared()
        sizes = [f"((columns*{size} + 15) & -16)" for _, _, size in kept]
        if kept:
            out(f"room = {' + '.join(sizes)}", "place = i64(0)")
        for (name, kind, _), size in zip(kept, sizes, strict=True):
            out(f"{name}_at = place", f"{name} = shared_{kind}(group*room + {name}_at)",
                f"place += {size}")
        if self.plan.cached:
            self.cache = {o.at: f"cache{o.at}" for o in text.elements if o.code == "1"}
