"""The text of the kernels of Reduce: the struct that ``hip/reduce.hip`` takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...backend import Call, Signature
from ...gpu.operands import Operand, kernel_name
from ...gpu.reduce_layout import ReduceLayout
from ...scalar.printing.hip import cast, decode, storage_type
from ...scalar.typing.values import INT64
from ...specs import TypedReduce
from ...support.records import record
from ..build.kernel import Kernel
from .source import Source, encoded, evaluate
from .states import declare_state, is_long, return_state, state_parts, state_size

__all__ = ["BLOCK", "COLUMN_LANES", "SCATTERED", "Plan", "ReduceText"]

BLOCK = 256
COLUMN_LANES = 32
#: Accesses that a thread starts before it uses the first: of neighbours, of others.
AHEAD, SCATTERED = 2, 4
#: Inputs beyond which fewer at a time are better.
MANY = 4


@record(frozen=True)
class Plan:
    """One kernel of a Reduce.

    Attributes
    ----------
    kind
        ``"rows"`` or ``"columns"``.
    codes
        Empty for the general kernel; else the stride codes of the inputs in the loop
        that is vectorised.
    width
        Neighbouring elements that a thread takes in one access.
    each
        Accesses that a thread starts before it uses the first.
    threads
        Per block.
    lanes
        *rows*: threads per kept point, at most 32 or all of a block's.
    stage
        ``"whole"``, ``"partial"`` (chunks' states are stored) or ``"finish"`` (they are
        merged).
    """

    kind: str
    codes: tuple[str, ...]
    width: int
    each: int
    threads: int
    lanes: int = 1
    stage: str = "whole"

    @property
    def unit(self) -> int:
        """Reduced elements that a block, or a group of lanes, takes at once."""
        if self.kind == "columns":
            return self.threads // COLUMN_LANES
        return self.lanes*self.each*self.width

    @property
    def points(self) -> int:
        """Kept points of a block."""
        return COLUMN_LANES*self.width if self.kind == "columns" \
            else self.threads // self.lanes


class ReduceText(ReduceLayout):
    """Writes the kernels of one Reduce."""

    def __init__(self, name: str, typed: TypedReduce, signature: Signature) -> None:
        super().__init__(name, typed, signature)
        self.state_size = state_size(typed.state)
        self._scarce = is_long((typed.element, typed.merge)) + (len(self.inputs) > MANY)

    def each(self, width: int) -> int:
        """Accesses at a time."""
        return max(1, (AHEAD if width > 1 else SCATTERED) >> self._scarce)

    def values(self, plan: Plan, call: Call, states: Sequence[int],
               numbers: Sequence[int]) -> list[Any]:
        """The kernel's arguments, in the order in which `kernel` declares them."""
        chosen = [o.at for o in self.arrays(plan)]
        return [*(call.pointers[at] for at in chosen), *states, *call.shape, *numbers,
                *(s for at in chosen for s in call.strides[at]),
                *call.scalars, *call.scalars]

    def kernel(self, plan: Plan) -> Kernel:
        """The text and parameters of one kernel."""
        return _Writer(self, plan).kernel()


