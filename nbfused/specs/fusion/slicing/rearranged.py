"""Rearrangements of a Map's result, moved to the arrays that the Map reads."""

from __future__ import annotations

from collections.abc import Callable

from ...base import Shape
from ...view import View
from ...windows import Box, moved_box
from ..graph import Value

__all__ = ["Rearranged", "is_alignment"]


def is_alignment(old: Shape, new: Shape) -> bool:
    """Whether a reshape only adds or drops axes of extent 1."""
    return [n for n in old if n != 1] == [n for n in new if n != 1]


class Rearranged:
    """A view of a Map over `shape`, moved to what the Map reads.

    Parameters
    ----------
    spec
        The view.
    shape
        Of what it rearranges.
    view
        Makes a view of an array of the graph.
    """

    def __init__(self, spec: View, shape: Shape,
                 view: Callable[[View, Value], Value]) -> None:
        self.shape, self._view = shape, view
        self.parts: tuple[View, ...] | None = _parts(spec, shape)

    def element(self, x: Value) -> Value:
        """An input that is broadcast to the shape."""
        shape = self.shape
        for spec in self.parts or ():
            x = self._element(spec, shape, x)
            (shape,) = spec.out_shapes((shape,))
        return x

    def box(self, box: Box) -> Box | None:
        """A box of points; None if none is left."""
        for spec in self.parts or ():
            found = _moved(spec, box)
            if found is None:
                return None
            box = found
        return box

    def window(self, box: Box, origin: Shape, x: Value) -> tuple[Box, Shape, Value]:
        """The box and the origin of a window that has points left, and its array."""
        for spec in self.parts or ():
            x, origin = self._window(spec, box, origin, x)
            found = _moved(spec, box)
            assert found is not None
            box = found
        return box, origin, x

    def filled(self, box: Box, origin: Shape, x: Value) -> Value:
        """The elements of a window's array at the points of its box."""
        lead = len(box) - len(x.shape)
        return self._sliced(x, tuple(
            (0, 1, 1) if n == 1 else (lo, hi, 1) for n, (lo, hi) in zip(
                x.shape, moved_box(box, tuple(-a for a in origin))[lead:],
                strict=True)))

    def _sliced(self, x: Value, windows: tuple[tuple[int, int, int], ...]) -> Value:
        if windows == tuple((0, n, 1) for n in x.shape):
            return x
        return self._view(View("slice", windows), x)

    def _full(self, x: Value, rank: int) -> Value:
        lead = rank - len(x.shape)
        return self._view(View("expand", tuple(range(lead))), x) if lead else x

    def _element(self, spec: View, shape: Shape, x: Value) -> Value:
        if not x.shape and (shape or x.by_value):
            return x  # which the others broadcast
        if spec.kind != "slice":
            return self._view(spec, self._full(x, len(shape)))
        lead = len(shape) - len(x.shape)
        return self._sliced(x, tuple(
            (0, 1, 1) if n == 1 != whole else one for n, whole, one in zip(
                x.shape, shape[lead:], spec.params[lead:], strict=True)))

    def _window(self, spec: View, box: Box, origin: Shape,
                x: Value) -> tuple[Value, Shape]:
        if spec.kind == "slice":
            return self._cut(spec, box, origin, x)
        if spec.kind == "transpose":
            own = tuple(origin[a] for a in spec.params)
        elif spec.kind == "expand":
            items = list(origin)
            for axis in spec.params:
                items.insert(axis, 0)
            own = tuple(items)
        else:
            own = tuple(o for a, o in enumerate(origin) if a not in spec.params)
        if not x.shape:
            return x, own
        x = self._full(x, len(box))
        if spec.kind == "squeeze":
            x = self._sliced(x, tuple(
                (-origin[a], 1 - origin[a], 1) if a in spec.params and n != 1 else
                (0, n, 1) for a, n in enumerate(x.shape)))
        return self._view(spec, x), own

    def _cut(self, spec: View, box: Box, origin: Shape,
             x: Value) -> tuple[Value, Shape]:
        own, windows, lead = [], [], len(box) - len(x.shape)
        for axis, ((start, _, step), sides, at) in enumerate(zip(
                spec.params, box, origin, strict=True)):
            n = x.shape[axis - lead] if axis >= lead else 1
            first, last = _steps(spec.params[axis], sides)
            if n == 1 or step == 1:  # the only element is that of the box's first point
                own.append(at - start if n != 1 else first)
                windows.append((0, n, 1))
                continue
            begin = start - at + step*first
            own.append(first)
            windows.append((begin, begin + step*(last - first), step))
        return self._sliced(x, tuple(windows[lead:])), tuple(own)


def _parts(spec: View, shape: Shape) -> tuple[View, ...] | None:
    """Divide a view into slices, transpositions, expansions, squeezes; or None."""
    if spec.kind in ("slice", "transpose", "expand", "squeeze"):
        return (spec,)
    if spec.kind != "reshape" or not is_alignment(shape, spec.params):
        return None
    dropped, added = (tuple(a for a, n in enumerate(own) if n == 1)
                      for own in (shape, spec.params))
    return (View("squeeze", dropped), View("expand", added))


def _moved(spec: View, box: Box) -> Box | None:
    """A box by the coordinates of a view; None if none of its points is in it."""
    if spec.kind == "transpose":
        return tuple(box[a] for a in spec.params)
    if spec.kind == "expand":
        items = list(box)
        for axis in spec.params:
            items.insert(axis, (0, 1))
        return tuple(items)
    if spec.kind == "squeeze":
        return tuple(sides for a, sides in enumerate(box) if a not in spec.params)
    found = tuple(map(_steps, spec.params, box))
    return None if any(lo >= hi for lo, hi in found) else found


def _steps(one: tuple[int, int, int], sides: tuple[int, int]) -> tuple[int, int]:
    """The steps of a slice that are in a side of a box: first, and after the last."""
    (start, _, step), (low, high), count = one, sides, len(range(*one))
    if step < 0:
        start, step, (low, high) = -start, -step, (1 - high, 1 - low)
    return max(0, -(-(low - start)//step)), min(count, -(-(high - start)//step))
