"""``x op= y`` and ``x[index] = y``: stored into the array, or recorded.

What the tape has recorded of an array stays true, as it is not written to: the Variable
becomes that of a new array.  Views of the old one would not see it, so that this is
refused where there are some.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arrays import dtype_of, is_array
from ...dispatch.outputs import can_cast
from ...errors import KernelTypeError, ShapeError, TapeError
from ...registry.operations import OPS
from ..graph import COPY, Edge, GraphArray, Leaf, Node
from ..nodes import Identity, SpecNode
from ..recording import recording
from ..tape import apply
from ..versions import note_write

__all__ = ["assign", "check_unrecorded", "is_recorded", "native", "replace"]


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


def _call(symbol: str) -> str:
    return "x[index] = y" if symbol == "[index]" else f"x {symbol}= y"


def _way(symbol: str) -> str:
    return "x = nf.ops.set_at(x, y, index)" if symbol == "[index]" else \
        f"x = x {symbol} y"


def replace(x: Any, made: Any, symbol: str) -> None:
    """Make `x` what was computed for ``x symbol= y``, on the tape.

    Raises
    ------
    TapeError
        `x` is a leaf that requires grad, or there are views of it or it is one.
    ShapeError, KernelTypeError
        `made` has another shape, or a dtype of another kind.
    """
    _check_replaceable(x, made, symbol)
    if made.shape != x.shape:
        raise ShapeError(f"{_call(symbol)}: x has shape {x.shape}, and the result has "
                         f"{made.shape}; write {_way(symbol)}")
    if made.dtype != x.dtype:
        if not can_cast(made.dtype, x.dtype, "same_kind"):
            raise KernelTypeError(f"{_call(symbol)}: x has dtype {x.dtype}, and the "
                                  f"result {made.dtype}; write {_way(symbol)}")
        made = OPS["astype"](made, x.dtype)
    elif made._edge is None or _is_view(made._edge):
        made = made.copy()  # not of what was assigned: that may change later
    if x._edge is None:  # nothing recorded depends on its elements: views see them
        apply(COPY, (made._value,), out=(x._value,), names=("x",))
    else:
        x._value = made._value
    x._edge = made._edge


def _check_replaceable(x: Any, made: Any, symbol: str) -> None:
    node = None if x._edge is None else x._edge[0]
    if isinstance(node, (Leaf, Identity)) or type(made) is not type(x):
        check_unrecorded(x, made, symbol)
    if node is not None and _is_shared((x, made), node):
        raise TapeError(
            f"{_call(symbol)}: x requires grad, and it is a view or has some, "
            f"which would not see the change; write {_way(symbol)}, or change x.copy()")


def _is_view(edge: Edge) -> bool:
    return isinstance(edge[0], SpecNode) and edge[0].recording.view


def _is_shared(besides: Sequence[Any], node: Node) -> bool:
    """Whether Variables that live, besides some, share an output's memory by views."""
    while not _has_views(node, besides):
        if not isinstance(node, SpecNode) or not node.recording.view:
            return False
        if node.base() is not None or not node.edges or node.edges[0] is None:
            return True
        node = node.edges[0][0]
        if node.collects:
            return True
    return True


def _has_views(node: Node, besides: Sequence[Any]) -> bool:
    """Whether views of a node's outputs live, or views of these."""
    for variable, found in node.views or ():
        made, below = variable(), found()
        if (made is not None and not any(made is x for x in besides)) or (
                below is not None and _has_views(below, besides)):
            return True
    return False


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
    source = dtype_of(value) if is_array(native(value)) else np.min_scalar_type(value)
    if not can_cast(source, x.dtype, "same_kind"):
        raise KernelTypeError(f"x[index] = value: a value of {source} does not fit an "
                              f"array of {x.dtype}; convert it with astype")
    key = tuple(map(native, index)) if isinstance(index, tuple) else native(index)
    if is_recorded(x, value):
        replace(x, _with_part(x, key, value), "[index]")
        return
    x._value[key] = native(value)
    note_write((x._value,))


def _with_part(x: Any, key: Any, value: Any) -> Any:
    """A new array: `value` where an index points to, else `x`."""
    is_mask = is_array(key) and dtype_of(key).kind == "b"
    if is_mask and not key.shape:  # an axis in front, of one element or of none
        whole = OPS["broadcast_to"](value, (1, *x.shape)) if key and is_array(
            native(value)) else value
        return OPS["where"](key, whole, x[None])[0] if key else x.copy()
    if is_mask and tuple(key.shape) == x.shape and not np.shape(native(value)):
        return OPS["where"](key, value, x)  # no need to count what it chooses
    return OPS["set_at"](x, value, key)