class _Writer:
    """The text of one kernel under construction."""

    def __init__(self, text: ReduceText, plan: Plan) -> None:
        self.text, self.plan, self.typed = text, plan, text.typed
        self.out = Source(kernel_name(text.name, "reduce", plan.kind, plan.stage),
                          "reduce")
        self.wide = [c == "1" for c in plan.codes] or [False]*len(text.inputs)
        self.loops = text.kept_loops + text.reduced_loops
        self._declare()

    def _declare(self) -> None:
        out, arrays = self.out, self.text.arrays(self.plan)
        self.pointers = {o.at: out.pointer(o.dtype) for o in arrays}
        if self.plan.stage != "whole":
            self.states = out.pointer(np.dtype(np.uint8))
        self.extents = out.integers(self.loops)
        self.numbers = out.integers(4 if self.plan.stage == "finish" else 2)
        self.strides = {o.at: out.integers(self.loops) for o in arrays}
        element, post = self.typed.element, self.typed.post
        names = [p for p, k in zip(element.function.params, self.typed.kinds,
                                   strict=True) if k == "scalar"]
        self.scalars = {p: out.scalar(element.dtypes[p]) for p in names}
        self.post_scalars = {p: out.scalar(post.dtypes.get(p, element.dtypes[p]))
                             for p in names}

    def kernel(self) -> Kernel:
        out, plan, text, typed = self.out, self.plan, self.text, self.typed
        final = plan.stage == "finish"
        with out.block("struct Task", "};"):
            out(f"static constexpr int KEPT = {text.kept_loops}, "
                f"REDUCED = {text.reduced_loops}, EXTENTS = {self.extents};",
                f"static constexpr bool FINAL = {str(final).lower()};")
            declare_state(out, typed.merge, typed.identity, typed.state)
            if final:
                self._chunks()
            else:
                self._elements()
            self._finish()
        lanes = f"{plan.lanes}, " if plan.kind == "rows" else ""
        return out.kernel(
            plan.threads, f"nbf::reduce_{plan.kind}<Task, {plan.threads}, "
                          f"{lanes}{plan.each}, {plan.width}>(w)")

    def _chunks(self) -> None:
        """The elements are states."""
        kept, chunk = (f"w.integer({self.numbers + k})" for k in (2, 3))
        self.out(
            "struct Point { int64_t first; };",
            "template <int N> struct Load { State state; };",
            "template <class W> NBF_DEVICE Point point(const W &w, int64_t point) "
            f"{{ return {{point * {kept}}}; }}",
            "template <int N, class W> NBF_DEVICE Load<N> load(const W &w, "
            "const Point &p, int64_t place) "
            f"{{ return {{w.template pointer<const State>({self.states})"
            f"[p.first + place * {chunk}]}}; }}",
            "template <int N, class W> NBF_DEVICE State element(const W &, "
            "const Point &, const Load<N> &x, int, int64_t, int64_t) "
            "{ return x.state; }")

    # --- elements

    def _elements(self) -> None:
        out, inputs, stored = self.out, self.text.inputs, self.text.stored
        members = [f"nbf::Pack<{kind}, N> x{o.at};" if wide else f"{kind} x{o.at};"
                   for o, wide in zip(inputs, self.wide, strict=True)
                   for kind in (storage_type(o.dtype),)]
        members += [f"mutable nbf::Pack<{storage_type(o.dtype)}, N> x{o.at};"
                    for o in stored]  # filled element by element, then stored
        moving = [*inputs, *stored]
        first = ", ".join(f"nbf::offset<KEPT>(w, point, EXTENTS, {self.strides[o.at]})"
                          for o in moving)
        out(f"struct Point {{ int64_t {', '.join(f'b{o.at}' for o in moving)}; }};",
            f"template <int N> struct Load {{ {' '.join(members)} }};",
            "template <class W> NBF_DEVICE Point point(const W &w, int64_t point) "
            f"{{ return {{{first}}}; }}")
        with out.block("template <int N, class W> NBF_DEVICE Load<N> load(const W &w, "
                       "const Point &p, int64_t place)"):
            out("Load<N> x;", *(self._read(o, wide) for o, wide in
                                zip(inputs, self.wide, strict=True)), "return x;")
        point = "const Point &p" if stored else "const Point &"
        with out.block("template <int N, class W> NBF_DEVICE State element(const W &w, "
                       f"{point}, const Load<N> &x, int e, int64_t index, "
                       "int64_t size)"):
            return_state(out, self.typed.element, self.typed.state, self._arguments(),
                         self._store_elements if stored else None)

    def _store_elements(self, results: Sequence[str]) -> None:
        """Fill a pack of each array that is stored; the last element stores them."""
        out, stored = self.out, self.text.stored
        out(*(f"x.x{o.at}[e] = {encoded(dtype, o.dtype, result)};" for o, dtype, result
              in zip(stored, self.typed.stored, results, strict=True)))
        with out.block("if (e + 1 == N)"):
            out("const int64_t place = index - e;", *(
                f"nbf::store<N>(w.template pointer<{storage_type(o.dtype)}>"
                f"({self.pointers[o.at]}), p.b{o.at}{self._along(o)}, x.x{o.at});"
                for o in stored))

    def _read(self, o: Operand, wide: bool) -> str:
        """Read the elements of an input at `place`."""
        pointer = (f"w.template pointer<const {storage_type(o.dtype)}>"
                   f"({self.pointers[o.at]})")
        at = f"p.b{o.at}" + self._along(o)
        return f"x.x{o.at} = nbf::load<N>({pointer}, {at});" if wide \
            else f"x.x{o.at} = {pointer}[{at}];"

    def _along(self, o: Operand) -> str:
        """The offset of the reduced element `place`."""
        if self.text.reduced_loops == 1 and o.code != "s":
            return " + place" if o.code == "1" else ""
        return (" + nbf::offset<REDUCED>(w, place, EXTENTS + KEPT, "
                f"{self.strides[o.at]} + KEPT)")

    def _arguments(self) -> dict[str, object]:
        """Texts that stand for the parameters of the element's function."""
        function, found = self.typed.element, dict[str, object]()
        inputs = iter(zip(self.text.inputs, self.wide, strict=True))
        for param, kind in zip(function.function.params, self.typed.kinds, strict=True):
            if kind == "element":
                o, wide = next(inputs)
                found[param] = decode(o.dtype, f"x.x{o.at}[e]" if wide
                                      else f"x.x{o.at}")
            else:
                found[param] = self.scalars[param] if kind == "scalar" else kind
        return found

    # --- results

    def _finish(self) -> None:
        """Store the state of a chunk, or the outputs of a kept point."""
        out = self.out
        with out.block("template <class W> NBF_DEVICE void finish(const W &w, "
                       "const State &s, int64_t point, int64_t slot, int64_t size)"):
            if self.plan.stage == "partial":
                out(f"w.template pointer<State>({self.states})[slot] = s;")
            else:
                self._store()

    def _store(self) -> None:
        post, typed = self.typed.post, self.typed
        state = iter(zip(state_parts(len(typed.state), "s"), typed.state, strict=True))
        arguments: dict[str, object] = {}
        for param, kind in zip(post.function.params, typed.post_kinds, strict=True):
            if kind == "state":
                text, dtype = next(state)
                arguments[param] = cast(dtype, post.dtypes[param], text)
            elif kind == "size":
                arguments[param] = cast(INT64, post.dtypes[param], "size")
            else:
                arguments[param] = self.post_scalars[param]
        lines, results = evaluate(post, arguments, "v_")
        self.out(*lines)
        for o, dtype, result in zip(self.text.outputs, post.results, results,
                                    strict=True):
            at = f"nbf::offset<KEPT>(w, point, EXTENTS, {self.strides[o.at]})"
            kind = storage_type(o.dtype)
            self.out(f"w.template pointer<{kind}>({self.pointers[o.at]})[{at}] = "
                     f"{encoded(dtype, o.dtype, result)};")
