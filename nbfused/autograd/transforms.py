"""Derivatives of functions: grad, value_and_grad, vjp, jvp.

A function is given arrays (or Variables, numbers) and differentiated by some of them:
each becomes a Variable of its own, so that what the function closes over, and other
derivatives inside and outside, do not mix.  Results are of the type of the arguments;
if those are tracked, or a tracked Variable is closed over, they are Variables that can
be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from operator import index
from typing import Any

import numpy as np

from ..arrays import array, is_array
from ..errors import KernelTypeError, RangeError, ShapeError
from ..specs import Map
from .custom import Context, Function, outputs_of, wanted, zeros_like
from .graph import (
    FULL,
    Edge,
    Leaf,
    Pass,
    Target,
    between,
    reachable,
    walk_back,
)
from .nodes import Identity, SpecNode, is_floating
from .recording import grad_mode, no_grad, recording
from .rules import check_callable, checkpoint, custom_vjp
from .tape import PLAIN, RECORDING, apart, cotangent, ones_like, whole
from .traced import traced
from .variable import Variable, check_differentiable

__all__ = [
    "Context", "Function", "checkpoint", "custom_vjp", "grad", "jvp", "no_grad",
    "value_and_grad", "vjp",
]


class _Trace:
    """A call of `function` on arguments some of which are differentiated by."""

    def __init__(self, function: Callable[..., Any], args: Sequence[Any],
                 wrt: Sequence[int], kwargs: dict[str, Any] | None = None,
                 has_aux: bool = False) -> None:
        check_callable(function)
        self.name = getattr(function, "__name__", "the function")
        if traced(args) is not None:
            raise KernelTypeError(
                f"nf.fuse traces no derivatives: {self.name} is differentiated inside "
                "of a fused function; fuse what is differentiated, as in "
                "nf.grad(nf.fuse(f))")
        self.targets = [_alias(args[k], k, self.name) for k in wrt]
        given = list(args)
        for k, target in zip(wrt, self.targets, strict=True):
            given[k] = target
        outside = recording()
        with grad_mode(True):
            result = function(*given, **(kwargs or {}))
        for node in (t.edge[0] for t in self.targets if t.edge is not None):
            if isinstance(node, Target):
                node.running = False
        self.aux = None
        if has_aux:
            if not isinstance(result, tuple) or len(result) != 2:
                raise ShapeError(f"has_aux=True: {self.name} returned a "
                                 f"{type(result).__name__}; expected (output, aux)")
            result, self.aux = result
        self.single = not isinstance(result, (tuple, list))
        values = (result,) if self.single else result
        self.outputs = outputs_of([self._array(v) for v in values], self.name)
        self.edges = [t.edge for t in self.targets if t.edge is not None]
        self.native = not any(isinstance(args[k], Variable) for k in wrt)
        self.open = outside and (
            any(wanted(args[k]) for k in wrt) or self._reaches_others())

    def _array(self, value: Any) -> Any:
        """A number that the function returned as an array like its arguments."""
        if type(value) not in (bool, int, float) or not self.targets:
            return value
        like = self.targets[0]
        dtype = like.dtype if type(value) is float else np.dtype(type(value))
        space = zeros_like(((), dtype, like.device), like.data)
        return PLAIN.run(FULL, (space, value), dtypes=(dtype,))[0]

    def _reaches_others(self) -> bool:
        roots = [v.edge for v in self.outputs if v.edge is not None]
        return any(isinstance(node, Leaf) and getattr(node, "running", True)
                   for node in reachable(roots, self.edges))

    @property
    def mode(self) -> Pass:
        """Record where somebody outside may differentiate the result."""
        return RECORDING if self.open else PLAIN

    def result(self) -> Any:
        """What the function returned, in the type of the arguments."""
        made = tuple(self.given_back(v) for v in self.outputs)
        return made[0] if self.single else made

    def given_back(self, v: Variable) -> Any:
        """A result in the type of the arguments, in the graph only if that is open."""
        if self.open:
            return v
        return v.data if self.native else v.detach()

    def pull(self, cotangents: Sequence[Any], mode: Pass,
             given: Sequence[Any] = ()) -> list[Variable]:
        """Cotangents of the targets: zeros where nothing depends on one.

        They share no memory with each other, nor with arrays that the caller has given.
        """
        seeds = [(v.edge, c) for v, c in zip(self.outputs, cotangents, strict=True)
                 if v.edge is not None and c is not None]
        found = walk_back(seeds, mode, targets=self.edges, keep=True)
        if not mode.records:
            found = _own(found, given)
        return [_variable(found.get(t.edge) if t.edge in found else zeros_like(
            (t.shape, t.dtype, t.device), t.data)) for t in self.targets]


def _own(found: dict[Edge, Any], given: Sequence[Any]) -> dict[Edge, Any]:
    """Gradients in memory of their own, that the caller may write to."""
    return apart({edge: whole(g) for edge, g in found.items()}, given)


def _variable(x: Any) -> Variable:
    return x if isinstance(x, Variable) else Variable.at(x, None)


def _alias(x: Any, position: int, name: str) -> Variable:
    """The argument under a name of its own, connected to it if it is tracked."""
    if isinstance(x, (bool, int, float)) and not isinstance(x, np.generic):
        x = array(float(x))
    what = f"argument {position} of {name}"
    if not isinstance(x, Variable) and not is_array(x):
        raise KernelTypeError(f"{what} is a {type(x).__name__}; expected an array, a "
                              "Variable or a number to differentiate by; see argnums=")
    made = x if isinstance(x, Variable) else Variable(x)
    if not is_floating(made.dtype) and made.dtype.kind != "c":
        raise KernelTypeError(f"{what} has dtype {made.dtype}; expected a floating one "
                              "to differentiate by: use astype, or see argnums=")
    if made.edge is None:
        check_differentiable(made.dtype)
        return Variable.at(made.data, (Target(True), 0))
    return Variable.at(made.data, (Identity(made.edge), 0))


def _numbers(argnums: int | Sequence[int]) -> tuple[list[int], bool]:
    """The integers, and whether it is one by itself."""
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
    """The function that computes the gradient of `function`.

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
    """As `grad`, but the result is ``(value, gradient)``.

    With `has_aux` the value is ``(output, aux)``.
    """
    check_callable(function)
    numbers, single = _numbers(argnums)

    @wraps(function, updated=())
    def both(*args: Any, **kwargs: Any) -> Any:
        trace = _Trace(function, args, _positions(numbers, len(args)), kwargs, has_aux)
        output = _scalar_output(trace)
        seed = ones_like(output.data)
        grads = tuple(trace.given_back(g) for g in trace.pull(
            [Variable.at(seed, None) if trace.open else seed], trace.mode))
        value = (trace.result(), trace.aux) if has_aux else trace.result()
        return value, grads[0] if single else grads

    return both


