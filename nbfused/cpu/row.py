"""`Row` on the CPU: rows in turn, each while it is in the cache.

Rows are shared among the threads.  Sums over rows are made for fixed chunks of rows and
the chunks added in order, so that the number of threads changes no bit.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..backend import Call, Launcher, Signature, Start
from ..specs import TypedRow
from .row_text import RowText
from .runtime.binding import BindingLauncher
from .runtime.compile import build
from .runtime.schedule import bind_parallel, run_parallel

__all__ = ["build_row"]

#: At most so many chunks of rows, each with a row of partial sums; not measured.
_CHUNKS = 32

#: A chunk has so many rows at least: partial sums cost a fraction of what is read.  Not
#: measured.
_ROWS = 8


def build_row(typed: TypedRow, signature: Signature) -> Launcher:
    """Compile a Row and make its launcher."""
    text = RowText(typed, signature)
    frame, sums = text.frame, text.sums
    entry = build("\n".join(text.lines()))

    def launch(call: Call) -> None:
        rows, columns = prod(call.shape[:-1]), call.shape[-1]
        step = max(_ROWS, -(-rows // _CHUNKS))
        chunks = -(-rows // step)
        partial = [np.empty(chunks * (columns if kind == "column" else 1), dtype)
                   for kind, dtype in sums]
        addresses = [p.ctypes.data for p in partial]
        block = frame.pack(call, step, chunks, 0, *addresses)
        run_parallel(entry, block, chunks, max(step * columns, 1))
        block = frame.pack(call, step, chunks, 1, *addresses)
        run_parallel(entry, block, max(columns, 1), chunks)

    def bind(call: Call) -> Start:
        rows, weight = prod(call.shape[:-1]), max(call.shape[-1], 1)
        pack = frame.packer(call, 1, 1, 0)
        launch = bind_parallel(entry, rows, weight)
        return lambda pointers, scalars, _: launch(pack(pointers, scalars))

    return launch if sums else BindingLauncher(bind)
