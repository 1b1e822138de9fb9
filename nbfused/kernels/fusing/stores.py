"""Stores of a traced function: from there on, an array is another value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...arrays import dtype_of, is_array
from ...autograd import Variable
from ...autograd.graph import Leaf
from ...errors import KernelTypeError, ShapeError
from ...op.base import check_integers
from ...registry.operations import OPS
from ...scalar.ir.nodes import Block, Function
from ...scalar.typing.python_numbers import plain_number
from ...specs import Map
from .outside.host_arrays import HostArray
from .parts import made_of, overwritten
from .program import memory_of
from .symbols.arrays import Symbol

if TYPE_CHECKING:
    from .trace import Trace

__all__ = ["assign"]

#: An array stored into another: `x`, of the shape and dtype of `like`.
_ASSIGN = Map(Function("assign", ("x", "like"), Block((), ("x",))),
              ("element", "element"))


def assign(trace: Trace, target: Any, new: Any, casting: str, where: Any) -> None:
    """``target[...] = new``: from here on `target` is another value.

    Elements at which `where` is False keep what they have.
    """
    if isinstance(target, HostArray):
        trace.ask_to_trace(target)
    _check_target(trace, target)
    new = plain_number(new)
    _check_cast(target, new, casting)
    if where is not None:
        new = OPS["where"](_mask(where), _cast_like(trace, new, target), target)
    if not isinstance(new, Symbol) or new.extents != target.extents or \
            dtype_of(new) != dtype_of(target) or (
                new is not target and memory_of(new.value) in trace.given):
        # Also an argument, or a view of one: it may change before the program
        # stores at its end.
        new = _cast_like(trace, new, target)
    if new.extents != target.extents:
        raise ShapeError(f"{target.name} cannot hold an array of shape "
                         f"{new.extents}; make a new array")
    root = target.root
    new = overwritten(root, target.parts, new)
    if root.own is not None:
        trace.stores[root.own] = new.value
    root.value = new.value
    if root._edge is None or not isinstance(root._edge[0], Leaf):
        root._edge = new._edge  # a leaf stays one, whatever it holds
    for view in [*trace.views.get(root.array, ())]:
        shown = made_of(root, view.parts)
        view.value, view._edge = shown.value, shown._edge


def _cast_like(trace: Trace, new: Any, target: Symbol) -> Any:
    """`new` in the dtype of `target`, and its shape if it broadcasts to that."""
    return trace.record(_ASSIGN, (new, target), None,
                       {"dtypes": (dtype_of(target),)})[0]


def _check_target(trace: Trace, target: Any) -> None:
    """Refuse to change in place a value that another symbol sees."""
    if not isinstance(target, Symbol):
        raise KernelTypeError(
            f"out: nf.fuse stores into its arguments only, got a "
            f"{type(target).__name__} that is none; pass it as an argument")
    if target.root is None or any(
            v.root is not target.root for v in trace.views.get(
                target.array, ())):
        raise KernelTypeError(
            f"{target.name} is changed in place and is, or has, a view that "
            "nf.fuse does not follow; make a new array, as in x = x + y")


def _check_cast(target: Symbol, new: Any, casting: str) -> None:
    """`KernelTypeError` unless the dtype of `new` casts to that of `target`."""
    if isinstance(new, (Symbol, Variable)) or is_array(new):
        source = dtype_of(new)
    else:
        check_integers((target, new), "x[...] = y", ("x", "y"))
        source = np.result_type(dtype_of(target), getattr(new, "example", new))
    if not target.holds(source, casting):
        raise KernelTypeError(
            f"{target.name} cannot hold {source}, which does not cast to it under "
            f"'{casting}'; use astype, or make a new array")


def _mask(where: Any) -> Any:
    """A condition in the form of NumPy's ``where=``."""
    kind = np.dtype(bool) if isinstance(where, bool) else dtype_of(where)
    if kind != np.bool_:
        raise KernelTypeError(f"'where' has dtype {kind}, expected bool; compare it")
    return where
