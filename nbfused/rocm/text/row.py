"""The text of Row's kernel: the structs that ``hip/row.hip`` takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...gpu.operands import Operand, kernel_name
from ...gpu.row_layout import RowLayout, read_names
from ...scalar.printing.hip import cast, ctype, decode, storage_type
from ...scalar.typing.types import Typed
from ...scalar.typing.values import INT64
from ..build.kernel import Kernel
from .row_plan import RowPlan
from .row_sums import RowSums
from .source import Source, encoded, evaluate
from .states import declare_state, return_state, state_parts

__all__ = ["RowText"]


class RowText(RowLayout):
    """Operands, functions and text of one Row's kernels."""

    def passes(self) -> int:
        """Number of times that the elements of a row are read."""
        functions = [s.element for s in self.typed.stages]
        last = [o.function for o in self.typed.outs if o.kind != "row"]
        names = {n for n, k in self.kinds.items() if k == "element"}
        return sum(bool(names & set(read_names(f))) for f in functions) + any(
            names & set(read_names(f)) for f in last)

    def row_bytes(self, columns: int, plan: RowPlan) -> int:
        """Bytes of shared memory for each row that a block works on at a time."""
        sizes = [o.dtype.itemsize for o in self.elements] if plan.cached else []
        if plan.sums == "shared":
            sizes += [self.accumulators[k].itemsize for k in self.columns]
        return sum(-(-columns*size // 16)*16 for size in sizes)

    def kernel(self, plan: RowPlan) -> Kernel:
        """The text and parameters of one kernel."""
        return _Writer(self, plan).kernel()


class _Writer:
    """The text of one kernel under construction."""

    def __init__(self, text: RowText, plan: RowPlan) -> None:
        self.text, self.plan, self.typed = text, plan, text.typed
        self.out = Source(kernel_name(text.name, "row"), "row")
        self.cached = text.elements if plan.cached else []
        self.values = {"size": "size", "index": "index"}
        for o in text.operands:
            self.out.pointer(o.dtype)
        self.sums = RowSums(self.out, text, plan, [
            (f"c{o.at}", storage_type(o.dtype)) for o in self.cached])
        self.extents = self.out.integers(text.loops + 1)
        self.strides = [self.out.integers(text.loops + 1) for _ in text.operands]
        for name in text.scalars:
            self.values[name] = self.out.scalar(self.typed.dtypes.get(name, INT64))
        self.still = {*(o.at for n, o in text.inputs.items()
                        if text.kinds[n] == "column"),
                      *(text.outputs[k].at for k in text.sums)}

    def kernel(self) -> Kernel:
        out, plan = self.out, self.plan
        self._values()
        self.sums.declare()
        for k in range(len(self.typed.stages)):
            self._stage(k)
        with out.block("struct Task", "};"):
            out(f"static constexpr int ROWS = {self.text.loops}, "
                f"EXTENTS = {self.extents};",
                f"static constexpr bool CACHED = {str(bool(self.cached)).lower()}, "
                f"SUMS = {str(bool(self.text.sums)).lower()};")
            self._begin()
            self.sums.write()
            self._outs()
            self._row_outs()
        stages = ", ".join(f"Stage{k}" for k in range(len(self.typed.stages)))
        return out.kernel(plan.threads, f"nbf::row<Task, {plan.threads}, {plan.lanes}, "
                          f"{plan.each}, {plan.wide}>(w, nbf::Sequence<{stages}>())")

    # --- what is known of a row

    def _values(self) -> None:
        """Declare the struct of what is known of a row, and where it is found."""
        text, lines = self.text, []
        lines += [f"int64_t b{o.at};" for o in text.operands if o.at not in self.still]
        lines += [f"{storage_type(o.dtype)} *c{o.at};" for o in self.cached]
        for name, o in text.inputs.items():
            if text.kinds[name] == "row":
                lines.append(f"{ctype(o.dtype)} x{o.at};")
                self.values[name] = f"v.x{o.at}"
        for k, stage in enumerate(self.typed.stages):
            for e, (name, dtype) in enumerate(zip(stage.names, stage.post.results,
                                                  strict=True)):
                lines.append(f"{ctype(dtype)} s{k}_{e};")
                self.values[name] = f"v.s{k}_{e}"
        with self.out.block("struct Values", "};"):
            self.out(*lines)

    def _begin(self) -> None:
        out, text = self.out, self.text
        with out.block("template <class W> NBF_DEVICE Values begin(const W &w, "
                       "int64_t row, unsigned char *room, int64_t columns)"):
            out("Values v;")
            out(*(f"v.b{o.at} = nbf::offset<ROWS>(w, row, EXTENTS, "
                  f"{self.strides[o.at]});"
                  for o in text.operands if o.at not in self.still))
            for name, o in text.inputs.items():
                if text.kinds[name] == "row":
                    element = f"{self._pointer(o)}[v.b{o.at}]"
                    out(f"v.x{o.at} = {decode(o.dtype, element)};")
            out(*(f"v.c{o.at} = {self.sums.place(f'c{o.at}', 'room')};"
                  for o in self.cached), "return v;")
        if self.cached:
            self._copy()

    def _copy(self) -> None:
        """From memory to registers, from there to shared memory."""
        out = self.out
        members = " ".join(f"nbf::Pack<{storage_type(o.dtype)}, N> x{o.at};"
                           for o in self.cached)
        loads = ", ".join(f"nbf::load<N>({self._pointer(o)}, v.b{o.at} + place)"
                          for o in self.cached)
        out(f"template <int N> struct Copy {{ {members} }};",
            "template <int N, class W> NBF_DEVICE Copy<N> fetch(const W &w, "
            f"const Values &v, int64_t place) {{ return {{{loads}}}; }}")
        with out.block("template <int N> NBF_DEVICE void keep(const Values &v, "
                       "int64_t place, const Copy<N> &x)"):
            out(*(f"nbf::store<N>(v.c{o.at}, place, x.x{o.at});" for o in self.cached))

    def _pointer(self, o: Operand) -> str:
        constant = "" if o in self.text.outputs else "const "
        return f"w.template pointer<{constant}{storage_type(o.dtype)}>({o.at})"

    def _at(self, o: Operand) -> str:
        """The offset of the element in the column `place`."""
        stride = f"w.integer({self.strides[o.at] + self.text.loops})"
        along = {"1": "place", "0": "", "s": f"place * {stride}"}[o.code]
        base = "" if o.at in self.still else f"v.b{o.at}"
        return " + ".join(filter(None, (base, along))) or "0"

    # --- elements

    def _loads(self, functions: Sequence[Typed]) -> dict[str, str]:
        """Write what reads the inputs of some functions; texts of their values."""
        text = self.text
        read = {n for f in functions for n in read_names(f)}
        wanted = [(n, o) for n, o in text.inputs.items()
                  if n in read and text.kinds[n] != "row"]
        members, lines, found = [], [], {}
        for name, o in wanted:
            packed = self.plan.width > 0 and o.code == "1"
            kind = storage_type(o.dtype)
            members.append(f"nbf::Pack<{kind}, N> x{o.at};" if packed
                           else f"{kind} x{o.at};")
            lines.append(f"x.x{o.at} = {self._load(o, packed)};")
            found[name] = decode(o.dtype, f"x.x{o.at}[e]" if packed else f"x.x{o.at}")
        self.out(f"template <int N> struct Load {{ {' '.join(members)} }};")
        with self.out.block("template <int N, class W> NBF_DEVICE Load<N> load("
                            "const W &w, const Values &v, int64_t place)"):
            self.out("Load<N> x;", *lines, "return x;")
        return found

    def _load(self, o: Operand, packed: bool) -> str:
        if not packed:
            return f"{self._pointer(o)}[{self._at(o)}]"
        if o in self.cached:
            return f"nbf::load<N>(v.c{o.at}, place)"
        return f"nbf::load<N>({self._pointer(o)}, {self._at(o)})"

    def _arguments(self, typed: Typed, extra: Mapping[str, str],
                   skip: int = 0) -> dict[str, object]:
        """Texts of a function's parameters, the first few apart, as it wants them."""
        known, rest = {**self.values, **extra}, set(typed.function.params[skip:])
        found: dict[str, object] = {}
        for p in read_names(typed):
            if p in rest:
                have = INT64 if p in ("index", "size") else self.typed.dtypes.get(
                    p, INT64)
                found[p] = cast(have, typed.dtypes.get(p, have), known[p])
        return found

    # --- stages and results

    def _stage(self, at: int) -> None:
        out, stage = self.out, self.typed.stages[at]
        with out.block(f"struct Stage{at}", "};"):
            declare_state(out, stage.merge, stage.identity, stage.state)
            loads = self._loads([stage.element])
            with out.block("template <int N, class W> NBF_DEVICE State element("
                           "const W &w, const Values &v, const Load<N> &x, int e, "
                           "int64_t index, int64_t size)"):
                return_state(out, stage.element, stage.state,
                             self._arguments(stage.element, loads))
            with out.block("template <class W> NBF_DEVICE void post(const W &w, "
                           "Values &v, const State &s, int64_t size)"):
                self._post(at)

    def _post(self, at: int) -> None:
        stage = self.typed.stages[at]
        post, count = stage.post, len(stage.state)
        arguments = self._arguments(post, {}, count)
        for p, dtype, text in zip(post.function.params, stage.state,
                                  state_parts(count, "s"), strict=False):
            arguments[p] = cast(dtype, post.dtypes.get(p, dtype), text)
        lines, results = evaluate(post, arguments, "v_")
        self.out(*lines, *(f"v.s{at}_{k} = {r};" for k, r in enumerate(results)))

    def _outs(self) -> None:
        """Everything that needs the elements once more."""
        out, outs = self.out, self.typed.outs
        wanted = [k for k, t in enumerate(outs) if t.kind != "row"]
        loads = self._loads([outs[k].function for k in wanted])
        types = {k: f"Sum{k}::State" if k in self.text.sums
                 else storage_type(self.text.outputs[k].dtype) for k in wanted}
        members = [f"nbf::Pack<{t}, N> y{k};" for k, t in types.items()]
        out(f"template <int N> struct Results {{ {' '.join(members)} }};")
        with out.block("template <int N, class W> NBF_DEVICE void element(const W &w, "
                       "const Values &v, const Load<N> &x, int e, int64_t index, "
                       "int64_t size, Results<N> &y)"):
            for k in wanted:
                self._element(k, loads)
        with out.block("template <int N, class W> NBF_DEVICE void put(const W &w, "
                       "const Values &v, Sums &sums, int64_t place, "
                       "const Results<N> &y)"):
            out(*(self.sums.add(k) if k in self.text.sums else self._put(k)
                  for k in wanted))

    def _element(self, k: int, loads: Mapping[str, str]) -> None:
        function = self.typed.outs[k].function
        lines, (name,) = evaluate(function, self._arguments(function, loads), f"v{k}_")
        result, o = function.results[0], self.text.outputs[k]
        value = self.sums.value(k, result, name) if k in self.text.sums \
            else encoded(result, o.dtype, name)
        self.out(*lines, f"y.y{k}[e] = {value};")

    def _put(self, k: int) -> str:
        o = self.text.outputs[k]
        if self.plan.width:
            return f"nbf::store<N>({self._pointer(o)}, {self._at(o)}, y.y{k});"
        return f"{self._pointer(o)}[{self._at(o)}] = y.y{k}[0];"

    def _row_outs(self) -> None:
        out = self.out
        with out.block("template <class W> NBF_DEVICE void finish(const W &w, "
                       "const Values &v, int64_t size)"):
            for k, t in enumerate(self.typed.outs):
                if t.kind != "row":
                    continue
                o = self.text.outputs[k]
                lines, (name,) = evaluate(t.function, self._arguments(t.function, {}),
                                          f"v{k}_")
                out(*lines, f"{self._pointer(o)}[v.b{o.at}] = "
                            f"{encoded(t.function.results[0], o.dtype, name)};")
