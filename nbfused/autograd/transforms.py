"""Transforms of functions into their derivatives: grad, value_and_grad, vjp, jvp.

A function is given arrays (or Variables, numbers) and differentiated by some of them:
each becomes a Variable of its own, so that what the function closes over, and other
derivatives inside and outside, do not mix.  Results are of the type of the arguments;
if those are tracked, or a tracked Variable is closed over, they are Variables that can
be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from math import prod
from operator import index
from typing import Any

from ..arrays import dtype_of
from ..errors import KernelTypeError, RangeError, ShapeError
from .custom import check_callable, is_tracked
from .gradients import cotangent
from .graph import Edge, Ones, Target, between, walk_back
from .nodes import Identity, SpecNode, is_floating, zeros
from .recorded_call import RecordedCall, as_variable, copy_shared
from .recording import recording
from .tape import PLAIN, ones_like
from .variable import RECORDING, Variable

__all__ = ["grad", "jvp", "value_and_grad", "vjp"]


def _numbers(argnums: int | Sequence[int]) -> tuple[list[int], bool]:
    """The argument numbers as a tuple, and whether one was given by itself."""
    single = not isinstance(argnums, Iterable) or getattr(argnums, "shape", None) == ()
    given = [argnums] if single else [*argnums]  # type: ignore[misc]
    try:
        if any(isinstance(k, bool) for k in given):
            raise TypeError
        return [index(k) for k in given], single  # type: ignore[arg-type]
    except TypeError:
        raise KernelTypeError("argnums: expected an integer or a sequence of integers, "
                              f"got {argnums!r}; count arguments from 0") from None


def _positions(argnums: Sequence[int], count: int) -> list[int]:
    for k in argnums:
        if not -count <= k < count:
            raise RangeError(f"argnums: {k} is out of range; the function was called "
                             f"with {count} positional arguments; pass the one to "
                             "differentiate by, not as a keyword")
    wrt = [k % count for k in argnums]
    if len(set(wrt)) != len(wrt):
        raise RangeError(f"argnums: {tuple(argnums)} names an argument twice; name "
                         "each one once")
    return wrt


def grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0,
         has_aux: bool = False) -> Callable[..., Any]:
    """Transform `function` into the function that computes its gradient.

    Parameters
    ----------
    function : callable
        Returns one element.  Or it is elementwise, made of maps alone: then the result
        is the derivative at each element.
    argnums : int or sequence of int
        Which positional arguments to differentiate by.
    has_aux : bool
        `function` returns ``(output, aux)``; `aux` is handed through.

    Returns
    -------
    callable
        Takes what `function` takes; returns the gradient, a tuple of them for a
        sequence of `argnums`, and ``(gradients, aux)`` if `has_aux`.

    Raises
    ------
    ShapeError
        The output has several elements and `function` is not elementwise.
    KernelTypeError
        An argument to differentiate by, or the output, is not floating.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> cube = nf.elementwise(lambda x: x * x * x)
    >>> x = np.array([1.0, 2.0])
    >>> nf.grad(cube)(x), nf.grad(nf.grad(cube))(x)
    (array([ 3., 12.]), array([ 6., 12.]))
    """
    check_callable(function)
    inner = value_and_grad(function, argnums, has_aux)

    @wraps(function, updated=())
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, grads = inner(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return gradient


def value_and_grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0,
                   has_aux: bool = False) -> Callable[..., Any]:
    """Transform `function` into one that returns ``(value, gradient)``.

    With `has_aux` the value is ``(output, aux)``.
    """
    check_callable(function)
    numbers, single = _numbers(argnums)

    @wraps(function, updated=())
    def both(*args: Any, **kwargs: Any) -> Any:
        call = RecordedCall(function, args, _positions(numbers, len(args)), kwargs,
                            has_aux)
        output = _scalar_output(call)
        seed = RECORDING.lift(ones_like(output.data), None) if call.open else Ones(
            output.shape, dtype_of(output), output.data)
        grads = tuple(call.given_back(g) for g in call.pull([seed], call.mode))
        value = (call.result(), call.aux) if has_aux else call.result()
        return value, grads[0] if single else grads

    return both


def _scalar_output(call: RecordedCall) -> Variable:
    """Check that the output is one element, or elementwise in the argument."""
    if not call.single:
        raise ShapeError(f"grad: {call.name} returned several outputs, expected one; "
                         "use has_aux=True, or vjp")
    (output,) = call.outputs
    if not is_floating(dtype_of(output)):
        raise KernelTypeError(f"grad: the output of {call.name} has dtype "
                              f"{output.dtype}; expected a floating one")
    if prod(output.shape) != 1 and not _elementwise(output, call):
        raise ShapeError(
            f"grad: the output of {call.name} has shape {output.shape}; expected one "
            "element, or an elementwise function of its argument; reduce it with "
            "sum(), or use vjp")
    return output


def _elementwise(output: Variable, call: RecordedCall) -> bool:
    """Whether the output depends on the targets by maps of one shape only."""
    if any(t.shape != output.shape for t in call.targets):
        return False
    if output.edge is None or output.edge in call.edges:
        return True
    inner = between([output.edge], call.edges)
    return all(_pointwise(node, output.shape, lambda e: e is not None and (
        e[0] in inner or e in call.edges)) for node in inner)


def _pointwise(node: Any, shape: tuple[int, ...],
               leads: Callable[[Edge | None], bool]) -> bool:
    if isinstance(node, Identity):
        return True
    if not isinstance(node, SpecNode) or not node.spec.pointwise:
        return False
    if node.spec.scatter_shapes or "raw" in dict(node.spec.parameters):
        return False
    pairs = zip(node.shapes, node.edges, strict=True)
    return node.spec.out_shapes(node.shapes)[0] == shape and all(
        given == shape for given, edge in pairs if leads(edge))


def vjp(function: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Compute a function's value, and the function that pulls cotangents back.

    Parameters
    ----------
    function : callable
        Returns an array or a tuple of arrays.
    *primals : array, Variable or number
        Floating.

    Returns
    -------
    outputs
        What `function` returned.
    pullback : callable
        ``pullback(*cotangents)``, one for each output and of its shape and dtype, or
        a Python number for one without dimensions -> a tuple with one gradient for
        each primal.  It may be called again.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> y, pullback = nf.vjp(nf.ops.square, np.array([1.0, 2.0]))
    >>> pullback(np.array([1.0, 10.0]))
    (array([ 2., 40.]),)
    """
    call = RecordedCall(function, primals, range(len(primals)))

    def pullback(*cotangents: Any) -> tuple[Any, ...]:
        if len(cotangents) != len(call.outputs):
            raise ShapeError(f"pullback: {len(cotangents)} cotangents for "
                             f"{len(call.outputs)} outputs of {call.name}")
        again = recording() and (call.open or any(map(is_tracked, cotangents)))
        mode = RECORDING if again else PLAIN
        pairs = zip(call.outputs, cotangents, strict=True)
        seeds = [cotangent(v, c, mode, f"cotangent {k}")
                 for k, (v, c) in enumerate(pairs)]
        grads = call.pull(seeds, mode, seeds)
        return tuple(g if again else call.given_back(g) for g in grads)

    return call.result(), pullback


