"""Specs on Dask arrays: lazily, each chunk by a call of the same or a smaller spec.

=============== =====================================================================
`blocks`        a call that was checked, and how a spec is run on blocks
`elements`      Map: block by block; what it scatters is summed
`reductions`    Reduce: the state of each block, merged in a tree
`rows`          Row: its axis in one chunk; sums over rows in a tree
`products`      Contract: products of blocks, summed, then the epilogue
`views`         View: by Dask's own functions
`windows`       windows of a Map as arrays of the whole extent
=============== =====================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ...errors import UnsupportedError
from ...specs import Contract, Map, Reduce, Row, Spec, View
from .blocks import Call, read_call
from .elements import run_map
from .products import run_contract
from .reductions import run_reduce
from .rows import run_row
from .views import run_view

__all__ = ["run"]


def _reduce(call: Call) -> Sequence[Any]:
    """A Reduce; elements that it stores are a Map of their own."""
    count = call.spec.stored
    if not count:
        return run_reduce(call)
    mapped, reduced = call.spec.apart
    return [*run_map(replace(call, spec=mapped, dtypes=call.dtypes[:count])),
            *run_reduce(replace(call, spec=reduced, dtypes=call.dtypes[count:]))]


_RUN: dict[type[Spec], Callable[[Call], Sequence[Any]]] = {
    Map: run_map, Reduce: _reduce, Row: run_row, Contract: run_contract,
    View: run_view}


def run(spec: Spec, inputs: Sequence[Any], out: Sequence[Any | None] | None,
        dtypes: Sequence[Any] | None, names: Sequence[str] | None) -> tuple[Any, ...]:
    """Run a spec on Dask arrays and numbers: Dask arrays, nothing computed.

    Raises
    ------
    KernelTypeError
        Arrays of another library beside them, an array to store in, or a dtype
        without kernels.
    ShapeError
        Shapes that do not fit, or chunks of unknown sizes.
    UnsupportedError
        A spec that is not made of parts for each chunk.
    """
    do = _RUN.get(type(spec))
    if do is None:
        raise UnsupportedError(
            f"{spec.name}: a {type(spec).__name__} does not run on Dask arrays, as it "
            "may read and store anywhere; use map_blocks for a call of each chunk")
    return tuple(do(read_call(spec, inputs, out, dtypes, names)))
