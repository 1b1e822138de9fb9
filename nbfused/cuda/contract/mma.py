"""Contract by ``cp.async`` and ``mma.sync`` or multiply-adds: the text of the kernel.

Tiles of A and B come to shared memory by ``cp.async``, several of them on their way;
16-bit elements that no copy brings come through registers.
Each warp multiplies fragments of them, loaded a step ahead, on tensor cores (sm_80) or
by ordinary multiply-adds.
"""

from __future__ import annotations

from ...gpu.operands import Operand, kernel_name
from ..runtime.compile import Kernel
from ..text.source import Source, offsets
from .plan import Factor, Plan
from .results import ResultRows
from .text import ContractText, position

__all__ = ["FMA_LANES", "NARROWEST", "MmaText"]

#: Bytes of the narrowest copy; narrower elements come through registers.
NARROWEST = 4
#: Threads side by side that bring elements one by one.
FEW = 8
#: Tiles down a column before the next column.
RASTER = 8
_SIDES = (("left", "m"), ("right", "n"))
#: Lanes that differ in bit 0 have the same rows, in bit 1 the same columns: so a load
#: of 16 bytes a lane takes half as many turns.
FMA_LANES = ("lane_m = (lane >> 1) & 7", "lane_n = (lane & 1) | ((lane >> 4) << 1)")


