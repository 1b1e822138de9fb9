"""`Reduce`: elements to states, long reductions in chunks, then `post`.

Two kernels do the same along different dimensions.  *Along*: the inner loop runs over
reduced elements, as for the last axis of an array in C order.  *Across*: it runs over
results, as for the first axis.  Which one, and how the reduced elements are cut into
chunks, depends on shapes and strides alone, so that every run and any number of threads
give the same bits.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from math import isqrt, prod
from typing import Any

import numpy as np

from ..arrays.host import NUMPY
from ..backend import Call, Launcher, Signature, Start
from ..records import record
from ..specs import TypedReduce
from .bound import Bindable
from .compile import build
from .objects import Entry
from .operands import Frame
from .reduce_text import BLOCK, Problem, across, along, finish
from .schedule import spreading

__all__ = ["build_reduce"]

#: Reduced elements in a chunk.
_CHUNK = 1 << 16

#: So many results at least for the kernel across them.
_WIDE = 16

#: Up to so many reduced elements, a loop over results is faster whatever the strides.
_FEW = 16

#: So many pieces of work at least before the reduced elements are left in one chunk.
_PIECES = 64


#: Enough rows for a chunk across results, and for the first level of its sums.
_ROWS, _GROUP = 64, 32

Writer = Callable[[Problem], list[str]]


@record(frozen=True)
class _Kernel:
    entry: Entry
    frame: Frame


@record(frozen=True)
class _Cut:
    """How a call is cut.

    Attributes
    ----------
    units, weight
        Pieces of work, and elements in each.
    chunks, chunk
        Chunks of the reduced elements, and elements in each.
    kept
        Results.
    group
        Elements that go to the first level of the kernel across results.
    """

    units: int
    weight: int
    chunks: int
    chunk: int
    kept: int
    group: int


class _Reduction:
    """How calls are bound; it compiles each kernel when a call needs it first."""

    def __init__(self, typed: TypedReduce, signature: Signature) -> None:
        self.typed = typed
        self.signature = signature
        self.kept, self.reduced = signature.ranks
        self.inputs = len(signature.inner) - len(signature.outputs)
        self._kernels: dict[tuple[Writer, tuple[str, ...]], _Kernel] = {}

    def bind(self, call: Call) -> Start:
        """See `backend.Launcher`."""
        reduced = prod(call.shape[self.kept:])
        return self._across(call, reduced) if self._is_across(call, reduced) else \
            self._along(call, reduced)

    def _is_across(self, call: Call, reduced: int) -> bool:
        """Whether a loop over results is better than one over reduced elements."""
        at = self.kept - 1
        if call.shape[at] < _WIDE:
            return False
        codes = self.signature.inner[:self.inputs]
        columns = [(abs(s[at]) > 1, abs(s[-1]) > 1) for s, code
                   in zip(call.strides, codes, strict=False) if code[0] != "r"]
        result, element = (sum(far) for far in zip(*columns, strict=True))
        return result < element or reduced <= _FEW

    def _along(self, call: Call, reduced: int) -> Start:
        chunks = max(1, -(-reduced // _CHUNK))
        kept = prod(call.shape[:self.kept])
        cut = _Cut(kept * chunks, min(reduced, _CHUNK), chunks, _CHUNK, kept, 0)
        return self._start(self._kernel(along, self.signature.inner), call, cut)

    def _across(self, call: Call, reduced: int) -> Start:
        at = self.kept - 1
        codes = tuple(code if code[0] == "r" else "1" if s[at] == 1 else
                      "0" if s[at] == 0 else "s" for code, s
                      in zip(self.signature.inner, call.strides, strict=True))
        kept = prod(call.shape[:self.kept])
        blocks = prod(call.shape[:at]) * -(-call.shape[at] // BLOCK)
        chunk = max(_ROWS, min(reduced, -(-reduced * blocks // _PIECES)))
        chunks = max(1, -(-reduced // chunk))
        weight = max(1, kept * reduced // (blocks * chunks))
        cut = _Cut(blocks * chunks, weight, chunks, chunk, kept,
                   max(_GROUP, isqrt(chunk)))
        return self._start(self._kernel(across, codes), call, cut)

    def _start(self, kernel: _Kernel, call: Call, cut: _Cut) -> Start:
        if cut.chunks > 1:
            return self._in_chunks(kernel, call, cut)
        nowhere = (0 for _ in self.typed.state)
        pack = kernel.frame.bound(call, 1, cut.chunk, cut.group, *nowhere)
        launch = spreading(kernel.entry, cut.units, cut.weight)
        return lambda pointers, scalars, _: launch(pack(pointers, scalars))

    def _in_chunks(self, kernel: _Kernel, call: Call, cut: _Cut) -> Start:
        """States of chunks go to memory that each launch has for itself."""
        last = self._kernel(finish, self.signature.inner)
        sizes = [(cut.chunks * cut.kept, _stored(d)) for d in self.typed.state]
        extras = (cut.chunks, cut.chunk, cut.group)
        parts = [(part.frame.parted(call, *extras), spreading(part.entry, *work))
                 for part, *work in ((kernel, cut.units, cut.weight),
                                     (last, cut.kept, cut.chunks))]
        addresses, address_of = struct.Struct(f"={len(sizes)}q").pack, NUMPY.pointer

        def start(pointers: Sequence[int], scalars: tuple[Any, ...], _: int) -> None:
            partial = [np.empty(size, dtype) for size, dtype in sizes]
            places = addresses(*map(address_of, partial))
            for pack, launch in parts:
                launch(pack(pointers, scalars, places))

        return start

    def _kernel(self, write: Writer, codes: tuple[str, ...]) -> _Kernel:
        kernel = self._kernels.get((write, codes))
        if kernel is None:
            inner = self.kept - 1 if write is across else -1
            problem = Problem(self.typed, self.signature, codes, inner)
            kernel = _Kernel(build("\n".join(write(problem))), problem.frame)
            self._kernels[write, codes] = kernel  # two threads may make it: no harm
        return kernel


def _stored(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.uint8) if dtype.kind == "b" else dtype


def build_reduce(typed: TypedReduce, signature: Signature) -> Launcher:
    """Make the launcher of a Reduce; each of its kernels is compiled at first need."""
    return Bindable(_Reduction(typed, signature).bind)
