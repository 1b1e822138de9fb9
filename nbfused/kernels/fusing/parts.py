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
            return with_slice(whole, spec.params, new)
        case "transpose":
            return OPS["transpose"](new, [
                spec.params.index(a) for a in range(len(shape))])
        case "expand" | "squeeze" | "reshape":
            return OPS["reshape"](new, shape)
    raise KernelTypeError(f"{whole!r} is changed through a view by {spec.kind}, whose "
                          "elements share memory; change a copy of it")
