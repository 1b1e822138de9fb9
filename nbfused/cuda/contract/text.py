"""Contract on CUDA: what the texts of its kernels share.

Each has the same parameters, finds the place of its tile in the same order, and ends in
the same epilogue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from ...backend import Call, Signature
from ...gpu.contract_layout import ContractLayout
from ...gpu.operands import Operand
from ...scalar.printing.numba import cast
from ...scalar.printing.numba_operations import Calls
from ...specs import TypedContract
from ...support.dtypes import storage
from ..text.source import CALLS, Source, decoded, evaluate, offsets

__all__ = ["GROUPS", "ContractText", "coordinates", "offsets_of", "position", "raster"]

#: The groups of loops, in the order of a signature's ranks.
GROUPS = ("batch", "m", "n", "k")


class ContractText(ContractLayout):
    """The operands, loops and functions of one Contract.

    Parameters
    ----------
    name
        Of the epilogue.
    typed, signature
        What to compute, on which dtypes and loops.

    Attributes
    ----------
    signature
        See above.
    others
        Those that are no factors.
    groups
        For each of `GROUPS` the names of its extents.
    first
        The number of the first loop of each.
    """

    def __init__(self, name: str, typed: TypedContract, signature: Signature) -> None:
        super().__init__(name, typed, signature)
        self.signature = signature
        self.others = self.operands[2:]
        *self.first, loops = accumulate(self.ranks, initial=0)
        self.extents = [f"n{k}" for k in range(loops)]
        self.groups = [self.extents[begin:begin + rank]
                       for begin, rank in zip(self.first, self.ranks, strict=True)]

    # --- parameters

    def parameters(self, out: Source, operands: Sequence[Operand]) -> dict[str, str]:
        """Declare the parameters of a kernel; gives the text of each number."""
        for o in operands:
            out.pointer(o.pointer, storage(o.dtype))
        out.integer(*self.extents, *(o.stride(k) for o in operands
                                     for k in range(len(self.extents))))
        epilogue = self.typed.epilogue
        names = [p for p, kind in zip(epilogue.function.params[1:], self.typed.kinds,
                                      strict=True) if kind == "scalar"]
        return {p: out.scalar(f"a{k}", epilogue.dtypes[p])
                for k, p in enumerate(names)}

    @staticmethod
    def arguments(call: Call, operands: Sequence[Operand],
                  *pointers: int) -> tuple[Any, ...]:
        """The values of `parameters`; `pointers` come after those of the operands."""
        own, strides = call.pointers, call.strides
        return (*[own[o.at] for o in operands], *pointers, *call.shape,
                *[s for o in operands for s in strides[o.at]], *call.scalars)

    # --- lines of a kernel

    def sizes(self, out: Source, groups: Sequence[str] = GROUPS) -> None:
        """``size_m`` and so on: how many points the loops of a group have."""
        for name, extents in zip(GROUPS, self.groups, strict=True):
            if name in groups:
                out(f"size_{name} = {'*'.join(extents) or 'i64(1)'}")

    def offsets(self, out: Source, index: str, group: str, operands: Sequence[Operand],
                prefix: str) -> dict[int, str]:
        """The offset of each operand at a flat index over the loops of a group."""
        k = GROUPS.index(group)
        return offsets_of(out, index, self.groups[k], operands, self.first[k], prefix)

    def epilogue(self, out: Source, total: str, scalars: dict[str, str],
                 element: Callable[[Operand], str], prefix: str,
                 calls: Calls = CALLS) -> list[str]:
        """Evaluate the epilogue once; the names of its results.

        Parameters
        ----------
        total
            The text of a sum.
        scalars
            The text of each number, from `parameters`.
        element
            Gives the text of an extra's element; may write lines.
        prefix
            Makes names unique.
        calls
            Functions for operations.
        """
        epilogue, extras = self.typed.epilogue, iter(self.extras)
        first, *params = epilogue.function.params
        arguments: dict[str, object] = {
            first: cast(self.kept, epilogue.dtypes.get(first, self.kept), total)}
        for param, kind in zip(params, self.typed.kinds, strict=True):
            if kind == "scalar":
                arguments[param] = scalars[param]
            else:
                o = next(extras)
                arguments[param] = decoded(o.dtype, element(o))
        lines, names = evaluate(epilogue, arguments, prefix, calls)
        out(*lines)
        return names


def offsets_of(out: Source, index: str, extents: Sequence[str],
               operands: Sequence[Operand], first: int, prefix: str) -> dict[int, str]:
    """`offsets`, every stride a parameter."""
    strided = [replace(o, code="s") for o in operands]
    return offsets(out, index, extents, strided, first, prefix)


def position(out: Source, rows: int, columns: int, band: int,
             block: str = "i64(cuda.blockIdx.x)") -> None:
    """Name the tile and the product of a block; `band` tiles down, then on."""
    out(f"down = divide(size_m + {rows - 1}, i64({rows}))",
        f"wide = divide(size_n + {columns - 1}, i64({columns}))",
        f"block = {block}", "batch = divide(block, down*wide)",
        "place = block - batch*down*wide")
    raster(out, rows, columns, band)


def raster(out: Source, rows: int, columns: int, band: int, down: str = "down",
           before: str = "") -> None:
    """A tile's first row and column: down a column, `band` tiles, then the next column.

    So the rows of A and the columns of B in use stay in the L2 cache.

    Parameters
    ----------
    rows, columns
        Of a tile.
    band
        0: all tiles of a column, for which a block divides once less.
    down
        The name of the number of tiles down a column.
    before
        Begins the names that are given.
    """
    if not band:
        out(f"column = divide(place, {down})",
            f"{before}m_first = (place - column*{down})*{rows}",
            f"{before}n_first = column*{columns}")
        return
    out(f"band = divide(place, {band}*wide)", f"place -= band*{band}*wide",
        f"height = min({down} - band*{band}, i64({band}))",
        "column = divide(place, height)",
        f"{before}m_first = (band*{band} + place - column*height)*{rows}",
        f"{before}n_first = column*{columns}")


def coordinates(out: Source, index: str, extents: Sequence[str],
                before: str = "") -> None:
    """``batch0`` and so on: where in the batch is flat index `index`."""
    for k in range(len(extents) - 1, 0, -1):
        out(f"rest{k} = divide({index}, {extents[k]})",
            f"{before}batch{k} = {index} - rest{k}*{extents[k]}")
        index = f"rest{k}"
    if extents:
        out(f"{before}batch0 = {index}")
