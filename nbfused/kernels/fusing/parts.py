"""Writes into parts of traced arrays: what they make of the whole, and of its views.

A traced array is a value, which nothing changes: what is written to is another value
from there on, and so are the views of it.  A `Part` says how a view is made of the
whole, and what the whole is with other numbers in the view's place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...arrays.traced import extents
from ...errors import KernelTypeError
from ...ops.assignment import with_slice
from ...registry.operations import OPS
from ...specs import View
from ...specs.base import Shape
from ...specs.fusion.graph import Node, Value
from ...specs.fusion.slicing.rearranged import is_alignment
from ...specs.shapes import assigned_shape

if TYPE_CHECKING:
    from .symbols.arrays import Symbol

__all__ = ["is_view", "is_view_of", "made_of", "may_copy", "memory_of", "overwritten",
           "shaped_for"]


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


def is_view(spec: Any) -> bool:
    """True if the result shares the memory of the first input."""
    return bool(spec.rearranges)


def is_view_of(value: Value, base: Value, through: list[Node] | None = None) -> bool:
    """Whether one value is another, or a view of it; `through` gets the steps back."""
    while value is not base:
        if value.node is None or not is_view(value.node.spec):
            return False
        if through is not None:
            through.append(value.node)
        value = value.node.inputs[0]
    return True


def memory_of(value: Value) -> Value:
    """The value that was computed into the memory of `value`."""
    while (base := _viewed(value)) is not None:
        value = base
    return value


def _viewed(value: Value) -> Value | None:
    """The value that this one is a view of."""
    node = value.node
    if node is None:
        return None
    position: int | None = 0
    if not is_view(node.spec):
        # A called function says it.
        views = getattr(node.spec, "views", None)
        position = None if views is None else views[node.outputs.index(value)]
    found: Value | None = None if position is None else node.inputs[position]
    return found


def shaped_for(new: Any, target: tuple[int, ...]) -> Any:
    """Drop axes of 1 in front of an assigned value that its target lacks."""
    shape = tuple(extents(new))
    fitting = assigned_shape(shape, target)
    return new if fitting == shape else OPS["reshape"](new, fitting)
