"""Windows: inputs of a `Map` that are there on a box of its points only.

A slice that is written, a concatenation, a pad and the cotangent of a slice that was
read are all of them functions of such inputs: outside of its box one is 0, and a
parameter of the kind ``"inside"`` says where that is.  A roll is a window that *wraps*:
what leaves its box comes from the other end of the array.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ShapeError
from ..support.loop_nests import Layout, Strides, broadcast_strides
from ..support.records import record
from .base import Shape

__all__ = ["Box", "Place", "Windows", "intersection", "moved_box", "nearest", "whole",
           "wrapped"]

#: For each axis the first coordinate, and the one after the last.
Box = tuple[tuple[int, int], ...]


@record(frozen=True)
class Place:
    """Place of a window.

    Attributes
    ----------
    box
        The number of its box.
    origin
        The coordinates of the point at which its first element is read.
    wraps
        Whether it reads from the other end where it is outside of its box.
    """

    box: int
    origin: Shape = ()
    wraps: bool = False


@record(frozen=True)
class Windows:
    """The windows of a Map.

    Attributes
    ----------
    places
        For each parameter of kind ``"window"`` or ``"inside"``, in order.
    inner
        For each box, whether most points are in it: a kernel may be fastest there.
        One of windows that wrap counts as such.
    boxes
        Within the extent; kernels are given them with each call.
    extent
        The shape that the function runs over; None in kernels.
    """

    places: tuple[Place, ...]
    inner: tuple[bool, ...]
    boxes: tuple[Box, ...] = ()
    extent: Shape | None = None

    @staticmethod
    def of(places: Sequence[Place], boxes: Sequence[Box], extent: Shape) -> Windows:
        """Windows in those of the boxes that some place names, each once.

        A window that wraps shares its box with such only.
        """
        kept = list(dict.fromkeys((boxes[p.box], p.wraps) for p in places))
        return Windows(tuple(Place(kept.index((boxes[p.box], p.wraps)), p.origin,
                                   p.wraps) for p in places),
                       tuple(wraps or _is_inner(box, extent) for box, wraps in kept),
                       tuple(box for box, _ in kept), extent)

    @property
    def kernel(self) -> Windows:
        """The same for all extents and boxes."""
        return Windows(tuple(Place(p.box, (), p.wraps) for p in self.places),
                       self.inner)

    def batched(self, size: int) -> Windows:
        """The same of many samples, along an axis in front."""
        assert self.extent is not None
        return Windows(tuple(Place(p.box, (0, *p.origin), p.wraps)
                             for p in self.places), self.inner,
                       tuple(((0, size), *box) for box in self.boxes),
                       (size, *self.extent))

    def check(self, shape: Shape, place: Place, name: str) -> None:
        """`ShapeError` unless an array of `shape` has all elements of a window."""
        box = self.boxes[place.box]
        lead = len(box) - len(shape)
        if place.wraps and self.extent is not None:
            ok = lead >= 0 and all(n in (1, m) for n, m in zip(
                shape, self.extent[lead:], strict=True))
        else:
            ok = lead >= 0 and all(
                n == 1 or lo == hi or (lo - at >= 0 and hi - at <= n)
                for n, (lo, hi), at in zip(shape, box[lead:], place.origin[lead:],
                                           strict=True))
        if not ok:
            raise ShapeError(f"{name} of shape {shape} does not fill its window "
                             f"{box} from {place.origin}; expected elements at all its "
                             "points: slice the array to the box")

    def layout(self, operand: Layout, place: Place) -> tuple[Strides, int]:
        """Strides over the extent, and by how many elements the address moves."""
        assert self.extent is not None
        shape, own = operand
        strides = broadcast_strides(shape, own, self.extent) if 1 not in shape else (
            (0,)*(len(self.extent) - len(shape)) + tuple(
                0 if n == 1 else s for n, s in zip(shape, own, strict=True)))
        return strides, -sum(a*s for a, s in zip(place.origin, strides, strict=True))


def _is_inner(box: Box, extent: Shape) -> bool:
    return all(2*(hi - lo) > n for (lo, hi), n in zip(box, extent, strict=True))


def whole(shape: Shape) -> Box:
    """The box of all points."""
    return tuple((0, n) for n in shape)


def nearest(at: int, extent: int) -> int:
    """The number next to 0 that differs from `at` by extents."""
    rest = at % extent
    return rest - extent if 2*rest > extent else rest


def wrapped(origin: Shape, extent: Shape) -> tuple[Box, Shape]:
    """The box of a window that wraps, and its origin next to 0.

    In the box an element is read where it lies after moving by the origin, outside of
    it one extent further on, or back.
    """
    near = tuple(nearest(at, n) for at, n in zip(origin, extent, strict=True))
    return tuple((max(at, 0), n + min(at, 0)) for at, n in zip(
        near, extent, strict=True)), near


def moved_box(box: Box, by: Shape) -> Box:
    """A box at other coordinates."""
    return tuple((lo + d, hi + d) for (lo, hi), d in zip(box, by, strict=True))


def intersection(a: Box, b: Box) -> Box | None:
    """The points that are in both boxes; None if there are none."""
    found = tuple((max(p, r), min(q, s)) for (p, q), (r, s) in zip(a, b, strict=True))
    return None if any(lo >= hi for lo, hi in found) else found
