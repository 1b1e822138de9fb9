"""Row on Dask arrays: its axis in one chunk, the rows in as many as there are."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...scalar.typing.types import compute_dtype
from ...specs import Row
from ...specs.shapes import normalize_axis, row_whole
from .blocks import (
    Call,
    Labels,
    aligned,
    block_of,
    blockwise,
    chunk_bytes,
    is_chunked,
    picked,
)
from .reductions import sums, tree

__all__ = ["run_row"]

#: Outputs that are sums over rows: those of blocks are added.
_SUMS = ("column", "scalar")


def run_row(call: Call) -> Sequence[Any]:
    """Each block has whole rows; what is summed over the rows is so in a tree."""
    spec: Row = call.spec
    ndim = len(row_whole(spec.kinds, call.shapes))
    axis = normalize_axis(spec.axis, ndim)
    labels = tuple(range(ndim))
    rows = tuple(k for k in range(ndim) if k != axis)
    placed = {"element": labels, "row": rows, "column": (axis,), "scalar": ()}
    operands = []
    for kind, x in zip(spec.kinds, call.inputs, strict=True):
        if is_chunked(x):
            own = aligned(x, ndim)[1] if kind == "element" else placed[kind]
            operands.append((_whole_axis(x, own, axis), own))
    kinds = [out.kind for out in spec.outs]
    dtypes = [compute_dtype(dtype) if kind in _SUMS else dtype
              for kind, dtype in zip(kinds, call.dtypes, strict=True)]
    block = block_of(call, dtypes=dtypes)
    if len(kinds) == 1 and kinds[0] not in _SUMS:
        return [blockwise(block, spec.name, placed[kinds[0]], operands, dtypes[0])]
    packed = blockwise(block, spec.name, labels, operands, dtypes[0])
    parts = [packed] if len(kinds) == 1 else picked(packed, labels, [
        (labels if kind in _SUMS else placed[kind], dtype)
        for kind, dtype in zip(kinds, dtypes, strict=True)], spec.name)
    over = {"column": rows, "scalar": labels}
    return [tree(part, over[kind], sums(kept, dtype))[0] if kind in _SUMS else part
            for part, kind, kept, dtype in zip(parts, kinds, dtypes, call.dtypes,
                                               strict=True)]


def _whole_axis(x: Any, labels: Labels, axis: int) -> Any:
    """The array with one chunk along an axis, and no larger ones than Dask makes."""
    if axis not in labels or len(x.chunks[labels.index(axis)]) == 1:
        return x
    at = labels.index(axis)
    wanted: dict[int, Any] = {at: -1}
    size = x.shape[at] * x.dtype.itemsize * prod(
        max(chunks) for k, chunks in enumerate(x.chunks) if k != at)
    if size > chunk_bytes():
        wanted |= {k: "auto" for k in range(x.ndim) if k != at}
    return x.rechunk(wanted)
