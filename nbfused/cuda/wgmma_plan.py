"""Contract on Hopper's tensor cores: tilings for a call, the likely fastest first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from ..backend import Call
from ..scalar.formulas import expand
from ..scalar.ir import Let, walk
from .branches import cost, flattened
from .contract_text import ContractText
from .contract_wgmma import DEPTH, TILINGS, Hopper, Tiling
from .source import Operand, calls_for

__all__ = ["plans"]

#: Bytes of which TMA wants addresses and strides to be multiples.
_ALIGN = 16
#: Bytes between elements that TMA cannot count.
_STRIDE = 1 << 40
#: Of 8 KiB, for the extras of a part: more leave too little for the factors.
_BOXES = 2
_FLOATS = ("float16", "bfloat16", "float32")
#: What the model counts in clock cycles: bytes that come in each; a launch; the way
#: out of an element beside its epilogue; of the way out of a tile, what the other
#: group's products hide although they share the tile; and, of products, what tiles
#: that are not the largest cost more.
_BYTES, _START, _LEAVE, _HIDDEN, _SMALL = 66, 1500, 6, 1500, 1.03
#: In cycles too: blocks that share a tile exchange sums.
_MEET = 3000
#: Along k: the next tile's factors have room in the L2 cache.
_NEAR = 1024
#: Of boxes of 128 bytes, when lines come from memory for this block alone.
_NARROW = 1.6


def plans(text: ContractText, call: Call, processors: int) -> tuple[Hopper, ...]:
    """How this call can be done, the first is what the model of its time likes best."""
    batch = text.ranks[0]
    own, k = (batch, batch + 1), batch + 2
    along = (call.strides[0][k] == 1, call.strides[1][k] == 1)
    several = [x for x in range(batch) if call.shape[x] > 1]
    varying = [tuple(x for x in several if call.strides[w][x]) for w in (0, 1)]
    loads, boxes = _loads(call, text.extras, own)
    stores = tuple(_store(call, o, own) for o in text.outputs)
    used = sum(o.dtype.itemsize//2 for o, how in zip(text.outputs, stores, strict=True)
               if how != "each")
    slabs = 2 if used == 1 else used
    epilogue = _instructions(text)
    ordered = sorted(TILINGS, key=lambda t: _cycles(call, batch, t, processors,
                                                    epilogue))
    vary = [tuple(x for x in several if call.strides[o.at][x]) for o in text.extras]
    apart = tuple(_load(call, o, own) for o in text.extras)  # blocks have few parts
    batch_of = (*varying, tuple(several), *vary)
    return tuple(Hopper(
        t, along, batch_of, loads if t.split == 1 else apart, stores, slabs,
        boxes if t.split == 1 else 0, _once(call, batch, t, batch_of),
        _asks(call, batch, t, processors)) for t in ordered)


def _once(call: Call, batch: int, tiling: Tiling, vary: Sequence[tuple[int, ...]],
          ) -> tuple[bool, ...]:
    """Whether A, B and each extra are read by one block only."""
    m, n = call.shape[batch:batch + 2]
    alone = (n <= tiling.columns, m <= tiling.rows, *(True,)*(len(vary) - 3))
    return tuple(single and loops == vary[2] for single, loops in zip(
        alone, (*vary[:2], *vary[3:]), strict=True))


def _asks(call: Call, batch: int, tiling: Tiling, processors: int) -> bool:
    """Whether tiles are so short that the next one is not far."""
    return tiling.split == 1 and tiles(call, batch, tiling) > processors and \
        call.shape[batch + 2] <= _NEAR


def tiles(call: Call, batch: int, tiling: Tiling) -> int:
    """Of the result."""
    m, n = call.shape[batch:batch + 2]
    return prod(call.shape[:batch]) * -(-m // tiling.rows) * -(-n // tiling.columns)


def _cycles(call: Call, batch: int, tiling: Tiling, processors: int,
            epilogue: int) -> float:
    """A model of the time: waves of tiles, each its products and its way out."""
    waves = -(-tiles(call, batch, tiling) // (processors//tiling.split))
    slices = -(-call.shape[batch + 2] // (DEPTH*tiling.split))
    brought = float(tiling.stage_bytes)
    if tiling.columns == 64 and call.strides[1][batch + 2] != 1 and \
            call.shape[batch] <= tiling.rows:
        brought *= _NARROW
    products = slices*max(tiling.rows*tiling.columns/32, brought/_BYTES)
    if tiling.columns < 256:
        products *= _SMALL
    leave = tiling.sums*(_LEAVE + epilogue)
    if tiling.turns:
        return _START + waves*max(products, leave) + leave
    if tiling.split > 1:
        return _START + waves*(products + _MEET + leave/tiling.split)
    together = leave*tiling.groups
    return _START + waves*(products + max(together - _HIDDEN, together/4))


@lru_cache(maxsize=1024)
def _instructions(text: ContractText) -> int:
    """About how many an element's epilogue takes."""
    typed = expand(flattened(text.typed.epilogue), calls_for(text.outputs))
    return sum(cost(s, typed) for s in walk(typed.function.body)
               if isinstance(s, Let))


def _loads(call: Call, extras: Sequence[Operand], own: tuple[int, int],
           ) -> tuple[tuple[str, ...], int]:
    """How each extra comes, and the boxes that a part of them takes."""
    loads, boxes = [], 0
    for o in extras:
        taken = o.dtype.itemsize//2
        if boxes + taken <= _BOXES and _is_tensor(call, o, own):
            boxes += taken
            loads.append("box")
        else:
            loads.append(_load(call, o, own))
    return tuple(loads), boxes


def _is_tensor(call: Call, o: Operand, own: tuple[int, int]) -> bool:
    """Whether an extra varies along both loops of the result, and TMA can bring it."""
    strides = call.strides[o.at]
    return o.dtype.name in _FLOATS and strides[own[1]] == 1 and \
        call.shape[own[0]] > 1 and strides[own[0]] > 0 and \
        call.pointers[o.at] % _ALIGN == 0 and \
        all(s >= 0 and s*o.dtype.itemsize % _ALIGN == 0
            and s*o.dtype.itemsize < _STRIDE for s in _steps(call, o, own[1]))


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
