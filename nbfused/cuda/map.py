"""Map on CUDA: one group of elements a thread, in 16-byte accesses where possible."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from ..backend import Call, Launcher, Signature
from ..scalar.print_numba import Raw
from ..specs import Map, TypedMap
from .compile import Kernel, ptx
from .driver import device
from .launch import Program
from .source import (
    Operand,
    Source,
    affordable,
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

__all__ = ["MapText", "build_map"]

THREADS = 256
#: Elements of one thread where they are not neighbours.
SCATTERED = 4


class MapText:
    """Writes the kernel of a Map, vectorised or general.

    Parameters
    ----------
    name
        Of the function.
    typed
        What to compute.
    signature
        Dtypes, rank, stride codes.
    vector
        Neighbouring elements in one access: every stride code must be ``"1"`` or
        ``"0"``, every access aligned, and rows of a rank above 1 whole accesses.
    threads
        Per block.
    """

    def __init__(self, name: str, typed: TypedMap, signature: Signature, *,
                 vector: bool, threads: int) -> None:
        self.typed, self.signature, self.vector = typed, signature, vector
        self.threads = threads
        arrays = [t for t, k in zip(signature.inputs, _input_kinds(typed), strict=True)
                  if k != "scalar"]
        self.all = operand_list([*arrays, *signature.outputs], signature.inner)
        self.inputs, self.outputs = self.all[:len(arrays)], self.all[len(arrays):]
        self.results = self.outputs[:len(typed.function.results)]
        self.looped = [o for o in self.all if not o.code.startswith("r")]
        width = width_of(o for o in self.looped if o.code == "1") if vector \
            else SCATTERED
        # Atomics are slow and long: nothing is gained by several at once.
        scatters = "scatter" in typed.kinds
        self.width = 1 if scatters else affordable(typed.function, width)
        self.calls = calls_for(self.outputs)
        self.name = kernel_name(name, "map", "vector" if vector else "general")

    @property
    def picks(self) -> list[tuple[int, int]]:
        """Which strides the kernel takes: (operand, loop)."""
        rank = self.signature.ranks[0]
        return [(o.at, loop) for o in self.all for loop in range(_loops(o, rank))]

    def kernel(self) -> Kernel:
        """The text and its parameters."""
        out = Source(self.name)
        for o in self.all:
            out.pointer(o.pointer, storage(o.dtype))
        rank = self.signature.ranks[0]
        self.extents = [f"n{k}" for k in range(rank)]
        out.integer(*self.extents, *(f"s{o}_{k}" for o, k in self.picks))
        self._declare_arguments(out)
        out(f"size = {'*'.join(self.extents)}",
            f"thread = i64(cuda.blockIdx.x)*{self.threads} + i64(cuda.threadIdx.x)")
        if self.vector:
            self._vectors(out)
        else:
            self._scattered(out)
        wide = is_wide(self.typed.function.dtypes.values())
        return out.kernel(self.threads, 4 if wide else 0)

    def _declare_arguments(self, out: Source) -> None:
        """Parameters of the function that are the same for every element."""
        function = self.typed.function
        inputs, scatters = iter(self.inputs), iter(self.outputs[len(self.results):])
        self.fixed: dict[str, object] = {}
        self.loaded: list[tuple[str, Operand]] = []
        self.indices: list[str] = []
        numbers = count()
        for param, kind in zip(function.function.params, self.typed.kinds, strict=True):
            if kind == "element":
                self.loaded.append((param, next(inputs)))
            elif kind == "scalar":
                self.fixed[param] = out.scalar(f"a{next(numbers)}",
                                               function.dtypes[param])
            elif kind == "index":
                self.indices.append(param)
            elif kind == "size":
                self.fixed[param] = "size"
            else:
                raw = next(inputs if kind == "raw" else scatters)
                strides = tuple(raw.stride(k) for k in range(int(raw.code[1:])))
                self.fixed[param] = Raw(raw.pointer, strides, raw.dtype)

    def _vectors(self, out: Source) -> None:
        width, rank = self.width, len(self.extents)
        out(f"row = divide({self.extents[-1]}, i64({width}))",
            f"vectors = {'*'.join([*self.extents[:-1], 'row'])}")
        with out.block("if thread < vectors:"):
            at = offsets(out, "thread", [*self.extents[:-1], "row"], self.looped, 0,
                         "o", inner=str(width))
            out(f"index = thread*{width}")
            loads = {o.at: self._load(out, o, at[o.at]) for _, o in self.loaded}
            values = self._evaluate(out, [
                ({p: loads[o.at][k] for p, o in self.loaded}, f"index + {k}")
                for k in range(width)])
            for r, o in enumerate(self.results):
                parts = ", ".join(v[r] for v in values)
                out(f"store{width}({o.pointer}, {at[o.at]}, ({parts},))")
        if rank == 1 and width > 1:
            with out.block("elif thread == vectors:"):
                self._one_by_one(out, f"vectors*{width}", "1")

    def _load(self, out: Source, o: Operand, at: str) -> list[str]:
        """The elements of one access as text."""
        width = self.width
        if o.code == "0":
            out(f"x{o.at} = {o.pointer}[{at}]")
            return [f"x{o.at}"] * width
        names = [f"x{o.at}_{k}" for k in range(width)]
        out(f"{', '.join(names)}, = load{width}({o.pointer}, {at})")
        return names

    def _scattered(self, out: Source) -> None:
        out(f"index = i64(cuda.blockIdx.x)*{self.threads*self.width}"
            " + i64(cuda.threadIdx.x)")
        last = (self.width - 1)*self.threads
        with out.block(f"if index + {last} < size:"):
            flat = [f"index + {k*self.threads}" for k in range(self.width)]
            places = [offsets(out, f"({i})", self.extents, self.looped, 0, f"o{k}_")
                      for k, i in enumerate(flat)]
            arguments = []
            for k, i in enumerate(flat):
                loads = {}
                for param, o in self.loaded:
                    out(f"x{o.at}_{k} = {o.pointer}[{places[k][o.at]}]")
                    loads[param] = f"x{o.at}_{k}"
                arguments.append((loads, i))
            for k, value in enumerate(self._evaluate(out, arguments)):
                for o, text in zip(self.results, value, strict=True):
                    out(f"{o.pointer}[{places[k][o.at]}] = {text}")
        with out.block("else:"):
            self._one_by_one(out, "index", str(self.threads))

    def _one_by_one(self, out: Source, first: str, step: str) -> None:
        out(f"j = {first}")
        with out.block("while j < size:"):
            at = offsets(out, "j", self.extents, self.looped, 0, "t")
            loads = {p: f"{o.pointer}[{at[o.at]}]" for p, o in self.loaded}
            value, = self._evaluate(out, [(loads, "j")], "t")
            for o, text in zip(self.results, value, strict=True):
                out(f"{o.pointer}[{at[o.at]}] = {text}")
            out(f"j += {step}")

    def _evaluate(self, out: Source, elements: Sequence[tuple[dict[str, str], str]],
                  prefix: str = "e") -> list[list[str]]:
        """Print the function for each element; the texts of what it stores."""
        function, stored = self.typed.function, []
        dtypes = {p: o.dtype for p, o in self.loaded}
        for k, (loads, index) in enumerate(elements):
            values = {p: decoded(dtypes[p], text) for p, text in loads.items()}
            arguments = {**self.fixed, **values, **dict.fromkeys(self.indices, index)}
            lines, names = evaluate(function, arguments, f"{prefix}{k}_", self.calls)
            out(*lines)
            stored.append([encoded(d, o.dtype, n) for d, o, n in zip(
                function.results, self.results, names, strict=True)])
        return stored


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
        texts = [MapText(name, typed, signature, vector=v, threads=THREADS)
                 for v in (False, True)]
        self._texts = texts
        self._programs: list[Program | None] = [None, None]
        looped = texts[0].looped
        self._rank = signature.ranks[0]
        self._could = (all(o.code in "10" for o in looped)
                       and any(o.code == "1" for o in looped))
        self._width = texts[1].width
        self._unit = [(o.at, min(16, o.dtype.itemsize*self._width) - 1)
                      for o in looped if o.code == "1"]
        self._picks = texts[0].picks

    def __call__(self, call: Call) -> None:
        """Launch on the call's stream."""
        vector = self._could and self._aligned(call)
        size = 1
        for extent in call.shape:
            size *= extent
        each = self._texts[vector].width*THREADS
        strides = call.strides
        values = (*call.pointers, *call.shape,
                  *[strides[o][k] for o, k in self._picks], *call.scalars)
        program = self._programs[vector] or self._build(vector)
        program.launch(device(call.device), call.stream, -(-size // each), values)

    def _build(self, vector: bool) -> Program:
        program = self._programs[vector] = Program(self._texts[vector].kernel())
        return program

    def _aligned(self, call: Call) -> bool:
        for at, mask in self._unit:
            if call.pointers[at] & mask:
                return False
        if self._rank == 1:
            return True
        if call.shape[-1] % self._width:
            return False
        return all(call.strides[at][k] % self._width == 0
                   for at, _ in self._unit for k in range(self._rank - 1))


def build_map(spec: Map, signature: Signature) -> Launcher:
    """A launcher for `spec`; kernels are compiled when first needed."""
    return MapLauncher(spec.name, spec.typed(signature.inputs, signature.outputs),
                       signature)


def map_ptx(spec: Map, signature: Signature, arch: tuple[int, int]) -> str:
    """The PTX of the kernel for aligned arrays; needs no device."""
    typed = spec.typed(signature.inputs, signature.outputs)
    text = MapText(spec.name, typed, signature, vector=True, threads=THREADS)
    return ptx(text.kernel(), arch)
