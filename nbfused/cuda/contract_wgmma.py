"""Contract on Hopper's tensor cores: the text of the kernel.

A warp group (four warps) brings tiles of A and B to shared memory by TMA; two others
multiply them by wgmma, 64 rows each, and keep the sums in registers.  What they have
goes through shared memory, 32 columns at a time, so that the epilogue, the user's own
scalar function, runs on rows: eight neighbouring elements a lane.

The structure follows measurements with Numba on an H200: tiles of 128×256×64, four of
them on their way, one block a multiprocessor that takes tile after tile.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..scalar.print_numba import cast
from .compile import Kernel
from .contract_text import ContractText, offsets_of
from .source import (
    Operand,
    Source,
    calls_for,
    decoded,
    encoded,
    evaluate,
    kernel_name,
    storage,
)

__all__ = ["COLUMNS", "DEPTH", "ROWS", "STRIDE", "WIDTH", "Hopper", "WgmmaText"]

ROWS, DEPTH = 128, 64
#: Columns of a fragment that are put side by side, and floats from row to row: the rows
#: of half a warp begin in different banks.
COLUMNS, STRIDE = 32, 40
#: Neighbouring elements of a lane in the epilogue.
WIDTH = 8
THREADS = 384
#: Tiles down a column before the next column.
RASTER = 16
#: Descriptor of a tile with 128-byte swizzling, its address left out: bytes from one
#: group of 8 rows to the next, and between tiles that are side by side.
_INNER = (1 << 62) | ((1024 >> 4) << 32) | ((16 >> 4) << 16)
_OUTER = (1 << 62) | ((1024 >> 4) << 32) | ((8192 >> 4) << 16)


@dataclass(frozen=True)
class Hopper:
    """What the text depends on besides the spec.

    Attributes
    ----------
    columns
        Of a tile: 128 or 256.
    along
        For A and B, whether k is the dimension with stride 1.
    batch
        For A and B, the batch loops that they vary along.
    vector
        Whether eight neighbours of every extra and output are one aligned access, or
        one element for all.
    """

    columns: int
    along: tuple[bool, bool]
    batch: tuple[tuple[int, ...], tuple[int, ...]]
    vector: bool

    @property
    def stages(self) -> int:
        """Tiles of A and B that fit in shared memory."""
        return 4 if self.columns == 256 else 6

    @property
    def stage_bytes(self) -> int:
        """Of a tile of A and one of B."""
        return (ROWS + self.columns)*DEPTH*2

    @property
    def kept_at(self) -> int:
        """Where the rows for the epilogue lie; each warp has 16 of its own."""
        return self.stages*self.stage_bytes

    @property
    def barriers_at(self) -> int:
        """Where the barriers lie."""
        return self.kept_at + 8*16*STRIDE*4

    @property
    def shared(self) -> int:
        """Bytes of shared memory."""
        return self.barriers_at + 16*self.stages


class WgmmaText:
    """Writes the kernel of one Contract.

    Parameters
    ----------
    text
        Operands, ranks and functions.
    plan
        How.
    """

    def __init__(self, text: ContractText, plan: Hopper) -> None:
        self.text, self.plan, self.typed = text, plan, text.typed
        self.out = Source(kernel_name(text.name, f"wgmma{ROWS}x{plan.columns}"))
        self.others = [*text.extras, *text.outputs]
        self.calls = calls_for(text.outputs)
        self.groups, self.first = [], []
        loops = 0
        for rank in text.ranks:
            self.groups.append([f"n{loops + k}" for k in range(rank)])
            self.first.append(loops)
            loops += rank
        self.kind = "f16" if text.factors[0].dtype.name == "float16" else "bf16"

    def kernel(self) -> Kernel:
        """The text and its parameters."""
        out = self.out
        out.descriptor("map_left", "map_right")
        for o in self.others:
            out.pointer(o.pointer, storage(o.dtype))
        loops = sum(self.text.ranks)
        out.integer(*(f"n{k}" for k in range(loops)),
                    *(o.stride(k) for o in self.others for k in range(loops)))
        epilogue = self.typed.epilogue
        names = [p for p, k in zip(epilogue.function.params[1:], self.typed.kinds,
                                   strict=True) if k == "scalar"]
        self.scalars = {p: out.scalar(f"a{k}", epilogue.dtypes[p])
                        for k, p in enumerate(names)}
        self._begin()
        with out.block("if warp < 4:"):
            self._produce()
        with out.block("else:"):
            self._consume()
        return out.kernel(THREADS, 1, feature="a")

    def _begin(self) -> None:
        out, plan = self.out, self.plan
        for name, extents in zip(("batch", "m", "n", "k"), self.groups, strict=True):
            out(f"size_{name} = {'*'.join(extents) or 'i64(1)'}")
        out("memory = tiles_at()", "thread = i64(cuda.threadIdx.x)",
            "warp = first_lane(thread >> 5)",
            f"full = memory + {plan.barriers_at}", f"empty = full + {8*plan.stages}")
        with out.block("if thread == 0:"):
            for s in range(plan.stages):
                out(f"barrier_init(full + {8*s}, 1)", f"barrier_init(empty + {8*s}, 2)")
            out("barrier_fence()")
        out("cuda.syncthreads()",
            f"down = divide(size_m + {ROWS - 1}, i64({ROWS}))",
            f"wide = divide(size_n + {plan.columns - 1}, i64({plan.columns}))",
            "tiles = size_batch*down*wide",
            f"slices = divide(size_k + {DEPTH - 1}, i64({DEPTH}))",
            "stage = i64(0)", "phase = i64(0)", "tile = i64(cuda.blockIdx.x)")

    def _position(self) -> None:
        self.out("batch = divide(tile, down*wide)", "place = tile - batch*down*wide",
                 f"band = divide(place, {RASTER}*wide)",
                 f"place -= band*{RASTER}*wide",
                 f"height = min(down - band*{RASTER}, i64({RASTER}))",
                 "column = divide(place, height)",
                 f"m_first = (band*{RASTER} + place - column*height)*{ROWS}",
                 f"n_first = column*{self.plan.columns}")

    def _next_stage(self) -> None:
        out = self.out
        out("stage += 1")
        with out.block(f"if stage == {self.plan.stages}:"):
            out("stage = i64(0)", "phase ^= 1")

    # --- bringing tiles

    def _produce(self) -> None:
        out, plan = self.out, self.plan
        out("fewer_registers()")
        with out.block("if thread == 0:"), out.block("while tile < tiles:"):
            self._position()
            self._batch_coordinates()
            out("slice = i64(0)")
            with out.block("while slice < slices:"):
                out("barrier_wait(empty + 8*stage, phase ^ 1)",
                    "ready = full + 8*stage",
                    f"barrier_expect(ready, {plan.stage_bytes})",
                    f"left = memory + stage*{plan.stage_bytes}",
                    f"right = left + {ROWS*DEPTH*2}", f"k = slice*{DEPTH}")
                self._copies(0, "left", "m_first", ROWS)
                self._copies(1, "right", "n_first", plan.columns)
                self._next_stage()
                out("slice += 1")
            out("tile += i64(cuda.gridDim.x)")

    def _batch_coordinates(self) -> None:
        rest, extents = "batch", self.groups[0]
        for k in range(len(extents) - 1, 0, -1):
            self.out(f"rest{k} = divide({rest}, {extents[k]})",
                     f"batch{k} = {rest} - rest{k}*{extents[k]}")
            rest = f"rest{k}"
        if extents:
            self.out(f"batch0 = {rest}")

    def _copies(self, which: int, target: str, first: str, extent: int) -> None:
        """One box where k is the inner dimension, else one for each 64 of the other."""
        batch = [f"batch{k}" for k in reversed(self.plan.batch[which])]
        rank, descriptor = 2 + len(batch), ("map_left", "map_right")[which]
        boxes = [(0, "k", first)] if self.plan.along[which] else [
            (c*DEPTH*128, f"{first} + {64*c}", "k") for c in range(extent//64)]
        for at, inner, outer in boxes:
            places = ", ".join([inner, outer, *batch])
            self.out(f"tile_copy{rank}({target} + {at}, {descriptor}, ready, {places})")

    # --- multiplying them

    def _consume(self) -> None:
        out, plan, n = self.out, self.plan, self.plan.columns
        steps = [2 if along else 128 for along in plan.along]
        base = [_INNER if along else _OUTER for along in plan.along]
        # 64 rows of A are 8192 bytes, whichever dimension is the inner one.
        out("more_registers()", "group = (warp >> 2) - 1", "lane = thread & 31",
            f"left = i64({base[0]}) + (((memory + group*8192) & 0x3FFFF) >> 4)",
            f"right = i64({base[1]}) + (((memory + {ROWS*DEPTH*2}) & 0x3FFFF) >> 4)",
            f"kept = memory + {plan.kept_at} + (warp - 4)*{16*STRIDE*4}",
            f"mine = kept + ((lane >> 2)*{STRIDE} + (lane & 3)*2)*4",
            f"row = (lane >> 2)*{STRIDE*4} + (lane & 3)*{WIDTH*4}",
            "odd = (lane & 4) != 0")
        with out.block("while tile < tiles:"):
            self._position()
            out(f"sums = zeros{n}()", "slice = i64(0)", "before = empty")
            with out.block("while slice < slices:"):
                out("barrier_wait(full + 8*stage, phase)",
                    f"at = stage*{plan.stage_bytes >> 4}",
                    f"sums = product_{self.kind}_{n}_{steps[0]}_{steps[1]}"
                    "(sums, left + at, right + at, slice > 0)",
                    f"sums = product_wait{n}_1(sums)")
                with out.block("if slice > 0 and (thread & 127) == 0:"):
                    out("barrier_arrive(before)")
                out("before = empty + 8*stage")
                self._next_stage()
                out("slice += 1")
            out(f"sums = product_wait{n}_0(sums)")
            with out.block("if slices > 0 and (thread & 127) == 0:"):
                out("barrier_arrive(before)")
            self._results()
            out("tile += i64(cuda.gridDim.x)")

    # --- the results

    def _results(self) -> None:
        """Rows of 32 columns, one after the other, each warp for itself."""
        out = self.out
        for k, text in self._offsets("batch", 0, "b").items():
            out(f"base{k} = {text}")
        out("first_row = m_first + group*64 + (warp & 3)*16 + (lane >> 2)")
        for half in (0, 1):
            out(f"at_m{half} = first_row + {8*half}")
            rows = self._offsets(f"at_m{half}", 1, f"u{half}")
            out(*(f"row{half}_{k} = base{k} + {text}" for k, text in rows.items()))
        for part in range(self.plan.columns//COLUMNS):
            out(f"at_n = n_first + {part*COLUMNS} + (lane & 3)*{WIDTH}")
            same = self._same_in_all_rows()
            out("cuda.syncwarp()", f"keep{self.plan.columns}_{part}(sums, mine)",
                "cuda.syncwarp()", "half = i64(0)")
            with out.block("while half < 2:"):
                self._half(same)
                out("half += 1")

    def _same_in_all_rows(self) -> dict[int, list[str]]:
        """Load what does not depend on the row, early: others wait for shared memory.

        Beyond the last column something else is loaded, and not used.
        """
        if not self.plan.vector:
            return {}
        self.out("there = at_n if at_n < size_n else i64(0)")
        places = self._offsets("there", 2, "w")
        return {o.at: self._load(o, f"base{o.at} + {places[o.at]}", "c")
                for o in self.text.extras if o.code[0] == "0"}

    def _load(self, o: Operand, at: str, letter: str) -> list[str]:
        """The names of eight neighbours, or eight times that of one element."""
        if o.code[1] == "0":
            self.out(f"{letter}{o.at} = {o.pointer}[{at}]")
            return [f"{letter}{o.at}"]*WIDTH
        names = [f"{letter}{o.at}_{e}" for e in range(WIDTH)]
        width = min(WIDTH, 16//o.dtype.itemsize)
        for k in range(0, WIDTH, width):
            self.out(f"{', '.join(names[k:k + width])}, = "
                     f"load{width}({o.pointer}, {at} + {k})")
        return names

    def _half(self, same: dict[int, list[str]]) -> None:
        out = self.out
        out("at_m = at_m0 if half == 0 else at_m1",
            f"eight = kept + row + half*{8*STRIDE*4}",
            "v0, v1, v2, v3, v4, v5, v6, v7 = kept8(eight, odd)",
            *(f"at{o.at} = row0_{o.at} if half == 0 else row1_{o.at}"
              for o in self.others))
        with out.block("if at_m < size_m:"):
            if self.plan.vector:
                with out.block("if at_n < size_n:"):
                    self._eight(same)
                return
            for e in range(WIDTH):
                with out.block(f"if at_n + {e} < size_n:"):
                    self._one(e)

    def _eight(self, same: dict[int, list[str]]) -> None:
        """Whole accesses; size_n is a multiple of eight."""
        places = self._offsets("at_n", 2, "v")
        loads = same | {o.at: self._load(o, f"at{o.at} + {places[o.at]}", "x")
                        for o in self.text.extras if o.at not in same}
        stored = [self._evaluated(e, {k: v[e] for k, v in loads.items()})
                  for e in range(WIDTH)]
        for r, o in enumerate(self.text.outputs):
            self._write(o, f"at{o.at} + {places[o.at]}", [s[r] for s in stored])

    def _write(self, o: Operand, at: str, values: list[str]) -> None:
        width = min(WIDTH, 16//o.dtype.itemsize)
        for k in range(0, WIDTH, width):
            self.out(f"store{width}({o.pointer}, {at} + {k}, "
                     f"({', '.join(values[k:k + width])},))")

    def _one(self, e: int) -> None:
        out = self.out
        places = self._offsets(f"(at_n + {e})", 2, f"v{e}")
        loads = {o.at: f"{o.pointer}[at{o.at} + {places[o.at]}]"
                 for o in self.text.extras}
        values = self._evaluated(e, loads)
        for o, value in zip(self.text.outputs, values, strict=True):
            out(f"{o.pointer}[at{o.at} + {places[o.at]}] = {value}")

    def _evaluated(self, e: int, loads: dict[int, str]) -> list[str]:
        """The epilogue of one element: what is stored."""
        epilogue, params = self.typed.epilogue, self.typed.epilogue.function.params
        want = epilogue.dtypes.get(params[0], self.text.kept)
        arguments: dict[str, object] = {params[0]: cast(self.text.kept, want, f"v{e}")}
        extras = iter(self.text.extras)
        for param, kind in zip(params[1:], self.typed.kinds, strict=True):
            if kind == "scalar":
                arguments[param] = self.scalars[param]
            else:
                o = next(extras)
                arguments[param] = decoded(o.dtype, loads[o.at])
        lines, names = evaluate(epilogue, arguments, f"e{e}_", self.calls)
        self.out(*lines)
        return [encoded(d, o.dtype, n) for d, o, n in zip(
            epilogue.results, self.text.outputs, names, strict=True)]

    def _offsets(self, index: str, group: int, prefix: str) -> dict[int, str]:
        return offsets_of(self.out, index, self.groups[group], self.others,
                          self.first[group], prefix)
