"""Jacobian and Hessian matrices, and products with them.

Every basis vector is a sample of one pullback, or one pushforward (`vmap`): a matrix of
n rows takes one pass over the program, whose operations have an axis of n more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from math import prod
from typing import Any

from ...arrays import dtype_of
from ...arrays.traced import Traced
from ...errors import KernelTypeError, ShapeError
from ...scalar.ir.nodes import Block, Function, Let
from ...specs import Map, View
from ...support.trees import Structure, flatten, map_tree
from ..calls.recorded_call import RecordedCall, as_variable
from ..custom import check_callable
from ..nodes import is_floating, zeros
from ..tape import apply, ones_like
from ..variable import Variable
from .gradients import (
    Linear,
    argument_numbers,
    argument_positions,
    check_complex,
    grad,
    jvp,
    pullback_of,
)
from .vmap import vmap

__all__ = ["elementwise_grad", "hessian", "hvp", "jacfwd", "jacobian", "jacrev",
           "linearize"]


@lru_cache(maxsize=1)
def _eye() -> Map:
    """One where the index of the point is on the diagonal of a square of side `n`."""
    return Map(Function("eye", ("x", "i", "n"), Block((
        Let(("row",), "floordiv", ("i", "n")), Let(("column",), "mod", ("i", "n")),
        Let(("y",), "eq", ("row", "column"))), ("y",))), ("element", "index", "scalar"))


def jacrev(function: Callable[..., Any], argnums: int | Sequence[int] = 0,
           has_aux: bool = False, holomorphic: bool = False) -> Callable[..., Any]:
    """Transform `function` into one that computes its Jacobian by reverse mode.

    All rows come from one pullback of as many cotangents, without a loop: the cheaper
    way where the outputs have fewer elements than the inputs.

    Parameters
    ----------
    function : callable
        Returns an array, or a tree of arrays.
    argnums : int or sequence of int
        Which positional arguments to differentiate by; each may be a tree.
    has_aux : bool
        `function` returns ``(output, aux)``; the result is ``(jacobian, aux)``.
    holomorphic : bool
        As for `grad`.  Without it `jacrev` takes real outputs, `jacfwd` real arguments.

    Returns
    -------
    callable
        Takes what `function` takes; returns a tree as the output is, in whose places
        are trees as the argument is, of arrays of shape ``output.shape + input.shape``.
        A tuple of these for a sequence of `argnums`.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> nf.jacrev(lambda x: np.sin(x) * x[0])(np.array([0.0, 1.0]))
    array([[0.        , 0.        ],
           [0.84147098, 0.        ]])
    """
    return _by_rows("jacrev", function, argnums, has_aux, holomorphic)


def _by_rows(name: str, function: Callable[..., Any], argnums: int | Sequence[int],
             has_aux: bool, holomorphic: bool) -> Callable[..., Any]:
    """`jacrev`, for the transform that messages name: a Hessian is by real numbers."""
    check_callable(function)
    numbers, single = argument_numbers(argnums)

    @wraps(function, updated=())
    def rows(*args: Any, **kwargs: Any) -> Any:
        closed, chosen = _by(function, args, kwargs, numbers)
        call = RecordedCall(closed, chosen, range(len(chosen)), has_aux=has_aux)
        if name == "hessian":
            check_complex(name, call, holomorphic, by_argument="hvp")
        check_complex(name, call, holomorphic)
        output, pullback = call.result(), pullback_of(call)
        leaves, form = flatten(output)
        blocks = [_pulled(pullback, form, leaves, k) for k in range(len(leaves))]
        made = tuple(form.build([block[n] for block in blocks])
                     for n in range(len(chosen)))
        found = made[0] if single else made
        return (found, call.aux) if has_aux else found

    return rows


def _by(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
        numbers: Sequence[int]) -> tuple[Callable[..., Any], list[Any]]:
    """`function` of the arguments to differentiate by alone, and these."""
    places = argument_positions(numbers, len(args))

    @wraps(function, updated=())
    def closed(*given: Any) -> Any:
        every = list(args)
        for k, x in zip(places, given, strict=True):
            every[k] = x
        return function(*every, **kwargs)

    return closed, [args[k] for k in places]


def _pulled(pullback: Callable[..., Any], form: Structure, leaves: Sequence[Any],
            k: int) -> tuple[Any, ...]:
    """The gradients of every element of output `k`: trees, one for each primal."""
    own = leaves[k]

    def one(cotangent: Any) -> Any:
        return pullback(form.build([
            cotangent if n == k else _zeros_like(x) for n, x in enumerate(leaves)]))

    found = vmap(one)(basis(own))
    return map_tree(found, lambda g: _reshaped(g, (*own.shape, *g.shape[1:])))


def jacfwd(function: Callable[..., Any], argnums: int | Sequence[int] = 0,
           has_aux: bool = False, holomorphic: bool = False) -> Callable[..., Any]:
    """Transform `function` into one that computes its Jacobian by forward mode.

    All columns come from one pushforward of as many tangents: the cheaper way where the
    inputs have fewer elements than the outputs.  Parameters and results are those of
    `jacrev`.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> nf.jacfwd(lambda t: t * np.array([1.0, 2.0, 3.0]))(np.array(5.0))
    array([1., 2., 3.])
    """
    check_callable(function)
    numbers, single = argument_numbers(argnums)

    @wraps(function, updated=())
    def columns(*args: Any, **kwargs: Any) -> Any:
        closed, chosen = _by(function, args, kwargs, numbers)
        linear = Linear(closed, chosen, has_aux)
        check_complex("jacfwd", linear.call, holomorphic, by_argument="jvp")
        trees = [flatten(x) for x in chosen]
        made = tuple(_pushed(linear, trees, n) for n in range(len(chosen)))
        found = made[0] if single else made
        return (found, linear.call.aux) if has_aux else found

    return columns


def _pushed(linear: Linear, trees: Sequence[tuple[list[Any], Structure]],
            n: int) -> Any:
    """The derivatives by each element of argument `n`: trees of them in the output."""
    targets = iter(linear.call.targets)
    every = [[next(targets) for _ in leaves] for leaves, _ in trees]
    blocks: list[list[Any]] = []
    for k, own in enumerate(every[n]):

        def one(tangent: Any, k: int = k) -> Any:
            return linear.push([tree.build([
                tangent if (m, j) == (n, k) else _zeros_like(x)
                for j, x in enumerate(every[m])]) for m, (_, tree) in enumerate(trees)])

        vectors = basis(plain(own))
        if isinstance(trees[n][0][k], Variable):  # and so are the results
            vectors = as_variable(vectors)
        moved = vmap(one, out_axes=-1)(vectors)
        blocks.append([_reshaped(g, (*g.shape[:-1], *own.shape))
                       for g in flatten(moved)[0]])
    return linear.call.form.build([
        trees[n][1].build([block[o] for block in blocks])
        for o in range(linear.call.form.count)])


def jacobian(function: Callable[..., Any], argnums: int | Sequence[int] = 0,
             has_aux: bool = False, holomorphic: bool = False) -> Callable[..., Any]:
    """Transform `function` into one that computes its Jacobian: `jacrev`.

    Parameters and results are those of `jacrev`; `jacfwd` is the cheaper way for a
    function of few elements.
    """
    return jacrev(function, argnums, has_aux, holomorphic)


def hessian(function: Callable[..., Any], argnums: int | Sequence[int] = 0,
            has_aux: bool = False, holomorphic: bool = False) -> Callable[..., Any]:
    """Transform a function of one element into one that computes its Hessian.

    It is ``jacrev(jacrev(function))``: of the gradient, which is computed once, one
    pullback of as many cotangents as it has elements.

    Parameters
    ----------
    function : callable
        Returns an array, or a tree of arrays.
    argnums, has_aux, holomorphic
        As for `jacrev`.

    Returns
    -------
    callable
        Takes what `function` takes; returns arrays of shape
        ``output.shape + input.shape + input.shape``, in the tree of the argument inside
        of the tree of the argument.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> nf.hessian(lambda x: np.prod(x))(np.array([2.0, 3.0]))
    array([[0., 1.],
           [1., 0.]])
    """
    gradient = _by_rows("hessian", function, argnums, has_aux, holomorphic)
    return jacrev(gradient, argnums, has_aux, holomorphic)


def hvp(function: Callable[..., Any], primals: Sequence[Any],
        tangents: Sequence[Any]) -> Any:
    """Compute the product of a function's Hessian with a vector.

    ``jvp(grad(function), primals, tangents)[1]`` for all arguments, without the matrix.

    Parameters
    ----------
    function : callable
        Returns one element.
    primals, tangents : sequence of array, or of tree of arrays
        The arguments, and the vector: one tangent for each primal, of its tree, shapes
        and dtypes.

    Returns
    -------
    array or tree
        In the tree of the argument; a tuple of them for several primals.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> x, v = np.array([1.0, 2.0]), np.array([1.0, 0.0])
    >>> nf.hvp(lambda x: np.sum(x ** 3), (x,), (v,))
    array([6., 0.])
    """
    check_callable(function)
    gradient = grad(function, argnums=tuple(range(len(primals))))
    made = jvp(gradient, primals, tangents)[1]
    return made[0] if len(primals) == 1 else made


def elementwise_grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0,
                     holomorphic: bool = False) -> Callable[..., Any]:
    """Transform `function` into the gradient of the sum of its outputs.

    For a function of elements that do not mix this is the derivative at each element,
    as in autograd; else sums of the Jacobian's columns.  `holomorphic` as for `grad`.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> nf.elementwise_grad(lambda x: x ** 2)(np.array([1.0, 2.0]))
    array([2., 4.])
    """
    check_callable(function)
    numbers, single = argument_numbers(argnums)

    @wraps(function, updated=())
    def gradient(*args: Any, **kwargs: Any) -> Any:
        closed, chosen = _by(function, args, kwargs, numbers)
        call = RecordedCall(closed, chosen, range(len(chosen)))
        check_complex("elementwise_grad", call, holomorphic)
        found = pullback_of(call)(map_tree(call.result(), _ones_like))
        return found[0] if single else found

    return gradient


def linearize(function: Callable[..., Any], *primals: Any,
              has_aux: bool = False) -> tuple[Any, ...]:
    """Compute a function's value, and its derivative as a function of tangents.

    Parameters
    ----------
    function : callable
        Returns an array, or a tree of arrays.
    *primals : array, Variable, number, or tree of them
        Floating.
    has_aux : bool
        `function` returns ``(output, aux)``; `aux` is handed through, last.

    Returns
    -------
    outputs
        What `function` returned.
    pushforward : callable
        ``pushforward(*tangents)``, one for each primal -> tangents in the tree of the
        output.  The function itself is not run again.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> y, push = nf.linearize(nf.ops.square, np.array([1.0, 3.0]))
    >>> push(np.array([1.0, 0.0])), push(np.array([0.0, 1.0]))
    (array([2., 0.]), array([0., 6.]))
    """
    linear = Linear(function, primals, has_aux)

    def pushforward(*tangents: Any) -> Any:
        if len(tangents) != len(primals):
            raise ShapeError(f"pushforward: {len(tangents)} tangents for "
                             f"{len(primals)} primals; pass one for each")
        return linear.push(tangents)

    return (linear.call.result(), pushforward,
            *([linear.call.aux] if has_aux else ()))


def basis(x: Any) -> Any:
    """The vectors of one 1 among zeros of the shape of `x`, along a new first axis.

    They are of the type of `x`, and so what is computed of them.
    """
    dtype, shape = dtype_of(x), tuple(x.shape)
    if not is_floating(dtype):
        raise KernelTypeError(f"jacobian: the output has dtype {dtype}; expected a "
                              "floating one: use astype")
    count = prod(shape)
    like = plain(x)
    (wide,) = apply(View("broadcast", (count, count)), (zeros((), dtype, like),))
    (made,) = apply(_eye(), (wide, max(count, 1)), dtypes=(dtype,))
    found = _reshaped(made, (count, *shape))
    return as_variable(found) if isinstance(x, Variable) else found


def plain(x: Any) -> Any:
    """The array of a Variable; a placeholder without a place in the graph."""
    if isinstance(x, Traced):
        return x.plain()
    return x.data if isinstance(x, Variable) else x


def _zeros_like(x: Any) -> Any:
    return zeros(tuple(x.shape), dtype_of(x), plain(x))


def _ones_like(x: Any) -> Any:
    return ones_like(plain(x))


def _reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    return apply(View("reshape", tuple(shape)), (x,))[0]
