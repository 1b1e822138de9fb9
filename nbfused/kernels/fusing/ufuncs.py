"""NumPy's ufuncs on what `fuse` traces."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...arrays import dtype_of, is_array
from ...arrays.traced import Traced, TracedNumber
from ...autograd import Variable
from ...autograd.numpy_api.functions import with_arrays
from ...autograd.numpy_api.refusals import no_operation
from ...autograd.numpy_api.ufuncs import (
    LOOP_KEYWORDS,
    given_options,
    guarded,
    in_loop_dtype,
    method_name,
    own_keywords,
    taken_keywords,
    ufunc_operation,
)
from ...errors import KernelTypeError
from ...op.base import check_operand
from ...registry.operations import OPS

if TYPE_CHECKING:
    from .trace import Trace

__all__ = ["trace_ufunc"]


def trace_ufunc(trace: Trace, ufunc: np.ufunc, method: str, inputs: Sequence[Any],
                kwargs: dict[str, Any]) -> Any:
    """Record a call of a method of a ufunc.

    Raises
    ------
    KernelTypeError
        There is no operation that does the same, with these keywords.
    """
    if ufunc is np.add and method == "at" and len(inputs) == 3:
        x, index, value = inputs
        trace.assign(x, OPS["add_at"](x, value, index=index))
        return None
    inputs = with_arrays(inputs)
    op, what = ufunc_operation(ufunc, method), method_name(ufunc, method)
    if getattr(op, "on_host", False) and not any(
            getattr(x, "differentiated", False) for x in inputs):
        op = None  # SciPy itself, which the plan calls, without its rule
    numbers = method == "__call__" and not any(map(_is_array, inputs))
    if op is None and not numbers:
        raise no_operation(_untraced(ufunc, what))
    own = own_keywords(op) if op is not None and method == "__call__" else frozenset()
    taken = taken_keywords(ufunc, method) | own
    if method != "outer":
        taken |= {"out", "where"} if method == "__call__" else {"out"}
    given = given_options(f"{what} in nf.fuse", kwargs, taken)
    outs = given.pop("out", (None,) * ufunc.nout)
    out = outs[0]
    if method != "__call__":
        made = op(*inputs, **given)  # type: ignore[misc]
        if out is None:
            return made
        trace.store(out, made)
        return out
    where = given.pop("where", None)
    if numbers:
        for k, x in enumerate(inputs):
            check_operand(x, what, f"argument {k}")
        options = {k: given[k] for k in LOOP_KEYWORDS & given.keys()}
        call = partial(ufunc, **options) if options else ufunc
        if ufunc.nout > 1:
            return tuple([trace.host(partial(_nth, k, ufunc, tuple(options.items())),
                                     inputs) for k in range(ufunc.nout)])
        made = trace.host(call, inputs)
    else:
        _check_rounding(ufunc, inputs)
        made = guarded(op, where)(*in_loop_dtype(  # type: ignore[arg-type]
            ufunc, inputs, **{k: given[k] for k in LOOP_KEYWORDS & given.keys()}),
            **{k: given[k] for k in own & given.keys()})
    if where is not None and any(x is None for x in outs):
        raise KernelTypeError(f"{what}: where= leaves elements of a new array unset; "
                              "give out=, or choose with nf.ops.where")
    casting = given.get("casting", "same_kind")
    stored = tuple(_stored(trace, x, y, casting, where) for x, y in zip(
        made if ufunc.nout > 1 else (made,), outs, strict=True))
    return stored if ufunc.nout > 1 else stored[0]


def _stored(trace: Trace, made: Any, out: Any, casting: str, where: Any) -> Any:
    """A result, in `out` where that is given."""
    if out is None:
        return made
    trace.assign(out, made, casting, where)
    return out


def _nth(k: int, ufunc: np.ufunc, options: tuple[tuple[str, Any], ...],
         *numbers: Any) -> Any:
    """One of several results."""
    return ufunc(*numbers, **dict(options))[k]


def _is_array(x: Any) -> bool:
    return (isinstance(x, (Traced, Variable)) and not isinstance(x, TracedNumber)) or (
        is_array(x) and not isinstance(x, np.generic))


def _check_rounding(ufunc: np.ufunc, inputs: Sequence[Any]) -> None:
    if ufunc is np.reciprocal and dtype_of(inputs[0]).kind in "biu":
        raise no_operation("numpy.reciprocal of integers rounds to integers, "
                           "which nf.fuse does not trace; write 1 / x or 1 // x")


def _untraced(ufunc: np.ufunc, what: str) -> str:
    """The error for a ufunc without an operation, with the way out."""
    if getattr(np, ufunc.__name__, None) is ufunc or ufunc.__name__ not in OPS:
        return (f"{what} has no kernel, so that nf.fuse cannot trace it; write it with "
                "nf.elementwise, wrap it in an nf.Function, or call it outside of the "
                "fused function")
    return (f"{what} is no function of NumPy, and nf.fuse does not trace it; use "
            f"nf.ops.{ufunc.__name__}, which does")
