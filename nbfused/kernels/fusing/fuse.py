"""`fuse`: functions of arrays, traced once and run in as few launches as possible."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from types import CodeType
from typing import Any, overload
from weakref import WeakKeyDictionary

from ...errors import KernelTypeError, NbFusedPerformanceWarning
from .ahead import expect_call
from .fused import Fused
from .kept import CacheInfo

__all__ = ["CacheInfo", "Fused", "fuse"]

#: How often the code of each function was decorated, and by which instruction.
_DECORATED: WeakKeyDictionary[CodeType, Counter[tuple[Any, ...]]] = WeakKeyDictionary()


@overload
def fuse(function: Callable[..., Any], /, *, kernel_name: str | None = None,
         ) -> Fused: ...
@overload
def fuse(*, kernel_name: str | None = None,
         ) -> Callable[[Callable[..., Any]], Fused]: ...
def fuse(function: Callable[..., Any] | None = None, /, *,
         kernel_name: str | None = None,
         ) -> Fused | Callable[[Callable[..., Any]], Fused]:
    """Run a function of arrays in as few launches as possible.

    The function is traced: it is called once with symbols that have a shape and a
    dtype, and what it does with them through operators, NumPy's functions and
    `nbfused.ops` is recorded.  Elementwise steps, reductions and products are merged
    where they can be; everything else (an `nf.Function`, sorting) runs between them.
    Results and gradients are those of the function itself, dtypes included.
    Derivatives inside of it, by `value_and_grad`, `grad`, `vjp` or `jvp`, are traced as
    well, so that forward and reverse are one program.  From the third call with
    arguments of the same layout (shapes, strides, dtypes) on, all is prepared: a call
    is its launches.

    Parameters
    ----------
    function : callable
        Of arrays and numbers; returns arrays, also in tuples and dictionaries.  It is
        to have no other effect than to change its arguments as wholes (``x += y``,
        ``x[...] = y``, ``out=x``), in parts (``x[1:-1] = y``), or where a condition
        holds (``x[mask] = 0``, ``x[mask] += y[mask]``).
    kernel_name : str, optional
        What the kernels are called; default: the function's name.

    Returns
    -------
    Fused

    Raises
    ------
    KernelTypeError
        `function` is none, or `kernel_name` is no identifier.

    Warns
    -----
    NbFusedPerformanceWarning
        The same code is decorated by the same line again, as in a loop: each has its
        own cache.

    Notes
    -----
    Arrays that the function reads from globals, closures and defaults, in containers
    too, are looked up at each call and passed like arguments; so are those of functions
    of its module that it calls.  Where they are used for what an argument cannot be
    (``float(w)``), or belong to an object (``self.w``), each call is traced, with a
    warning.  Numbers that it closes over, members of classes and modules too, are
    constants of the kernel; a new value traces anew.  So are arrays that NumPy makes of
    numbers (``np.eye(n)``), until traced values are stored into them.  What draws
    random numbers or reads the time is traced at each call, with a warning.  Reading
    ``x.shape`` ties what was traced to that shape.
    An `nf.Function` is called once more while it is traced.  A value that no result
    depends on is not computed.  Two arguments that share memory must not be changed in
    place, nor an array that has views; the derivative of what is constant is not zero
    but absent (None).  Numbers are passed by value, members of enumerations are
    constant, so that ``mode is Mode.A`` chooses.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> @nf.fuse
    ... def distance(x, y):
    ...     return np.sqrt(np.sum((x - y) ** 2, axis=-1))
    >>> distance(np.zeros((2, 2)), np.array([3.0, 4.0]))
    array([5., 5.])
    """
    if kernel_name is not None and not str(kernel_name).isidentifier():
        raise KernelTypeError(f"fuse: 'kernel_name' must be an identifier, got "
                              f"{kernel_name!r}")
    if function is None:
        return lambda f: _decorated(f, kernel_name)
    return _decorated(function, kernel_name)


def _decorated(function: Callable[..., Any], kernel_name: str | None) -> Fused:
    if not callable(function):
        raise KernelTypeError(f"fuse: expected a function, got {function!r}; write "
                              "@nf.fuse or @nf.fuse(kernel_name='...')")
    code = getattr(inspect.unwrap(function), "__code__", None)
    if isinstance(code, CodeType):
        caller = sys._getframe(2)
        place = caller.f_code.co_filename, caller.f_code.co_qualname, caller.f_lasti
        counts = _DECORATED.setdefault(code, Counter())
        counts[place] += 1
        if counts[place] == 2:
            warnings.warn(
                f"fuse: {function.__name__} is decorated again, and a new Fused traces "
                "its first call anew; decorate it once, outside of the function or "
                "loop that it is in", NbFusedPerformanceWarning, stacklevel=3)
        if counts.total() == 1:
            expect_call(code)
    return Fused(function, kernel_name)
