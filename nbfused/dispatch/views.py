"""Views of arrays: new shapes and strides, or a copy where strides cannot do it.

The result shares memory with its input, except where the spec makes something new
(``unslice``, ``concatenate``), where no strides do (a reshape across a gap), where the
caller's library has no such views (JAX; PyTorch with negative strides), or where
another dtype is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..arrays import Array, Library, describe, host_view
from ..arrays.libraries.interface import FOREIGN, as_device_array
from ..errors import KernelTypeError
from ..specs import View
from ..support.loop_nests import (
    Strides,
    broadcast_strides,
    dense_strides,
    reshape_strides,
)
from .allocation import allocate
from .callers import key_of
from .calls import COPY, place_of, run, zero
from .outputs import check_casting, check_output, check_overlap, check_shape

__all__ = ["cached_view", "direct_view", "run_view", "view_layout", "window"]

Shape = tuple[int, ...]
Slices = Sequence[tuple[int, int, int]]


def run_view(spec: View, inputs: Sequence[Any], outs: Sequence[Array | None] | None,
             dtypes: Sequence[np.dtype | None] | None, names: Sequence[str] | None,
             casting: str) -> tuple[list[Any], Library]:
    """Rearrange `inputs`: one array, or several to concatenate.

    Returns
    -------
    list
        The result as the library made it; None if it was given.
    Library
        The inputs'.
    """
    if outs is None and dtypes is None and len(inputs) == 1:
        known = cached_view(spec, inputs[0])
        if known is not None:
            return known
    if spec.kind != "concatenate" and len(inputs) != 1:
        raise KernelTypeError(f"{spec.kind} takes one array, got {len(inputs)}")
    if not inputs:
        raise KernelTypeError("concatenate needs at least one array, got none")
    names = names or [f"arrays[{i}]" if len(inputs) > 1 else "x"
                      for i in range(len(inputs))]
    arrays = [x if type(x) is Array else describe(x, name)
              for x, name in zip(inputs, names, strict=True)]
    place = place_of(arrays, kinds=("element",) * len(arrays), names=names)
    (shape,) = spec.out_shapes(tuple(array.shape for array in arrays))
    asked = dtypes[0] if dtypes else None
    dtype = asked or spec.result_types(tuple(array.dtype for array in arrays))[0]
    out = outs[0] if outs else None
    if out is not None:
        _check(out, shape, dtype, casting, arrays, names, place.library, place.device)
    elif spec.kind not in ("unslice", "concatenate") and dtype == arrays[0].dtype:
        native = _share(spec, inputs[0], arrays[0], shape)
        if native is not None:
            _store_layout(spec, inputs[0], arrays[0], shape)
            return [native], place.library
    native = None
    if out is None:
        native = allocate(place.library, shape, dtype, place.device)
        out = describe(native, "out")
    _fill(spec, arrays, out)
    return [native], place.library


#: How to take views of arrays, by what decides where they lie.
_Known = dict[Any, tuple[Library, Callable[[Any], Any]]]
_LIMIT = 1024  # views by one spec


def cached_view(spec: View, x: Any) -> tuple[list[Any], Library] | None:
    """The cached view of an array with the same layout, or None."""
    known: _Known = spec.__dict__.get("_known", {})
    found = known.get(_key(x))
    if found is None:
        return None
    library, take = found
    return [take(x)], library


def direct_view(spec: View, kind: type) -> Callable[[Any], Any] | None:
    """A function that takes the view of an array of this type, or gives None.

    It gives a list of one view, of arrays that are laid out as one that `run_view` has
    seen.
    """
    known: _Known = spec.__dict__.setdefault("_known", {})
    key = key_of(kind)
    if key is None:
        return None

    def direct(x: Any) -> list[Any] | None:
        try:
            take = known[key(x)][1]
        except Exception:  # as in `_key`, or none that is known
            return None
        return [take(x)]

    return direct


def _key(x: Any) -> Any:
    """The cache key of an array; None if its type has none."""
    key = key_of(x.__class__)
    try:
        return None if key is None else key(x)
    except Exception:  # of many kinds, from many libraries: a closer look will tell
        return None


def _store_layout(spec: View, x: Any, array: Array, shape: Shape) -> None:
    """Cache how to take a view."""
    layout, key = view_layout(spec, array, shape), _key(x)
    if type(x) is Array or key is None or layout is None:
        return
    known: _Known = spec.__dict__.setdefault("_known", {})
    if len(known) >= _LIMIT:
        known.clear()
    own = getattr(array.library, "viewer", None)
    if own is not None:
        known[key] = array.library, own(x, shape, *layout)
        return
    view = array.library.view
    known[key] = array.library, lambda x: view(x, shape, *layout)


def _check(out: Array, shape: Shape, dtype: np.dtype, casting: str,
           arrays: Sequence[Array], names: Sequence[str], library: Library,
           device: str) -> None:
    check_output("out", out, library, device)
    check_shape("out", out.shape, shape)
    check_casting("out", dtype, out.dtype, casting)
    check_overlap([("out", out, False)], [(name, array, False) for name, array
                                          in zip(names, arrays, strict=True)])


def _share(spec: View, native: Any, array: Array, shape: Shape) -> Any | None:
    """A view in the caller's own array type; None if there cannot be one."""
    layout = view_layout(spec, array, shape)
    if layout is None or not array.library.writable:
        return None
    strides, offset = layout
    if array.library is FOREIGN:
        moved = _at(array, shape, strides, offset)
        return host_view(moved) if array.device == "cpu" else as_device_array(moved)
    try:
        return array.library.view(native, shape, strides, offset)
    except KernelTypeError:  # not with these strides
        return None