class MmaText:
    """Writes the kernel of one Contract.

    Parameters
    ----------
    text
        Operands, loops and functions.
    plan
        How.
    """

    def __init__(self, text: ContractText, plan: Plan) -> None:
        self.text, self.plan = text, plan
        m, n = plan.extents
        self.out = Source(kernel_name(text.name, f"{plan.engine.name}{m}x{n}"))
        self.scalars = text.parameters(self.out, text.operands)

    def kernel(self) -> Kernel:
        """The text and its parameters."""
        out, plan = self.out, self.plan
        self._begin()
        self._slices()
        with out.block(f"while fetched < {plan.stages - 1}:"):
            self._fetch()
        self._rounds()
        out("copies_wait(0)", "cuda.syncthreads()")
        ResultRows(out, self.text, plan, self.scalars).write()
        return out.kernel(plan.threads, plan.blocks)

    def _rounds(self) -> None:
        """Multiply tile by tile.

        As long as whole tiles are to be sent for, nothing branches: the copies go
        between the multiply-adds, and hide there.
        """
        out, plan, name = self.out, self.plan, self.plan.engine.name
        out(f"copies_wait({plan.stages - 2})", "cuda.syncthreads()",
            f"state = {name}_zeros({plan.units[0]}, {plan.units[1]})",
            f"state = {name}_first(state, left, right, {plan.geometry})",
            "slice = i64(0)", "read = i64(0)",
            f"whole = divide(size_k, i64({plan.depth})) if inside else i64(0)")
        with out.block("while fetched < whole:"):
            self._send(careful=False)
            self._round()
        with out.block("while slice < slices:"):
            self._fetch()
            self._round()

    def _round(self) -> None:
        """Multiply a tile; its last step waits for the next tile's first fragments."""
        out, plan, name = self.out, self.plan, self.plan.engine.name
        out(f"state = {name}_most(state, left + read, right + read, {plan.geometry})",
            f"read = read + {plan.stage_bytes} if read < "
            f"{(plan.stages - 1)*plan.stage_bytes} else i64(0)",
            f"copies_wait({plan.stages - 2})", "cuda.syncthreads()",
            f"state = {name}_last(state, left + read, right + read, {plan.geometry})",
            "slice += 1")

    def _begin(self) -> None:
        out, plan = self.out, self.plan
        self.text.sizes(out)
        position(out, *plan.extents, RASTER)
        out("thread = i64(cuda.threadIdx.x)", "warp = thread >> 5",
            "lane = thread & 31", *plan.warp_place, "memory = shared_at()")
        if plan.engine.name == "fma":
            out(*FMA_LANES)
        for which, (x, axis) in enumerate(_SIDES):
            first = "memory" if which == 0 else f"memory + {plan.tile_bytes(0)}"
            unit = plan.pitch(which) if plan.inner(which) else plan.engine.item
            out(f"{x} = {first} + warp_{axis}*{plan.warp_extents[which]*unit}"
                f" + {_lane_of_fragments(plan, which)}")

    # --- tiles of A and B

    def _slices(self) -> None:
        """Name the elements of each tile that this thread brings, and their sources."""
        out, plan = self.out, self.plan
        m, n = plan.extents
        depth = plan.depth
        bases = offsets(out, "batch", self.text.groups[0], self.text.factors, 0, "f")
        for o, (x, axis) in zip(self.text.factors, _SIDES, strict=True):
            factor, lanes = plan.factors[o.at], self._lanes(o.at)
            out(f"slow = divide(thread, i64({lanes}))",
                f"fast = (thread - slow*{lanes})*{factor.width}",
                f"{x}_row = {axis}_first + {'slow' if factor.along else 'fast'}",
                f"{x}_k = {'fast' if factor.along else 'slow'}")
            row, k = self._strides(o.at)
            unit = plan.pitch(o.at), plan.engine.item
            own, along = unit if plan.inner(o.at) else unit[::-1]
            out(f"{x}_to = ({x}_row - {axis}_first)*{own} + {x}_k*{along}"
                f" + {0 if o.at == 0 else plan.tile_bytes(0)}",
                f"{x}_at = {bases[o.at]} + {x}_row*{row} + {x}_k*{k}")
        out(f"inside = m_first + {m} <= size_m and n_first + {n} <= size_n",
            f"slices = divide(size_k + {depth - 1}, i64({depth}))",
            "fetched = i64(0)", "write = memory")

    def _strides(self, which: int) -> tuple[str, str]:
        """The text of the strides of a factor along its own dimension and along k."""
        o, factor = self.text.factors[which], self.plan.factors[which]
        codes = o.code if which == 0 else o.code[::-1]
        units = [c == "1" for c in codes]
        if factor.width > 1:
            units = [not factor.along, factor.along]
        first = self.text.ranks[0]
        own, k = ("1" if unit else o.stride(loop) for unit, loop in zip(
            units, (first + which, first + 2), strict=True))
        return own, k

    def _lanes(self, which: int) -> int:
        """Threads side by side along the dimension that is brought in order."""
        factor, plan = self.plan.factors[which], self.plan
        if factor.width*plan.engine.item < NARROWEST:
            return FEW  # most places of a thread are constants from one another then
        if not factor.along:
            return plan.extents[which]//factor.width
        # What k steps over in shared memory must not meet in one bank.
        return plan.depth//factor.width if plan.inner(which) else FEW

    def _pieces(self, which: int) -> list[tuple[int, int]]:
        """Rows and places along k from a thread's first piece to each of them."""
        plan, factor = self.plan, self.plan.factors[which]
        extent, lanes, w = plan.extents[which], self._lanes(which), factor.width
        count = plan.depth*extent//(w*plan.threads)
        if factor.along:
            rows = plan.threads//lanes
            per = extent//rows
            return [((e % per)*rows, (e//per)*lanes*w) for e in range(count)]
        if plan.threads >= lanes:
            per = extent//(lanes*w)
            return [((e % per)*lanes*w, (e//per)*(plan.threads//lanes))
                    for e in range(count)]
        per = lanes//plan.threads
        return [((e % per)*plan.threads*w, e//per) for e in range(count)]

    def _fetch(self) -> None:
        """Send for the tiles after those that are on their way, if there are any."""
        out = self.out
        with out.block("if fetched < slices:"):
            self._send(careful=True)
        with out.block("else:"):
            out("copies_end()", "fetched += 1")

    def _send(self, *, careful: bool) -> None:
        out, plan = self.out, self.plan
        out(*[put for o in self.text.factors
              for put in self._copies(o, plan.factors[o.at], careful=careful)])
        for which, (x, _) in enumerate(_SIDES):
            out(f"{x}_at += {plan.depth}*{self._strides(which)[1]}")
        out("copies_end()", "fetched += 1",
            f"write = write + {plan.stage_bytes} if write < memory + "
            f"{(plan.stages - 1)*plan.stage_bytes} else memory")

    def _copies(self, o: Operand, factor: Factor, *, careful: bool) -> list[str]:
        """Copy a tile's elements; returns lines that put those in registers there."""
        plan, (x, axis) = self.plan, _SIDES[o.at]
        row, k = self._strides(o.at)
        unit = plan.pitch(o.at), plan.engine.item
        own, along = unit if plan.inner(o.at) else unit[::-1]
        size, end = factor.width*plan.engine.item, "_if"*careful
        loose, puts = size < NARROWEST, list[str]()
        for e, (rows, ks) in enumerate(self._pieces(o.at)):
            to = f"write + {x}_to + {rows*own + ks*along}"
            source = f"{o.pointer}, {x}_at + {rows}*{row} + {ks}*{k}"
            inside = (f"{x}_row + {rows} < size_{axis}",
                      f"fetched*{plan.depth} + {x}_k + {ks} < size_k")
            if loose:  # `and` branches, so that a load would wait for the one before
                valid = f", ({inside[0]}) & ({inside[1]})"*careful
                self.out(f"{x}_{e} = fetch{size}{end}({source}{valid})")
                puts.append(f"put{size}({to}, {x}_{e})")
            else:
                valid = f", {' and '.join(inside)}"*careful
                self.out(f"copy{size}{end}({to}, {source}{valid})")
        return puts


def _lane_of_fragments(plan: Plan, which: int) -> str:
    """Bytes from a warp's part of a tile to where a lane's fragments begin."""
    pitch, name, item = plan.pitch(which), plan.engine.name, plan.engine.item
    if name == "fma":
        return f"lane_{'mn'[which]}*16"
    if plan.engine.kept == "float64" or (name == "tf32" and not plan.inner(which)):
        row, k = ("(lane >> 2)", "(lane & 3)")
        return f"{row}*{pitch} + {k}*{item}" if plan.inner(which) else \
            f"{k}*{pitch} + {row}*{item}"
    # The four matrices of ldmatrix: for A rows first, then k, for B the other way
    # round; in a tile with k outside, rows and columns of it change places.
    if (which == 0) == plan.inner(which):
        return f"(lane & 15)*{pitch} + (lane >> 4)*16"
    return f"((lane & 7) + (lane >> 4)*8)*{pitch} + ((lane >> 3) & 1)*16"
