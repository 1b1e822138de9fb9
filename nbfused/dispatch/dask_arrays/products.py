"""Contract on Dask arrays: products of blocks and their sum, then the epilogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...scalar.typing.types import compute_dtype
from ...specs import Contract, Map
from ...specs.subscripts import parse_subscripts
from ...specs.vjp.functions import identity
from .blocks import Call, block_of, blockwise, is_chunked, run_blocks, types_of
from .elements import run_map
from .reductions import sums, tree

__all__ = ["run_contract"]


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
    product = replace(spec, epilogue=identity(), kinds=(), out_axes=None, saves=False)
    kept = compute_dtype(product.result_types(types_of((a, b)))[0])
    packed = blockwise(
        block_of(call, product, (a, b), (kept,)), spec.name, (*form.out, *form.k),
        factors, kept, adjust_chunks=dict.fromkeys(form.k, 1))
    (total,) = tree(packed, tuple(range(len(form.out), packed.ndim)), sums(kept, kept))
    epilogue = Map(spec.epilogue, ("element", *spec.kinds))
    found = _after(call, epilogue, (total, *extras))
    return found if spec.out_axes is None else [x.transpose(order) for x in found]


def _after(call: Call, epilogue: Map, inputs: tuple[Any, ...]) -> Sequence[Any]:
    """Run the epilogue on the sum."""
    shapes = tuple([tuple(getattr(x, "shape", ())) for x in inputs])
    return run_map(Call(epilogue, inputs, ("the product", *call.names[2:]), shapes,
                        call.dtypes))
