"""Wide products of pairs, of which threads have columns and share the left factor.

What one thread packs another one reads slowly, so the smaller factor is shared; and of
few rows the larger one would be read again and again.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ....support.dtypes import BFLOAT16
from ....support.forks import once
from ...runtime.compile import build
from ...runtime.objects import Entry
from ...runtime.pool import POOL
from ...runtime.schedule import LINE, bind_parallel, runs_alone
from ...runtime.workspace import WORKSPACE
from ..gemm import (
    LIGHT,
    Epilogue,
    Factors,
    Multiply,
    blocks_of,
    epilogue_words,
    kernels_of,
    layout_of,
    multiple,
    words_of,
)
from ..gemm_text import WORDS
from .column_text import COLUMN_WORDS, columns_text

__all__ = ["bind_columns"]

#: Columns for each row from which threads share the left factor, and bytes of this one.
#: benchmarks/notes/cpu.md#products-of-bfloat16
_WIDE, _LEFT = 1.5, 1 << 23

#: Panels of the left factor that are packed together; not measured.
_SHARE = 2


def bind_columns(f: Factors, epilogue: Epilogue) -> Multiply | None:
    """Bind a wide product that threads share to its shape; None of others."""
    kernels, threads = kernels_of(BFLOAT16), POOL.threads
    tile, size, layout = kernels.tile, kernels.size, layout_of(kernels, f, f.n)
    left = multiple(layout.panels*tile.rows*layout.pitch*size, LINE)
    if threads < 2 or f.n < _WIDE*f.m or left > _LEFT or epilogue.kernel.serial or \
            epilogue.kernel.frame.size > WORDS:
        return None
    blocks = blocks_of(layout.across, tile.columns*(layout.pitch + f.m)*size, threads)
    packs = -(-layout.panels // _SHARE)
    units, columns = packs + blocks, -(-layout.across // blocks)*tile.columns
    weight = f.m*f.n*layout.terms // (LIGHT*units)
    if runs_alone(units, weight):
        return None
    sums, stride = multiple(columns*layout.pitch*size, LINE), columns + tile.lanes
    slot = sums + multiple(layout.panels*tile.rows*stride*size, LINE)
    call, frame = epilogue.call, epilogue.kernel.frame
    outer = (0,)*(len(call.shape) - 2)
    steps = [0, *(s[-1]*each for s, each in
                  zip(call.strides, epilogue.itemsizes, strict=True))]
    static = {
        **words_of(kernels, f, layout), **epilogue_words(epilogue, steps, True),
        "packs": packs, "share": _SHARE, "n": f.n, "blocks": blocks, "slots": threads,
        "slot": slot, "sums": sums, "stride": stride, "inner": frame.extent(-1)}
    words = struct.pack(f"={len(COLUMN_WORDS) + len(steps)}q",
                        *(static[name] for name in COLUMN_WORDS), *steps)
    changing = struct.Struct("=6q").pack
    pack = frame.packer(replace(call, strides=((*outer, stride, 1), *call.strides)))
    launch = bind_parallel(_kernel(), units, weight, 1)

    def multiply(a_at: int, b_at: int, pointers: Sequence[int],
                 scalars: tuple[Any, ...]) -> None:
        room, control, before = WORKSPACE.take(left + threads*slot, threads)
        launch(changing(a_at, b_at, room, room + left, control, before) + words
               + pack((0, *pointers), scalars))

    # What it calls by its address stays as long as it does.
    multiply.epilogue = epilogue.kernel.entry  # type: ignore[attr-defined]
    return multiply


@once
def _kernel() -> Entry:
    return build("\n".join(columns_text(BFLOAT16, kernels_of(BFLOAT16).tile)))
