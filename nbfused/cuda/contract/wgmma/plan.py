"""Contract on Hopper's tensor cores: tilings for a call, the likely fastest first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from operator import itemgetter

from ....backend import Call
from ....gpu.operands import Operand
from ....scalar.ir.nodes import Let, walk
from ....scalar.printing.formulas import expand
from ...runtime.tensor_map import LINE, reachable
from ...text.branches import cost, flattened
from ...text.source import calls_for
from ..calls import tiles_of
from ..text import ContractText
from .tiling import DEPTH, TILINGS, TOGETHER, Tiling, WgmmaPlan

__all__ = ["MOST_OUTPUT", "plans", "tiles"]

#: Tiles of each factor in shared memory at least: a stage is told to be free when the
#: next one's product has begun, so with one alone nobody would ever go on.
LEAST = 2
#: Bytes of all outputs for one element, with which the smallest tiling has room.
MOST_OUTPUT = 40

#: Boxes of 8 KiB for the extras of a part at most.
_BOXES = 2
#: Bytes of a factor that is not found in the L2 cache by the next call; as `_LONG`,
#: measured: benchmarks/notes/products.md#few-rows.
_LARGE = 1 << 25
#: Steps along k that are worth beginning at different ones.
_LONG = 1024
_FLOATS = ("float16", "bfloat16", "float32")
#: Those of which a thread can load two neighbours at once.
_PAIRS = (*_FLOATS, "bool", "uint8")
#: The model's clock cycles (benchmarks/notes/products.md#tilings-and-their-model):
#: bytes that come in each; a launch; from a
#: tile's last product to the next one's first, whatever the epilogue; the way out of an
#: element beside its epilogue; of the way out of a tile, what the other group's
#: products hide although they share the tile; and, of products, what tiles that are
#: not the largest cost more.
_BYTES, _START, _BETWEEN, _LEAVE, _HIDDEN, _SMALL = 66, 1500, 5000, 6, 3000, 1.12
#: From asking for a stage until it is there; and what an element of an extra costs that
#: TMA does not bring, beside the epilogue.
_LATENCY, _LOAD = 2300, 10
#: Times as long as lines of the cache, rows that begin anywhere take to come.
_ACROSS = 1.83
#: Instructions of the functions of `isa.approximate`.
_ROUGH = {"exp": 5, "sigmoid": 10, "erfc": 16, "div": 6, "sqrt": 5}
#: Time of tiles with 64 columns beside the others' when B comes from memory for this
#: block alone, and with it as many rows of A.
_NARROW = 1.6


def plans(text: ContractText, call: Call, processors: int) -> tuple[WgmmaPlan, ...]:
    """Plans for a call, by the model of their times, the best first."""
    batch = text.ranks[0]
    own, k = (batch, batch + 1), batch + 2
    along = (call.strides[0][k] == 1, call.strides[1][k] == 1)
    several = [x for x in range(batch) if call.shape[x] > 1]
    varying = [tuple(x for x in several if call.strides[w][x]) for w in (0, 1)]
    stores = tuple(_store(call, o, own) for o in text.outputs)
    used = sum(o.dtype.itemsize//2 for o, how in zip(text.outputs, stores, strict=True)
               if how != "each")
    slabs = 2 if used == 1 else used
    epilogue = _instructions(text)
    extras = [tuple(x for x in several if call.strides[o.at][x]) for o in text.extras]
    loops = (varying[0], varying[1], tuple(several), *extras)
    short = all(o.dtype.itemsize == 2 for o in text.extras)  # others: not measured
    loads = {boxes: loaded for loaded, boxes in (
        _loads(call, text.extras, own, most)
        for most in (range(_BOXES + 1) if short else (_BOXES,)))}

    def best(t: Tiling) -> list[tuple[float, WgmmaPlan]]:
        """Extras by TMA take room from the factors' stages: as many as are worth it."""
        found = [WgmmaPlan(t, along, loops, how, stores, slabs, boxes,
                           _once(call, batch, t), _apart(call, batch, t),
                           _few(call, batch, t)) for boxes, how in loads.items()]
        return sorted(((_cycles(call, batch, p, processors, epilogue
                                + _LOAD*_loaded(text, p.loads)), p)
                       for p in found if p.stages >= LEAST), key=itemgetter(0))[:1]

    found = [pair for t in TILINGS for pair in best(t)]
    return tuple(plan for _, plan in sorted(found, key=itemgetter(0)))