def _at(array: Array, shape: Shape, strides: Strides, offset: int) -> Array:
    return replace(array, pointer=array.pointer + offset * array.dtype.itemsize,
                   shape=shape, strides=strides)


def view_layout(spec: View, array: Array, shape: Shape) -> tuple[Strides, int] | None:
    """Strides and offset of the result in the memory of `array`."""
    steps = array.strides
    match spec.kind:
        case "reshape":
            strides = reshape_strides(array.shape, steps, shape)
            return None if strides is None else (strides, 0)
        case "transpose":
            return tuple(steps[axis] for axis in spec.params), 0
        case "broadcast":
            return broadcast_strides(array.shape, steps, shape), 0
        case "expand":
            return _expand(steps, spec.params), 0
        case "squeeze":
            return tuple(step for axis, step in enumerate(steps)
                         if axis not in spec.params), 0
        case "slice":
            return window(steps, spec.params)
    raise KernelTypeError(f"there is no view '{spec.kind}'; see nbfused.specs.View")


def _expand(strides: Strides, axes: Shape) -> Strides:
    steps = list(strides)
    for axis in axes:
        steps.insert(axis, 0)
    return tuple(steps)


def window(strides: Strides, slices: Slices) -> tuple[Strides, int]:
    """Strides and offset of a slice: ``(start, stop, step)`` for each axis."""
    empty = any(not range(*one) for one in slices)
    offset = 0 if empty else sum(
        one[0] * stride for one, stride in zip(slices, strides, strict=True))
    return tuple(one[2] * stride
                 for one, stride in zip(slices, strides, strict=True)), offset


def _fill(spec: View, arrays: Sequence[Array], out: Array) -> None:
    """Store the rearranged elements in `out`."""
    if spec.kind == "concatenate":
        _join(arrays, out, spec.params[0])
        return
    (array,) = arrays
    if spec.kind == "unslice":
        zero(out)
        strides, offset = window(out.strides, spec.params[1])
        _copy(array, _at(out, array.shape, strides, offset))
        return
    layout = view_layout(spec, array, out.shape)
    if layout is not None:
        _copy(_at(array, out.shape, *layout), out)
    else:
        _reshape(array, out)


def _reshape(array: Array, out: Array) -> None:
    """Copy into another shape: through a view of the output, or a temporary."""
    strides = reshape_strides(out.shape, out.strides, array.shape)
    if strides is not None:
        _copy(array, replace(out, shape=array.shape, strides=strides))
        return
    native = allocate(out.library, array.shape, array.dtype, out.device)
    between = describe(native, "out")
    _copy(array, between)
    _copy(replace(between, shape=out.shape, strides=dense_strides(out.shape)), out)


def _join(arrays: Sequence[Array], out: Array, axis: int) -> None:
    start = 0
    for array in arrays:
        _copy(array, _at(out, array.shape, out.strides, start * out.strides[axis]))
        start += array.shape[axis]


def _copy(source: Array, target: Array) -> None:
    """Copy elements to an array that is new or has been checked."""
    run(COPY, (source,), outs=(target,), casting="unsafe", checked=True)
