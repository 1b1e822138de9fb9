"""The last step of Row's sums over rows: one kernel adds what the blocks have.

A block takes `LANES` columns of one output; its rows of threads share the partial sums
and are added in order, so the same input gives the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...backend import Call
from ...gpu.operands import Operand, kernel_name
from ...scalar.typing.promotion import compute_dtype
from ...support.dtypes import storage
from ..runtime.compile import Kernel
from ..runtime.driver import Device
from ..runtime.launch import Program
from ..text.source import Source, encoded
from ..text.states import WARP, storage_name

__all__ = ["RowTotal"]

LANES = WARP
#: Rows of threads in a block.
DEPTH = 32
#: Partial sums that a thread loads before it adds them.
AHEAD = 4


class RowTotal:
    """Adds the partial sums of all outputs in one launch.

    Parameters
    ----------
    name
        Of the row function.
    outputs, accumulators
        The outputs that are sums and the dtypes of the partial sums, by number.
    columns
        Those that have a sum for each column; the others have one.
    """

    def __init__(self, name: str, outputs: Mapping[int, Operand],
                 accumulators: Mapping[int, np.dtype], columns: Sequence[int]) -> None:
        self.outputs, self.accumulators = outputs, accumulators
        self.columns = frozenset(columns)
        self._program = Program(self._kernel(kernel_name(name, "total")))

    def __call__(self, where: Device, call: Call, parts: Mapping[int, int],
                 count: int) -> None:
        """Add `count` partial sums for each element, at the addresses `parts`."""
        sizes = {k: call.shape[-1] if k in self.columns else 1 for k in self.outputs}
        steps = [call.strides[o.at][-1] if k in self.columns else 0
                 for k, o in self.outputs.items()]
        blocks = sum(-(-size // LANES) for size in sizes.values())
        if blocks:
            targets = (call.pointers[o.at] for o in self.outputs.values())
            self._program.launch(where, call.stream, blocks, (
                *(parts[k] for k in sizes), *targets, count, *sizes.values(), *steps))

    def _kernel(self, name: str) -> Kernel:
        out = Source(name)
        for k, dtype in self.accumulators.items():
            out.pointer(f"w{k}", storage(dtype))
        for k, o in self.outputs.items():
            out.pointer(f"p{k}", storage(o.dtype))
        out.integer("parts", *(f"n{k}" for k in self.outputs),
                    *(f"s{k}" for k in self.outputs))
        out("thread = i64(cuda.threadIdx.x)", "first = i64(cuda.blockIdx.x)",
            f"lane = thread & {LANES - 1}", f"row = divide(thread, i64({LANES}))")
        for k, o in self.outputs.items():
            out(f"blocks = divide(n{k} + {LANES - 1}, i64({LANES}))")
            with out.block("if (first >= 0) & (first < blocks):"):
                self._sum(out, k, o)
            out("first -= blocks")
        return out.kernel(LANES*DEPTH)

    def _sum(self, out: Source, k: int, o: Operand) -> None:
        """The sums of `LANES` columns."""
        dtype = self.accumulators[k]
        kept = storage_name(dtype)
        out(f"j = first*{LANES} + lane", f"total = {kept}(0)", "at = row")
        with out.block(f"if j < n{k}:"):
            for ahead in (AHEAD, 1):
                last = (ahead - 1)*DEPTH
                with out.block(f"while at + {last} < parts:"):
                    out(*(f"x{a} = w{k}[(at + {a*DEPTH})*n{k} + j]"
                          for a in range(ahead)),
                        *(f"total += x{a}" for a in range(ahead)),
                        f"at += {ahead*DEPTH}")
        out(f"rows{k} = cuda.shared.array({LANES*DEPTH}, {kept})",
            f"rows{k}[thread] = total", "cuda.syncthreads()")
        with out.block(f"if (row == 0) & (j < n{k}):"):
            out(*(f"total += rows{k}[{r*LANES} + lane]" for r in range(1, DEPTH)),
                f"p{k}[j*s{k}] = {encoded(compute_dtype(dtype), o.dtype, 'total')}")
