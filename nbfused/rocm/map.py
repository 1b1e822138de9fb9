"""Map on ROCm: a few points a thread, in 16-byte accesses where possible."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ..backend import Call, Launcher, Signature
from ..gpu.map_layout import MapLayout
from ..gpu.operands import Operand, kernel_name, width_of
from ..gpu.programs import Programs
from ..scalar.ir.nodes import Let, walk
from ..scalar.printing.hip import Raw, decode, storage_type
from ..scalar.typing.types import Typed
from ..specs import Map, TypedMap
from .build.kernel import Kernel
from .runtime.device import device
from .runtime.launch import Program
from .text.source import Source, encoded, evaluate

__all__ = ["MapText", "build_map", "map_kernel"]

THREADS = 256
#: Points of one thread where they are not neighbours.
APART = 4
#: Statements that are worth the time to compile them, for all points of a thread.
LONGEST = 400
#: Blocks of one launch; each of them takes several groups where there are more.
MOST_BLOCKS = 1 << 20


class MapText(MapLayout):
    """Writes the kernel of a Map.

    Parameters
    ----------
    name
        Of the function.
    typed
        What to compute.
    signature
        Dtypes, rank, stride codes.
    neighbours
        Several elements in one access: every stride code must be ``"1"`` or ``"0"``,
        every access aligned, and rows of a rank above 1 whole accesses.

    Attributes
    ----------
    width
        Points that a thread takes at once.
    """

    def __init__(self, name: str, typed: TypedMap, signature: Signature, *,
                 neighbours: bool) -> None:
        super().__init__(typed, signature)
        self.neighbours = neighbours
        self.width = self._width()
        first = len(self.operands) + self.rank
        self._words = {pick: first + k for k, pick in enumerate(self.picks)}
        self._sides = first + len(self.picks)
        self._boxes = [2*self.rank*k for k in range(len(typed.inner))]
        #: The box of each operand whose window wraps.
        self._around = {o.at: typed.box_of[p] for p, o in self._arrays()
                        if p in typed.box_of and typed.wraps[typed.box_of[p]]}
        self.name = kernel_name(name, "map", "neighbours" if neighbours else "apart")

    def _arrays(self) -> Iterator[tuple[str, Operand]]:
        """The parameters that are inputs' elements, and their operands."""
        inputs = iter(self.inputs)
        for param, kind in zip(self.typed.function.function.params, self.typed.kinds,
                               strict=True):
            if kind in ("element", "window", "raw"):
                yield param, next(inputs)

    def _width(self) -> int:
        if "scatter" in self.typed.kinds:
            return 1  # atomics are slow: nothing is gained by several at once
        width = width_of(self.unit) if self.neighbours else APART
        return _affordable(self.typed.function, width)

    def kernel(self) -> Kernel:
        """The text and its parameters."""
        out = Source(self.name, "map")
        for o in self.operands:
            out.pointer(o.dtype)
        extents = out.integers(self.rank + len(self.picks)
                               + 2*self.rank*len(self._boxes))
        with out.block("struct F", "};"):
            out(f"static constexpr int rank = {self.rank}, extents = {extents}, "
                f"operands = {len(self.operands)}, boxes = {len(self._boxes)};")
            self._places(out)
            self._points(out)
        how = "neighbours" if self.neighbours else "apart"
        return out.kernel(THREADS, f"nbf::map_{how}<F, {self.width}>(w)")

    def _places(self, out: Source) -> None:
        with out.block("template <class W> NBF_DEVICE void places(const W &w, "
                       "const int64_t *c, int64_t *at)"):
            for o in self.looped:
                out(f"at[{o.at}] = {self._offset(o)};")
            for k in range(len(self._boxes)):
                out(f"at[{len(self.operands) + k}] = {self._inside(k)};")
            if not self._words:
                out("static_cast<void>(w);")

    def _offset(self, o: Operand) -> str:
        at = [self._coordinate(k, self._around.get(o.at)) for k in range(self.rank)]
        terms = [f"{at[k]} * {self._stride(o, k)}" for k in range(self.strides(o))]
        if o.code == "1":
            terms.append(at[-1])
        return " + ".join(terms) or "0"

    def _coordinate(self, k: int, box: int | None) -> str:
        """A coordinate; of a window that wraps it is one in its array."""
        if box is None:
            return f"c[{k}]"
        word, n = self._sides + self._boxes[box] + 2*k, len(self.operands) + k
        return (f"(c[{k}] + (c[{k}] < w.integer({word}) ? w.integer({n}) : c[{k}] >= "
                f"w.integer({word + 1}) ? -w.integer({n}) : 0))")

    def _inside(self, box: int) -> str:
        """Whether the point at coordinates `c` is in a box."""
        word = self._sides + self._boxes[box]
        return " && ".join(f"w.integer({word + 2*k}) <= c[{k}] && c[{k}] < "
                           f"w.integer({word + 2*k + 1})" for k in range(self.rank))

    def _stride(self, o: Operand, loop: int) -> str:
        return f"w.integer({self._words[o.at, loop]})"

    def _points(self, out: Source) -> None:
        """Load, compute point by point, store."""
        with out.block("template <class P, class W> NBF_DEVICE void points("
                       "const W &w, const P &points)"):
            for o in self.operands:
                out(_pointer(o, o not in self.outputs))
            arguments = self._arguments(out)
            for o in self.results:
                out(f"nbf::Pack<{storage_type(o.dtype)}, P::size> y{o.at};")
            out("NBF_UNROLL")
            with out.block("for (int k = 0; k < P::size; ++k)"):
                self._evaluate(out, arguments)
            out(*(f"points.store({o.at}, p{o.at}, y{o.at});" for o in self.results))

    def _arguments(self, out: Source) -> dict[str, object]:
        """Texts that stand for the parameters of the function, at point `k`."""
        function = self.typed.function
        found: dict[str, object] = {}
        inputs, scatters = iter(self.inputs), iter(self.outputs[len(self.results):])
        box_of = self.typed.box_of
        for param, kind in zip(function.function.params, self.typed.kinds, strict=True):
            if kind == "element":
                o = next(inputs)
                how = "repeat" if o.code == "0" else "load"
                out(f"const auto x{o.at} = points.{how}({o.at}, p{o.at});")
                found[param] = decode(o.dtype, f"x{o.at}[k]")
            elif kind == "window":
                o, box = next(inputs), len(self.operands) + box_of[param]
                how = f"load({o.at}" if o.at in self._around else \
                    f"window({o.at}, {box}"
                out(f"const auto x{o.at} = points.{how}, p{o.at});")
                found[param] = decode(o.dtype, f"x{o.at}[k]")
            elif kind == "inside":
                found[param] = \
                    f"points.inside({len(self.operands) + box_of[param]}, k)"
            elif kind == "scalar":
                found[param] = out.scalar(function.dtypes[param])
            elif kind == "index":
                found[param] = "points.index(k)"
            elif kind == "size":
                found[param] = f"nbf::product<rank>(w, {len(self.operands)})"
            else:
                found[param] = self._raw(next(inputs if kind == "raw" else scatters))
        return found

    def _raw(self, o: Operand) -> Raw:
        loops = range(self.strides(o))
        return Raw(o.pointer, tuple(self._stride(o, k) for k in loops), o.dtype)

    def _evaluate(self, out: Source, arguments: dict[str, object]) -> None:
        lines, names = evaluate(self.typed.function, arguments, "v_")
        out(*lines)
        for dtype, o, name in zip(self.typed.function.results, self.results, names,
                                  strict=True):
            out(f"y{o.at}[k] = {encoded(dtype, o.dtype, name)};")


