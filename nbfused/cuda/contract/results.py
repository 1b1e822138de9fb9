"""The epilogue on rows: sums in shared memory become results.

Each warp puts a strip of its sums in shared memory and reads them back as rows, several
neighbours a lane, so that a spec's function meets the extras and the outputs in whole
accesses.
"""

from __future__ import annotations

from ...backend import Call
from ...gpu.operands import Operand
from ..text.source import Source, calls_for, encoded
from .calls import ACCESS, aligned
from .plan import Plan
from .text import ContractText

__all__ = ["ResultRows", "vector_of", "width_of_results"]

#: Neighbours of a lane at most: the epilogue is printed once for each.
_MOST = 8


def width_of_results(text: ContractText) -> int:
    """Neighbours of a lane: what fills an access to the widest output."""
    widest = max((o.dtype.itemsize for o in text.outputs), default=ACCESS)
    least = ACCESS//text.kept.itemsize
    return max(least, min(_MOST, ACCESS//widest))


def vector_of(text: ContractText, call: Call) -> bool:
    """Whether the epilogue of a call can move whole accesses."""
    n, width = text.ranks[0] + 1, width_of_results(text)
    return all(aligned(call, o, n, width) for o in text.outputs) and all(
        o.code[1] == "0" or aligned(call, o, n, width) for o in text.extras)


class ResultRows:
    """Writes the epilogue of one kernel.

    Parameters
    ----------
    out
        The kernel's text.
    text
        Operands and functions.
    plan
        Extents.
    scalars
        The text of each call-time number.
    """

    def __init__(self, out: Source, text: ContractText, plan: Plan,
                 scalars: dict[str, str]) -> None:
        self.out, self.text, self.plan, self.scalars = out, text, plan, scalars
        self.width = width_of_results(text) if plan.vector else 1
        self.calls = calls_for(text.outputs)

    def write(self) -> None:
        """All strips, one after the other, each warp for itself."""
        out, plan = self.out, self.plan
        engine, lanes = plan.engine, plan.warp_extents[1]//self.width
        shift = lanes.bit_length() - 1
        for k, text in self._offsets("batch", "batch", "b").items():
            out(f"base{k} = {text}")
        out(f"strip = memory + warp*{plan.strip_bytes}",
            f"mine = strip + {self.lane()}",
            f"first_m = m_first + warp_m*{plan.warp_extents[0]}",
            f"first_n = n_first + warp_n*{plan.warp_extents[1]}", "part = i64(0)")
        down = plan.units[0]
        with out.block(f"while part < {down}:"):
            out("warp_sync()")
            for k in range(down):
                with out.block(f"if part == {k}:"):
                    out(self.keep(k))
            out("warp_sync()", "place = lane")
            with out.block(f"while place < {engine.rows*lanes}:"):
                out(f"row = place >> {shift}", f"column = (place & {lanes - 1})"
                    f"*{self.width}", f"at_m = first_m + {self.row()}",
                    "at_n = first_n + column")
                names = ", ".join(f"v{e}" for e in range(self.width))
                out(f"{names}, = kept_{engine.kept}_{self.width}(strip + "
                    f"row*{plan.row_bytes} + column*{engine.kept_item})")
                with out.block("if at_m < size_m:"):
                    self._row()
                out("place += 32")
            out("part += 1")

    def lane(self) -> str:
        """Bytes from a strip's begin to what a lane keeps of it."""
        return _lane_of_sums(self.plan)

    def keep(self, part: int) -> str:
        """Text that puts the sums of a part in the strip."""
        plan, (down, across) = self.plan, self.plan.units
        return (f"{plan.engine.name}_keep(state, mine, {part}, {down}, {across}, "
                f"{plan.row_bytes})")

    def row(self) -> str:
        """Text of a warp's row that is row `row` of the strip of `part`."""
        return f"part*{self.plan.engine.rows} + row"

    def _row(self) -> None:
        out = self.out
        places = self._offsets("at_m", "m", "u")
        out(*(f"at{k} = base{k} + {text}" for k, text in places.items()))
        with out.block("if at_n < size_n:"):
            self._neighbours()

    def _neighbours(self) -> None:
        """Whole accesses; size_n is a multiple of the width."""
        places = self._offsets("at_n", "n", "v")
        loads = {o.at: self._load(o, f"at{o.at} + {places[o.at]}")
                 for o in self.text.extras}
        stored = [self._evaluated(e, {k: v[e] for k, v in loads.items()})
                  for e in range(self.width)]
        for r, o in enumerate(self.text.outputs):
            values = [s[r] for s in stored]
            step = min(self.width, ACCESS//o.dtype.itemsize)
            for k in range(0, self.width, step):
                self.out(f"store{step}({o.pointer}, at{o.at} + {places[o.at]} + {k}, "
                         f"({', '.join(values[k:k + step])},))")

    def _load(self, o: Operand, at: str) -> list[str]:
        """The names of the neighbours, or of one element for all."""
        if o.code[1] == "0":
            self.out(f"x{o.at} = {o.pointer}[{at}]")
            return [f"x{o.at}"]*self.width
        names = [f"x{o.at}_{e}" for e in range(self.width)]
        step = min(self.width, ACCESS//o.dtype.itemsize)
        for k in range(0, self.width, step):
            self.out(f"{', '.join(names[k:k + step])}, = "
                     f"load{step}({o.pointer}, {at} + {k})")
        return names

    def _evaluated(self, e: int, loads: dict[int, str]) -> list[str]:
        """The epilogue of one element: what is stored."""
        names: list[str] = []
        with self.out.repeated(names):
            names += self.text.epilogue(self.out, f"v{e}", self.scalars,
                                        lambda o: loads[o.at], f"e{e}_", self.calls)
        return [encoded(d, o.dtype, n) for d, o, n in zip(
            self.text.typed.epilogue.results, self.text.outputs, names, strict=True)]

    def _offsets(self, index: str, group: str, prefix: str) -> dict[int, str]:
        return self.text.offsets(self.out, index, group, self.text.others, prefix)


def _lane_of_sums(plan: Plan) -> str:
    """Bytes from a strip's begin to what a lane keeps of it."""
    row = plan.row_bytes
    if plan.engine.name == "fma":
        return f"lane_m*{4*row} + lane_n*16"
    if plan.engine.name == "tf32b":
        return f"(lane >> 2)*4 + (lane & 3)*{2*row}"
    return f"(lane >> 2)*{row} + (lane & 3)*{2*plan.engine.kept_item}"
