"""Contract on Hopper's tensor cores: from the sums in registers to the outputs.

The epilogue runs on the fragment as wgmma leaves it, 64 columns of a warp's 16 rows at
a time.  Extras are read as the fragment has them, the next part's while this one is
computed, or TMA brings them (`extras`).  16-bit and float32 results go
to a slab of shared memory, from there by TMA, or by the lanes in rows where TMA cannot;
others are stored one by one.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from ....gpu.operands import Operand
from ....scalar.ir.nodes import walk
from ....scalar.printing.formulas import expand
from ....scalar.printing.numba import cast
from ....scalar.typing.promotion import compute_dtype
from ...text.branches import flattened
from ...text.source import encoded

if TYPE_CHECKING:
    from .kernel import WgmmaText

__all__ = ["SLAB", "Results"]

#: Bytes of a slab, 16 rows of 128; each warp has several.
SLAB = 2048
#: Rows that are swizzled alike, and go from a slab to memory side by side.
GROUP = 8
#: Statements of the epilogue that are worth printing once for each element.
UNROLLED = 2400


class Results:
    """Writes what one warp group does with its sums.

    Parameters
    ----------
    kernel
        That is written.
    rows
        Text of the group's first row in the tile.
    """

    def __init__(self, kernel: WgmmaText, rows: str) -> None:
        self.kernel, self.rows, self.out = kernel, rows, kernel.out
        self.text, self.tiling = kernel.text, kernel.tiling
        self.loads = list(zip(self.text.extras, kernel.plan.loads, strict=True))
        #: Those that are in registers a part ahead.
        self.near = [(o, how) for o, how in self.loads if how in ("pair", "row")]
        self.stores = list(zip(self.text.outputs, kernel.plan.stores, strict=True))
        #: The first slab of each output that goes through some, and how many in all.
        self.slabs: dict[int, int] = {}
        self.in_use = 0
        for o, how in self.stores:
            if how != "each":
                self.slabs[o.at] = self.in_use
                self.in_use += o.dtype.itemsize//2
        #: Parts of 64 columns, side by side and in all.
        self.across = self.tiling.columns//64
        self.parts = self.across*self.tiling.high
        typed = self.text.typed.epilogue
        body = expand(flattened(typed), kernel.calls).function.body
        self.rolled = 32*self.parts*len(list(walk(body))) > UNROLLED

    def begin(self) -> None:
        """Places that stay the same from tile to tile."""
        plan = self.kernel.plan
        self.out(f"slabs = memory + {plan.slabs_at} + (warp - 4)*{plan.slabs*SLAB}",
                 "slot = i64(0)",
                 "place16 = slabs + (lane & 15)*128"
                 " + (((lane >> 4) ^ (lane & 7)) << 4)",
                 "pairs, eight = lane & 3, lane >> 2",
                 "place32 = slabs + eight*128 + (((pairs >> 1) ^ eight) << 4)"
                 " + (pairs & 1)*8")
        self.kernel.boxes.begin()

    def end(self) -> None:
        """Shared memory must last until TMA has read it."""
        if self._by_tma:
            self.out("stores_done()")

    @property
    def _by_tma(self) -> bool:
        return any(how == "tile" for _, how in self.stores)

    # --- extras

    def announce(self) -> None:
        """Name the tile's place in operands; ask for extras to come to the L2 cache."""
        others = [*self.text.extras,
                  *(o for o, how in self.stores if how != "tile")]
        for k, text in self._offsets("batch", "batch", others, "b").items():
            self.out(f"base{k} = {text}")
        self.out(f"first = m_first + {self.rows} + (warp & 3)*16")
        for o, how in self.loads:
            if how == "pair":
                self._announce_one(o)

    def _announce_one(self, o: Operand) -> None:
        """Lines of 128 bytes, each by one lane."""
        out, step = self.out, 128//o.dtype.itemsize
        lines, moved = max(1, self.tiling.columns//step), o.code[0] != "0"
        count = lines*16*self.tiling.high if moved else lines
        for begin in range(0, count, 32):
            out(f"line = lane + {begin}", f"to_n = n_first + (line % {lines})*{step}",
                f"to_m = divide(line, i64({lines}))")
            at = f"base{o.at} + to_n"
            test = "to_n < size_n"
            if moved:
                out("to_m = first + (to_m >> 4)*64 + (to_m & 15)")
                at += f" + to_m*{o.stride(self.text.first[1])}"
                test += " and to_m < size_m"
            elif count < 32:
                test += f" and lane < {count}"
            with out.block(f"if {test}:"):
                out(f"ask({o.pointer}, {at})")

    def fetch_first(self) -> None:
        """The first part's extras."""
        self._fetch("0", "x")

    def _offsets(self, index: str, group: str, operands: list[Operand],
                 prefix: str) -> dict[int, str]:
        return self.text.offsets(self.out, index, group, operands, prefix)

    def _place(self, part: str, row: str, column: str) -> None:
        """The first row and column of a part; `part` is a number or a name."""
        across = self.across
        if part.isdigit():
            high, aside = str(int(part)//across), str(int(part) % across)
        elif self.tiling.high == 1:
            high, aside = "0", part
        else:
            self.out(f"level = divide({part}, i64({across}))")
            high, aside = "level", f"({part} - level*{across})"
        self.out(f"{row} = first + {high}*64", f"{column} = n_first + {aside}*64")

    def _fetch(self, part: str, letter: str) -> None:
        """Load what a part needs of the extras that come by pairs or rows."""
        if not self.near:
            return
        self._place(part, "row_next", "near_n")
        self.out("near_n += 2*pairs", "room = size_n - near_n",
                 *(f"near_m{h} = min(row_next + eight + {8*h}, size_m - 1)"
                   for h in (0, 1)))
        for o, how in self.near:
            self._fetch_one(o, how, letter)

    def _fetch_one(self, o: Operand, how: str, letter: str) -> None:
        moved = o.code[0] != "0"
        for h in (0, 1) if moved else (0,):
            at = f"base{o.at}"
            if moved:
                at += f" + near_m{h}*{o.stride(self.text.first[1])}"
            self.out(f"{letter}{o.at}_{h} = near({o.pointer}, {at} + near_n, room)"
                     if how == "pair" else f"{letter}{o.at}_{h} = {o.pointer}[{at}]")

    def _fetched(self, o: Operand, how: str, letter: str, e: int) -> str:
        """The text of an element that has been loaded."""
        if how == "box":
            return self.kernel.boxes.element(o, e)
        name = f"{letter}{o.at}_{(e >> 1) & 1 if o.code[0] != '0' else 0}"
        if how == "row":
            return name
        pair, second = e >> 2, e & 1
        if o.dtype.itemsize == 4:
            return f"{name}[{2*pair + second}]"
        size = "half" if o.dtype.itemsize == 2 else "byte"
        return f"{'high' if second else 'low'}_{size}({name}[{pair}])"

    # --- the parts

    def tile(self) -> None:
        """All parts of the sums."""
        out = self.out
        if not self.rolled:
            for part in range(self.parts):
                mine, other = "xy" if part % 2 == 0 else "yx"
                if part + 1 < self.parts:
                    self._fetch(str(part + 1), other)
                self._part(str(part), mine, 32*part)
            return
        out("part = i64(0)")
        with out.block(f"while part < {self.parts}:"):
            out(f"following = min(part + 1, i64({self.parts - 1}))")
            self._fetch("following", "y")
            self._part("part", "x", 0)
            for o, _ in self.near:
                halves = (0, 1) if o.code[0] != "0" else (0,)
                out(*(f"x{o.at}_{h} = y{o.at}_{h}" for h in halves))
            out(f"sums = shifted{self.tiling.sums}(sums)", "part += 1")

    def _part(self, part: str, letter: str, first: int) -> None:
        """64 columns: 16 after 16, so that few results are in registers at once."""
        out = self.out
        self._place(part, "at_row", "at_column")
        moved = ["slot"] if self.kernel.plan.slabs > self.in_use else []
        loaded = [f"{letter}{o.at}_{h}" for o, how in self.near for h in (0, 1)
                  if how == "pair"]
        with out.block("if at_column < size_n:"), out.repeated(
                [*self.kernel.boxes.state, *moved], ["sums", *loaded]):
            if self.slabs:
                self._free_slabs()
            self.kernel.boxes.arrive()
            for unit in range(4):
                # Blocks of their own, lest all elements be computed side by side: there
                # are not the registers for that.
                with out.block(f"if at_column + {16*unit} < size_n:"):
                    self._unit(unit, first, letter)
            self.kernel.boxes.leave()
            if self.slabs:
                self._empty_slabs()

    def _unit(self, unit: int, first: int, letter: str) -> None:
        """16 columns; every unit repeats the statements of the first."""
        self.kernel.boxes.read(unit)
        self.out(f"at_unit = at_column + {16*unit}")
        names: list[str] = []
        with self.out.repeated(names):
            values = [self._evaluated(e, f"sums[{first + e}]", letter)
                      for e in range(8*unit, 8*unit + 8)]
            found = [[v[r] for v in values] for r in range(len(self.stores))]
            for r, (o, how) in enumerate(self.stores):
                if how == "each":
                    self._one_by_one(o, r, unit, found[r])
                else:
                    self.out(f"kept{r} = {self._packed(o, r, found[r])}")
                    names.append(f"kept{r}")
        for r, (o, how) in enumerate(self.stores):
            if how != "each":
                self._keep(o, unit, f"kept{r}")

    def _evaluated(self, e: int, total: str, letter: str) -> list[str]:
        """The epilogue of one element: the names of its results."""
        ways = {o.at: how for o, how in self.loads}

        def element(o: Operand) -> str:
            how = ways[o.at]
            return self._element(o, e) if how == "each" \
                else self._fetched(o, how, letter, e)

        return self.text.epilogue(self.out, total, self.kernel.scalars, element,
                                  f"e{e}_", self.kernel.calls)

    @staticmethod
    def _row_and_column(e: int) -> tuple[str, str]:
        return (f"at_row + eight + {8*((e >> 1) & 1)}",
                f"at_unit + 2*pairs + {8*((e >> 2) & 1) + (e & 1)}")

    def _element(self, o: Operand, e: int) -> str:
        """Loaded by itself; something else where the result is not stored."""
        row, column = self._row_and_column(e)
        self.out(f"to_m = min({row}, size_m - 1)", f"to_n = min({column}, size_n - 1)",
                 f"z{o.at}_{e} = {o.pointer}[{self._at(o, 'to_m', 'to_n')}]")
        return f"z{o.at}_{e}"

    def _at(self, o: Operand, row: str, column: str) -> str:
        """The offset of an element."""
        down = self._offsets(row, "m", [o], "u")[o.at]
        return f"base{o.at} + {down} + {self._offsets(column, 'n', [o], 'v')[o.at]}"

    # --- the outputs

    def _one_by_one(self, o: Operand, r: int, unit: int, found: list[str]) -> None:
        dtype = self.text.typed.epilogue.results[r]
        for k, name in enumerate(found):
            row, column = self._row_and_column(8*unit + k)
            self.out(f"to_m = {row}", f"to_n = {column}")
            with self.out.block("if to_m < size_m and to_n < size_n:"):
                self.out(f"{o.pointer}[{self._at(o, 'to_m', 'to_n')}] = "
                         f"{encoded(dtype, o.dtype, name)}")

    def _packed(self, o: Operand, r: int, found: list[str]) -> str:
        """The text of a unit's results as a slab has them."""
        dtype = self.text.typed.epilogue.results[r]
        words = [cast(compute_dtype(dtype), np.dtype(np.float32), x) for x in found]
        if o.dtype.itemsize == 2:
            words = [f"pack_{o.dtype.name}({words[e]}, {words[e + 1]})"
                     for e in range(0, 8, 2)]
        return f"({', '.join(words)})"

    def _keep(self, o: Operand, unit: int, packed: str) -> None:
        """16 columns in the output's slab; float32 has a slab for each 32."""
        at = self.slabs[o.at]*SLAB
        if o.dtype.itemsize == 2:
            self.out(f"keep16_{unit}(place16 + slot + {at}, {packed})")
        else:
            self.out(f"keep32_{unit % 2}(place32 + slot + {at + unit//2*SLAB}, "
                     f"{packed})")

    def _free_slabs(self) -> None:
        """Wait until TMA has read what they held."""
        out = self.out
        if self._by_tma:
            pending = self.kernel.plan.slabs//self.in_use - 1
            with out.block("if lane == 0:"):
                out(f"stores_read{pending}()")
        out("cuda.syncwarp()")

    def _empty_slabs(self) -> None:
        out = self.out
        if self._by_tma:
            out("stores_fence()")
        out("cuda.syncwarp()")
        if self._by_tma:
            with out.block("if lane == 0:"):
                for o, how in self.stores:
                    if how == "tile":
                        self._send(o)
                out("stores_commit()")
        for o, how in self.stores:
            if how == "lanes":
                self._by_lanes(o)
        if self.kernel.plan.slabs > self.in_use:
            out(f"slot ^= {self.in_use*SLAB}")

    def _send(self, o: Operand) -> None:
        batch = [f"batch{k}" for k in reversed(self.kernel.plan.batch[2])]
        for k in range(o.dtype.itemsize//2):
            self.out(f"tile_store{2 + len(batch)}(map{o.at}, slabs + slot"
                     f" + {(self.slabs[o.at] + k)*SLAB}, "
                     f"{', '.join([f'at_column + {32*k}', 'at_row', *batch])})")

    def _by_lanes(self, o: Operand) -> None:
        """Neighbours by neighbouring lanes, row after row, at any stride.

        Lanes beyond the last column store that one's element once more.
        """
        out, item = self.out, o.dtype.itemsize
        out("line, lines = i64(0), min(size_m - at_row, i64(16))")
        for k in (0, 1):
            aside, places = f"aside{k}", self._offsets("to_n", "n", [o], "v")
            out(f"{aside} = min(lane + {32*k}, size_n - 1 - at_column)",
                f"to_n = at_column + {aside}",
                f"across{k} = base{o.at} + {places[o.at]}",
                f"high{k} = {f'{aside} >> 3' if item == 2 else f'({aside} & 31) >> 2'}",
                f"held{k} = slabs + slot + {self.slabs[o.at]*SLAB}"
                f" + ({aside}*{item} & 15)"
                + (f" + ({aside} >> 5)*{SLAB}" if item == 4 else ""))
        # Loads of several rows before their stores: each would wait for its own.
        with out.block(f"while line + {GROUP} <= lines:"):
            self._rows(o, [str(r) for r in range(GROUP)])
        with out.block("while line < lines:"):
            self._rows(o, ["(line & 7)"])

    def _rows(self, o: Operand, place: list[str]) -> None:
        """A slab's rows from `line` on; the place of each among eight, as swizzled."""
        out, kind = self.out, "float32" if o.dtype.itemsize == 4 else "uint16"
        for r, k in product(range(len(place)), (0, 1)):
            out(f"h{r}_{k} = kept_{kind}(held{k} + (line + {r})*128"
                f" + ((high{k} ^ {place[r]}) << 4))")
        single = self.text.ranks[1] == 1
        for r in range(len(place)):
            out(f"to_m = at_row + line + {r}")
            down = self._offsets("to_m", "m", [o], "u")[o.at]
            step = o.stride(self.text.first[1])
            out(f"row_at = {f'row_at + {step}' if r and single else down}",
                *(f"{o.pointer}[across{k} + row_at] = h{r}_{k}" for k in (0, 1)))
        out(f"line += {len(place)}")
