"""Reduce on Dask arrays: a state for each block, merged in a tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ...scalar.ir.build import Builder
from ...specs import Map, Reduce
from ...specs.base import KEPT
from ...specs.combine import COMBINES, Combine
from ...specs.shapes import normalize_axes
from ...specs.vjp.functions import compose, identity
from ...support.records import record
from .blocks import (
    Call,
    aligned,
    array_module,
    block_of,
    blockwise,
    flat,
    flat_index,
    is_chunked,
    meta_like,
    picked,
    run_blocks,
    spell,
    token_of,
    types_of,
)

__all__ = ["Finish", "Merge", "run_reduce", "sums", "tree"]


def run_reduce(call: Call) -> Sequence[Any]:
    """By the spec itself if the reduced axes lie in one chunk, else in a tree."""
    spec: Reduce = call.spec
    extent = spec.extent(call.shapes)
    axes = tuple(sorted(normalize_axes(spec.axes, len(extent))))
    arrays = [aligned(x, len(extent)) for x in call.inputs if is_chunked(x)]
    if all(len(chunks) == 1 for x, labels in arrays
           for chunks, label in zip(x.chunks, labels, strict=True) if label in axes):
        return _whole(call, arrays, len(extent), axes)
    size = prod(extent[axis] for axis in axes)
    indexed = spec.combine.indexed or "index" in spec.kinds
    index = flat_index([x for x, _ in arrays], axes) if indexed else None
    local = _positioned(spec) if spec.combine.indexed else spec
    kinds, inputs = spell(local.kinds, call.inputs, index, size)
    count = len(spec.combine.identity)
    state = replace(local, kinds=kinds, post=identity(count), saves=count, axes=axes,
                    keepdims=True)
    types = state.result_types(types_of(inputs))
    packed = blockwise(
        block_of(call, state, inputs, types), spec.name, tuple(range(len(extent))),
        [aligned(x, len(extent)) for x in inputs if is_chunked(x)], types[0])
    numbers = {name: x for (kind, name), x in zip(spec.parameters, call.inputs,
                                                  strict=True) if kind == "scalar"}
    extra = tuple([numbers.get(p, size) for p in spec.post.params[count:]])
    post = Map(spec.post, ("element",) * count + ("scalar",) * len(extra))
    merge = Merge(merging(spec.combine), types)
    finish = Finish(merge, post, extra, call.dtypes, () if spec.keepdims else axes)
    return tree(packed, axes, finish, spec.keepdims)


def _whole(call: Call, operands: Sequence[Any], ndim: int,
           axes: tuple[int, ...]) -> Sequence[Any]:
    """Each block has all elements that are combined: it is as without Dask."""
    spec: Reduce = call.spec
    labels = tuple(k for k in range(ndim) if spec.keepdims or k not in axes)
    options = {"adjust_chunks": dict.fromkeys(axes, 1)} if spec.keepdims else {}
    local = replace(spec, axes=axes)
    return run_blocks(block_of(call, local), spec.name, labels, operands, **options)


def _positioned(spec: Reduce) -> Reduce:
    """A Reduce that takes the index of each element, for its combine, as an input."""
    kinds, params = spec.kinds, spec.map.params
    if "index" in kinds:
        index = params[kinds.index("index")]
    else:
        index = Builder(set(params)).fresh("index")
        kinds, params = (*kinds, "index"), (*params, index)
    given = compose(spec.map.name, params, lambda b: (
        *b.call(spec.map, *spec.map.params), index))
    return replace(spec, map=given, kinds=kinds,
                   combine=replace(spec.combine, indexed=False))


@lru_cache(maxsize=KEPT)
def merging(combine: Combine) -> Reduce:
    """The reduction of states along a new first axis."""
    count = len(combine.identity)
    states = replace(combine, lift=identity(count), saving=None, indexed=False,
                     widen=False)
    return Reduce(identity(count), ("element",) * count, states, identity(count), (0,),
                  saves=count)


@record(frozen=True)
class Merge:
    """Merges the states of blocks: a function as Dask's reductions take it.

    Attributes
    ----------
    spec
        Their reduction along a new axis.
    dtypes
        Of the state.
    """

    spec: Reduce
    dtypes: tuple[np.dtype, ...]

    def __call__(self, blocks: Any, axis: Any = None, keepdims: Any = None) -> Any:
        """The state of all blocks: an array, or a tuple of several."""
        from ..execute import execute

        states = [x if isinstance(x, tuple) else (x,) for x in flat(blocks)]
        made = states[0] if len(states) == 1 else execute(
            self.spec, [np.stack(part) for part in zip(*states, strict=True)],
            dtypes=self.dtypes)
        return made if len(made) > 1 else made[0]

    def __dask_tokenize__(self) -> Any:
        return token_of(self.spec), tuple(map(str, self.dtypes))


@record(frozen=True)
class Finish:
    """Merges the last states, and makes the outputs of them.

    Attributes
    ----------
    post
        Of the state and the numbers in `extra`.
    dtypes
        Of the outputs.
    drops
        Axes of extent 1 that the outputs have not.
    """

    merge: Merge
    post: Map
    extra: tuple[Any, ...]
    dtypes: tuple[np.dtype, ...]
    drops: tuple[int, ...] = ()

    def __call__(self, blocks: Any, axis: Any = None, keepdims: Any = None) -> Any:
        """The output, or a tuple of several."""
        from ..execute import execute

        state = self.merge(blocks)
        state = state if isinstance(state, tuple) else (state,)
        made = [x.reshape([n for k, n in enumerate(x.shape) if k not in self.drops])
                for x in execute(self.post, (*state, *self.extra), dtypes=self.dtypes)]
        return tuple(made) if len(made) > 1 else made[0]

    def __dask_tokenize__(self) -> Any:
        return (self.merge, token_of(self.post), repr(self.extra),
                tuple(map(str, self.dtypes)), self.drops)


def sums(kept: np.dtype, dtype: np.dtype) -> Finish:
    """The sum of blocks of numbers of dtype `kept`, cast to `dtype`."""
    return Finish(Merge(merging(COMBINES["sum"]), (kept,)),
                  Map(identity(), ("element",)), (), (dtype,))


def tree(packed: Any, axes: tuple[int, ...], finish: Finish,
         keepdims: bool = False) -> list[Any]:
    """Merge blocks along axes in a tree: an array for each output of `finish`."""
    kept = packed.ndim if keepdims else packed.ndim - len(axes)
    labels, dtypes, title = tuple(range(kept)), finish.dtypes, finish.post.name
    if axes:
        made = array_module().reduction(
            packed, chunk=_unchanged, combine=finish.merge, aggregate=finish, axis=axes,
            keepdims=keepdims, concatenate=False, dtype=dtypes[0], name=title,
            meta=meta_like(packed, kept, dtypes[0]))
    else:
        made = blockwise(finish, title, labels, [(packed, labels)], dtypes[0])
    return [made] if len(dtypes) == 1 else picked(
        made, labels, [(labels, dtype) for dtype in dtypes], title)


def _unchanged(block: Any, axis: Any, keepdims: Any) -> Any:
    return block
