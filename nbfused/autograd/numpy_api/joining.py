"""NumPy's functions that shift, repeat and join parts of arrays, by slices of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...arrays import dtype_of
from ...errors import KernelTypeError, ShapeError
from ...registry.operations import OPS
from ...specs.shapes import normalize_axes, normalize_axis

__all__ = ["JOINING"]


def _part(x: Any, axis: int, start: int | None, stop: int | None,
          step: int = 1) -> Any:
    return OPS["getitem"](x, (*(slice(None),)*axis, slice(start, stop, step)))


def _roll(a: Any, shift: Any, axis: Any = None) -> Any:
    if axis is None:
        flat = OPS["reshape"](a, (-1,))
        return OPS["reshape"](_rolled(flat, int(np.sum(shift)), 0), a.shape)
    for by, along in np.broadcast(shift, axis):  # an axis may be named twice
        a = _rolled(a, int(by), normalize_axis(int(along), a.ndim))
    return a


def _rolled(a: Any, by: int, axis: int) -> Any:
    count = a.shape[axis]
    by = by % count if count else 0
    if not by:
        return a.copy()
    return OPS["concatenate"]([_part(a, axis, count - by, None),
                               _part(a, axis, None, count - by)], axis)


def _flip(m: Any, axis: Any = None) -> Any:
    axes = normalize_axes(axis, m.ndim)
    return OPS["getitem"](m, tuple(slice(None, None, -1 if a in axes else 1)
                                   for a in range(m.ndim)))


def _diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    if n < 0:
        raise ShapeError(f"numpy.diff: 'n' is {n}; expected at least 0")
    if not a.ndim:
        raise ShapeError("numpy.diff: 'a' has no dimensions; expected at least one")
    axis = normalize_axis(axis, a.ndim)
    for _ in range(n):
        after, before = _part(a, axis, 1, None), _part(a, axis, None, -1)
        a = OPS["not_equal"](after, before) if dtype_of(a) == np.bool_ else \
            OPS["subtract"](after, before)
    return a


def _pad(array: Any, pad_width: Any, mode: str = "constant",
         constant_values: Any = 0) -> Any:
    if isinstance(pad_width, dict):
        pad_width = [pad_width.get(k, pad_width.get(k - array.ndim, (0, 0)))
                     for k in range(array.ndim)]
    widths = np.broadcast_to(np.asarray(pad_width), (array.ndim, 2)).tolist()
    if any(not isinstance(n, int) or n < 0 for one in widths for n in one):
        raise ShapeError(f"numpy.pad: 'pad_width' is {pad_width}; expected integers of "
                         "at least 0")
    if mode not in _MODES:
        raise KernelTypeError(f"numpy.pad: mode {mode!r} has no kernel, expected "
                              f"{', '.join(_MODES)}; pad outside")
    values = np.broadcast_to(np.asarray(constant_values), (array.ndim, 2)).tolist() \
        if mode == "constant" else None
    for axis, (before, after) in enumerate(widths):
        ends = values[axis] if values else (0, 0)
        array = _padded(array, axis, before, after, mode, ends)
    return array if any(map(any, widths)) else array.copy()


def _padded(x: Any, axis: int, before: int, after: int, mode: str,
            ends: Sequence[Any]) -> Any:
    count = x.shape[axis]
    least = {"constant": 0, "edge": 1, "wrap": max(before, after, 1),
             "symmetric": max(before, after, 1), "reflect": max(before, after, 0) + 1}
    if (before or after) and count < least[mode]:
        raise ShapeError(f"numpy.pad: mode {mode!r} takes at least {least[mode]} "
                         f"elements along axis {axis} for widths ({before}, {after}), "
                         f"got {count}; pad in steps")
    pieces = [x]
    if before:
        pieces.insert(0, _MODES[mode](x, axis, before, 0, ends[0]))
    if after:
        pieces.append(_MODES[mode](x, axis, after, 1, ends[1]))
    return OPS["concatenate"](pieces, axis) if len(pieces) > 1 else x


def _constant(x: Any, axis: int, width: int, side: int, value: Any) -> Any:
    shape = tuple(width if a == axis else n for a, n in enumerate(x.shape))
    some = OPS["getitem"](x, tuple(slice(0, 1) for _ in x.shape))
    if 0 in x.shape:
        raise ShapeError("numpy.pad: 'array' is empty; pad outside")
    number = OPS["where"](OPS["equal"](some, some), value, value, dtype=dtype_of(x))
    return OPS["broadcast_to"](number, shape)


def _edge(x: Any, axis: int, width: int, side: int, value: Any) -> Any:
    end = _part(x, axis, -1, None) if side else _part(x, axis, 0, 1)
    return OPS["broadcast_to"](end, tuple(
        width if a == axis else n for a, n in enumerate(x.shape)))


def _wrap(x: Any, axis: int, width: int, side: int, value: Any) -> Any:
    return _part(x, axis, None, width) if side else _part(x, axis, -width, None)


def _mirrored(skip: int) -> Callable[..., Any]:
    def piece(x: Any, axis: int, width: int, side: int, value: Any) -> Any:
        count = x.shape[axis]
        start = count - skip - width if side else skip
        found = _part(x, axis, start, start + width)
        return _part(found, axis, None, None, -1)

    return piece


_MODES: dict[str, Callable[..., Any]] = {
    "constant": _constant, "edge": _edge, "wrap": _wrap, "reflect": _mirrored(1),
    "symmetric": _mirrored(0)}


def _at_least(ndim: int, columns: bool = False) -> Callable[[Any], Any]:
    def form(x: Any) -> Any:
        if not hasattr(x, "shape"):
            raise KernelTypeError(f"expected an array to join, got {x!r}")
        while len(x.shape) < ndim:
            x = OPS["reshape"](x, (*x.shape, 1) if columns and x.shape else (
                1, *x.shape))
        return x

    return form


def _stacked(form: Callable[[Any], Any], axis: int | None) -> Callable[..., Any]:
    def call(tup: Iterable[Any]) -> Any:
        found = [form(x) for x in tup]
        along = (0 if len(found[0].shape) == 1 else 1) if axis is None else axis
        return OPS["concatenate"](found, along)

    return call


#: NumPy's function -> the same with NumPy's parameters.
JOINING: dict[Callable[..., Any], Callable[..., Any]] = {
    np.roll: _roll, np.flip: _flip, np.flipud: lambda m: _flip(m, 0),
    np.fliplr: lambda m: _flip(m, 1), np.diff: _diff, np.pad: _pad,
    np.vstack: _stacked(_at_least(2), 0), np.hstack: _stacked(_at_least(1), None),
    np.column_stack: _stacked(_at_least(2, columns=True), 1),
}
