"""Contract on Hopper's tensor cores: tilings for a call, the likely fastest first."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..backend import Call
from ..scalar.ir import walk
from .contract_text import ContractText
from .contract_wgmma import DEPTH, TILINGS, Hopper, Tiling
from .source import Operand

__all__ = ["plans"]

#: Bytes of which TMA wants addresses and strides to be multiples.
_ALIGN = 16
_FLOATS = ("float16", "bfloat16", "float32")
#: What the model counts in clock cycles: one product of 64×8×16 on the tensor cores is
#: 4; bytes that come in each; a tile's beginning; an element's way out, and each
#: statement of its epilogue.
_BYTES, _START, _LEAVE = 56, 1500, 8


def plans(text: ContractText, call: Call, processors: int) -> tuple[Hopper, ...]:
    """How this call can be done, the first is what the model of its time likes best."""
    batch = text.ranks[0]
    own, k = (batch, batch + 1), batch + 2
    along = (call.strides[0][k] == 1, call.strides[1][k] == 1)
    several = [x for x in range(batch) if call.shape[x] > 1]
    varying = [tuple(x for x in several if call.strides[w][x]) for w in (0, 1)]
    loads = tuple(_load(call, o, own) for o in text.extras)
    stores = tuple(_store(call, o, own) for o in text.outputs)
    used = sum(o.dtype.itemsize//2 for o, how in zip(text.outputs, stores, strict=True)
               if how != "each")
    slabs = 2 if used == 1 else used
    ordered = sorted(TILINGS, key=lambda t: _cycles(text, call, t, processors))
    return tuple(Hopper(t, along, (varying[0], varying[1], tuple(several)), loads,
                        stores, slabs) for t in ordered)


def tiles(call: Call, batch: int, tiling: Tiling) -> int:
    """Of the result; those of a cluster's blocks count as one."""
    m, n = call.shape[batch:batch + 2]
    high = tiling.rows*tiling.cluster
    return prod(call.shape[:batch]) * -(-m // high) * -(-n // tiling.columns)


def _cycles(text: ContractText, call: Call, tiling: Tiling, processors: int) -> float:
    """A model of the time: waves of tiles, each its products and its way out."""
    batch = text.ranks[0]
    waves = -(-tiles(call, batch, tiling) // (processors//tiling.cluster))
    slices = -(-call.shape[batch + 2] // DEPTH)
    brought = (tiling.rows + tiling.columns//tiling.cluster)*DEPTH*2
    products = slices*max(tiling.rows*tiling.columns/32, brought/_BYTES)
    length = len(list(walk(text.typed.epilogue.function.body)))
    leave = tiling.sums*(_LEAVE + length)
    if tiling.turns:
        return _START + waves*max(products, leave/2) + leave
    return _START + waves*(products + leave*tiling.groups)


def _load(call: Call, o: Operand, own: tuple[int, int]) -> str:
    if o.code[1] == "0":
        return "row"
    pairs = o.code[1] == "1" and o.dtype.name in _FLOATS and \
        call.shape[own[1]] % 2 == 0 and \
        call.pointers[o.at] % (2*o.dtype.itemsize) == 0 and \
        all(s % 2 == 0 for s in _steps(call, o, own[1]))
    return "pair" if pairs else "each"


def _store(call: Call, o: Operand, own: tuple[int, int]) -> str:
    if o.dtype.name not in _FLOATS:
        return "each"
    reachable = call.strides[o.at][own[1]] == 1 and \
        call.pointers[o.at] % _ALIGN == 0 and \
        all(s > 0 and s*o.dtype.itemsize % _ALIGN == 0
            for s in _steps(call, o, own[1]))
    return "tile" if reachable else "lanes"


def _steps(call: Call, o: Operand, n: int) -> Sequence[int]:
    """Strides of the loops over batch and rows that take more than one step."""
    return [s for x, s in enumerate(call.strides[o.at]) if x < n and call.shape[x] > 1]
