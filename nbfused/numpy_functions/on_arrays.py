"""NumPy's functions by name, on arrays of every library: what `nf.ops` gives.

NumPy's protocols find the table's functions for Variables.  Here arrays become
Variables without gradient on the way in, and arrays of their library on the way out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from ..arrays import check_dtype, dtype_of
from ..arrays.traced import Traced
from ..autograd import Variable
from ..autograd.calls.tracked import Tracked, placeholders
from ..autograd.compilers.dynamo import called_whole
from ..autograd.numpy_api.functions import NumpyFunction
from ..autograd.numpy_api.layouts import in_layout
from ..autograd.numpy_api.ufuncs import (
    LOOP_KEYWORDS,
    NUMPY_KEYWORDS,
    given_options,
    in_loop_dtype,
    own_keywords,
    ufunc_operation,
)
from ..autograd.tape import tracked_by_library
from ..dispatch.outputs import can_cast
from ..errors import KernelTypeError, TapeError
from ..registry.operations import NAMESPACES, NUMPY, OPS
from .base import converted, is_value, ops, shape_of

__all__ = ["on_arrays"]


@lru_cache(maxsize=512)
def on_arrays(name: str) -> Callable[..., Any]:
    """NumPy's function of a name, such as ``"linalg.inv"``, as the table has it.

    Variables and what is traced give the same, arrays give arrays of their library.

    Raises
    ------
    KeyError
        The table has no such function.
    """
    source, is_operation = _source(name)

    def call(*args: Any, **options: Any) -> Any:
        if args and type(args[0]) is Variable:
            return source(*args, **options)
        leaves = [*_leaves((*args, *options.values()))]
        if any(isinstance(x, (Variable, Traced)) for x in leaves):
            return source(*args, **options)
        wrap: Callable[[Any], Any] = Variable
        tracked = next(filter(tracked_by_library, leaves), None)
        if tracked is not None:  # by PyTorch or JAX, who see operations
            if is_operation:
                return source(*args, **options)
            _check_out(options)
            wrap = placeholders(call.__name__, tracked)
        beside = any(is_value(x) and not isinstance(x, np.generic) for x in leaves)
        return _unwrapped(source(*[_wrapped(x, wrap, beside) for x in args], **{
            k: _wrapped(x, wrap, beside) for k, x in options.items()}))

    call.__name__ = name.rpartition(".")[2]
    # Where `pickle` finds it.
    call.__module__, call.__qualname__ = "nbfused.ops", name
    call.__doc__ = f"``numpy.{name}`` on arrays of any library, with gradients."
    called_whole(call)
    return call


def _source(name: str) -> tuple[Callable[..., Any], bool]:
    """The function with NumPy's keywords, and whether an operation honours them."""
    found: Any = _found_in_numpy(name)
    if found is None:
        return NUMPY[f"numpy.{name}"], False
    if isinstance(found, np.ufunc):
        operation = ufunc_operation(found, "__call__")
        if operation is None:
            raise KeyError(name)
        # Those of vectors and matrices have NumPy's keywords by the wrapper alone.
        alone = OPS.get(found.__name__) is operation and found.signature is None
        whole = _with_keywords(found, operation)
        return (_of_operation(operation, whole) if alone else whole), alone
    function = NumpyFunction(found, NUMPY[f"numpy.{name}"])
    return lambda *args, **options: function(args, options), False


def _of_operation(operation: Callable[..., Any],
                  whole: Callable[..., Any]) -> Callable[..., Any]:
    """An operation, which passes on keywords of NumPy that are not its own."""
    def call(*args: Any, **options: Any) -> Any:
        return (operation if NUMPY_KEYWORDS.isdisjoint(options) else whole)(
            *args, **options)

    return call


def _found_in_numpy(name: str) -> Any:
    """NumPy's function of a name; None for methods, and for what a later one has."""
    if name.startswith("ufunc."):
        return None
    try:
        return reduce(getattr, name.split("."), np)
    except AttributeError:
        return None


def _leaves(found: Iterable[Any]) -> Iterator[Any]:
    for x in found:
        if isinstance(x, (list, tuple)):
            yield from _leaves(x)
        else:
            yield x


def _wrapped(x: Any, wrap: Callable[[Any], Any], beside: bool) -> Any:
    """Arrays as Variables; a number of NumPy `beside` one stays a number."""
    if isinstance(x, (list, tuple)):
        return type(x)([_wrapped(y, wrap, beside) for y in x])
    if beside and isinstance(x, np.generic):
        return x
    return wrap(x) if is_value(x) else x


def _check_out(options: dict[str, Any]) -> None:
    if options.get("out") is not None:
        raise TapeError("out: an argument requires grad, or is traced, in its own "
                        "library, which would not see what is stored; leave out= away")


def _unwrapped(made: Any) -> Any:
    if isinstance(made, tuple) and hasattr(made, "_fields"):
        return type(made)(*map(_unwrapped, made))
    if isinstance(made, (list, tuple)):
        return type(made)(map(_unwrapped, made))
    if isinstance(made, Tracked):
        return made.held
    return made.data if isinstance(made, Variable) else made


def _with_keywords(ufunc: np.ufunc, compute: Callable[..., Any],
                        ) -> Callable[..., Any]:
    """A function of a ufunc's inputs with NumPy's `out`, `where`, `dtype`, `casting`.

    Elsewhere than `where`, `out` keeps its elements, and a new output has zeros.
    """
    name = f"numpy.{ufunc.__name__}"
    own = own_keywords(compute)
    taken = own | LOOP_KEYWORDS

    def call(*args: Any, out: Any = None, where: Any = True, order: str = "K",
             **options: Any) -> Any:
        inputs, outs = args[:ufunc.nin], args[ufunc.nin:] or _outputs(ufunc, out)
        given = given_options(name, options, taken)
        casting = given.get("casting", "same_kind")
        made = compute(*in_loop_dtype(
            ufunc, inputs, **{k: x for k, x in given.items() if k not in own}),
            **{k: x for k, x in given.items() if k in own})
        results = made if isinstance(made, tuple) else (made,)
        stored = tuple(x if where is True and y is None else _stored(
            name, x, where, y, casting) for x, y in zip(
                results, outs or (None,) * len(results), strict=True))
        if not outs:  # their layout is their own
            stored = tuple(in_layout(name, x, order, *inputs) for x in stored)
        return stored if isinstance(made, tuple) else stored[0]

    return call


def _outputs(ufunc: np.ufunc, out: Any) -> Sequence[Any]:
    """The arrays to store to: none, or one for each result."""
    outs = () if out is None else out if isinstance(out, tuple) else (out,)
    if outs and len(outs) != ufunc.nout:
        raise KernelTypeError(f"numpy.{ufunc.__name__}: 'out' has {len(outs)} arrays, "
                              f"expected {ufunc.nout}, one for each result")
    return outs


def _stored(name: str, made: Any, where: Any, out: Any, casting: str) -> Any:
    """One result where a condition holds, in `out` if that is given."""
    if where is not True:
        shape = np.broadcast_shapes(*map(shape_of, (made, where)))
        made = ops.where(where, made, False if out is None else out)  # weak
        made = made if shape_of(made) == shape else ops.broadcast_to(made, shape)
    if out is None:
        return made
    wanted = dtype_of(out)
    if not can_cast(dtype_of(made), check_dtype(wanted), casting):
        raise KernelTypeError(f"{name}: 'out' is {wanted}, to which {dtype_of(made)} "
                              f"does not cast under casting='{casting}'; use astype")
    return ops.astype(converted(made, wanted), wanted, out=out)


NAMESPACES["numpy"] = on_arrays
