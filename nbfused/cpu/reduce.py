"""`Reduce` on the CPU: elements to states, long reductions in chunks, then `post`.

Two kernels do the same along different dimensions.  *Along*: the inner loop runs over
reduced elements, as for the last axis of an array in C order.  *Across*: it runs over
results, as for the first axis.  Where neither loop is long, lanes are *spans* of memory
(`reduce_spans`), and few elements along one loop a short row (`row`).  Which one, and
how the reduced elements are cut into chunks, depends on shapes and strides alone, so
that every run and any number of threads give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isqrt, prod

import numpy as np

from ..backend import Call, Launcher, Signature, Start
from ..scalar.ir.nodes import used_params
from ..specs import TypedReduce
from ..support.forks import cached_property
from ..support.records import record
from .reduce_as_row import RowsOfChunks, as_row, in_two_stages, two_stages
from .reduce_extremes import extremes, places
from .reduce_spans import Span, find_span
from .reduce_text import BLOCK, ReduceText, across, along, finish, gather, spans
from .row import RowLauncher, lanes_last
from .row_across import NARROW
from .runtime.binding import BindingLauncher
from .runtime.compile import build
from .runtime.objects import Entry
from .text.operands import Frame, with_seconds
from .text.reuse import is_cheap
from .text.starts import start_in_steps, start_of

__all__ = ["build_reduce"]

#: Reduced elements in a chunk; 4 k or 16 k for a thread were 20 to 30 % slower:
#: benchmarks/notes/cpu.md#dead-ends-of-the-cpu.
_CHUNK = 1 << 16

#: Elements of a chunk whose exponentials are added, after their maximum is known:
#: benchmarks/notes/cpu.md#rows-and-reductions-on-the-cpu.
_EXPONENTIALS = 1 << 14

#: Elements of a chunk in which a place is looked for; other numbers were not measured.
_CACHED = 1 << 11

#: So many results at least for the kernel across them, and where they are neighbours
#: and reduced elements are not; not measured.
_WIDE, _SOME = 16, 4

#: Up to so many reduced elements the loop runs over results, whatever the strides; of
#: states of several numbers; and where they are merged by elementary functions:
#: benchmarks/notes/cpu.md#rows-across.
_FEW, _FEW_OF_SEVERAL, _FEW_COSTLY = 48, 100, 512

#: Bytes from the first to the last element of a row that is read twice, at most:
#: benchmarks/notes/cpu.md#rows-and-reductions-on-the-cpu.
_STRETCH = 1 << 16

#: Steps at most from one of many results to the next, reduced elements at least, and of
#: few results, for the kernel across them: benchmarks/notes/cpu.md#spans.
_STEP, _SEVERAL, _DEEP = 2, 3, 16

#: Reduced elements at least, of which every second one is copied to the stack.
_COPIES = 64

#: Results at least of short rows for the kernel across rows; not measured.
_MANY = 64

#: So many pieces of work at least before the reduced elements are left in one chunk;
#: not measured.
_PIECES = 64

#: Enough rows for a chunk across results, and for the first level of its sums; not
#: measured.
_ROWS, _GROUP = 64, 32

Writer = Callable[[ReduceText], list[str]]


@record(frozen=True)
class _Kernel:
    entry: Entry
    frame: Frame


@record(frozen=True)
class _Partition:
    """The partition of a reduction into pieces of work and chunks.

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
    """Binds calls of a Reduce, and compiles each kernel when first needed."""

    def __init__(self, typed: TypedReduce, signature: Signature) -> None:
        self.typed = typed
        self.signature = signature
        self.kept, self.reduced = signature.ranks
        self.inputs = len(signature.inner) - len(signature.outputs)
        self._rows: tuple[RowLauncher | None] | None = None
        self._kernels: dict[tuple[Writer, tuple[str, ...], tuple[int, int] | None],
                            _Kernel] = {}

    def bind(self, call: Call) -> Start:
        """Bind a call: see `backend.Launcher`."""
        reduced = prod(call.shape[self.kept:])
        if self.typed.stored:
            return self._along(call, reduced)
        beside = self._are_beside(call, reduced)
        if self._is_row(call):
            rows = self._as_rows()
            short = rows and rows.in_short_rows(call)
            if short:
                return short
            if rows and not beside and not self._is_faster_than_rows(call):
                return rows.bind(call)
        if beside:
            return self._across(call, reduced)
        span = None if {"raw", "index"} & set(self.typed.kinds) else \
            find_span(call, self.kept, self.inputs, self._filled)
        if span is not None:
            return self._by_spans(call, span)
        if reduced <= self._few and "raw" not in self.typed.kinds:
            call = lanes_last(call, self.kept)
        if self._is_across(call, reduced):
            return self._across(call, reduced)
        if reduced > _CACHED and self.reduced == 1 and self._finds_places:
            return self._by_places(call, reduced)
        if reduced > _CHUNK and self._by_chunks is not None:
            return self._by_chunks.bind(call, _EXPONENTIALS)
        return self._along(call, reduced)

    def _is_row(self, call: Call) -> bool:
        """Whether a Row is faster: many of few elements, or in two stages."""
        if self.reduced != 1:
            return False
        columns, rows = call.shape[-1], max(call.shape[:-1])
        return (columns <= NARROW and rows >= _MANY) or (
            0 < columns <= self._longest and self._is_near(call))

    def _are_beside(self, call: Call, reduced: int) -> bool:
        """Whether results side by side fill vectors, which are added at once.

        benchmarks/notes/cpu.md#spans
        """
        if not self.kept or reduced < _SEVERAL or self._longest or not self._adds:
            return False
        at = self.kept - 1
        steps = {abs(s[at]) for s in call.strides[:self.inputs]}
        if call.shape[at] >= _WIDE:
            return 0 < max(steps) <= _STEP
        return call.shape[at] >= self._filled and reduced >= _DEEP and steps == {1}

    @cached_property
    def _adds(self) -> bool:
        """Whether elements are computed and merged by little more than an addition."""
        return {"raw", "index"}.isdisjoint(self.typed.kinds) and \
            is_cheap(self.typed.merge) and is_cheap(self.typed.element)

    @cached_property
    def _few(self) -> int:
        """Reduced elements up to which the loop runs over results."""
        return _FEW if len(self.typed.state) == 1 else _FEW_OF_SEVERAL

    def _is_faster_than_rows(self, call: Call) -> bool:
        """Whether a reduction of few neighbours is faster than a Row that does it.

        That is so where states have several numbers, as the variance has, and for all
        but float64 and float16: benchmarks/notes/cpu.md#rows-across.
        """
        if self._longest or any(abs(s[-1]) != 1 for s in call.strides[:self.inputs]):
            return False
        return len(self.typed.state) > 1 or (
            self.typed.state[0].itemsize <= 4 and
            not any(d == np.float16 for d in self.signature.inputs))

    @cached_property
    def _longest(self) -> int:
        """Elements of a row in two stages at most, which one thread reduces."""
        return {None: 0, "logsumexp": _CHUNK}.get(in_two_stages(self.typed), _CACHED)

    @cached_property
    def _by_chunks(self) -> RowsOfChunks | None:
        """Rows of the chunks of a sum of exponentials, of elements alone; else None."""
        alone = self.reduced == 1 and {*self.typed.kinds} == {"element"} and \
            {*self.typed.post_kinds} == {"state"}
        if not alone or in_two_stages(self.typed) != "logsumexp":
            return None
        return RowsOfChunks(self.typed, self.signature, _Reduction)

    @cached_property
    def _finds_places(self) -> bool:
        """Whether the reduction is argmax or argmin, of elements cut into chunks.

        Not of those that are computed from their index, or from raw arrays.
        """
        combine = in_two_stages(self.typed)
        if combine not in ("argmax", "argmin") or "raw" in self.typed.kinds:
            return False
        value, _ = two_stages(self.typed, combine)
        used = used_params(value.element.function)
        return not any(used[k] for k, kind in enumerate(self.typed.kinds)
                       if kind == "index")

    @cached_property
    def _filled(self) -> int:
        """Results that fill vectors; 16-bit floats come in pairs of these.

        benchmarks/notes/cpu.md#spans
        """
        dtypes = [d for d in self.signature.inputs if isinstance(d, np.dtype)]
        if any(d.itemsize == 2 and d.kind not in "iu" for d in dtypes):
            return 16
        return 4 if any(d.itemsize >= 8 for d in dtypes) else 8

    def _is_near(self, call: Call) -> bool:
        """Whether what is read twice stays near: a short stretch, or rows side by side.

        Exponentials take longer than what is far away.
        """
        sizes = [d.itemsize for d in self.signature.inputs if isinstance(d, np.dtype)]
        columns = call.shape[-1]
        return self._longest > _CACHED or call.shape[-2] >= _WIDE or all(
            columns * abs(s[-1]) * size <= _STRETCH or abs(s[-1]) <= 1
            for s, size in zip(call.strides, sizes, strict=False))

    def _as_rows(self) -> RowLauncher | None:
        """The launcher of the same reduction as a Row."""
        if self._rows is None:
            typed = as_row(self.typed)
            self._rows = (None if typed is None else
                          RowLauncher(typed, self.signature),)
        return self._rows[0]

    def _is_across(self, call: Call, reduced: int) -> bool:
        """Whether the inner loop should run over results."""
        at = self.kept - 1
        if call.shape[at] < _SOME:
            return False
        codes = self.signature.inner[:self.inputs]
        columns = [(abs(s[at]) > 1, abs(s[-1]) > 1) for s, code
                   in zip(call.strides, codes, strict=False) if code[0] != "r"]
        result, element = (sum(far) for far in zip(*columns, strict=True))
        few = self._few if is_cheap(self.typed.merge) else _FEW_COSTLY
        wide = call.shape[at] >= _WIDE
        return (result < element and (wide or result == 0)) or (
            wide and reduced <= few)

    def _along(self, call: Call, reduced: int) -> Start:
        chunks = max(1, -(-reduced // _CHUNK))
        kept = prod(call.shape[:self.kept])
        cut = _Partition(kept * chunks, min(reduced, _CHUNK), chunks, _CHUNK, kept, 0)
        return self._start(self._kernel(along, self._codes(call)), call, cut)

    def _codes(self, call: Call) -> tuple[str, ...]:
        """The codes along reduced elements, where every second one is copied."""
        codes = self.signature.inner
        if self.reduced != 1 or self.typed.stored or call.shape[-1] < _COPIES:
            return codes
        return with_seconds(codes, call.strides, self.inputs)

    def _by_places(self, call: Call, reduced: int) -> Start:
        """A launch that finds the chunk of an extreme element before its place."""
        kept, chunks = prod(call.shape[:self.kept]), -(-reduced // _CACHED)
        first, last = (self._kernel(write, self.signature.inner)
                       for write in (extremes, places))
        sizes = [(chunks * kept if k == 0 else 1, d)
                 for k, d in enumerate(self.typed.state)]
        extras = (chunks, _CACHED, 0)
        return start_in_steps(sizes, (
            (first.entry, first.frame, call, extras, kept * chunks, _CACHED),
            (last.entry, last.frame, call, extras, kept, chunks + _CACHED)))

    def _across(self, call: Call, reduced: int) -> Start:
        at = self.kept - 1
        codes = tuple(code if code[0] == "r" else "1" if s[at] == 1 else
                      "0" if s[at] == 0 else "s" for code, s
                      in zip(self.signature.inner, call.strides, strict=True))
        cut = _cut(call.shape, self.kept, reduced)
        return self._start(self._kernel(across, codes), call, cut)

    def _start(self, kernel: _Kernel, call: Call, cut: _Partition) -> Start:
        if cut.chunks > 1:
            return self._in_chunks(kernel, call, cut)
        nowhere = (0 for _ in self.typed.state)
        extras = (1, cut.chunk, cut.group, *nowhere)
        return start_of(kernel.entry, kernel.frame, call, extras, cut.units, cut.weight)

    def _in_chunks(self, kernel: _Kernel, call: Call, cut: _Partition) -> Start:
        """A launch whose chunks keep their states in temporary memory."""
        last = self._kernel(finish, self.signature.inner)
        sizes = [(cut.chunks * cut.kept, _stored(d)) for d in self.typed.state]
        extras = (cut.chunks, cut.chunk, cut.group)
        return start_in_steps(sizes, (
            (kernel.entry, kernel.frame, call, extras, cut.units, cut.weight),
            (last.entry, last.frame, call, extras, cut.kept, cut.chunks)))

    def _by_spans(self, call: Call, span: Span) -> Start:
        """A launch whose lanes are neighbours in memory, reduced or not."""
        first, kept = span.first, span.kept
        cut = _cut(first.shape, kept, prod(first.shape[kept:]))
        codes = tuple("1" if k < self.inputs else "0" for k in range(len(call.strides)))
        kernel = self._kernel(spans, codes, (kept, len(first.shape) - kept))
        shape = list(span.last.shape)
        shape[self.kept] = cut.chunks
        last = replace(span.last, shape=tuple(shape))
        finish = self._kernel(gather, codes, (self.kept, len(shape) - self.kept))
        sizes = [(cut.chunks * cut.kept, _stored(d)) for d in self.typed.state]
        return start_in_steps(sizes, (
            (kernel.entry, kernel.frame, first,
             (cut.chunks, cut.chunk, cut.group, span.limit), cut.units, cut.weight),
            (finish.entry, finish.frame, last,
             (cut.chunks, prod(call.shape[self.kept:]), _GROUP, *span.steps),
             prod(call.shape[:self.kept]), prod(shape[self.kept:]))))

    def _kernel(self, write: Writer, codes: tuple[str, ...],
                ranks: tuple[int, int] | None = None) -> _Kernel:
        key = write, codes, ranks
        kernel = self._kernels.get(key)
        if kernel is None:
            signature = self.signature if ranks is None else self.signature._replace(
                ranks=ranks)
            kept, reduced = signature.ranks
            inner = kept - 1 if write in (across, spans) else -1
            more = ["limit"] if write is spans else [
                f"step{d}" for d in range(kept + reduced)] if write is gather else []
            problem = ReduceText(self.typed, signature, codes, inner, more)
            kernel = _Kernel(build("\n".join(write(problem))), problem.frame)
            self._kernels[key] = kernel  # two threads may make it: no harm
        return kernel


def _cut(shape: tuple[int, ...], kept: int, reduced: int) -> _Partition:
    """The partition of a reduction whose inner loop runs over results."""
    results = prod(shape[:kept])
    blocks = prod(shape[:kept - 1]) * -(-shape[kept - 1] // BLOCK)
    chunk = max(_ROWS, min(reduced, -(-reduced * blocks // _PIECES)))
    chunks = max(1, -(-reduced // chunk))
    weight = max(1, results * reduced // (blocks * chunks))
    return _Partition(blocks * chunks, weight, chunks, chunk, results,
                      max(_GROUP, isqrt(chunk)))


def _stored(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.uint8) if dtype.kind == "b" else dtype


def build_reduce(typed: TypedReduce, signature: Signature) -> Launcher:
    """Make the launcher of a Reduce, which compiles its kernels when needed."""
    return BindingLauncher(_Reduction(typed, signature).bind)
