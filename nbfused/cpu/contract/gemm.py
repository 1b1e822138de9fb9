"""Blocked matrix multiplication that applies the epilogue while a block is cached.

The right factor is packed once, for all threads.  Then each thread takes blocks of
rows: packs them, multiplies tile by tile, and runs the epilogue on the sums.  All of
that is one launch of machine code.  Every sum is made in the order of ``k``, so that
neither blocks nor threads change a bit.

It is here beside BLAS since the epilogue then costs next to nothing: 1024³ with bias
and relu takes 10.6 ms, PyTorch 11.2, and from 128³ on float32 products are faster than
NumPy's three calls: benchmarks/notes/cpu.md#products-on-the-cpu.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...backend import Call, Start
from ...support.forks import once
from ..map import Kernel
from ..runtime.compile import build
from ..runtime.native import (
    Arguments,
    Fill,
    Part,
    joined,
    moved,
    native_of,
    with_native,
)
from ..runtime.objects import Entry, address_of
from ..runtime.pool import POOL
from ..runtime.schedule import LINE, bind_parallel, runs_alone
from ..runtime.workspace import WORKSPACE
from .gemm_text import (
    STATIC,
    WORDS,
    blocks_text,
    multiply_text,
    pack_text,
    packed_together,
)
from .pairs.pack_text import DEPTH, NEIGHBOURS, pack_pairs_text
from .tile import tile_of

__all__ = ["LIGHT", "Epilogue", "Factors", "Multiply", "bind_product", "blocks_of",
           "epilogue_steps", "epilogue_words", "is_suitable", "kernels_of",
           "layout_of", "least_blocks", "multiple", "start_of", "words_of"]

#: Bytes of a packed block of rows and of its sums: about a second-level cache.  Larger
#: ones were the same: benchmarks/notes/cpu.md#dead-ends-of-the-cpu.
_BLOCK_BYTES = 1 << 20

#: Bytes of the right factor that are packed at once; not measured.
_PACKED_BYTES = 1 << 23

#: Least rows, columns and inner extent: below, packing costs more than it saves, unless
#: BLAS needs it as well: benchmarks/notes/cpu.md#blocked-products.
_LEAST, _LEAST_PACKED = 48, 16

#: Multiplications that take as long as one element of other kernels, to decide whether
#: to wake a thread: from 2²⁰ on.  At 96³ a helper gains 3 µs where it is idle and costs
#: 2 where it is not: benchmarks/notes/cpu.md#threads.
LIGHT = 16

#: Blocks for each thread, of which one that is late gets fewer; not measured.
_SHARES = 2

#: Panels of the right factor that are packed together; not measured.
_SHARE = 4


def is_suitable(dtype: np.dtype, m: int, n: int, k: int, packed: bool) -> bool:
    """Whether the blocked kernel beats BLAS, for which a factor may be `packed`."""
    least = _LEAST_PACKED if packed else _LEAST
    return dtype in (np.float32, np.float64) and min(m, n, k) >= least and \
        k * dtype.itemsize <= 1 << 16


class Factors(NamedTuple):
    """Extents of a product, and strides of its factors in elements.

    `a_down` leads from row to row of the left factor, `b_down` from column to column of
    the right one; `a_along` and `b_along` along them.  Of a batch of products the
    factors are `a_apart` and `b_apart`.
    """

    dtype: np.dtype
    m: int
    n: int
    k: int
    a_down: int
    a_along: int
    b_down: int
    b_along: int
    batch: int = 1
    a_apart: int = 0
    b_apart: int = 0


class Epilogue(NamedTuple):
    """The Map that is applied to the sums of a product.

    Attributes
    ----------
    kernel
        Its first input are the sums.
    call
        A call on all rows and columns, its last two dimensions; the sums are left out,
        and pointers do not count.
    itemsizes
        Of its arrays.
    rounds
        Whether all it does is to round the sums to bfloat16.
    """

    kernel: Kernel
    call: Call
    itemsizes: Sequence[int]
    rounds: bool = False


#: ``multiply(a_at, b_at, pointers, scalars)``: the addresses of the factors, and of the
#: epilogue's arrays without the sums.  It may say what it does natively: see `native`;
#: its pointers are the factors' and then these.
Multiply = Callable[[int, int, Sequence[int], tuple[Any, ...]], None]


class Kernels:
    """The compiled kernels of the blocked product for one dtype of factors.

    Attributes
    ----------
    together, size
        Terms of a sum that are packed side by side, and their bytes.
    """

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype, self.together = dtype, packed_together(dtype)
        self.size = dtype.itemsize*self.together
        self.tile = tile_of(self.size)
        texts = ["\n".join(write(dtype, self.tile))
                 for write in (multiply_text, blocks_text)]
        self.multiply, self.blocks = build(*texts), build(texts[1])

    def packer(self, down: int, along: int, width: int) -> Entry:
        """The kernel that packs panels of `width` rows of a strided matrix."""
        order = "rows" if along == 1 else "columns" if down == 1 else \
            "columns apart" if abs(down) < abs(along) else "rows apart"
        return _packer(self.dtype, width, order)


@once
def _packer(dtype: np.dtype, width: int, order: str) -> Entry:
    text = pack_text(dtype, width, order) if packed_together(dtype) == 1 else \
        pack_pairs_text(width, order)
    return build("\n".join(text))


@once
def kernels_of(dtype: np.dtype) -> Kernels:
    """The kernels for factors of this dtype."""
    return Kernels(dtype)


class Layout(NamedTuple):
    """The packed panels of a product's factors, and its sums.

    Attributes
    ----------
    panels, across
        Of the left factor and the right one.
    terms, pitch
        Pairs, or numbers, of a panel's row that are multiplied, and their places.
    stride
        From row to row of the sums: an odd number of vectors, as rows a power of two
        apart are in few lines of the caches: benchmarks/notes/cpu.md#blocked-products.
    right
        Bytes of the packed right factor.
    """

    panels: int
    across: int
    terms: int
    pitch: int
    stride: int
    right: int


def layout_of(kernels: Kernels, f: Factors, n: int) -> Layout:
    """The layout of a product, or of so many of its columns."""
    tile, together = kernels.tile, kernels.together
    terms = -(-f.k // together)
    pitch = terms if together == 1 else multiple(f.k, DEPTH) // together
    across = -(-n // tile.columns)
    columns = across*tile.columns
    return Layout(-(-f.m // tile.rows), across, terms, pitch, columns + tile.lanes,
                  multiple(columns*pitch*kernels.size, LINE))


def words_of(kernels: Kernels, f: Factors, layout: Layout) -> dict[str, int]:
    """The words of arguments that say how factors are packed and multiplied."""
    right = kernels.packer(f.b_down, f.b_along, kernels.tile.columns)
    left = kernels.packer(f.a_down, f.a_along, kernels.tile.rows)
    return {
        "k": f.k, "m": f.m, "b_down": f.b_down, "b_along": f.b_along,
        "a_down": f.a_down, "a_along": f.a_along, "panels": layout.panels,
        "across": layout.across, "terms": layout.terms, "pitch": layout.pitch,
        "stride": layout.stride, "pack_right": address_of(right),
        "pack_left": address_of(left), "multiply": address_of(kernels.multiply)}


def bind_product(factors: Factors, epilogue: Epilogue) -> Multiply | None:
    """Bind a product to its shape; None if the epilogue has too many arrays."""
    if epilogue.kernel.serial or epilogue.kernel.frame.size > WORDS:
        return None
    step = kernels_of(factors.dtype).tile.columns
    row = factors.k * factors.dtype.itemsize
    step *= max(1, _PACKED_BYTES // (row * step))
    parts = [_part(factors, epilogue, first, min(step, factors.n - first))
             for first in range(0, factors.n, step)]
    if len(parts) == 1:
        return parts[0]

    def multiply(a_at: int, b_at: int, pointers: Sequence[int],
                 scalars: tuple[Any, ...]) -> None:
        for part in parts:
            part(a_at, b_at, pointers, scalars)

    return with_native(multiply, *joined(map(native_of, parts)))


def _part(factors: Factors, epilogue: Epilogue, first: int, n: int) -> Multiply:
    """Bind the product of as many columns as are packed at once."""
    kernels, itemsize = kernels_of(factors.dtype), factors.dtype.itemsize
    tile, threads, size = kernels.tile, POOL.threads, kernels.size
    layout = layout_of(kernels, factors, n)
    panels, right, stride = layout.panels, layout.right, layout.stride
    blocks = blocks_of(panels, tile.rows * (layout.pitch + n) * size, threads)
    share = _SHARE if kernels.together == 1 else min(
        NEIGHBOURS, max(1, layout.across // (_SHARES*threads)))
    packs = -(-layout.across // share)
    rows = -(-panels // blocks) * tile.rows
    left = multiple(rows * layout.pitch * size, LINE)
    slot = left + multiple(rows * stride * size, LINE)
    steps, whole, moves = epilogue_steps(epilogue, stride, first, n)
    pack = epilogue.kernel.frame.packer(whole)
    static = {
        **words_of(kernels, factors, layout),
        **epilogue_words(epilogue, steps, kernels.together > 1),
        "packs": packs, "share": share, "n": n, "blocks": blocks, "slots": threads,
        "slot": slot, "sums": left}
    words = struct.pack(f"={len(STATIC) + len(steps)}q",
                        *(static[name] for name in STATIC), *steps)
    changing = struct.Struct("=6q").pack
    units, begin = packs + blocks, factors.b_down * first * itemsize
    room_size = right + threads * slot
    weight = factors.m * n * layout.terms // (LIGHT * units)
    launch = bind_parallel(kernels.blocks, units, weight, 1)

    def multiply(a_at: int, b_at: int, pointers: Sequence[int],
                 scalars: tuple[Any, ...]) -> None:
        room, control, before = WORKSPACE.take(room_size, threads)
        if moves is not None:
            pointers = [p + move for p, move in zip(pointers, moves, strict=True)]
        launch(changing(a_at, b_at + begin, room, room + right, control, before)
               + words + pack((0, *pointers), scalars))

    # What it calls by its address stays as long as it does.
    multiply.epilogue = epilogue.kernel.entry  # type: ignore[attr-defined]
    arguments = epilogue.kernel.frame.arguments(whole)
    if arguments is None or not runs_alone(units, weight):
        return multiply
    fills = [Fill(0, "pointer", 0), Fill(1, "pointer", 1, begin), Fill(2, "room"),
             Fill(3, "room", add=right), Fill(4, "control"), Fill(5, "count")]
    head = 6 + len(STATIC) + len(steps)
    for fill in arguments.fills:
        word = head + fill.word
        if fill.kind != "pointer":
            fills.append(fill._replace(word=word))
        elif fill.which:  # the first one are the sums, whose place the kernel knows
            more = moves[fill.which - 1] if moves else 0
            fills.append(fill._replace(word=word, which=fill.which + 1, add=more))
    return with_native(multiply, [Part(
        kernels.blocks, Arguments(bytes(48) + words + arguments.words, tuple(fills)),
        units, packs, multiply)], room_size, threads)


def blocks_of(panels: int, size: int, threads: int) -> int:
    """Number of row blocks; `size` is the bytes of a panel and its sums."""
    blocks = multiple(least_blocks(panels, size), threads)
    return min(panels, max(blocks, threads * _SHARES))


def least_blocks(panels: int, size: int) -> int:
    """Number of row blocks that stay in the cache, each for itself."""
    return -(-panels // max(1, _BLOCK_BYTES // size))


def multiple(count: int, of: int) -> int:
    """The least multiple that is not less than a count."""
    return -(-count // of)*of


def epilogue_words(epilogue: Epilogue, steps: Sequence[int], pairs: bool,
                   ) -> dict[str, int]:
    """The words of arguments that say how the epilogue is called.

    What rounds sums of pairs is not: the tiles store the result.
    """
    frame = epilogue.kernel.frame
    down, along = epilogue.call.strides[-1][-2:]
    finished = pairs and epilogue.rounds and along == 1
    return {"epilogue": address_of(epilogue.kernel.entry), "words": frame.size,
            "operands": len(steps), "extent": frame.extent(-2), "down": down,
            "finished": int(finished)}


def epilogue_steps(epilogue: Epilogue, stride: int, first: int, n: int,
                   ) -> tuple[list[int], Call, list[int] | None]:
    """The epilogue's row strides, its call and offsets of column `first`."""
    call = epilogue.call
    outer = (0,) * (len(call.shape) - 2)
    steps = [0, *(s[-2] * size for s, size in
                  zip(call.strides, epilogue.itemsizes, strict=True))]
    moves = [s[-1] * size * first for s, size in
             zip(call.strides, epilogue.itemsizes, strict=True)]
    whole = Call((*(1 for _ in outer), call.shape[-2], n), (),
                 ((*outer, stride, 1), *call.strides))
    return steps, whole, moves if first else None


def start_of(multiply: Multiply, swapped: bool) -> Start:
    """A launch of a product, whose factors are those of the call or `swapped`."""
    def start(pointers: Sequence[int], scalars: tuple[Any, ...], _: int) -> None:
        a_at, b_at = pointers[0], pointers[1]
        if swapped:
            a_at, b_at = b_at, a_at
        multiply(a_at, b_at, pointers[2:], scalars)

    native = native_of(multiply)
    return start if native is None else with_native(
        start, moved(native, _swap) if swapped else native.parts, native.room,
        native.slots)


def _swap(fill: Fill) -> Fill:
    """A pointer of a product whose factors are swapped: these are the first two."""
    return fill._replace(which=(1, 0)[fill.which]) if 0 <= fill.which < 2 else fill
