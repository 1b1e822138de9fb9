"""NumPy's functions by name, on arrays of every library: what `nf.ops` gives.

NumPy's protocols find the table's functions for Variables.  Here arrays become
Variables without gradient on the way in, and arrays of their library on the way out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from ..arrays.traced import Traced
from ..autograd import Variable
from ..autograd.calls.tracked import Tracked, placeholders
from ..autograd.compilers.dynamo import called_whole
from ..autograd.numpy_api.ufuncs import ufunc_operation
from ..autograd.tape import tracked_by_library
from ..errors import TapeError
from ..registry.operations import NUMPY, OPS
from .base import is_value

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
    found = getattr(np, name, None) if "." not in name else None
    source: Any = ufunc_operation(found, "__call__") if isinstance(
        found, np.ufunc) else None
    is_operation = source is not None and name in OPS
    if source is None:
        source = NUMPY[f"numpy.{name}"]

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

    call.__name__ = call.__qualname__ = name.rpartition(".")[2]
    call.__doc__ = f"``numpy.{name}`` on arrays of any library, with gradients."
    called_whole(call)
    return call


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
