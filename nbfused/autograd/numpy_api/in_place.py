"""``x op= y`` and ``x[index] = y``: stored into the array, or recorded.

What the tape has recorded of an array stays true, as it is not written to: the Variable
becomes that of a new array, through a view also what it is of, and all views that live
become views of the new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arrays import describe, dtype_of, is_array
from ...arrays.overlap import may_overlap
from ...arrays.traced import Traced
from ...dispatch.outputs import can_cast
from ...errors import KernelTypeError, ShapeError, TapeError
from ...registry.operations import OPS
from ...specs import View
from ..graph import COPY, Edge, GraphArray, Leaf, Node
from ..nodes import Identity, SpecNode, link_view, note_view
from ..recording import recording
from ..tape import apply
from ..versions import note_write

__all__ = ["assign", "check_unrecorded", "check_whole", "is_basic", "is_element",
           "is_recorded", "is_scalar", "laid_out", "native", "overwritten", "replace",
           "with_part"]


def is_recorded(x: Any, y: Any) -> bool:
    """Whether the tape records what is made of `x` and `y`."""
    return recording() and (x.requires_grad or bool(getattr(y, "requires_grad", False)))


def check_unrecorded(x: Any, y: Any, symbol: str) -> None:
    """Raise `TapeError` for ``x symbol= y`` where the tape records `x` or `y`."""
    if is_recorded(x, y):
        raise TapeError(
            f"{_call(symbol)}: x or y requires grad, and what the tape knows of x "
            f"would no longer be true; write {_way(symbol)}, or update inside "
            "no_grad()")


#: What changes a Variable besides operators, and the same without a change.
_CALLS = {"[index]": "x[index] = y", "launch": "a launch that writes to x"}
_WAYS = {"[index]": "x = nf.ops.set_at(x, y, index)", "launch": "x = x.copy() before"}


def _call(symbol: str) -> str:
    return _CALLS.get(symbol, f"x {symbol}= y")


def _way(symbol: str) -> str:
    return _WAYS.get(symbol, f"x = x {symbol} y")


def replace(x: Any, made: Any, symbol: str) -> None:
    """Make `x` what was computed for ``x symbol= y``, on the tape.

    Raises
    ------
    TapeError
        `x` is a leaf that requires grad or a view of one, or there are views of what is
        no Variable any more.
    ShapeError, KernelTypeError
        `made` has another shape, or a dtype of another kind.
    """
    made = _fitting(x, made, symbol)
    if x._edge is None and made._edge is not None:
        _record(x, made, symbol)
        return
    base, views = _base_of(x)
    target = x if base is None else base
    node = None if target._edge is None else target._edge[0]
    if isinstance(node, (Leaf, Identity)) or type(made) is not type(target):
        check_unrecorded(target, made, symbol)
    if base is not None and views is not None:
        made = _own(overwritten(base, views, made))
    elif node is not None and views is not None and _has_siblings(x):
        raise TapeError(
            f"{_call(symbol)}: x requires grad, and it is a view of what other views "
            f"show, which would not see the change; write {_way(symbol)}, or change "
            "x.copy()")
    before = target._value
    if node is None:  # nothing recorded depends on its elements: views see them
        apply(COPY, (made._value,), out=(target._value,), names=("x",))
    else:
        made = laid_out(made, before)
        target._value = made._value
    target._edge = made._edge
    if node is not None:
        _follow(node, target, before)


def _record(x: Any, made: Any, symbol: str) -> None:
    """Store into an array that nothing is recorded of, and record it from here on.

    Its memory stays, and so do the views of it, which are recorded as well.
    """
    whole, views = x, list[View]()
    while (link := getattr(whole, "_of", None)) is not None and _shares(
            link[0]._value, x):
        whole, spec = link
        views.insert(0, spec)
        if whole._edge is not None:  # as in no_grad()
            check_unrecorded(whole, made, symbol)
    made = overwritten(whole, views, made)
    apply(COPY, (made._value,), out=(whole._value,), names=("x",))
    whole._edge = made._edge
    _follow_links(whole)


def _follow_links(whole: Any) -> None:
    """Let the views of an array be recorded, of which nothing was so far."""
    views, whole._seen_by = getattr(whole, "_seen_by", None) or (), None
    for found in views:
        view = found()
        if view is None or view._edge is not None or not _shares(whole._value, view):
            continue
        (shown,) = apply(view._of[1], (whole,))
        view._edge, view._of = shown._edge, None
        note_view(view._edge[0], whole, view)
        _follow_links(view)


def _fitting(x: Any, made: Any, symbol: str) -> Any:
    """A result in the dtype of `x` and in memory of its own."""
    if made.shape != x.shape:
        raise ShapeError(f"{_call(symbol)}: x has shape {x.shape}, and the result has "
                         f"{made.shape}; write {_way(symbol)}")
    if made.dtype != x.dtype:
        if not can_cast(made.dtype, x.dtype, "same_kind"):
            raise KernelTypeError(f"{_call(symbol)}: x has dtype {x.dtype}, and the "
                                  f"result {made.dtype}; write {_way(symbol)}")
        return OPS["astype"](made, x.dtype)
    return _own(made)


def _own(made: Any) -> Any:
    """A result in memory of its own: with what was assigned it would change."""
    return made.copy("K") if made._edge is None or _is_view(made._edge) else made


def laid_out(made: Any, before: Any) -> Any:
    """A result that lies in memory as an array did, so that reshapes stay views."""
    want = describe(before).strides
    if all(n < 2 or a == b for n, a, b in zip(
            made.shape, describe(made._value).strides, want, strict=True)):
        return made
    axes = sorted(range(made.ndim), key=lambda axis: -want[axis])
    rows = OPS["reshape"](OPS["transpose"](made, axes), (-1,))
    ordered = OPS["reshape"](rows, [made.shape[axis] for axis in axes])
    back = [axes.index(k) for k in range(made.ndim)]
    return OPS["transpose"](ordered, back).copy("K")


def _base_of(x: Any) -> tuple[Any, list[View] | None]:
    """The first Variable that `x` is a view of, and by which views; or None.

    The views are None, too, of what is in memory of its own: the reshape of a
    transposed array, which is a copy.
    """
    found: tuple[Any, list[View] | None] = None, []
    views: list[View] = []
    edge = x._edge
    while edge is not None and _is_view(edge):
        node = edge[0]
        views = [node.recording.plan.forward, *views]
        base, edge = node.base(), node.edges[0]
        if base is not None and base is not x and base._edge is edge:
            if not _shares(base._value, x):
                return found if found[0] is not None else (None, None)
            found = base, views  # which may be a view, too
    return found


def _shares(memory: Any, x: Any) -> bool:
    """Whether a Variable is in some memory."""
    return may_overlap(describe(memory), describe(x._value))


def overwritten(whole: Any, views: Sequence[View], new: Any) -> Any:
    """The array with other numbers where these views, one of the other, show it."""
    if not views:
        return new
    spec = views[0]
    inner = apply(spec, (whole,))[0] if len(views) > 1 else whole
    new = overwritten(inner, views[1:], new)
    match spec.kind:
        case "slice":
            return OPS["set_at"](whole, new, index=tuple(
                slice(start, None if stop < 0 else stop, step)
                for start, stop, step in spec.params))
        case "transpose":
            return OPS["transpose"](new, [
                spec.params.index(axis) for axis in range(whole.ndim)])
        case "expand" | "squeeze" | "reshape":
            return OPS["reshape"](new, whole.shape)
    raise TapeError(f"x op= y: x is a view by {spec.kind}, whose elements share "
                    "memory; change x.copy()")


def _follow(node: Node, whole: Any, before: Any) -> None:
    """Let the views of a node's output, as far as they live, be those of another.

    They are in the memory of `before`.
    """
    for variable, found in tuple(node.views or ()):  # which may be whole's node, too
        view, below = variable(), found()
        if below is None:
            continue
        (shown,) = apply(below.recording.plan.forward, (whole,))
        _follow(below, shown, before)
        if view is not None and view._edge is not None and \
                view._edge[0] is below and _shares(before, view):
            view._value, view._edge = shown._value, shown._edge
            if view._edge is not None:
                note_view(view._edge[0], whole, view)
            else:
                link_view(below.recording.plan.forward, whole, view)


def _is_view(edge: Edge) -> bool:
    return isinstance(edge[0], SpecNode) and edge[0].recording.view


def _has_siblings(x: Any) -> bool:
    """Whether other views live of what `x` is a view of, or may."""
    edge = x._edge
    while edge is not None and _is_view(edge):
        edge = edge[0].edges[0]
        if edge is not None and (edge[0].collects or _has_views(edge[0], (x,))):
            return True
    return False


def _has_views(node: Node, besides: Sequence[Any]) -> bool:
    """Whether views of a node's outputs live, or views of these.

    Those of what is in `besides` follow that.
    """
    for variable, found in node.views or ():
        made, below = variable(), found()
        if made is not None and any(made is x for x in besides):
            continue
        if made is not None or (below is not None and _has_views(below, besides)):
            return True
    return False


def is_basic(index: Any) -> bool:
    """Whether an index takes a view: of integers, slices, ``...`` and None."""
    return all(item is None or item is Ellipsis or isinstance(item, (
        int, slice, np.integer)) for item in (
            index if isinstance(index, tuple) else (index,)))


def is_scalar(made: Any, index: Any) -> bool:
    """Whether what an index takes of a NumPy array is one of its scalars.

    That is a number of its own, which changes of the array do not reach; a view
    without dimensions is ``x[0, ...]``.
    """
    return not made.shape and not any(item is Ellipsis for item in (
        index if isinstance(index, tuple) else (index,)))


def is_element(x: Any) -> bool:
    """Whether `x` was taken as a NumPy scalar, of which ``op=`` makes another."""
    return not x.shape and getattr(x, "_of", x) is None


def check_whole(x: Any, symbol: str) -> None:
    """Raise `TapeError` for a change of a part that what it is of would not see."""
    if (getattr(x, "_of", None) or ("", ""))[1] is None:
        raise TapeError(
            f"{_call(symbol)}: x was taken from an array, as its real part or windows, "
            "which would not see the change as NumPy's does; "
            f"write {_way(symbol)}, or change x.copy()")


def native(x: Any) -> Any:
    """The array of a Variable; anything else itself."""
    return x.data if isinstance(x, GraphArray) else x


def assign(x: Any, index: Any, value: Any) -> None:
    """``x[index] = value``.

    Raises
    ------
    KernelTypeError
        `value` is of another kind than `x`.
    TapeError
        As `replace`.
    """
    if isinstance(value, Traced) and not isinstance(x, Traced):
        raise KernelTypeError(
            f"x[index] = value: {value!r} is stored into an array that is the same for "
            "all calls or samples; make a new one of what is traced, as in y = "
            "nf.ops.set_at(x, value, index)")
    source = dtype_of(value) if is_array(native(value)) else np.min_scalar_type(value)
    if not can_cast(source, x.dtype, "same_kind"):
        raise KernelTypeError(f"x[index] = value: a value of {source} does not fit an "
                              f"array of {x.dtype}; convert it with astype")
    key = tuple(map(native, index)) if isinstance(index, tuple) else native(index)
    check_whole(x, "[index]")
    if _is_there(x, key, value):  # as it is after x[index] += y
        return
    if is_recorded(x, value):
        replace(x, with_part(x, key, value), "[index]")
        return
    x._value[key] = native(value)
    note_write((x._value,))


def _is_there(x: Any, key: Any, value: Any) -> bool:
    """Whether a value is the part of `x` that it is assigned to."""
    if not isinstance(value, GraphArray) or value._edge is None:
        return False
    base, views = _base_of(value)
    if base is None:
        return False
    other, same = _base_of(x[key])
    return other is base and same == views


def with_part(x: Any, key: Any, value: Any) -> Any:
    """A new array: `value` where an index points to, else `x`."""
    is_mask = (is_array(key) or isinstance(key, Traced)) and dtype_of(key).kind == "b"
    # An axis in front, of one element or of none, where the truth is known.
    if is_mask and not key.shape and not isinstance(key, Traced):
        whole = OPS["broadcast_to"](value, (1, *x.shape)) if key and is_array(
            native(value)) else value
        return OPS["where"](key, whole, x[None])[0] if key else x.copy()
    ndim = len(key.shape) if is_mask else 0
    rest = x.shape[ndim:]
    if is_mask and tuple(key.shape) == x.shape[:ndim] and len(
            np.shape(native(value))) <= len(rest):  # no need to count what it chooses
        shaped = OPS["reshape"](key, (*key.shape, *(1 for _ in rest))) if rest else key
        return OPS["where"](shaped, value, x)
    return OPS["set_at"](x, value, key)
