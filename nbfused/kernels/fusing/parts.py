"""Writes into parts of traced arrays: what they make of the whole, and of its views.

A traced array is a value, which nothing changes: what is written to is another value
from there on, and so are the views of it.  A `Part` says how a view is made of the
whole, and what the whole is with other numbers in the view's place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...errors import KernelTypeError
from ...registry.operations import OPS
from ...scalar.ir.build import Builder
from ...scalar.ir.nodes import Function
from ...scalar.ir.nodes import Value as Scalar
from ...specs import Map, View
from ...specs.base import Shape
from ...specs.vjp.functions import compose
from ...specs.windows import Place, Windows

if TYPE_CHECKING:
    from .symbols.arrays import Symbol

__all__ = ["made_of", "overwritten"]


def made_of(whole: Symbol, views: Sequence[View]) -> Symbol:
    """The part of an array that these views, one of the other, show."""
    for spec in views:
        (whole,) = whole.record(spec, (whole,), None, {"dtypes": None})
    return whole


def overwritten(whole: Symbol, views: Sequence[View], new: Any) -> Symbol:
    """The array with `new`, of the shape of the last view and its own dtype, there.

    Raises
    ------
    KernelTypeError
        A view is none that can be written through.
    """
    if not views:
        return new
    spec, shape = views[0], whole.extents
    inner = made_of(whole, views[:1]) if len(views) > 1 else whole
    new = overwritten(inner, views[1:], new)
    match spec.kind:
        case "slice":
            return _stored(whole, spec.params, new)
        case "transpose":
            return OPS["transpose"](new, [
                spec.params.index(a) for a in range(len(shape))])
        case "expand" | "squeeze" | "reshape":
            return OPS["reshape"](new, shape)
    raise KernelTypeError(f"{whole!r} is changed through a view by {spec.kind}, whose "
                          "elements share memory; change a copy of it")


def _stored(whole: Symbol, slices: tuple[tuple[int, int, int], ...],
            new: Any) -> Symbol:
    """The array with other numbers in a slice."""
    shape = whole.extents
    counts = tuple(len(range(*one)) for one in slices)
    if 0 in counts:
        return whole
    if counts == shape and all(step == 1 for _, _, step in slices):
        return new
    if any(step < 0 for _, _, step in slices):
        new = OPS["getitem"](new, tuple(
            slice(None, None, -1 if step < 0 else 1) for _, _, step in slices))
        slices = tuple(_forwards(*one) for one in slices)
    steps = [step for n, (_, _, step) in zip(counts, slices, strict=True) if n > 1]
    if any(step != 1 for step in steps):
        return _interleaved(whole, slices, new)
    box = tuple((start, start + n) for n, (start, _, _) in zip(counts, slices,
                                                              strict=True))
    places = (Place(0), Place(0, tuple(lo for lo, _ in box)))
    spec = Map(_chosen(), ("inside", "window", "element"), (),
               Windows.of(places, [box], shape))
    return whole.record(spec, (new, whole), None, {"dtypes": (whole.dtype,)})[0]


def _forwards(start: int, stop: int, step: int) -> tuple[int, int, int]:
    """The same elements of a slice, from the first to the last."""
    count = len(range(start, stop, step))
    return (start, stop, step) if step > 0 else (
        start + step*(count - 1), start + 1, -step)


def _interleaved(whole: Symbol, slices: tuple[tuple[int, int, int], ...],
                 new: Any) -> Symbol:
    """The array with other numbers at every so many elements."""
    shape = whole.extents
    (spread,) = whole.record(View("unslice", (shape, slices)), (new,), None,
                             {"dtypes": None})
    spec = Map(_on_lattice(shape, slices), ("index", "element", "element"))
    return whole.record(spec, (spread, whole), None, {"dtypes": (whole.dtype,)})[0]


@lru_cache(maxsize=1)
def _chosen() -> Function:
    def build(b: Builder) -> tuple[Scalar, ...]:
        return (b.select("inside", "new", "old"),)

    return compose("store", ("inside", "new", "old"), build)


@lru_cache(maxsize=256)
def _on_lattice(shape: Shape, slices: tuple[tuple[int, int, int], ...]) -> Function:
    """The function that takes the new number at the points of a slice."""
    from ...scalar.parse.functions import parse_definition

    tests, below = [], 1
    for n, (start, stop, step) in reversed([*zip(shape, slices, strict=True)]):
        count = len(range(start, stop, step))
        if count < n:
            at = f"(index // {below}) % {n}"
            last = start + step*(count - 1)
            tests.append(f"{at} >= {start} and {at} <= {last} and "
                         f"({at} - {start}) % {step} == 0")
        below *= n
    return parse_definition("def store(index, new, old):\n    return new if "
                            f"{' and '.join(tests) or 'True'} else old\n")

