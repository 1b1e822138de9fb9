"""Launcher of `Raw` on the CPU: blocks run by the pool, their threads in loops."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ...backend import Call, Launcher, Signature, Start
from ...errors import BarrierError, RangeError
from ...scalar.ir.nodes import Block, Function
from ...scalar.printing.numba import Raw, cast, statements
from ...scalar.typing.types import Typed
from ...specs.raw import Shared, TypedRaw
from ...support.dtypes import short
from ...support.records import record
from ..runtime.compile import build
from ..runtime.objects import Entry
from ..runtime.pool import POOL
from ..runtime.schedule import SERIAL, bind_parallel
from ..text.function_names import CALLS
from ..text.lines import indented, inlined, invoke, loop
from ..text.operands import INT64, Frame, Operand, Scalar
from .alone import Lonely, find_lonely, with_plain_updates
from .guards import find_guards
from .joined import is_joined
from .phase_text import Slot
from .phases import Phases

__all__ = ["build_raw"]

#: The text of each word that says where a thread is.
WORDS = {
    **{f"threadIdx.{a}": f"t{a}" for a in "xyz"},
    **{f"blockIdx.{a}": f"i{a}" for a in "xyz"},
    **{f"blockDim.{a}": f"d{a}" for a in "xyz"},
    **{f"gridDim.{a}": f"g{a}" for a in "xyz"},
    "laneid": "lane_of", "warpsize": "32",
}
#: Those that differ between the threads of a block.
_VARYING = ("threadIdx.x", "threadIdx.y", "threadIdx.z", "laneid")
#: Bytes; what runs here is to run on a GPU.
MOST_SHARED = 227 * 1024
#: Those that differ between the threads of a row.
_VARYING_X = ("threadIdx.x", "laneid")
#: Beyond every place, and far enough from the ends of int64 for a sum.
_FAR = 1 << 62
#: A launch of fewer threads is not worth waking another processor for; not measured.
_SERIAL = 1 << 11
#: Pieces for each thread of the pool; not measured.
_SHARES = 4
_LINE = 64  # bytes of a cache line
#: Grids and layouts that a launcher remembers.
_MOST = 1024
#: Threads of a row of blocks that run in one loop, where there are several rows.
_JOINED = 4096
#: Lines that say which block `b` is.
_BLOCK = ("ix = b % gx", "iy = b // gx % gy", "iz = b // (gx * gy)")


class _Text:
    """The generated text of a thread kernel, and the layout of its arguments."""

    def __init__(self, typed: TypedRaw, signature: Signature,
                 lonely: Lonely | None = None) -> None:
        self.typed = typed if lonely is None else with_plain_updates(
            typed, lonely.arrays)
        self.lonely = lonely
        self.joined = not (typed.synchronizes or typed.shared) and is_joined(typed)
        self.operands: list[Operand] = []
        self.scalars: list[Scalar] = []
        self.arrays: dict[str, Raw] = {}
        self.values: dict[str, str] = {}
        self.needs: dict[str, tuple[str, ...]] = {}
        self._parameters(signature)
        self._launch_values()
        self._shared()
        extents = [f"e{k}" for k in range(len(typed.extents))]
        self.frame = Frame(self.operands, 0, self.scalars, [
            "gx", "gy", "gz", "dx", "dy", "dz", *extents, "scratch", "step", "room",
            "status_at", "turns", "turn", "joined"])
        self.slots: dict[str, Slot] = {}

    def _parameters(self, signature: Signature) -> None:
        codes = iter(signature.inner)
        function = self.typed.function
        for p, kind, t in zip(function.function.params, self.typed.kinds,
                              signature.inputs, strict=False):
            if kind == "scalar":
                scalar = Scalar(f"c{len(self.scalars)}", function.dtypes[p])
                self.scalars.append(scalar)
                self.values[p] = scalar.value(function.dtypes[p])
                self.needs[p] = (scalar.name,)
                continue
            code = next(codes)
            assert isinstance(t, np.dtype)
            operand = Operand(f"x{len(self.operands)}", t, "r", int(code[1:]))
            self.operands.append(operand)
            strides = operand.strides
            if code[0] == "c":
                strides = (*strides[:-1], "1")
            self.arrays[p] = Raw(operand.name, strides, t)
            self.needs[p] = (operand.name, *(s for s in strides if s != "1"))

    def _launch_values(self) -> None:
        dtypes = self.typed.function.dtypes
        for place in self.typed.places:
            word = WORDS[place.word]
            self.values[place.name] = cast(INT64, dtypes[place.name], word)
            self.needs[place.name] = () if word == "32" else (word,)
        for k, extent in enumerate(self.typed.extents):
            self.values[extent.name] = cast(INT64, dtypes[extent.name], f"e{k}")
            self.needs[extent.name] = (f"e{k}",)

    def _shared(self) -> None:
        for k, shared in enumerate(self.typed.shared):
            self.arrays[shared.name] = Raw(f"m{k}", shared.strides, shared.dtype)
            self.needs[shared.name] = (f"m{k}",)

    def lines(self) -> list[str]:
        """The lines of the whole kernel."""
        if self.typed.synchronizes or self.typed.shared:
            functions, block = self._phases()
        else:
            functions, block = self._threads()
        return [f"# Raw {self.typed.function.function.name}", *functions,
                "def kernel(a, begin, end):", *indented([
                    *self.frame.unpack(),
                    *(line for o in self.operands for line in o.bind()),
                    "threads = dx * dy * dz", *self._memory(),
                    *self._blocks([*_BLOCK, *block])])]

    def _blocks(self, block: list[str]) -> list[str]:
        """Lines of the loop over blocks; pieces of them, where turns are taken."""
        if self.lonely is None:
            return self._piece("begin", "end", block)
        return ["for piece in range(begin, end):", *indented([
            "first = (piece*turns + turn) * step",
            *self._piece("first", "min(first + step, gx * gy * gz)", block)])]

    def _piece(self, first: str, end: str, block: list[str]) -> list[str]:
        """Lines of the loop over blocks; over rows of them, where these are joined."""
        if not self.joined:
            return [f"for b in range({first}, {end}):", *indented(block)]
        return [f"b = {first}", f"stop = {end}", "while b < stop:", *indented([
            *_BLOCK, "many = min(gx - ix, stop - b, joined)", "low = ix * dx",
            "high = low + many * dx", "ix = 0", *block[len(_BLOCK):], "b += many"])]

    def _memory(self) -> list[str]:
        """Lines that lay out a block's arrays, each in cache lines of its own."""
        if not (self.slots or self.typed.shared):
            return []
        lines = ["status = i64_pointer(status_at)", "at = scratch + begin // step*room"]
        sizes = [(f"m{k}", s.dtype, f"{_padded(s)}")
                 for k, s in enumerate(self.typed.shared)]
        sizes += [(name, slot.dtype, f"(threads*{slot.itemsize} + {_LINE - 1}) // "
                                     f"{_LINE}*{_LINE}")
                  for name, slot in self.slots.items()]
        for name, dtype, size in sizes:
            lines += [f"{name} = {short(dtype)}_pointer(at)", f"at += {size}"]
        return lines

    def room(self, threads: int) -> int:
        """Bytes of memory that a block's arrays take."""
        return sum(map(_padded, self.typed.shared)) + sum(
            -(-threads*s.itemsize // _LINE)*_LINE for s in self.slots.values())

    def _threads(self) -> tuple[list[str], list[str]]:
        """Lines of the loop over threads of a kernel without barriers."""
        low, high, bounds, function = self._row()
        arguments = {p: self.arrays.get(p) or self.values[p]
                     for p in function.function.params}
        body = statements(function, arguments, (), prefix="v_", calls=CALLS)
        fixed = ["ty", "tz"]
        given = {n: None for p in function.function.params for n in self.needs[p]
                 if n not in ("tx", *fixed)}
        if "lane_of" in given:
            del given["lane_of"]
            body = ["lane_of = ((tz*dy + ty)*dx + tx) % 32", *body]
            given |= {"dx": None, "dy": None}
        row = [loop("thread", low, high, [*fixed, *given])]
        if self.lonely is not None and not self.lonely.unordered:
            row = [f"for tx in range({low}, {high}):",
                   f"    {invoke('thread', ['tx', *fixed, *given])}"]
        return inlined("thread", ["tx", *fixed, *given], body), [
            "for tz in range(dz):", "    for ty in range(dy):",
            *indented(indented([*bounds, *row]))]

    def _row(self) -> tuple[str, str, list[str], Typed]:
        """The first thread of a row and its end, the lines before, what each does."""
        low, high = ("low", "high") if self.joined else ("0", "dx")
        varying = frozenset(p.name for p in self.typed.places if p.word in _VARYING_X)
        guards = find_guards(self.typed, varying | self.arrays.keys())
        if guards is None:
            return low, high, [], self.typed.function
        bounds = (*guards.firsts, *guards.ends)
        function = self.typed.function
        values = Typed(Function("bounds", function.function.params, Block(
            guards.operations, tuple(b.value for b in bounds))),
            function.dtypes, (INT64,)*len(bounds))
        names = [f"bound{k}" for k in range(len(bounds))]
        lines = statements(values, {p: self.arrays.get(p) or self.values[p]
                                    for p in values.function.params}, names,
                           prefix="w_", calls=CALLS)
        places = [f"min(max({name}, {-_FAR}), {_FAR}) + ({b.offset} - ix*dx)"
                  for name, b in zip(names, bounds, strict=True)]
        firsts, ends = places[:len(guards.firsts)], places[len(guards.firsts):]
        lines += [f"first_x = {_extreme('max', low, *firsts)}",
                  f"end_x = max(first_x, {_extreme('min', high, *ends)})"]
        return "first_x", "end_x", lines, guards.typed.function

    def _phases(self) -> tuple[list[str], list[str]]:
        varying = {p.name for p in self.typed.places if p.word in _VARYING}
        values = {p: "t % 32" if t == "lane_of" else t for p, t in self.values.items()}
        needs = {p: ("t",) if n == ("lane_of",) else n for p, n in self.needs.items()}
        phases = Phases(self.typed, self.arrays, values, varying, needs)
        self.slots = phases.slots
        return phases.functions, phases.lines


def _extreme(function: str, *texts: str) -> str:
    """The text of the least or the greatest of some integers."""
    return texts[0] if len(texts) == 1 else f"{function}({', '.join(texts)})"


def _padded(shared: Shared) -> int:
    return -(-shared.size*shared.dtype.itemsize // _LINE)*_LINE


def build_raw(typed: TypedRaw, signature: Signature) -> Launcher:
    """Compile a Raw and make its launcher."""
    plain = _Text(typed, signature)
    lonely = find_lonely(typed)
    return RawLauncher(typed, plain, plain if lonely is None else _Text(
        typed, signature, lonely))


@record(frozen=True)
class _Way:
    """A way to do launches of one grid: `step` blocks are a piece of work.

    `joined` blocks of a row run in one loop, where the kernel allows it.
    """

    blocks: int
    threads: int
    step: int
    joined: int
    words: tuple[int, ...]


class RawLauncher:
    """Runs the blocks of a launch on the threads of the pool.

    Of the two texts one has updates without atomics, where the kernel has any; the
    other one is compiled for the first launch that needs it.
    """

    def __init__(self, typed: TypedRaw, text: _Text, quick: _Text) -> None:
        self._text, self._quick = text, quick
        self._entries = {id(quick): build("\n".join(quick.lines()))}
        self._types = [o.dtype.itemsize for o in text.operands]
        self._name = typed.function.function.name
        arrays = [p for p, k in zip(typed.function.function.params, typed.kinds,
                                    strict=False) if k == "array"]
        self._places = {a: k for k, a in enumerate(arrays)}
        self._axes = [(arrays.index(e.array), e) for e in typed.extents]
        self._ways: dict[object, _Way] = {}
        self._waits = typed.synchronizes or bool(typed.shared)
        self._shared = sum(s.size*s.dtype.itemsize for s in typed.shared)
        if self._shared > MOST_SHARED:
            raise RangeError(
                f"{self._name}: {self._shared} bytes of shared arrays; a block of a "
                f"GPU has at most {MOST_SHARED}; use smaller arrays")

    def bind(self, call: Call) -> Start | None:
        """Decide for all calls like `call`; None if it depends on more than layouts."""
        text = self._quick
        if self._waits or text.lonely is not None:
            return None
        way = self._way(call)
        pack = text.frame.packer(call, *way.words, 0, way.step, text.room(way.threads),
                                 0, 0, 0, way.joined)
        launch = bind_parallel(self._entry(text), way.blocks, SERIAL, way.step)
        return lambda pointers, scalars, stream: launch(pack(pointers, scalars))

    def __call__(self, call: Call) -> None:
        """Launch; return when the results are there."""
        key = call.grid, call.block, call.extents, call.strides, POOL.threads
        way = self._ways.get(key)
        if way is None:
            if len(self._ways) >= _MOST:
                self._ways.clear()
            way = self._ways[key] = self._way(call)
        text, step, turns = self._quick, way.step, 0
        if text.lonely is not None:
            found = self._turns(text.lonely, call, step, way.blocks)
            text, (step, turns) = (self._text, (step, 0)) if found is None else \
                (text, found)
        pieces = -(-way.blocks // step)
        room, at, status = text.room(way.threads), 0, None
        if self._waits:  # its blocks have arrays, and barriers that can be missed
            scratch, status = np.empty(pieces*room + _LINE, np.uint8), np.zeros(1, int)
            at = -(-scratch.ctypes.data // _LINE)*_LINE
        words = (*way.words, at, step, room, 0 if status is None else
                 status.ctypes.data)
        entry = self._entry(text)
        if not turns:
            POOL.share(entry, text.frame.pack(call, *words, 0, 0, way.joined),
                       way.blocks, step)
        for turn in range(turns):
            POOL.share(entry, text.frame.pack(call, *words, turns, turn, way.joined),
                       -(-(pieces - turn) // turns), 1)
        if status is not None and status[0]:
            raise BarrierError(
                f"{self._name}: not all threads of a block reached the barrier in "
                f"line {status[0]}; move it out of the branch or loop, or make the "
                "condition the same for the whole block")

    def _way(self, call: Call) -> _Way:
        """The way to do launches of a grid and layout."""
        blocks, threads = prod(call.grid), prod(call.block)
        joined = max(_JOINED // call.block[0], 1) if threads > call.block[0] else blocks
        return _Way(blocks, threads, _step(blocks, threads), joined, (
            *call.grid, *call.block, *(e.value(call, k) for k, e in self._axes)))

    def _turns(self, lonely: Lonely, call: Call, step: int,
               blocks: int) -> tuple[int, int] | None:
        """The blocks of a piece and the turns; None where atomics are needed."""
        if step >= blocks:
            return step, 1
        found = lonely.size(call, step)
        apart = found is not None and lonely.apart(call, self._places, self._types)
        return found if apart else None

    def _entry(self, text: _Text) -> Entry:
        """The machine code of a text."""
        if id(text) not in self._entries:
            self._entries[id(text)] = build("\n".join(text.lines()))
        return self._entries[id(text)]

    def texts(self) -> dict[str, Callable[[], str]]:
        """Functions that return the compiled text, by its kind."""
        return {"numba": lambda: "\n".join(self._quick.lines())}

    def attributes(self) -> dict[str, int]:
        """Kernel attributes under the names of GPU drivers; 0 if meaningless."""
        return {"num_regs": 0, "shared_size_bytes": self._shared,
                "local_size_bytes": self._text.room(1) - self._text.room(0),
                "const_size_bytes": 0, "max_threads_per_block": 1024}


def _step(blocks: int, threads: int) -> int:
    """Number of blocks in a piece of work."""
    if blocks*threads < _SERIAL or POOL.threads < 2:
        return max(blocks, 1)
    return -(-blocks // (POOL.threads*_SHARES))