def _scalar_output(trace: _Trace) -> Variable:
    """The output that ones are the cotangent of."""
    if not trace.single:
        raise ShapeError(f"grad: {trace.name} returned several outputs, expected one; "
                         "use has_aux=True, or vjp")
    (output,) = trace.outputs
    if not is_floating(output.dtype):
        raise KernelTypeError(f"grad: the output of {trace.name} has dtype "
                              f"{output.dtype}; expected a floating one")
    if output.size != 1 and not _elementwise(output, trace):
        raise ShapeError(
            f"grad: the output of {trace.name} has shape {output.shape}; expected one "
            "element, or an elementwise function of its argument; reduce it with "
            "sum(), or use vjp")
    return output


def _elementwise(output: Variable, trace: _Trace) -> bool:
    """Whether only maps of one shape lie between the targets and the output."""
    if any(t.shape != output.shape for t in trace.targets):
        return False
    if output.edge is None or output.edge in trace.edges:
        return True
    inner = between([output.edge], trace.edges)
    return all(_pointwise(node, output.shape, lambda e: e is not None and (
        e[0] in inner or e in trace.edges)) for node in inner)


def _pointwise(node: Any, shape: tuple[int, ...],
               leads: Callable[[Edge | None], bool]) -> bool:
    if isinstance(node, Identity):
        return True
    if not isinstance(node, SpecNode) or not isinstance(node.spec, Map):
        return False
    if {"raw", "scatter"} & set(node.spec.kinds):
        return False
    pairs = zip(node.shapes, node.edges, strict=True)
    return node.spec.out_shapes(node.shapes)[0] == shape and all(
        given == shape for given, edge in pairs if leads(edge))


def vjp(function: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of a function, and the function that pulls cotangents back.

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
    trace = _Trace(function, primals, range(len(primals)))

    def pullback(*cotangents: Any) -> tuple[Any, ...]:
        if len(cotangents) != len(trace.outputs):
            raise ShapeError(f"pullback: {len(cotangents)} cotangents for "
                             f"{len(trace.outputs)} outputs of {trace.name}")
        again = recording() and (trace.open or any(map(wanted, cotangents)))
        mode = RECORDING if again else PLAIN
        pairs = zip(trace.outputs, cotangents, strict=True)
        seeds = [cotangent(v, c, mode, f"cotangent {k}")
                 for k, (v, c) in enumerate(pairs)]
        grads = trace.pull(seeds, mode, seeds)
        return tuple(g if again else trace.given_back(g) for g in grads)

    return trace.result(), pullback


def jvp(function: Callable[..., Any], primals: Sequence[Any],
        tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The value of a function, and its derivative in a direction.

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
    trace = _Trace(function, primals, range(len(primals)))
    again = trace.open or (recording() and any(map(wanted, tangents)))
    mode = RECORDING if again else PLAIN
    directions = [cotangent(t, given, mode, f"tangent {k}")
                  for k, (t, given) in enumerate(zip(trace.targets, tangents,
                                                     strict=True))]
    probes = [Variable.at(ones_like(v.data), (Target(False), 0))
              if is_floating(v.dtype) else None for v in trace.outputs]
    pulled = trace.pull(probes, RECORDING)
    seeds = [(g.edge, d) for g, d in zip(pulled, directions, strict=True)
             if g.edge is not None]
    found = walk_back(seeds, mode, keep=True,
                      targets=[p.edge for p in probes if p is not None and p.edge])
    if not mode.records:
        found = _own(found, directions)
    pushed = tuple(
        _tangent(v, found.get(p.edge) if p is not None and p.edge else None,
                 trace, again)
        for v, p in zip(trace.outputs, probes, strict=True))
    return trace.result(), pushed[0] if trace.single else pushed


def _tangent(output: Variable, found: Any, trace: _Trace, again: bool) -> Any:
    if found is None:
        found = zeros_like((output.shape, output.dtype, output.device), output.data)
    made = _variable(found)
    return made if again else trace.given_back(made)
