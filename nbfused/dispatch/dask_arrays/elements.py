"""Map on Dask arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ...scalar.ir.nodes import Let, used_params, walk
from ...scalar.typing.types import compute_dtype
from ...specs import Map
from ...specs.base import IMPLICIT
from ...specs.raw import WRITES
from .blocks import (
    Call,
    Labels,
    aligned,
    array_module,
    block_of,
    blockwise,
    flat_index,
    is_chunked,
    picked,
    run_blocks,
    spell,
)
from .reductions import sums, tree
from .windows import without_windows

__all__ = ["run_map"]

#: More than an array has axes: labels, which Dask sorts, are numbers.
_LABELS = 1024


def run_map(call: Call) -> Sequence[Any]:
    """Block by block of the broadcast shape; raw arrays whole in each."""
    if call.spec.windows is not None:
        call = without_windows(call)
    spec: Map = call.spec
    elements = [x for x, (kind, _) in zip(call.inputs, spec.parameters, strict=True)
                if kind == "element"]
    if not elements or _stores(spec):
        what = "stores at any place" if elements else "has no points of its own"
        raise UnsupportedError(
            f"{spec.name} does not run on Dask arrays, as it {what}; use map_blocks "
            "for a call of each chunk, or compute() if it fits")
    extent = spec.extent(call.shapes)
    axes = tuple(range(len(extent)))
    index = flat_index(elements, axes) if "index" in spec.kinds else None
    kinds, inputs = spell([kind for kind in spec.kinds if kind != "scatter"],
                          _without_unread(call), index, prod(extent))
    given = iter(kinds)
    local = replace(spec, kinds=tuple(
        [kind if kind == "scatter" else next(given) for kind in spec.kinds]))
    operands = [
        aligned(x, len(extent)) if kind == "element" else (x.rechunk(-1), _own(k, x))
        for k, (kind, x) in enumerate(zip(kinds, inputs, strict=True))
        if is_chunked(x)]
    if spec.scatter_shapes:
        return _scattered(call, local, inputs, operands, axes)
    return run_blocks(block_of(call, local, inputs), spec.name, axes, operands)


def _own(position: int, x: Any) -> Labels:
    """Labels that no other array has: each block gets all of it."""
    return tuple(_LABELS * (position + 1) + axis for axis in range(x.ndim))


def _stores(spec: Map) -> bool:
    """True if it writes to an output in another way than by adding to elements."""
    return any(isinstance(s, Let) and s.op in WRITES - {"atomic_add"}
               for s in walk(spec.function.body))


def _without_unread(call: Call) -> list[Any]:
    """The inputs, and for those of which only the shape matters empty arrays.

    Chunks of ones, say, are made without what they are like.
    """
    spec: Map = call.spec
    used = [read for read, kind in zip(used_params(spec.function), spec.kinds,
                                       strict=True) if kind not in IMPLICIT]
    return [array_module().empty_like(x) if is_chunked(x) and not read else x
            for x, read in zip(call.inputs, used, strict=True)]


def _scattered(call: Call, spec: Map, inputs: Sequence[Any],
               operands: Sequence[tuple[Any, Labels]], axes: Labels) -> Sequence[Any]:
    """The results, and the sums over all blocks of what each adds up."""
    first = len(spec.function.results)
    dtypes = [compute_dtype(dtype) if k >= first else dtype
              for k, dtype in enumerate(call.dtypes)]
    packed = blockwise(block_of(call, spec, inputs, dtypes), spec.name, axes, operands,
                       dtypes[0])
    parts = [packed] if len(dtypes) == 1 else picked(
        packed, axes, [(axes, dtype) for dtype in dtypes], spec.name)
    added = [tree(part, tuple(range(part.ndim)), sums(kept, dtype))[0]
             for part, kept, dtype in zip(parts[first:], dtypes[first:],
                                          call.dtypes[first:], strict=True)]
    return [*parts[:first], *(_shaped(x, shape, spec.name) for x, shape in zip(
        added, spec.scatter_shapes, strict=True))]


def _shaped(x: Any, shape: tuple[int, ...], title: str) -> Any:
    """An array of one chunk that has this shape, of one that is said to have none."""
    labels = tuple(range(len(shape)))
    return blockwise(_itself, title, labels, [(x, ())], np.dtype(x.dtype),
                     new_axes=dict(enumerate(shape))) if shape else x


def _itself(chunk: Any) -> Any:
    return chunk
