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

from ...arrays import dtype_of
from ...errors import KernelTypeError, RangeError, ShapeError
from ..calls.recorded_call import RecordedCall, as_variable, copy_shared
from ..custom import check_callable, is_tracked
from ..gradients import cotangent
from ..graph import Edge, Target
from ..nodes import Identity, SpecNode, is_floating, zeros
from ..recording import recording
from ..tape import PLAIN, ones_like
from ..variable import RECORDING, Variable
from ..walk import between, walk_back

__all__ = ["grad", "jvp", "value_and_grad", "vjp"]


def argument_numbers(argnums: int | Sequence[int]) -> tuple[list[int], bool]:
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


def argument_positions(argnums: Sequence[int], count: int) -> list[int]:
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
         has_aux: bool = False, holomorphic: bool = False) -> Callable[..., Any]:
    """Transform `function` into the function that computes its gradient.

    Parameters
    ----------
    function : callable
        Returns one element.  Or it is elementwise, made of maps alone: then the result
        is the derivative at each element.
    argnums : int or sequence of int
        Which positional arguments to differentiate by: arrays, numbers, or trees of
        floating ones (dictionaries, lists, tuples, dataclasses).
    has_aux : bool
        `function` returns ``(output, aux)``; `aux`, a tree, is handed through, its
        Variables as arrays.
    holomorphic : bool
        Argument and output are complex, and the result is the complex derivative: the
        caller knows that there is one.

    Returns
    -------
    callable
        Takes what `function` takes; returns the gradient, in the tree of the argument,
        a tuple of them for a sequence of `argnums`, and ``(gradients, aux)`` if
        `has_aux`.

    Raises
    ------
    ShapeError
        The output has several elements and `function` is not elementwise.
    KernelTypeError
        An argument to differentiate by, or the output, is not floating; the output is
        complex, or with `holomorphic` one of them is not.

    Notes
    -----
    By a complex number ``z = x + 1j*y`` the gradient of a real output f is
    ``df/dx - 1j*df/dy``, as in JAX and in autograd: the conjugate of the direction of
    steepest ascent, which PyTorch has.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> cube = nf.elementwise(lambda x: x * x * x)
    >>> x = np.array([1.0, 2.0])
    >>> nf.grad(cube)(x), nf.grad(nf.grad(cube))(x)
    (array([ 3., 12.]), array([ 6., 12.]))
    >>> z = np.array([1.0 + 2.0j])
    >>> nf.grad(lambda z: np.sum(abs(z) ** 2))(z), nf.grad(cube, holomorphic=True)(z)
    (array([2.-4.j]), array([-9.+12.j]))
    """
    check_callable(function)
    inner = value_and_grad(function, argnums, has_aux, holomorphic)

    @wraps(function, updated=())
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, grads = inner(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return gradient


def value_and_grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0,
                   has_aux: bool = False, holomorphic: bool = False,
                   ) -> Callable[..., Any]:
    """Transform `function` into one that returns ``(value, gradient)``.

    With `has_aux` the value is ``(output, aux)``.  Parameters and errors are those of
    `grad`.
    """
    check_callable(function)
    numbers, single = argument_numbers(argnums)

    @wraps(function, updated=())
    def both(*args: Any, **kwargs: Any) -> Any:
        places = argument_positions(numbers, len(args))
        call = RecordedCall(function, args, places, kwargs, has_aux)
        check_complex("grad", call, holomorphic)
        output = scalar_output(call)
        grads = call.by_argument(call.gradients(output))
        value = (call.result(), call.aux) if has_aux else call.result()
        return value, grads[0] if single else grads

    return both


def check_complex(name: str, call: RecordedCall, holomorphic: bool,
                  by_argument: str = "") -> None:
    """Check that arguments and outputs are real or complex as a transform needs them.

    Parameters
    ----------
    name : str
        The transform's, for messages.
    by_argument : str
        What to use instead where arguments, not outputs, must be real if not
        holomorphic.

    Raises
    ------
    KernelTypeError
        They are not.
    """
    arguments = ("argument", [dtype_of(t) for t in call.targets])
    outputs = ("output", [dtype_of(v) for v in call.outputs])
    for what, dtypes in (arguments, outputs) if holomorphic else ():
        for dtype in dtypes:
            if dtype.kind != "c":
                raise KernelTypeError(
                    f"{name}: holomorphic=True, but an {what} of {call.name} has dtype "
                    f"{dtype}, expected a complex one; leave out holomorphic")
    what, dtypes = arguments if by_argument else outputs
    found = next((d for d in dtypes if d.kind == "c"), None)
    if found is not None and not holomorphic:
        ways = f"or use {by_argument}" if by_argument else \
            "take .real, .imag or abs(), or use vjp"
        raise KernelTypeError(
            f"{name}: an {what} of {call.name} has dtype {found}, expected a real one; "
            f"pass holomorphic=True if the function is, {ways}")


def scalar_output(call: RecordedCall) -> Variable:
    """Check that the output is one element, or elementwise in the argument."""
    if call.form.shape is not None:
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


