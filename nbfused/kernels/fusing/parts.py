"""Writes into parts of traced arrays: what they make of the whole, and of its views.

A traced array is a value, which nothing changes: what is written to is another value
from there on, and so are the views of it.  A `Part` says how a view is made of the
whole, and what the whole is with other numbers in the view's place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import KernelTypeError
from ...ops.assignment import with_slice
from ...registry.operations import OPS
from ...specs import View
from ...specs.base import Shape
from ...specs.fusion.slicing.rearranged import is_alignment

if TYPE_CHECKING:
    from .symbols.arrays import Symbol

__all__ = ["made_of", "may_copy", "overwritten"]


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
            return with_slice(whole, spec.params, new)
        case "transpose":
            return OPS["transpose"](new, [
                spec.params.index(a) for a in range(len(shape))])
        case "expand" | "squeeze" | "reshape":
            return OPS["reshape"](new, shape)
    raise KernelTypeError(f"{whole!r} is changed through a view by {spec.kind}, whose "
                          "elements share memory; change a copy of it")


def may_copy(view: View | None, base: Symbol) -> bool:
    """Whether NumPy may copy: a reshape, or None: a ravel, of what lies apart."""
    if view is not None and (
            view.kind != "reshape" or is_alignment(base.extents, view.params)):
        return False
    shape = base.extents if base.root is None else base.root.extents
    for part in base.parts:
        if part.kind in ("transpose", "broadcast") or (
                part.kind == "slice" and not _is_leading(part, shape)):
            return True
        (shape,) = part.out_shapes((shape,))
    return False


def _is_leading(part: View, shape: Shape) -> bool:
    """Whether a slice is one of whole rows that follow one another."""
    (_, _, step), *others = part.params or ((0, 1, 1),)
    return step == 1 and all(one == (0, n, 1)
                             for one, n in zip(others, shape[1:], strict=True))
