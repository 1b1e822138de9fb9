"""Contract at every dtype, shape and stride: sums become results.

Neighbouring threads have neighbours of the result.  The sums of each thread's `UNIT`
rows and columns go through shared memory, where those of the groups meet.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ....gpu.operands import Operand
from ...text.source import Source, encoded
from ...text.states import storage_name
from ..text import ContractText
from .tile import PAD, UNIT, Tile

__all__ = ["GeneralResults", "sum_of"]


def sum_of(text: ContractText, a: str, b: str) -> str:
    """The text of a sum in the accumulator's dtype."""
    if text.typed.accumulator.kind == "b":
        return f"u8({a} | {b})"
    total = f"{a} + {b}"
    return f"{storage_name(text.kept)}({total})" if text.kept.kind in "iu" else total


def _ahead_name(r: int, o: Operand) -> str:
    """The name of an element for a thread's result `r`, loaded ahead."""
    return f"x{o.at}_{r}"


class GeneralResults:
    """Writes the results of one kernel.

    Parameters
    ----------
    out
        The kernel's text.
    text
        Operands, loops and functions.
    tile
        Extents.
    scalars
        The text of each call-time number.
    """

    def __init__(self, out: Source, text: ContractText, tile: Tile,
                 scalars: dict[str, str]) -> None:
        self.out, self.text, self.tile, self.scalars = out, text, tile, scalars

    def write(self) -> None:
        """The epilogue of all sums."""
        out, tile = self.out, self.tile
        down, across = tile.part
        out(f"kept = shared_{self.text.kept.name}(i64(0))")
        for r in range(0, tile.rows, UNIT):
            for c in range(0, tile.columns, UNIT):
                for i in range(UNIT):
                    sums = ", ".join(f"c{r + i}_{c + j}" for j in range(UNIT))
                    out(f"store4(kept, group*{tile.sums} + (row + {i})*{across + PAD}"
                        f" + lane, ({sums},))")
                out("cuda.syncthreads()")
                if tile.groups > 1:
                    self._met()
                else:
                    self._part(r // UNIT*down, c // UNIT*across)
                    out("cuda.syncthreads()")

    def load(self) -> None:
        """Load what the epilogue reads before the products, which it does not hang on.

        The addresses of a thread's results are computed before as well.  It saves 0.2
        to 0.6 of 2.7 to 4.6 µs, benchmarks/notes/products.md#few-results.
        """
        out = self.out
        fast, slow, _ = self._sides(0, 0)
        places = self._places(fast, 0)
        for r, first in enumerate(self._firsts()):
            others = self._places(slow, first)
            out(f"has_{r} = ({fast} < stop_{fast}) & ({slow} + {first} < stop_{slow})",
                *(f"at{k}_{r} = base{k} + {places[k]} + {others[k]}" for k in places),
                *(f"{_ahead_name(r, o)} = {o.pointer}[select(has_{r}, at{o.at}_{r}, "
                  f"base{o.at})]" for o in self.text.extras))

    def _met(self) -> None:
        """Add the groups' sums, and store the results."""
        out, pitch = self.out, self.tile.part[1] + PAD
        _, slow, _ = self._loops()
        for r, first in enumerate(self._firsts()):
            with out.block(f"if has_{r}:"):
                step = first*(pitch if slow == "m" else 1)
                out(f"kept_at = m*{pitch} + n + {step}", "total = kept[kept_at]")
                for group in range(1, self.tile.groups):
                    other = f"kept[kept_at + {group*self.tile.sums}]"
                    out(f"total = {sum_of(self.text, 'total', other)}")
                self._store({o.at: f"at{o.at}_{r}" for o in self.text.others},
                            partial(_ahead_name, r))

    def _firsts(self) -> range:
        """The steps from a thread's first result to its next ones."""
        _, slow, across = self._loops()
        return range(0, dict(zip("mn", self.tile.part, strict=True))[slow], across)

    def _loops(self) -> tuple[str, str, int]:
        """The loop along which threads are neighbours, the other, and its step."""
        code = self.text.outputs[0].code
        fast, slow = "nm" if code[1] == "1" or code[0] != "1" else "mn"
        side = dict(zip("mn", self.tile.part, strict=True))[fast]
        return fast, slow, self.tile.threads // min(side, self.tile.threads)

    def _sides(self, row: int, column: int) -> tuple[str, str, int]:
        """Name a thread's first result of a part, and where it ends; gives `_loops`."""
        fast, slow, across = self._loops()
        side = self.tile.threads // across
        self.out(f"{fast} = thread & {side - 1}",
                 f"{slow} = thread >> {side.bit_length() - 1}")
        for x, first, extent in zip("mn", (row, column), self.tile.part, strict=True):
            self.out(f"stop_{x} = min(i64({extent}), size_{x} - {x}_first - {first})")
        return fast, slow, across

    def _part(self, row: int, column: int) -> None:
        """Store a part of the results, from its first row and column on.

        Threads side by side have neighbours of the result; each goes on across them,
        so that only one of its offsets changes.
        """
        out, firsts = self.out, {"m": row, "n": column}
        fast, slow, across = self._sides(row, column)
        with out.block(f"while {fast} < stop_{fast}:"):
            places = self._places(fast, firsts[fast])
            out(f"{slow} = thread >> {(self.tile.threads // across).bit_length() - 1}")
            with out.block(f"while {slow} < stop_{slow}:"):
                others = self._places(slow, firsts[slow])
                out(f"total = kept[m*{self.tile.part[1] + PAD} + n]",
                    *(f"at{k} = base{k} + {places[k]} + {others[k]}" for k in places))
                self._store({k: f"at{k}" for k in places},
                            lambda o: f"{o.pointer}[at{o.at}]")
                out(f"{slow} += {across}")
            out(f"{fast} += {self.tile.threads}")

    def _places(self, side: str, first: int) -> dict[int, str]:
        """Offsets of operands at a row, or a column, of a part."""
        self.out(f"at_{side} = {side}_first + {first} + {side}")
        found = self.text.offsets(self.out, f"at_{side}", side, self.text.others,
                                  f"{side}_")
        self.out(*(f"{side}at{k} = {text}" for k, text in found.items()))
        return {k: f"{side}at{k}" for k in found}

    def _store(self, places: dict[int, str], element: Callable[[Operand], str]) -> None:
        """The epilogue of a sum, `total`."""
        out, dtypes = self.out, self.text.typed.epilogue.results
        names = self.text.epilogue(out, "total", self.scalars, element, "e_")
        for o, dtype, name in zip(self.text.outputs, dtypes, names, strict=True):
            out(f"{o.pointer}[{places[o.at]}] = {encoded(dtype, o.dtype, name)}")