def _pointer(o: Operand, constant: bool) -> str:
    kind = ("const " if constant else "") + storage_type(o.dtype)
    return f"{kind} *const {o.pointer} = w.template pointer<{kind}>({o.at});"


def _affordable(typed: Typed, width: int) -> int:
    """At most `width` points per thread, fewer where the function is long."""
    found = list(walk(typed.function.body))
    if any(isinstance(s, Let) and s.op == "buffer" for s in found):
        return 1  # local memory is scarce
    while width > 1 and width*len(found) > LONGEST:
        width //= 2
    return width


class MapLauncher:
    """Chooses the kernel by what only the call shows: alignment and extents."""

    def __init__(self, name: str, typed: TypedMap, signature: Signature) -> None:
        self._texts = [MapText(name, typed, signature, neighbours=n)
                       for n in (False, True)]
        self._programs: Programs[bool, Program] = Programs(
            Program, lambda neighbours: self._texts[neighbours].kernel())

    def __call__(self, call: Call) -> None:
        """Launch on the call's stream."""
        near = self._texts[True]
        neighbours = near.is_aligned(call, near.width)
        text = self._texts[neighbours]
        groups = -(-prod(call.shape) // (text.width*THREADS))
        self._programs[neighbours].launch(
            device(call.device), call.stream, min(groups, MOST_BLOCKS),
            text.values(call))


def build_map(spec: Map, signature: Signature) -> Launcher:
    """A launcher for `spec`; kernels are compiled when first needed."""
    return MapLauncher(spec.name, spec.typed(signature.inputs, signature.outputs),
                       signature)


def map_kernel(spec: Map, signature: Signature) -> Kernel:
    """The kernel for aligned arrays; needs neither a device nor a compiler."""
    typed = spec.typed(signature.inputs, signature.outputs)
    return MapText(spec.name, typed, signature, neighbours=not typed.inner).kernel()
