"""`Row` on the CPU: rows in turn, or many at once, while they are in the cache.

Two kernels do the same along different dimensions.  *Along* a row, one after another,
as for the last axis of an array in C order.  *Across* rows (`row_across`): a lane is a
row, as for the first axis, and for rows so short that what each costs by itself is more
than its elements.  Which one depends on shapes and strides, and on the width of the
processor's vectors.

Rows are shared among the threads.  Sums over rows are made for fixed chunks of rows and
the chunks added in order, so that the number of threads changes no bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isqrt, prod

import numpy as np

from ..backend import Call, Launcher, Signature, Start
from ..specs import TypedRow
from ..support.forks import cached_property
from ..support.loop_nests import stride_code
from .long_rows.held import HeldRowText
from .long_rows.launcher import LongRows
from .row_across import BLOCK, LANES, NARROW, STAGED, RowAcross
from .row_short import short_row, widest_number
from .row_text import SCRATCH, RowText, StackedRowText
from .runtime.binding import BindingLauncher
from .runtime.compile import build
from .runtime.objects import Entry, has_wide_vectors
from .text.operands import Frame
from .text.reuse import is_cheap
from .text.starts import start_in_steps, start_of

__all__ = ["RowLauncher", "build_row", "lanes_last"]

#: At most so many chunks of rows, each with a row of partial sums; not measured.
_CHUNKS = 32

#: A chunk has so many rows at least: partial sums cost a fraction of what is read.  Not
#: measured.
_ROWS = 8

#: A last loop that is as long stays the last one; not measured.
_WIDE = 16

#: So many rows side by side at least for the kernel across them:
#: benchmarks/notes/cpu.md#short-rows.
_SIDE_BY_SIDE = 8

#: Columns at least, and bytes of an element, for rows side by side to stay the lanes
#: where another loop is longer: benchmarks/notes/cpu.md#rows-across.
_DEEP, _WORD = 16, 4

#: Rows of a unit of work at most, which are copied together where they are strided:
#: benchmarks/notes/cpu.md#strided-elements.
_TOGETHER = 16

#: Bytes of a row, as it is computed, up to which rows side by side are faster whatever
#: the strides; with vectors of 64 bytes, of cheap and of costly functions:
#: benchmarks/notes/cpu.md#short-rows.
_FEW_BYTES, _FEW_BYTES_WIDE = 96, (112, 224)

#: Bytes of the rows that are computed together: they stay in the second-level cache.
#: benchmarks/notes/cpu.md#rows-across.
_BLOCK_BYTES = 1 << 18

#: Columns that go to the first level of a fold at least; not measured.
_GROUP = 32

#: Bytes at most that are held of a row in temporary memory for later stages, and in
#: all, and units that hold a row: benchmarks/notes/cpu.md#long-rows.
_HELD, _HELD_IN_ALL, _HOLDERS = 3 << 19, 3 << 22, 64

Kernel = tuple[Entry, Frame]


def lanes_last(call: Call, loops: int) -> Call:
    """Move the longest of the first `loops` to their end if the last one is short.

    It is the one that runs in lanes.
    """
    first = call.shape[:loops]
    if loops < 2 or first[-1] >= _WIDE or max(first) < _WIDE:
        return call
    at = max(range(loops), key=first.__getitem__)
    order = [*range(at), *range(at + 1, loops), at, *range(loops, len(call.shape))]
    return replace(call, shape=tuple(call.shape[d] for d in order), strides=tuple(
        tuple(s[d] for d in order) for s in call.strides))


class RowLauncher:
    """Binds calls of a Row, and compiles each kernel when first needed."""

    def __init__(self, typed: TypedRow, signature: Signature) -> None:
        self.typed = typed
        self.signature = signature
        self.sums = [(o.kind, o.accumulator) for o in typed.outs
                     if o.kind in ("column", "scalar")]
        self._short = short_row(typed, signature)
        self._long = LongRows(typed, signature)
        self._itemsize = widest_number(typed)
        self._kernels: dict[tuple[type[RowText], tuple[str, ...]], Kernel] = {}

    def bind(self, call: Call) -> Start:
        """Bind a call: see `backend.Launcher`."""
        start = self.in_short_rows(call) or self._long.bind(call)
        if start is not None:
            return start
        if not self.sums and not self._are_beside(call):
            call = lanes_last(call, len(call.shape) - 1)
        return self._across(call) if self._is_across(call) else self._along(call)

    def _are_beside(self, call: Call) -> bool:
        """Whether few rows side by side stay the lanes: others would be gathered.

        Not of 16-bit floats, nor of exponentials that are summed only:
        benchmarks/notes/cpu.md#rows-across.
        """
        if len(call.shape) < 2:
            return False
        return call.shape[-1] >= _DEEP and call.shape[-2] >= _SIDE_BY_SIDE and \
            self._stays and all(s[-2] <= 1 for s in call.strides)

    @cached_property
    def _stays(self) -> bool:
        """Whether the functions and dtypes are such that gathers cost most."""
        functions = [f for s in self.typed.stages for f in (s.element, s.merge)]
        dtypes = [d for d in (*self.signature.inputs, *self.signature.outputs)
                  if isinstance(d, np.dtype)]
        return all(d.itemsize >= _WORD for d in dtypes) and (
            all(map(is_cheap, functions)) or
            any(o.kind == "element" for o in self.typed.outs))

    def in_short_rows(self, call: Call) -> Start | None:
        """Bind to a kernel of rows that are written out, if it is for such rows."""
        return None if self._short is None or self.sums else self._short.bind(
            lanes_last(call, len(call.shape) - 1))

    def _is_across(self, call: Call) -> bool:
        """Whether the inner loops should run over rows."""
        if call.shape[-2] < _SIDE_BY_SIDE:
            return False
        columns = call.shape[-1]
        if self.sums and (len(call.shape) > 2 or columns > NARROW):
            return False
        far = sum((abs(s[-2]) > 1) - (abs(s[-1]) > 1) for s in call.strides)
        return columns <= self._few or far < 0

    @cached_property
    def _few(self) -> int:
        """Columns up to which rows side by side are faster whatever the strides."""
        functions = [*(s.element for s in self.typed.stages),
                     *(o.function for o in self.typed.outs if o.kind != "row")]
        few = _FEW_BYTES if not has_wide_vectors() else \
            _FEW_BYTES_WIDE[not all(map(is_cheap, functions))]
        return min(NARROW, few // self._itemsize)

    def _along(self, call: Call) -> Start:
        rows, columns = prod(call.shape[:-1]), call.shape[-1]
        if columns > SCRATCH and 0 < columns*self._held.itemsize <= _HELD:
            return self._holding(call, rows)
        kernel = self._kernel(StackedRowText if columns <= SCRATCH else RowText,
                              self.signature.inner)
        if self.sums:
            step = max(_ROWS, -(-rows // _CHUNKS))
            return self._summing(kernel, call, step, -(-rows // step))
        step = max(1, min(_TOGETHER, SCRATCH // max(columns, 1)))
        return start_of(*kernel, call, (step, 1, 0), -(-rows // step),
                        step*max(columns, 1))

    @cached_property
    def _held(self) -> HeldRowText:
        """The writer of the kernel that holds values in temporary memory."""
        return HeldRowText(self.typed, self.signature)

    def _holding(self, call: Call, rows: int) -> Start:
        """A launch whose units have room for a row each."""
        columns, text = call.shape[-1], self._held
        kernel = self._kernel(HeldRowText, self.signature.inner)
        held = [(columns, room.dtype) for room in text.rooms_apart]
        most = min(_HOLDERS, _HELD_IN_ALL // (columns*text.itemsize))
        if self.sums:
            step = max(_ROWS, -(-rows // min(_CHUNKS, most)))
            return self._summing(kernel, call, step, -(-rows // step), held=held)
        step = -(-rows // most)
        units = -(-rows // step)
        return start_in_steps([(units*n, d) for n, d in held], [
            (*kernel, call, (step, 1, 0), units, step*columns)])

    def _across(self, call: Call) -> Start:
        inner, columns = call.shape[-2:]
        codes = tuple(_code(s[-2], s[-1], columns) for s in call.strides)
        kernel = self._kernel(RowAcross, codes)
        group = max(_GROUP, isqrt(columns))
        if self.sums:
            step = max(LANES, -(-inner // _CHUNKS))
            return self._summing(kernel, call, step, -(-inner // step), LANES, group,
                                 0)
        row = max(columns, 1) * max(d.itemsize for d in self.signature.outputs)
        block = LANES if STAGED in codes else \
            min(BLOCK, max(LANES, _BLOCK_BYTES // row // LANES * LANES))
        turned = int(1 not in {abs(s[-2]) for s in call.strides})
        return start_of(*kernel, call, (block, 1, 0, block, group, turned),
                        prod(call.shape[:-2]) * -(-inner // block),
                        block * max(columns, 1))

    def _summing(self, kernel: Kernel, call: Call, step: int, chunks: int,
                 *extras: int, held: Sequence[tuple[int, np.dtype]] = ()) -> Start:
        """A launch for chunks of rows, then one that adds these up."""
        columns = call.shape[-1]
        sizes = [(chunks * (columns if kind == "column" else 1), dtype)
                 for kind, dtype in self.sums]
        sizes += [(chunks * n, dtype) for n, dtype in held]
        return start_in_steps(sizes, [
            (*kernel, call, (step, chunks, 0, *extras), chunks, max(step * columns, 1)),
            (*kernel, call, (step, chunks, 1, *extras), max(columns, 1), chunks)])

    def _kernel(self, text: type[RowText], codes: tuple[str, ...]) -> Kernel:
        kernel = self._kernels.get((text, codes))
        if kernel is None:
            problem = self._held if text is HeldRowText else text(
                self.typed, self.signature, codes)
            kernel = build("\n".join(problem.lines())), problem.frame
            # Two threads may make it: no harm.
            self._kernels[text, codes] = kernel
            if text is StackedRowText and problem.fits:  # long rows have it, too
                self._kernels[RowText, codes] = kernel
        return kernel


def _code(down: int, along: int, columns: int) -> str:
    """The code of an array in the kernel across rows, by its two strides."""
    code = stride_code(down)
    return STAGED if code == "s" and along and columns <= NARROW else code


def build_row(typed: TypedRow, signature: Signature) -> Launcher:
    """Make the launcher of a Row, which compiles its kernels when needed."""
    return BindingLauncher(RowLauncher(typed, signature).bind)
