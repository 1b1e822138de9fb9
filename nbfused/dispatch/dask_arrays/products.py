"""Contract on Dask arrays: sums of products of blocks, then the epilogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import ceil, prod
from typing import Any

import numpy as np

from ...scalar.typing.types import compute_dtype
from ...specs import Contract, Map
from ...specs.combine import COMBINES
from ...specs.subscripts import Bound, parse_subscripts
from ...specs.vjp.functions import identity
from ...support.records import record
from .blocks import (
    Block,
    Call,
    array_module,
    block_of,
    blockwise,
    chunk_bytes,
    is_chunked,
    run_blocks,
    types_of,
)
from .elements import run_map
from .reductions import Merge, merging

__all__ = ["run_contract"]

#: Tasks that products of blocks are left in, if there are so many, for the workers to
#: share; sums of partial sums that one task adds.
_TASKS, _PARTS = 256, 8


def run_contract(call: Call) -> Sequence[Any]:
    """By the spec itself if the summed axes lie in one chunk, else in two steps."""
    spec: Contract = call.spec
    a, b, *extras = call.inputs
    form = parse_subscripts(spec.subscripts).bind(a.shape, b.shape, call.names)
    factors = [(a, form.a), (b, form.b)]
    order = spec.out_axes or tuple(range(len(form.out)))
    if all(len(x.chunks[labels.index(k)]) == 1 for x, labels in factors
           for k in form.k):
        others = [(x, form.out[len(form.out) - x.ndim:]) for x in extras
                  if is_chunked(x)]
        labels = tuple(form.out[axis] for axis in order)
        return run_blocks(block_of(call), spec.name, labels, [*factors, *others])
    total = _summed(call, a, b, form)
    epilogue = Map(spec.epilogue, ("element", *spec.kinds))
    found = _after(call, epilogue, (total, *extras))
    return found if spec.out_axes is None else [x.transpose(order) for x in found]


def _summed(call: Call, a: Any, b: Any, form: Bound) -> Any:
    """The product before its epilogue, in chunks as its factors'.

    A task adds the products of several pairs of blocks, of as many as take no more
    memory than a large chunk: with one pair a task a graph has n³ of them.
    """
    spec = replace(call.spec, epilogue=identity(), kinds=(), out_axes=None, saves=False)
    kept = compute_dtype(spec.result_types(types_of((a, b)))[0])
    merge = Merge(merging(COMBINES["sum"]), (kept,))
    work = Products(block_of(call, spec, (a, b), (kept,)), merge, tuple(
        [tuple([k for k in labels if k in form.k]) for labels in (form.a, form.b)]))
    chunks, (a, b) = array_module().core.unify_chunks(
        a, form.a, b, form.b, warn=False)
    counts = {label: len(sizes) for label, sizes in chunks.items()}
    longest = max(form.k, key=counts.__getitem__)
    each = _pairs(a, b, prod(counts[k] for k in form.k) // counts[longest],
                  prod(counts.values()))
    parts = []
    for first in range(0, counts[longest], each):
        some = [(_part(x, labels, longest, slice(first, first + each)), labels)
                for x, labels in ((a, form.a), (b, form.b))]
        parts.append(blockwise(work, call.spec.name, form.out, some, kept))
    while len(parts) > 1:
        parts = [blockwise(Total(merge), call.spec.name, form.out,
                           [(x, form.out) for x in parts[k:k + _PARTS]], kept)
                 for k in range(0, len(parts), _PARTS)]
    return parts[0]


def _pairs(a: Any, b: Any, others: int, products: int) -> int:
    """Chunks of the longest summed axis for a task, which takes all of the others."""
    size = sum(prod(map(max, x.chunks))*x.dtype.itemsize for x in (a, b))
    return max(1, min(chunk_bytes() // max(1, size*others),
                      ceil(products / others / _TASKS)))


def _part(x: Any, labels: Sequence[str], label: str, some: slice) -> Any:
    """Some of the chunks along an axis."""
    at = labels.index(label)
    if some.start == 0 and some.stop >= len(x.chunks[at]):
        return x
    return x.blocks[tuple([some if k == at else slice(None) for k in range(x.ndim)])]


@record(frozen=True)
class Products:
    """The sum of products of blocks along summed axes.

    Attributes
    ----------
    block
        The product of one pair.
    labels
        The summed labels of each factor, in the order of its axes.
    """

    block: Block
    merge: Merge
    labels: tuple[tuple[str, ...], ...]

    def __call__(self, a: Any, b: Any) -> Any:
        """The sum; both are nested lists, a depth for each summed axis."""
        found = None
        first, second = self.labels
        for at in product(*map(range, _counts(a, len(first)))):
            place = dict(zip(first, at, strict=True))
            one = self.block(_nested(a, at), _nested(b, [place[k] for k in second]))
            found = one if found is None else self._added(found, one)
        return found

    def _added(self, found: Any, one: Any) -> Any:
        """The sum of two products; the first is this task's own, to be written to."""
        if self.merge.dtypes[0].kind == "b":
            return self.merge([found, one])
        with np.errstate(all="ignore"):  # as kernels, which do not warn
            found += one
        return found

    def __dask_tokenize__(self) -> Any:
        return "products", self.block.__dask_tokenize__(), self.labels


@record(frozen=True)
class Total:
    """The sum of arrays of one shape."""

    merge: Merge

    def __call__(self, *parts: Any) -> Any:
        """The sum."""
        return self.merge([*parts])

    def __dask_tokenize__(self) -> Any:
        return "total", self.merge.__dask_tokenize__()


def _counts(nested: Any, depth: int) -> list[int]:
    found = []
    for _ in range(depth):
        found.append(len(nested))
        nested = nested[0]
    return found


def _nested(blocks: Any, at: Sequence[int]) -> Any:
    for k in at:
        blocks = blocks[k]
    return blocks


def _after(call: Call, epilogue: Map, inputs: tuple[Any, ...]) -> Sequence[Any]:
    """Run the epilogue on the sum."""
    shapes = tuple([tuple(getattr(x, "shape", ())) for x in inputs])
    return run_map(Call(epilogue, inputs, ("the product", *call.names[2:]), shapes,
                        call.dtypes))
