"""Windows of a Map on Dask arrays: arrays of the whole extent, 0 outside the box."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from ...specs import Map
from ...specs.windows import Box, Place
from .blocks import Call, array_module, is_chunked
from .views import broadcast, unslice

__all__ = ["without_windows"]


def without_windows(call: Call) -> Call:
    """The same call with elements in the place of windows and of boxes."""
    spec: Map = call.spec
    windows, places = spec.windows, spec.places
    assert windows is not None
    assert windows.extent is not None
    given = iter(zip(call.inputs, call.names, strict=True))
    like = next(x for x in call.inputs if is_chunked(x))
    kinds, inputs, names = [], [], []
    for kind, param in zip(spec.kinds, spec.function.params, strict=True):
        if kind in ("index", "size", "scatter"):
            kinds.append(kind)
            continue
        x, name = (None, param) if kind == "inside" else next(given)
        if kind == "window":
            x = _spread(x, windows.boxes[places[param].box], places[param],
                        windows.extent)
        elif kind == "inside":
            x = _inside(windows.boxes[places[param].box], windows.extent, like)
        kinds.append("element" if kind in ("window", "inside") else kind)
        inputs.append(x)
        names.append(name)
    return Call(replace(spec, kinds=tuple(kinds), windows=None), tuple(inputs),
                tuple(names), tuple([tuple(getattr(x, "shape", ())) for x in inputs]),
                call.dtypes)


def _spread(x: Any, box: Box, place: Place, extent: tuple[int, ...]) -> Any:
    """The elements of a window at their points, 0 at the others."""
    if place.wraps:
        x = broadcast(x, extent)
        moved = [(axis, at) for axis, at in enumerate(place.origin) if at]
        return array_module().roll(x, [at for _, at in moved],
                                   [axis for axis, _ in moved]) if moved else x
    lead = len(box) - x.ndim
    part = x[tuple(slice(None) if n == 1 else slice(lo - at, hi - at)
                   for n, (lo, hi), at in zip(x.shape, box[lead:], place.origin[lead:],
                                              strict=True))]
    return unslice(broadcast(part, tuple(hi - lo for lo, hi in box)), extent,
                   [(lo, hi, 1) for lo, hi in box])


def _inside(box: Box, extent: tuple[int, ...], like: Any) -> Any:
    """Whether each point is in a box."""
    da = array_module()
    count = tuple(hi - lo for lo, hi in box)
    ones = da.ones_like(like, shape=count, dtype=np.bool_,
                        chunks="auto" if prod(count) else count)
    return unslice(ones, extent, [(lo, hi, 1) for lo, hi in box])