def jvp(function: Callable[..., Any], primals: Sequence[Any],
        tangents: Sequence[Any]) -> tuple[Any, Any]:
    """Compute a function's value and its directional derivative.

    The pullback is linear in the cotangent, so pulling *it* back pushes tangents
    forward: exact, at about the cost of two backward passes.

    Parameters
    ----------
    function : callable
        Returns an array or a tuple of arrays.
    primals, tangents : sequence of array
        The point, and the direction: one tangent for each primal, of its shape and
        dtype.

    Returns
    -------
    outputs, tangents
        What `function` returned, and the derivative of each of its outputs.

    Raises
    ------
    NotDifferentiableError
        A backward on the way cannot itself be differentiated.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> x, dx = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 0.0, 0.0, 1.0])
    >>> nf.jvp(nf.ops.square, (x,), (dx,))[1]
    array([2., 0., 0., 8.])
    """
    for given, name in ((primals, "primals"), (tangents, "tangents")):
        if isinstance(given, Variable) or not isinstance(given, Sequence):
            raise KernelTypeError(f"jvp: '{name}' must be a tuple of arrays, got a "
                                  f"{type(given).__name__}; put it in a tuple")
    if len(primals) != len(tangents):
        raise ShapeError(f"jvp: {len(tangents)} tangents for {len(primals)} primals")
    call = RecordedCall(function, primals, range(len(primals)))
    again = call.open or (recording() and any(map(is_tracked, tangents)))
    mode = RECORDING if again else PLAIN
    directions = [cotangent(t, given, mode, f"tangent {k}")
                  for k, (t, given) in enumerate(zip(call.targets, tangents,
                                                     strict=True))]
    probes = [RECORDING.lift(ones_like(v.data), (Target(False), 0))
              if is_floating(dtype_of(v)) else None for v in call.outputs]
    pulled = call.pull(probes, RECORDING)
    seeds = [(g.edge, d) for g, d in zip(pulled, directions, strict=True)
             if g.edge is not None]
    found = walk_back(seeds, mode, keep=True,
                      targets=[p.edge for p in probes if p is not None and p.edge])
    if not mode.records:
        found = copy_shared(found, directions)
    pushed = tuple(
        _tangent(v, found.get(p.edge) if p is not None and p.edge else None,
                 call, again)
        for v, p in zip(call.outputs, probes, strict=True))
    return call.result(), pushed[0] if call.single else pushed


def _tangent(output: Variable, found: Any, call: RecordedCall, again: bool) -> Any:
    if found is None:
        found = zeros(output.shape, dtype_of(output), output.data)
    made = as_variable(found)
    return made if again else call.given_back(made)
