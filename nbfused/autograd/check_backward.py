"""The rules that users wrote, checked on what a tape holds.

A tape cannot run its forward again: it keeps what derivatives read, not how the
arguments of each operation came about.  But an operation with a rule of its own can be
run by itself, at the arguments that it had.  What nbfused derives needs no such check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import numpy as np

from ..arrays import array, describe, dtype_of, to_numpy
from ..errors import TapeError
from ..scalar.ir import Custom, Function, walk
from .gradcheck import gradcheck
from .graph import Node, reachable
from .nodes import SpecNode, is_floating
from .rules import RuleNode
from .tape import apply
from .variable import Variable
from .versions import Saved

__all__ = ["check_backward"]


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
    Arguments are taken to float64.  A call of an `nbfused.Function` keeps only what it
    saved; check one with ``gradcheck(MyFunction.apply, args)``.

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
    checked = 0
    for node in reachable([output.edge]):
        found = _call(node)
        if found is not None:
            function, args, device = found
            gradcheck(function, args, tolerance=tolerance, samples=samples, seed=seed,
                      place=partial(array, device=device))
            checked += 1
    return checked


_Call = tuple[Callable[..., Any], list[Any], str]


def _call(node: Node) -> _Call | None:
    """What ran, at which arguments, on which device; None if no rule is the user's."""
    if isinstance(node, RuleNode):
        rule, given = node.rule, [a.load() for a in node.arguments]
        return rule, [_exact(x) for x in given], _device(given)
    if isinstance(node, SpecNode) and any(map(_has_rule, _functions(node.spec))):
        return _of_spec(node)
    return None


def _functions(spec: Any) -> Iterator[Function]:
    """The scalar functions in a spec, or in the records it is made of."""
    if isinstance(spec, Function):
        yield spec
    elif isinstance(spec, tuple):
        for part in spec:
            yield from _functions(part)
    elif is_dataclass(spec):
        for slot in fields(spec):
            yield from _functions(getattr(spec, slot.name))


def _has_rule(function: Function) -> bool:
    return any(isinstance(s, Custom) for s in walk(function.body))


def _of_spec(node: SpecNode) -> _Call:
    kept = {k: v.load() if isinstance(v, Saved) else v
            for k, v in node.saved_inputs.items()}
    args = [_exact(kept[k]) if k in kept else _unread(shape, dtype)
            for k, (shape, dtype) in enumerate(
                zip(node.shapes, node.dtypes, strict=True))]
    chosen = [k for k, edge in enumerate(node.edges) if edge is not None]

    def run(*active: Any) -> Any:
        given = [_on(x, device) for x in args]
        for k, x in zip(chosen, active, strict=True):
            given[k] = x
        return apply(node.spec, given)[0]

    device = _device([*kept.values(), *(s.data for s in node.arrays())])
    run.__name__ = node.name
    return run, [args[k] for k in chosen], device


def _unread(shape: tuple[int, ...], dtype: Any) -> Any:
    """For an argument that was not kept since no derivative reads it: any numbers."""
    if isinstance(dtype, np.dtype) and not is_floating(dtype):
        return np.zeros(shape, dtype)
    return np.linspace(0.5, 1.5, int(np.prod(shape))).reshape(shape)


def _exact(x: Any) -> Any:
    """An array on the host, float64 if it is floating; anything else as it is."""
    data = x.data if isinstance(x, Variable) else x
    if not hasattr(data, "shape") or isinstance(data, np.generic):
        return data
    host = to_numpy(data)
    return host.astype(np.float64) if is_floating(dtype_of(data)) else host


def _on(x: Any, device: str) -> Any:
    return array(x, device=device) if isinstance(x, np.ndarray) else x


def _device(given: Any) -> str:
    for x in given:
        data = x.data if isinstance(x, Variable) else x
        if hasattr(data, "shape") and not isinstance(data, np.generic):
            return describe(data).device
    return "cpu"
