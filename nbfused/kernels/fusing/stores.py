"""Stores of a traced function: from there on, an array is another value."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np

from ...arrays import describe, dtype_of, is_array
from ...autograd import Variable
from ...autograd.graph import COPY, Leaf
from ...errors import KernelTypeError, ShapeError
from ...op.base import check_integers
from ...registry.operations import OPS
from ...scalar.ir.nodes import Block, Function
from ...scalar.typing.python_numbers import plain_number
from ...specs import Map, Reduce, Row, View
from ...specs.base import Shape
from ...specs.fusion.graph import Value
from ...specs.fusion.slicing.rearranged import is_alignment
from .outside.host_arrays import HostArray
from .parts import made_of, memory_of, overwritten
from .program import data_of
from .symbols.arrays import MAY_BE_A_COPY, Symbol

if TYPE_CHECKING:
    from .trace import Trace

__all__ = ["assign", "check_contiguous"]

#: An array stored into another: `x`, of the shape and dtype of `like`.
_ASSIGN = Map(Function("assign", ("x", "like"), Block((), ("x",))),
              ("element", "element"))


class _Contiguous:
    """A check that a reshape of an argument is a view of it, as it is traced."""

    def __init__(self, name: str) -> None:
        self._name = name

    def applies(self, x: Any) -> bool:
        """Whether an array lies otherwise in memory."""
        array = describe(data_of(x), self._name)
        expected: list[int] = []
        step = 1
        for extent in reversed(array.shape):
            expected.insert(0, step)
            step *= extent
        return step > 0 and any(
            n > 1 and have != want for n, have, want in zip(
                array.shape, array.strides, expected, strict=True))

    def __call__(self, x: Any) -> None:
        if self.applies(x):
            raise KernelTypeError(
                f"'{self._name}' is not contiguous, and it is reshaped and changed in "
                "place: NumPy's reshape would be a copy of it; pass a contiguous "
                "array, or reshape after the change")


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
    unsure, through = _unsure(trace, target)
    _part_scalars(trace, target)
    if unsure and through:  # an array of its own, or not
        target.part(new.value)
        target._edge = new._edge
        for view in unsure:
            view.replaced = MAY_BE_A_COPY
        return
    lies_as, root.lies_as = root.lies_as, ()  # what follows is no use of it
    new = overwritten(root, target.parts, new)
    if root.own is not None:
        trace.stores[root.own] = new.value
    root.value = new.value
    if root._edge is None or not isinstance(root._edge[0], Leaf):
        root._edge = new._edge  # a leaf stays one, whatever it holds
    for view in [*trace.views.get(root.array, ())]:
        if view.loose or any(view is v for v in unsure):
            view.replaced = view.loose or MAY_BE_A_COPY
            continue
        shown = made_of(root, view.parts)
        view.value, view._edge = shown.value, shown._edge
    root.lies_as = lies_as


def check_contiguous(trace: Trace, arguments: Collection[Value]) -> None:
    """Have a call refuse arguments that are not contiguous."""
    known = {value for check, value in trace.checks if isinstance(check, _Contiguous)}
    trace.checks += [(_Contiguous(v.name), v) for v in arguments if v not in known]


def _unsure(trace: Trace, target: Symbol) -> tuple[list[Symbol], bool]:
    """Symbols that a change is not seen by, or is, as a reshape has to copy or has not.

    Also whether the change is through the reshape.  A computed array lies in memory as
    what it is computed from, which calls look at where that is an argument.
    """
    root: Any = target.root
    views = [*trace.views.get(root.array, ())]
    through = _is_reshaped(root.extents, target)
    others = [root, *views] if through else [
        v for v in views if _is_reshaped(root.extents, v)]
    others = [v for v in others if v is not target and not v.loose]
    if root.own is not None and (through or others):
        check_contiguous(trace, (root.own,))
        return [], through
    found = _lies_as(root.value) if others else ()
    for view in others:
        view.lies_as = found or ()
    return (others if found is None else []), through


def _lies_as(value: Value) -> tuple[Value, ...] | None:
    """The arguments whose order in memory an array has; None if one is transposed."""
    found: dict[Value, None] = {}
    stack, seen = [value], {value}
    while stack:
        one = stack.pop()
        if one.node is None:
            found[one] = None
            continue
        spec = one.node.spec
        if isinstance(spec, View) and spec.kind == "transpose":
            return None
        if isinstance(spec, (Map, Reduce, Row, View)):
            more = {v for v in one.node.inputs if isinstance(v, Value)
                    and sum(n > 1 for n in v.shape) > 1} - seen
            stack += more
            seen |= more
    return tuple(v for v in found if not v.by_value)


def _is_reshaped(shape: Shape, view: Symbol) -> bool:
    """Whether a view is by a reshape, or a ravel, that a copy could be."""
    if view.raveled:
        return True
    for part in view.parts:
        (made,) = part.out_shapes((shape,))
        if part.kind == "reshape" and not is_alignment(shape, made):
            return True
        shape = made
    return False


def _part_scalars(trace: Trace, target: Symbol) -> None:
    """Let NumPy's scalars of an array keep what they are when it changes."""
    if not trace.elements:
        return
    views = [*trace.views.get(target.array, ())]
    scalars = {id(v): v for v in views
               if v.scalar and not v.extents and v is not target}
    for view in scalars.values():
        (kept,) = trace.run(COPY, (view,), None, {"dtypes": (dtype_of(view),)})
        view.part(kept.value)
    if scalars:
        trace.views[target.array] = WeakSet(v for v in views if id(v) not in scalars)


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
            v.root is not target.root and not v.loose
            for v in trace.views.get(target.array, ())):
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
