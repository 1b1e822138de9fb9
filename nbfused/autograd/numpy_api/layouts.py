"""Layouts of elements in memory, which NumPy's `order` asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arrays import describe, dtype_of, is_array
from ...arrays.traced import Traced
from ...errors import KernelTypeError
from ...registry.operations import OPS
from ..graph import GraphArray
from .refusals import refuse_options

__all__ = ["flattened", "in_layout", "memory_axes", "ordered_copy", "raveled",
           "read_as"]


def in_layout(name: str, made: Any, order: str, *like: Any) -> Any:
    """A result, copied unless it lies in memory as `order` says.

    Of what is traced, and of samples, the layout is not known: in Fortran's order they
    are refused, and otherwise stay as they are.

    Parameters
    ----------
    order
        ``"C"``, ``"F"``, ``"K"`` for the layout that it has, ``"A"`` for Fortran's
        where all arrays that it is made `like` have that.
    """
    _check(name, order)
    if order == "K":
        return made
    if isinstance(made, Traced):
        if order == "F":
            refuse_options(name, {"order": order})
        return made
    arrays = [x for x in like if isinstance(x, GraphArray) or is_array(x)]
    if order == "F" or (order == "A" and arrays and all(map(_is_fortran, arrays))):
        return OPS["transpose"](_contiguous(OPS["transpose"](made)))
    return _contiguous(made)


def ordered_copy(x: Any, order: str) -> Any:
    """A copy of an array in a layout, which is one copy in C's."""
    made = x if order != "C" or isinstance(x, Traced) else _contiguous(x)
    return made if made is not x else x.astype(dtype_of(x), order)


def read_as(name: str, x: Any, order: str) -> str:
    """The order of elements that ``"A"`` stands for: ``"F"`` in Fortran's layout."""
    _check(name, order)
    if order != "A":
        return order
    if isinstance(x, Traced):
        refuse_options(name, {"order": order})
    return "F" if _is_fortran(x) and not _is_c(_strides(x)) else "C"


def memory_axes(name: str, x: Any) -> list[int]:
    """The axes of an array in the order in which memory has them."""
    if isinstance(x, Traced):
        refuse_options(name, {"order": "K"})
    strides = [abs(step) for _, step in _strides(x)]
    return sorted(range(len(strides)), key=lambda k: -strides[k])


def flattened(x: Any) -> Any:
    """The elements in C order in one dimension: a view, or else a copy.

    `nf.fuse` does not know how an array lies, and gives a view where it can.
    """
    flat = OPS["reshape"](x, (-1,))
    if isinstance(flat, Traced):
        flat.note_ravel(x)
        return flat
    return flat if _is_c(_strides(flat)) else OPS["astype"](flat, dtype_of(flat))


def raveled(x: Any, order: Any) -> Any:
    """The elements in one dimension, by NumPy's protocol.

    `nf.fuse` sees it there, and calls NumPy for an order that memory has.
    """
    return np.ravel(x, order)


def _check(name: str, order: Any) -> None:
    if order not in ("C", "F", "A", "K"):
        raise KernelTypeError(f"{name}: 'order' is {order!r}, expected 'C', 'F', 'A' "
                              "or 'K'")


def _strides(x: Any) -> list[tuple[int, int]]:
    """The extents of an array with their strides."""
    found = describe(x.data if isinstance(x, GraphArray) else x)
    return list(zip(found.shape, found.strides, strict=True))


def _is_c(strides: Sequence[tuple[int, int]]) -> bool:
    step = 1
    for extent, stride in reversed(strides):
        if extent != 1 and stride != step:
            return 0 in [n for n, _ in strides]
        step *= extent
    return True


def _is_fortran(x: Any) -> bool:
    return _is_c(_strides(x)[::-1])


def _contiguous(x: Any) -> Any:
    """`x` in C's layout; itself if it is."""
    if _is_c(_strides(x)):
        return x
    made = OPS["reshape"](OPS["reshape"](x, (-1,)), x.shape)
    # A view, where only the elements of the last axis lie apart: in order, copied.
    return made if _is_c(_strides(made)) else OPS["astype"](made, dtype_of(made))
