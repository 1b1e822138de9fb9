"""The text of the kernels of Map: vectorised, or general."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from itertools import count
from math import prod

from ...backend import Call, Signature
from ...gpu.map_layout import MapLayout
from ...gpu.operands import ACCESS, Operand, kernel_name, width_of
from ...scalar.printing.numba import Raw
from ...scalar.typing.types import Typed
from ...specs import TypedMap
from ...support.dtypes import storage
from ..runtime.compile import Kernel
from ..text.hints import loaded_text
from ..text.source import (
    Source,
    affordable,
    calls_for,
    decoded,
    encoded,
    evaluate,
    inverses,
    is_wide,
    offsets,
)

__all__ = ["MapText"]

#: Elements of one thread where they are not neighbours.
SCATTERED = 4
#: Bytes of the inputs that a thread has under way before it uses the first.
IN_FLIGHT = 32


class MapText(MapLayout):
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
    repeat
        Accesses of each operand that a thread starts before it uses the first: of
        neighbours with `vector`, else of elements that lie a block's threads apart.
        None: as many as a rule says.
    near
        For calls whose elements 31 bits number: places take a fraction of the
        instructions, benchmarks/notes/memory.md#short-divisions.
    """

    #: Blocks that the registers of a multiprocessor should suffice for; 0: no wish.
    resident = 0

    def __init__(self, name: str, typed: TypedMap, signature: Signature, *,
                 vector: bool, threads: int, repeat: int | None = None,
                 near: bool = False) -> None:
        super().__init__(typed, signature)
        self.near = near
        self.signature, self.vector = signature, vector
        self._name, self.threads = name, threads
        width = width_of(self.unit) if vector else repeat or SCATTERED
        # Atomics are slow and long: nothing is gained by several at once.
        scatters = "scatter" in typed.kinds
        self.width = 1 if scatters else affordable(typed.function, width)
        self.repeat = 1 if scatters or not vector else repeat or self._repeat()
        self.calls = calls_for(self.outputs)
        kind = ["vector"]*vector + ["near"]*near or ["general"]
        self.name = kernel_name(name, "map", *kind)

    def __str__(self) -> str:
        if not self.vector:
            return f"apart={self.width} threads={self.threads}"
        return f"repeat={self.repeat} threads={self.threads}"

    def variants(self) -> list[MapText]:
        """The kernel itself and, if vectorised, those with other shares of the work."""
        if not self.vector or "scatter" in self.typed.kinds:
            return [self]
        function = self.typed.function
        shares = {(r, self.threads) for r in (1, 2, 4)
                  if affordable(function, r*self.width) == r*self.width}
        shares |= {(self.repeat, self.threads//2), (self.repeat, 2*self.threads)}
        shares.discard((self.repeat, self.threads))
        return [self, *(MapText(self._name, self.typed, self.signature, vector=True,
                                threads=t, repeat=r, near=self.near)
                        for r, t in sorted(shares))]

    def _repeat(self) -> int:
        """Accesses of each operand that a thread starts before it uses the first."""
        if "raw" in self.typed.kinds:
            return 1  # loads one by one are enough under way
        moved = self.width*sum(o.dtype.itemsize for o in self.inputs if o.code == "1")
        wanted = max(1, IN_FLIGHT // max(moved, ACCESS))
        return affordable(self.typed.function, self.width*wanted) // self.width or 1

    @property
    def loaded_operands(self) -> list[Operand]:
        """The inputs of which every element is read once."""
        kinds = [k for k in self.typed.kinds if k in ("element", "raw", "window")]
        return [o for o, k in zip(self.inputs, kinds, strict=True) if k == "element"]

    def blocks(self, shape: Sequence[int]) -> int:
        """Number of blocks for so many points."""
        each = self.width*self.threads*(self.repeat if self.vector else 1)
        return -(-prod(shape) // each)

    def values(self, call: Call, more: Iterable[int] = ()) -> tuple[object, ...]:
        """The arguments; of a kernel for near elements with inverses of extents."""
        if not self.near:
            return super().values(call, more)
        *outer, last = call.shape
        counts = [*outer, last // self.width if self.vector else last]
        return super().values(call, (*inverses(counts), *more))

    def kernel(self, hint: str = "") -> Kernel:
        """The text and its parameters; `hint` goes with whole accesses' loads."""
        return copy(self)._written(hint)  # threads write at once, each on its own

    def _written(self, hint: str) -> Kernel:
        out, self.hint = Source(self.name), hint
        for o in self.operands:
            out.pointer(o.pointer, storage(o.dtype))
        self.extents = [f"n{k}" for k in range(self.rank)]
        out.integer(*self.extents, *(f"s{o}_{k}" for o, k in self.picks))
        if self.near:
            out.integer(*(f"inverse{k}" for k in range(1, self.rank)))
        self._declare_arguments(out)
        out(f"size = {'*'.join(self.extents)}")
        self._body(out)
        wide = is_wide(self.typed.function.dtypes.values())
        return out.kernel(self.threads, 4 if wide else self.resident)

    def _body(self, out: Source) -> None:
        if self.vector:
            self._vectors(out)
        else:
            self._scattered(out)

    def _declare_arguments(self, out: Source) -> None:
        """Parameters of the function that are the same for every element."""
        function = self.typed.function
        scatters = iter(self.outputs[len(self.results):])
        self.fixed: dict[str, object] = {}
        self.indices: list[str] = []
        self.asked: list[str] = []
        numbers = count()
        for param, kind in zip(function.function.params, self.typed.kinds, strict=True):
            if kind == "scalar":
                self.fixed[param] = out.scalar(f"a{next(numbers)}",
                                               function.dtypes[param])
            elif kind == "inside":
                self.asked.append(param)
            elif kind == "index":
                self.indices.append(param)
            elif kind == "size":
                self.fixed[param] = "size"
            elif kind not in ("element", "window"):
                raw = self.raws[param] if kind == "raw" else next(scatters)
                strides = tuple(raw.stride(k) for k in range(int(raw.code[1:])))
                self.fixed[param] = Raw(raw.pointer, strides, raw.dtype)

    def _vectors(self, out: Source) -> None:
        """Whole accesses, some at once; what is left over, one element a thread."""
        width, rank = self.width, len(self.extents)
        out(f"row = divide({self.extents[-1]}, i64({width}))",
            f"vectors = {'*'.join([*self.extents[:-1], 'row'])}",
            f"v = i64(cuda.blockIdx.x)*{self.threads*self.repeat}"
            " + i64(cuda.threadIdx.x)")
        if rank == 1 and width > 1:
            out(f"j = vectors*{width} + v")
            with out.block("if j < size:"):
                self._element(out, "j")
        if self.repeat == 1:
            with out.block("if v < vectors:"):
                self._accesses(out, 1)
            return
        with out.block(f"if v + {(self.repeat - 1)*self.threads} < vectors:"):
            self._accesses(out, self.repeat)
        with out.block("else:"), out.block("while v < vectors:"):
            self._accesses(out, 1)
            out(f"v = uncounted(v + {self.threads})")

    def _accesses(self, out: Source, count: int) -> None:
        """Load `count` accesses, evaluate, store."""
        width, places, elements = self.width, [], []
        for k in range(count):
            at = offsets(out, f"(v + {k*self.threads})", [*self.extents[:-1], "row"],
                         self.looped, 0, f"o{k}_", inner=str(width), short=self.near)
            out(f"index{k} = (v + {k*self.threads})*{width}")
            loads = {p: self._load(out, o, at[o.at], k) for p, o in self.loaded}
            elements += [({p: texts[e] for p, texts in loads.items()},
                          f"index{k} + {e}") for e in range(width)]
            places.append(at)
        values = self._evaluate(out, elements)
        for k, at in enumerate(places):
            for r, o in enumerate(self.results):
                parts = ", ".join(v[r] for v in values[k*width:(k + 1)*width])
                out(f"store{width}({o.pointer}, {at[o.at]}, ({parts},))")

    def _load(self, out: Source, o: Operand, at: str, k: int) -> list[str]:
        """The elements of one access as text."""
        width = self.width
        if o.code == "0":
            out(f"x{o.at}_{k} = {o.pointer}[{at}]")
            return [f"x{o.at}_{k}"] * width
        names = [f"x{o.at}_{k}_{e}" for e in range(width)]
        out(f"{', '.join(names)}, = {loaded_text(o, width, at, self.hint)}")
        return names

    def _scattered(self, out: Source) -> None:
        out(f"index = i64(cuda.blockIdx.x)*{self.threads*self.width}"
            " + i64(cuda.threadIdx.x)")
        if self.width == 1:
            with out.block("if index < size:"):
                self._element(out, "index")
            return
        last = (self.width - 1)*self.threads
        with out.block(f"if index + {last} < size:"):
            flat = [f"index + {k*self.threads}" for k in range(self.width)]
            places = [offsets(out, f"({i})", self.extents, self.looped, 0, f"o{k}_",
                              short=self.near)
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
            out("j = index")
            with out.block("while j < size:"):
                self._element(out, "j")
                out(f"j = uncounted(j + {self.threads})")

    def _element(self, out: Source, j: str) -> None:
        """Load, evaluate and store a single element."""
        at = offsets(out, j, self.extents, self.looped, 0, "t", short=self.near)
        loads = {p: f"{o.pointer}[{at[o.at]}]" for p, o in self.loaded}
        value, = self._evaluate(out, [(loads, j)], "t")
        for o, text in zip(self.results, value, strict=True):
            out(f"{o.pointer}[{at[o.at]}] = {text}")

    def _evaluate(self, out: Source, elements: Sequence[tuple[dict[str, str], str]],
                  prefix: str = "e") -> list[list[str]]:
        """Print the function for each element; the texts of what it stores."""
        stored = []
        dtypes = {p: o.dtype for p, o in self.loaded}
        for k, (loads, index) in enumerate(elements):
            values = {p: decoded(dtypes[p], text) for p, text in loads.items()}
            stored.append(self._printed(out, {**values, **dict.fromkeys(
                self.indices, index)}, f"{prefix}{k}_"))
        return stored

    def _printed(self, out: Source, values: Mapping[str, str], prefix: str,
                 function: Typed | None = None) -> list[str]:
        """Print the function, or one like it, for an element; the stored texts."""
        function = function or self.typed.function
        lines, names = evaluate(function, {**self.fixed, **values}, prefix, self.calls)
        with out.repeated(names):
            out(*lines)
        return [encoded(d, o.dtype, n) for d, o, n in zip(
            function.results, self.results, names, strict=True)]
