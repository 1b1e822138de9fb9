"""`check_backward`: gradient checks of hand-written rules on a recorded tape.

A tape cannot run its forward again: it keeps what derivatives read, not how the
arguments of each operation came about.  But an operation with a rule of its own can be
run by itself, at the arguments that it had.  What nbfused derives needs no such check.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import partial
from inspect import Parameter, Signature
from typing import Any

import numpy as np

from ..arrays import array, describe, dtype_of, to_numpy
from ..errors import TapeError
from ..scalar.ir.nodes import Custom, Function, walk
from ..specs.base import functions_in
from ..specs.vjp.on_complex import is_complex
from .custom import CallNode, is_tracked
from .gradcheck import gradcheck
from .graph import Node
from .nodes import SpecNode, is_floating
from .recording import recording
from .tape import apply
from .variable import Variable
from .versions import Saved
from .walk import reachable

__all__ = ["check_backward", "check_call"]

_CHECKING: ContextVar[bool] = ContextVar("nbfused_checking", default=False)


def check_backward(output: Variable, *, tolerance: float = 1e-5, samples: int = 16,
                   seed: int = 0) -> int:
    """Check each hand-written rule that ``output.backward()`` would use.

    Parameters
    ----------
    output : Variable
        Its graph must not have been freed: call this before ``backward()``.
    tolerance, samples, seed
        As of `gradcheck`: at most `samples` elements of each argument are looked at.

    Returns
    -------
    int
        How many operations were checked: calls of `nbfused.custom_vjp` functions, and
        kernels whose scalar function has a rule of its own.

    Raises
    ------
    GradcheckError
        Names the operation, the argument, the index and both values.
    TapeError
        Nothing was recorded.

    Notes
    -----
    Arguments are taken to float64, complex ones to complex128.  A call of an
    `nbfused.Function` keeps only what it saved; check one with
    ``gradcheck(MyFunction.apply, args)``.

    Examples
    --------
    >>> import nbfused as nf
    >>> @nf.custom_vjp
    ... def double(x):
    ...     return x * 2.0
    >>> double.defvjp(lambda x: (double(x), ()), lambda saved, g: (g * 2.0,))
    >>> y = double(nf.Variable([1.0, 2.0], requires_grad=True)).sum()
    >>> nf.testing.check_backward(y)
    1
    """
    if output.edge is None:
        raise TapeError("check_backward: nothing was recorded for this Variable")
    calls = [call for node in reachable([output.edge])
             if (call := _checkable_call(node)) is not None]
    for function, args, argnums, device in calls:
        gradcheck(function, args, tolerance=tolerance, samples=samples, seed=seed,
                  argnums=argnums, place=partial(array, device=device))
    return len(calls)


def check_call(function: Callable[..., Any], args: Sequence[Any]) -> None:
    """Check a function's gradient at the arguments of a call that records.

    What ``gradcheck=True`` means on a decorator.
    """
    argnums = [k for k, x in enumerate(args) if is_tracked(x)]
    if not argnums or not recording() or _CHECKING.get():
        return
    token = _CHECKING.set(True)
    try:
        gradcheck(function, [_to_float64(x) for x in args], tolerance=1e-5, samples=16,
                  argnums=argnums, place=partial(array, device=_device(args)))
    finally:
        _CHECKING.reset(token)


#: A function, its arguments, those to differentiate by, the device.
_Call = tuple[Callable[..., Any], list[Any], Sequence[int], str]


def _checkable_call(node: Node) -> _Call | None:
    """The function, arguments and device of a node with a user's rule, or None."""
    if isinstance(node, CallNode) and (call := node.rule_call()) is not None:
        rule, given = call
        return (rule, [_to_float64(x) for x in given], _tracked_arguments(node),
                _device(given))
    if isinstance(node, SpecNode) and any(map(_has_rule, functions_in(node.spec))):
        return _of_spec(node)
    return None


def _has_rule(function: Function) -> bool:
    return any(isinstance(s, Custom) for s in walk(function.body))


def _of_spec(node: SpecNode) -> _Call:
    kept = {k: v.load() if isinstance(v, Saved) else v
            for k, v in node.saved_inputs.items()}
    args = [_to_float64(kept[k]) if k in kept else _arbitrary(shape, dtype)
            for k, (shape, dtype) in enumerate(
                zip(node.shapes, node.dtypes, strict=True))]

    def run(*given: Any) -> Any:
        return apply(node.spec, given)[0]

    run.__name__ = node.name
    run.__signature__ = _signature(node)  # type: ignore[attr-defined]
    return run, args, _tracked_arguments(node), _device(s.data for s in node.arrays())


def _signature(node: SpecNode) -> Signature:
    """A signature with the names of the inputs, for messages."""
    names = [name for _, name in node.spec.parameters]
    return Signature([Parameter(name, Parameter.POSITIONAL_OR_KEYWORD)
                      for name in names if names.count(name) == 1])


def _tracked_arguments(node: Node) -> list[int]:
    """Positions of the arguments that take a cotangent."""
    return [k for k, edge in enumerate(node.edges) if edge is not None]


def _arbitrary(shape: tuple[int, ...], dtype: Any) -> Any:
    """Arbitrary numbers in place of an argument that no derivative reads."""
    if isinstance(dtype, np.dtype) and not is_floating(dtype):
        return np.zeros(shape, dtype)
    found = np.linspace(0.5, 1.5, int(np.prod(shape))).reshape(shape)
    return found * (1 + 0.5j) if is_complex(dtype) else found


def _to_float64(x: Any) -> Any:
    """Convert a floating array to double precision on the host; leave others."""
    data = x.data if isinstance(x, Variable) else x
    if not hasattr(data, "shape") or isinstance(data, np.generic):
        return data
    host = to_numpy(data)
    if not is_floating(dtype_of(data)):
        return host
    return host.astype(np.complex128 if host.dtype.kind == "c" else np.float64)


def _device(given: Any) -> str:
    for x in given:
        data = x.data if isinstance(x, Variable) else x
        if hasattr(data, "shape") and not isinstance(data, np.generic):
            return describe(data).device
    return "cpu"