def vjp(function: Callable[..., Any], *primals: Any,
        has_aux: bool = False) -> tuple[Any, ...]:
    """Compute a function's value, and the function that pulls cotangents back.

    Parameters
    ----------
    function : callable
        Returns an array, or a tree of arrays.
    *primals : array, Variable, number, or tree of them
        Floating.
    has_aux : bool
        `function` returns ``(output, aux)``; `aux` is handed through.

    Returns
    -------
    outputs
        What `function` returned.
    pullback : callable
        ``pullback(*cotangents)``, one for each item of a tuple or list of outputs, else
        one, of the tree, shapes and dtypes of the output; a number for an array
        without dimensions -> a tuple with one gradient for each primal, in its tree.
        It may be called again.
    aux
        Of a function with `has_aux` only.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> y, pullback = nf.vjp(nf.ops.square, np.array([1.0, 2.0]))
    >>> pullback(np.array([1.0, 10.0]))
    (array([ 2., 40.]),)
    """
    call = RecordedCall(function, primals, range(len(primals)), has_aux=has_aux)
    return (call.result(), pullback_of(call), *([call.aux] if has_aux else ()))


def pullback_of(call: RecordedCall) -> Callable[..., tuple[Any, ...]]:
    """The function that pulls cotangents back through a call, as `vjp` says."""
    def pullback(*cotangents: Any) -> tuple[Any, ...]:
        given, names = _cotangents(call, cotangents)
        again = recording() and (call.open or any(map(is_tracked, given)))
        mode = RECORDING if again else PLAIN
        seeds = [cotangent(v, c, mode, name)
                 for v, c, name in zip(call.outputs, given, names, strict=True)]
        grads = call.pull(seeds, mode, seeds)
        return call.by_argument([g if again else call.given_back(g) for g in grads])

    return pullback


def _cotangents(call: RecordedCall, given: tuple[Any, ...],
                ) -> tuple[list[Any], list[str]]:
    """The leaves of the cotangents and their names: one by one, or as one tree."""
    count = 1 if call.single else len(call.form.shape[0].items)  # type: ignore[index]
    whole = len(given) == 1 and (call.single or isinstance(given[0], (tuple, list)))
    if not whole and len(given) != count:
        raise ShapeError(f"pullback: {len(given)} cotangents for {count} outputs of "
                         f"{call.name}; pass one for each")
    root = "cotangent 0" if call.single else "cotangents"
    flat = call.form.match(given[0] if whole else given, root, "the output")
    return flat, call.form.paths(root)


def jvp(function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any],
        has_aux: bool = False) -> tuple[Any, ...]:
    """Compute a function's value and its directional derivative.

    The pullback is linear in the cotangent, so pulling *it* back pushes tangents
    forward: exact, at about the cost of two backward passes.

    Parameters
    ----------
    function : callable
        Returns an array, or a tree of arrays.
    primals, tangents : sequence of array, or of tree of arrays
        The point, and the direction: one tangent for each primal, of its tree, shapes
        and dtypes.
    has_aux : bool
        `function` returns ``(output, aux)``; `aux` is handed through.

    Returns
    -------
    outputs, tangents
        What `function` returned, and the derivative of each of its outputs; with
        `has_aux` `aux` after them.

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
    linear = Linear(function, primals, has_aux)
    pushed = linear.push(tangents)
    return (linear.call.result(), pushed, *([linear.call.aux] if has_aux else ()))


class Linear:
    """The derivative of a function at a point, as a function of tangents.

    The pullback of cotangents that are variables is recorded once; each direction is
    pulled back through it.
    """

    def __init__(self, function: Callable[..., Any], primals: Sequence[Any],
                 has_aux: bool = False) -> None:
        self.call = call = RecordedCall(function, primals, range(len(primals)),
                                        has_aux=has_aux)
        self.probes = [RECORDING.lift(ones_like(v.data), (Target(False), 0))
                       if is_floating(dtype_of(v)) else None for v in call.outputs]
        self.pulled = call.pull(self.probes, RECORDING)

    def push(self, tangents: Sequence[Any]) -> Any:
        """The tangents of the outputs for those of the primals, as the output."""
        call = self.call
        given = [x for k, (tree, t) in enumerate(zip(call.trees, tangents, strict=True))
                 for x in tree.match(t, f"tangents[{k}]", f"primals[{k}]")]
        again = recording() and (call.open or any(map(is_tracked, given)))
        mode = RECORDING if again else PLAIN
        directions = [cotangent(t, x, mode, name) for t, x, name in zip(
            call.targets, given, self._names(), strict=True)]
        seeds = [(g.edge, d) for g, d in zip(self.pulled, directions, strict=True)
                 if g.edge is not None]
        found = walk_back(seeds, mode, keep=True, targets=[
            p.edge for p in self.probes if p is not None and p.edge])
        if not mode.records:
            found = copy_shared(found, directions)
        return call.form.build([
            _tangent(v, found.get(p.edge) if p is not None and p.edge else None,
                     call, again)
            for v, p in zip(call.outputs, self.probes, strict=True)])

    def _names(self) -> list[str]:
        return [f"tangent {k}" if tree.shape is None else path
                for k, tree in enumerate(self.call.trees)
                for path in tree.paths(f"tangents[{k}]")]


def _tangent(output: Variable, found: Any, call: RecordedCall, again: bool) -> Any:
    if found is None:
        found = zeros(output.shape, dtype_of(output), output.data)
    made = as_variable(found)
    return made if again else call.given_back(made)
