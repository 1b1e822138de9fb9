"""Map on ROCm: a few points a thread, in 16-byte accesses where possible."""

from __future__ import annotations

from math import prod

from ..backend import Call, Launcher, Signature
from ..scalar.ir import Let, walk
from ..scalar.print_hip import Raw, decode
from ..scalar.types import Typed
from ..specs import Map, TypedMap
from .kernel import Kernel
from .launch import Program
from .runtime import device
from .source import (
    Operand,
    Source,
    encoded,
    evaluate,
    kernel_name,
    operand_list,
    width_of,
)

__all__ = ["MapText", "build_map", "map_kernel"]

THREADS = 256
#: Points of one thread where they are not neighbours.
APART = 4
#: Statements that are worth the time to compile them, for all points of a thread.
LONGEST = 400
#: Blocks of one launch; each of them takes several groups where there are more.
MOST_BLOCKS = 1 << 20


class MapText:
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
    looped
        The operands that have a place in the loops.
    width
        Points that a thread takes at once.
    picks
        Which strides the kernel takes: (operand, loop).
    """

    def __init__(self, name: str, typed: TypedMap, signature: Signature, *,
                 neighbours: bool) -> None:
        self.typed, self.neighbours = typed, neighbours
        self.rank, = signature.ranks
        arrays = [t for t, k in zip(signature.inputs, _input_kinds(typed), strict=True)
                  if k != "scalar"]
        self.all = operand_list([*arrays, *signature.outputs], signature.inner)
        self.inputs, self.outputs = self.all[:len(arrays)], self.all[len(arrays):]
        self.results = self.outputs[:len(typed.function.results)]
        self.looped = [o for o in self.all if not o.code.startswith("r")]
        self.width = self._width()
        self.picks = [(o.at, k) for o in self.all for k in range(_loops(o, self.rank))]
        first = len(self.all) + self.rank
        self._words = {pick: first + k for k, pick in enumerate(self.picks)}
        self.name = kernel_name(name, "map", "neighbours" if neighbours else "apart")

    def _width(self) -> int:
        if "scatter" in self.typed.kinds:
            return 1  # atomics are slow: nothing is gained by several at once
        width = width_of(o for o in self.looped if o.code == "1") if self.neighbours \
            else APART
        return _affordable(self.typed.function, width)

    def kernel(self) -> Kernel:
        """The text and its parameters."""
        out = Source(self.name, "map")
        for o in self.all:
            out.pointer(o.dtype)
        extents = out.integers(self.rank + len(self.picks))
        with out.block("struct F", "};"):
            out(f"static constexpr int rank = {self.rank}, extents = {extents}, "
                f"operands = {len(self.all)};")
            self._places(out)
            self._points(out)
        how = "neighbours" if self.neighbours else "apart"
        return out.kernel(THREADS, f"nbf::map_{how}<F, {self.width}>(w)")

    def _places(self, out: Source) -> None:
        with out.block("template <class W> NBF_DEVICE void places(const W &w, "
                       "const int64_t *c, int64_t *at)"):
            for o in self.looped:
                out(f"at[{o.at}] = {self._offset(o)};")
            if not self._words:
                out("static_cast<void>(w);")

    def _offset(self, o: Operand) -> str:
        terms = [f"c[{k}] * {self._stride(o, k)}" for k in range(_loops(o, self.rank))]
        if o.code == "1":
            terms.append(f"c[{self.rank - 1}]")
        return " + ".join(terms) or "0"

    def _stride(self, o: Operand, loop: int) -> str:
        return f"w.integer({self._words[o.at, loop]})"

    def _points(self, out: Source) -> None:
        """Load, compute point by point, store."""
        with out.block("template <class P, class W> NBF_DEVICE void points("
                       "const W &w, const P &points)"):
            for o in self.all:
                out(_pointer(o, o not in self.outputs))
            arguments = self._arguments(out)
            for o in self.results:
                out(f"nbf::Pack<{o.type}, P::size> y{o.at};")
            out("NBF_UNROLL")
            with out.block("for (int k = 0; k < P::size; ++k)"):
                self._evaluate(out, arguments)
            out(*(f"points.store({o.at}, p{o.at}, y{o.at});" for o in self.results))

    def _arguments(self, out: Source) -> dict[str, object]:
        """What stands for the parameters of the function, at point `k`."""
        function = self.typed.function
        found: dict[str, object] = {}
        inputs, scatters = iter(self.inputs), iter(self.outputs[len(self.results):])
        for param, kind in zip(function.function.params, self.typed.kinds, strict=True):
            if kind == "element":
                o = next(inputs)
                how = "repeat" if o.code == "0" else "load"
                out(f"const auto x{o.at} = points.{how}({o.at}, p{o.at});")
                found[param] = decode(o.dtype, f"x{o.at}[k]")
            elif kind == "scalar":
                found[param] = out.scalar(function.dtypes[param])
            elif kind == "index":
                found[param] = "points.index(k)"
            elif kind == "size":
                found[param] = f"nbf::product<rank>(w, {len(self.all)})"
            else:
                found[param] = self._raw(next(inputs if kind == "raw" else scatters))
        return found

    def _raw(self, o: Operand) -> Raw:
        loops = range(_loops(o, self.rank))
        return Raw(o.pointer, tuple(self._stride(o, k) for k in loops), o.dtype)

    def _evaluate(self, out: Source, arguments: dict[str, object]) -> None:
        lines, names = evaluate(self.typed.function, arguments, "v_")
        out(*lines)
        for dtype, o, name in zip(self.typed.function.results, self.results, names,
                                  strict=True):
            out(f"y{o.at}[k] = {encoded(dtype, o.dtype, name)};")


def _pointer(o: Operand, constant: bool) -> str:
    kind = f"const {o.type}" if constant else o.type
    return f"{kind} *const {o.pointer} = w.template pointer<{kind}>({o.at});"


def _affordable(typed: Typed, width: int) -> int:
    """At most `width` points per thread, fewer where the function is long."""
    found = list(walk(typed.function.body))
    if any(isinstance(s, Let) and s.op == "buffer" for s in found):
        return 1  # local memory is scarce
    while width > 1 and width*len(found) > LONGEST:
        width //= 2
    return width


def _loops(operand: Operand, rank: int) -> int:
    """Number of strides that a kernel needs of an operand."""
    if operand.code.startswith("r"):
        return int(operand.code[1:])
    return rank if operand.code == "s" else rank - 1


def _input_kinds(typed: TypedMap) -> list[str]:
    return [k for k in typed.kinds if k in ("element", "scalar", "raw")]


class MapLauncher:
    """Chooses the kernel by what only the call shows: alignment and extents."""

    def __init__(self, name: str, typed: TypedMap, signature: Signature) -> None:
        self._texts = [MapText(name, typed, signature, neighbours=n)
                       for n in (False, True)]
        self._programs: list[Program | None] = [None, None]
        _, near = self._texts
        self._could = (all(o.code in "10" for o in near.looped)
                       and any(o.code == "1" for o in near.looped))
        self._masks = [(o.at, o.dtype.itemsize*near.width - 1)
                       for o in near.looped if o.code == "1"]

    def __call__(self, call: Call) -> None:
        """Launch on the call's stream."""
        neighbours = self._could and self._aligned(call)
        text = self._texts[neighbours]
        groups = -(-prod(call.shape) // (text.width*THREADS))
        values = (*call.pointers, *call.shape,
                  *[call.strides[o][k] for o, k in text.picks], *call.scalars)
        program = self._programs[neighbours] or self._build(neighbours)
        program.launch(device(call.device), call.stream, min(groups, MOST_BLOCKS),
                       values)

    def _build(self, neighbours: bool) -> Program:
        program = Program(self._texts[neighbours].kernel())
        self._programs[neighbours] = program
        return program

    def _aligned(self, call: Call) -> bool:
        """Whether every access of neighbours is one."""
        width = self._texts[True].width
        if any(call.pointers[at] & mask for at, mask in self._masks):
            return False
        rows = len(call.shape) > 1
        return not rows or (call.shape[-1] % width == 0 and all(
            step % width == 0 for at, _ in self._masks
            for step in call.strides[at][:-1]))


def build_map(spec: Map, signature: Signature) -> Launcher:
    """A launcher for `spec`; kernels are compiled when first needed."""
    return MapLauncher(spec.name, spec.typed(signature.inputs, signature.outputs),
                       signature)


def map_kernel(spec: Map, signature: Signature) -> Kernel:
    """The kernel for aligned arrays; needs neither a device nor a compiler."""
    typed = spec.typed(signature.inputs, signature.outputs)
    return MapText(spec.name, typed, signature, neighbours=True).kernel()
