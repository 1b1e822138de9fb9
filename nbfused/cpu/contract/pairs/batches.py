"""Batches of products of pairs, each of which one thread packs and multiplies."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....support.dtypes import BFLOAT16
from ....support.forks import once
from ...runtime.compile import build
from ...runtime.objects import Entry
from ...runtime.pool import POOL
from ...runtime.schedule import LINE, bind_parallel
from ...runtime.workspace import WORKSPACE
from ..gemm import (
    LIGHT,
    Epilogue,
    Factors,
    Multiply,
    epilogue_steps,
    epilogue_words,
    kernels_of,
    layout_of,
    least_blocks,
    multiple,
    words_of,
)
from ..gemm_text import WORDS
from .batch_text import BATCH_WORDS, batch_text

__all__ = ["bind_batch"]

#: Bytes of a packed right factor, and multiplications of a product, from which threads
#: rather share each product; products of which there are enough for them.  Not
#: measured.
_RIGHT, _LARGE, _MANY = 1 << 20, 1 << 22, 4


def bind_batch(f: Factors, epilogue: Epilogue, moves: Sequence[Sequence[int]],
               swapped: bool) -> Multiply | None:
    """Bind a batch of products to its shape; None if threads should share each one.

    Parameters
    ----------
    f, epilogue
        Of the first product.
    moves
        Bytes from the first product's arrays, factors first, to those of each.
    swapped
        Whether the first of these factors is the right one.
    """
    kernels = kernels_of(BFLOAT16)
    layout = layout_of(kernels, f, f.n)
    few = f.m*f.n*f.k > _LARGE and len(moves) < _MANY*POOL.threads
    if layout.right > _RIGHT or few or epilogue.kernel.serial or \
            epilogue.kernel.frame.size > WORDS:
        return None
    size, tile, threads = kernels.size, kernels.tile, POOL.threads
    blocks = least_blocks(layout.panels, tile.rows*(layout.pitch + f.n)*size)
    rows = -(-layout.panels // blocks)*tile.rows
    left = multiple(rows*layout.pitch*size, LINE)
    packed = left + multiple(rows*layout.stride*size, LINE)
    slot = packed + layout.right
    steps, whole, _ = epilogue_steps(epilogue, layout.stride, 0, f.n)
    table = np.array(moves, np.int64)
    if swapped:
        table[:, :2] = table[:, 1::-1]
    static = {
        **words_of(kernels, f, layout), **epilogue_words(epilogue, steps, True),
        "moves": table.ctypes.data, "arrays": table.shape[1], "n": f.n,
        "blocks": blocks, "slots": threads, "slot": slot, "packed": packed,
        "sums": left}
    words = struct.pack(f"={len(BATCH_WORDS) + len(steps)}q",
                        *(static[name] for name in BATCH_WORDS), *steps)
    changing, pack = struct.Struct("=4q").pack, epilogue.kernel.frame.packer(whole)
    launch = bind_parallel(_kernel(), len(moves), max(
        1, f.m*f.n*layout.terms // LIGHT))

    def multiply(a_at: int, b_at: int, pointers: Sequence[int],
                 scalars: tuple[Any, ...]) -> None:
        room, control, _ = WORKSPACE.take(threads*slot, threads)
        launch(changing(a_at, b_at, room, control) + words
               + pack((0, *pointers), scalars))

    # What it reads and calls by its address stays as long as it does.
    multiply.kept = table, epilogue.kernel.entry  # type: ignore[attr-defined]
    return multiply


@once
def _kernel() -> Entry:
    return build("\n".join(batch_text(BFLOAT16, kernels_of(BFLOAT16).tile)))
