"""``x op= y`` and ``x[index] = y`` of placeholders for samples.

Memory that the placeholders hold is not written to, as a tape may have saved it.  A
placeholder becomes one of new samples instead, and with it what it is a view of, and
the views of that.  What was changed of an argument, `vmap` stores into the caller's
array at the end of the call.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...arrays import describe, is_array
from ...arrays.overlap import may_overlap
from ...arrays.traced import Traced, extents
from ...dispatch.outputs import can_cast
from ...errors import KernelTypeError, ShapeError, TapeError
from ...registry.operations import OPS
from ..graph import Leaf
from ..nodes import Identity
from ..numpy_api.chosen import Chosen, has_mask, with_chosen
from ..numpy_api.in_place import is_element, laid_out, overwritten, with_part
from ..numpy_api.methods import operand_beside
from ..recording import recording
from ..tape import apply
from ..variable import Variable

if TYPE_CHECKING:
    from .batched import Batched

__all__ = ["assign", "in_place"]


def in_place(name: str, symbol: str) -> Callable[[Any, Any], Any]:
    """The method of an operator, ``x symbol= y``, by that without the change."""
    compute = getattr(operator, name)

    def method(self: Any, other: Any) -> Any:
        other = operand_beside(self, other)
        if other is NotImplemented:
            return other
        if is_element(self):
            return compute(self, other)
        _replace(self, compute(self, other), f"x {symbol}= y")
        return self

    return method


def assign(x: Batched, index: Any, value: Any) -> None:
    """``x[index] = value``."""
    what = "x[index] = y"
    if isinstance(value, Chosen) or (isinstance(index, tuple) and has_mask(index)):
        index, value = with_chosen(x, index, value)
        index = ... if index is None else index
    of = getattr(value, "_of", None)
    if of is not None and of[0] is x and of[1] == getattr(x[index], "_of", of)[1]:
        return  # as it is after x[index] op= y
    _replace(x, with_part(x, index, value), what)


def _replace(x: Batched, made: Any, what: str) -> None:
    """Make `x` what was computed, and with it all that shows the same elements."""
    x.level.recorder = None  # changes are made by the function itself
    made = _fitting(x, made, what)
    base, *views = _chain(x, what)
    _check_root(base, what)
    _settle(base, what)
    new = overwritten(base, [view._of[1] for view in views], made)
    before = base.held
    base.held, base.batched, base._edge = new.held, new.batched, new._edge
    if not isinstance(before, Traced) and not isinstance(new.held, Traced) and len(
            extents(before)) == len(extents(new.held)):
        base.held = _in_layout(new.held, before)
    _follow(base)


def _fitting(x: Batched, made: Any, what: str) -> Any:
    """A result in the dtype of `x`, of the same `vmap`."""
    if not isinstance(made, Traced):  # all of it is new, and the same for all samples
        known = isinstance(made, Variable) and not made.requires_grad
        made = x.level.lift(made.data if known else made)
    if not isinstance(made, type(x)) or made.level is not x.level:
        raise KernelTypeError(
            f"vmap: {what}: {x!r} is shared by all samples of a vmap inside, and y is "
            "another for each; make a new array, as in x = x + y")
    if made.shape != x.shape:
        raise ShapeError(f"vmap: {what}: x has shape {x.shape} and the result "
                         f"{made.shape}; make a new array, as in x = x + y")
    if made.dtype == x.dtype:
        return made
    if not can_cast(made.dtype, x.dtype, "same_kind"):
        raise KernelTypeError(f"vmap: {what}: x has dtype {x.dtype} and the result "
                              f"{made.dtype}; make a new array, as in x = x + y")
    return OPS["astype"](made, x.dtype)


def _chain(x: Batched, what: str) -> list[Any]:
    """The placeholder that `x` is a view of, the views between, and `x`."""
    found = [x]
    while (of := getattr(found[0], "_of", None)) is not None:
        base, spec = of
        if spec is None:
            raise KernelTypeError(
                f"vmap: {what}: x is .data or detach() of a placeholder, or a real or "
                "imaginary part or windows, and that would not see the change; change "
                "x.copy()")
        if spec.kind == "reshape" and not _shares(base, found[0], what):
            break
        found.insert(0, base)
    return found


def _check_root(x: Batched, what: str) -> None:
    """Refuse changes that others than the function would have to see, or a tape."""
    if x._edge is not None:
        if isinstance(x._edge[0], (Leaf, Identity)):
            raise TapeError(f"vmap: {what}: x is what a transform inside differentiates"
                            " by; make a new array, as in x = x + y")
        if not recording():
            raise TapeError(f"vmap: {what}: x is on a tape inside, which does not "
                            "record in no_grad(); make a new array, as in x = x + y")
    for argument in x.level.arguments:
        same = argument is x
        if same and any(x is one for one in x.level.shared):
            raise KernelTypeError(
                f"vmap: {what}: x is an argument that all samples share, so that each "
                "would change it; change x.copy()")
        if not same and _overlap(argument.held, x.held):
            raise KernelTypeError(
                f"vmap: {what}: x has the memory of another argument or placeholder, "
                "which would not see the change; change x.copy()")


def _overlap(a: Any, b: Any) -> bool:
    """Whether two held arrays share memory, as far as that is known."""
    arrays = [x.data if isinstance(x, Variable) and not isinstance(x, Traced) else x
              for x in (a, b)]
    if any(isinstance(x, Traced) or not is_array(x) for x in arrays):
        return a is b
    return may_overlap(*map(describe, arrays))


def _shares(base: Batched, made: Batched, what: str) -> bool:
    """Whether a reshape is a view of what it was made of; it may be a copy."""
    if isinstance(base.held, Traced):
        root = getattr(base.held, "root", None)
        if root is not None and not made.held.loose:
            return made.held.root is root
        raise KernelTypeError(
            f"vmap: {what}: x was reshaped, or is a reshape, and whether that is a copy"
            " is not known while this is traced; change x.copy(), or reshape later")
    return _overlap(base.held, made.held)


def _settle(base: Any, what: str) -> None:
    """Forget reshapes that are copies, so that they do not follow."""
    kept = []
    for found in getattr(base, "_seen_by", None) or ():
        view = found()
        if view is None or view._of is None or view._of[1] is None:
            continue
        if view._of[1].kind == "reshape" and not _shares(base, view, what):
            view._of = None
            continue
        _settle(view, what)
        kept.append(found)
    base._seen_by = kept


def _in_layout(held: Any, before: Any) -> Any:
    """Samples that lie in memory as others did, so that reshapes stay views."""
    if isinstance(held, Variable) or isinstance(before, Variable):
        return held
    return laid_out(Variable(held), before).data


def _follow(base: Any) -> None:
    """Show the new samples in the views of a placeholder that live."""
    # Of no elements the new array may be a view of the old one that none is of.
    known, base._seen_by = getattr(base, "_seen_by", None) or (), []
    for found in known:
        view = found()
        if view is not None:
            (shown,) = apply(view._of[1], (base,))
            view.held, view.batched = shown.held, shown.batched
            view._edge = shown._edge
            base._seen_by.append(found)
            _follow(view)