def tiles(call: Call, batch: int, tiling: Tiling) -> int:
    """Tiles of the result; two that a pair of blocks works on count as one."""
    if tiling.paired:  # in an odd last row neighbours are a pair
        m, n = call.shape[batch:batch + 2]
        down, wide = -(-m // tiling.rows), -(-n // tiling.columns)
        return prod(call.shape[:batch])*(down//2*wide + down % 2 * -(-wide//2))
    return tiles_of(call, batch, (tiling.rows, tiling.columns))


def _cycles(call: Call, batch: int, plan: WgmmaPlan, processors: int,
            epilogue: int) -> float:
    """A model of the time: waves of tiles, each its products and its way out."""
    tiling = plan.tiling
    waves = -(-tiles(call, batch, tiling) // (processors//tiling.cluster))
    slices = -(-call.shape[batch + 2] // DEPTH)
    brought = sum(_across(call, batch, w)*part for w, part in enumerate(
        (plan.brought*DEPTH*2, tiling.columns*DEPTH*2/tiling.cluster)))
    if not plan.few and tiling.columns == 64 and call.shape[batch] <= tiling.rows:
        brought *= _NARROW
    slice_ = max(tiling.rows*tiling.columns/32, brought/_BYTES)
    if tiling.columns < 256:
        slice_ *= _SMALL
    products = slices*max(slice_, _LATENCY/(plan.stages - 1))
    leave = tiling.sums*(_LEAVE + epilogue)
    if tiling.turns:
        return _START + waves*max(products, leave + _BETWEEN/2) + leave + _BETWEEN
    together = leave*tiling.groups
    return _START + waves*(products + max(together - _HIDDEN, together/4) + _BETWEEN)


def _across(call: Call, batch: int, which: int) -> float:
    """1 where the rows of a factor begin at lines of the L2 cache."""
    steps = (2*s for s in call.strides[which][batch:] if s > 1)
    whole = not any(x % LINE for x in (call.pointers[which], *steps))
    return 1.0 if whole else _ACROSS


@lru_cache(maxsize=1024)
def _instructions(text: ContractText) -> int:
    """About how many an element's epilogue takes."""
    calls = calls_for(text.outputs)
    typed = expand(flattened(text.typed.epilogue), calls)
    return sum(_ROUGH[s.op] if (s.op, "float32") in calls and s.op in _ROUGH
               else cost(s, typed)
               for s in walk(typed.function.body) if isinstance(s, Let))


def _once(call: Call, batch: int, tiling: Tiling) -> tuple[bool, bool]:
    """Whether A and B are read by one block only, and too large to stay in a cache."""
    m, n, k = call.shape[batch:batch + 3]
    a, b = (prod(x for x, s in zip(call.shape, strides, strict=True) if s)
            for strides in call.strides[:2])
    every = prod(call.shape[:batch])
    return (n <= tiling.columns and a == every*m*k and 2*a >= _LARGE,
            m <= tiling.rows and b == every*n*k and 2*b >= _LARGE)


def _apart(call: Call, batch: int, tiling: Tiling) -> bool:
    """Whether all blocks would read the same few rows of A at once, for long."""
    m, n, k = call.shape[batch:batch + 3]
    return m <= tiling.rows and n >= 2*TOGETHER*tiling.columns and k >= _LONG


def _few(call: Call, batch: int, tiling: Tiling) -> int:
    """Rows of A that are brought, where a tile would have many more."""
    if tiling.rows != 64 or call.strides[0][batch + 2] != 1:
        return 0
    return next((few for few in (16, 32) if call.shape[batch] <= few), 0)


def _loads(call: Call, extras: Sequence[Operand], own: tuple[int, int], most: int,
           ) -> tuple[tuple[str, ...], int]:
    """Loads of each extra, and the boxes of those that TMA brings: `most` of them."""
    loads, boxes = [], 0
    for o in extras:
        taken = o.dtype.itemsize//2
        if boxes + taken <= most and _is_result_like(call, o, own):
            boxes += taken
            loads.append("box")
        else:
            loads.append(_load(call, o, own))
    return tuple(loads), boxes


def _loaded(text: ContractText, loads: Sequence[str]) -> int:
    """Count the extras that threads load and that vary along rows."""
    return sum(how != "box" and o.code[0] != "0"
               for o, how in zip(text.extras, loads, strict=True))


def _is_result_like(call: Call, o: Operand, own: tuple[int, int]) -> bool:
    """Whether an extra varies along rows and columns, and TMA can bring it."""
    strides, item = call.strides[o.at], o.dtype.itemsize
    return o.dtype.name in _FLOATS and strides[own[1]] == 1 and \
        call.shape[own[0]] > 1 and strides[own[0]] > 0 and \
        reachable(call.pointers[o.at], [item*s for s in _steps(call, o, own[1]) if s])


def _load(call: Call, o: Operand, own: tuple[int, int]) -> str:
    if o.code[1] == "0":
        return "row"
    pairs = o.code[1] == "1" and o.dtype.name in _PAIRS and \
        call.shape[own[1]] % 2 == 0 and \
        call.pointers[o.at] % (2*o.dtype.itemsize) == 0 and \
        all(s % 2 == 0 for s in _steps(call, o, own[1]))
    return "pair" if pairs else "each"


def _store(call: Call, o: Operand, own: tuple[int, int]) -> str:
    if o.dtype.name not in _FLOATS:
        return "each"
    whole = call.strides[o.at][own[1]] == 1 and reachable(
        call.pointers[o.at], [o.dtype.itemsize*s for s in _steps(call, o, own[1])])
    return "tile" if whole else "lanes"


def _steps(call: Call, o: Operand, n: int) -> Sequence[int]:
    """Strides of the loops over batch and rows that take more than one step."""
    return [s for x, s in enumerate(call.strides[o.at]) if x < n and call.shape[x] > 1]
