"""CuPy's functions on Variables and traced arrays: NumPy's of the same names.

CuPy's ufuncs and elementwise kernels ask their arguments, as NumPy's do.  Its other
functions take CuPy's arrays only.  To have them taken in functions that are traced or
differentiated, CuPy's modules have another class while these run: it gives functions
that look at their arguments.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, lru_cache, partial, wraps
from types import ModuleType
from typing import Any

import numpy as np

from ...errors import KernelTypeError
from ...registry.operations import NAMESPACES
from ...support.forks import SharedBlock
from ...support.trees import leaves_of

__all__ = ["CupyProtocols", "looking_at_arguments"]

_SPECIAL = "cupyx.scipy.special"
#: NumPy's modules by CuPy's; that of SciPy's functions has ours.
_MODULES: Mapping[str, Callable[[], Any]] = {
    "cupy": lambda: np, "cupy.linalg": lambda: np.linalg, "cupy.fft": lambda: np.fft,
    _SPECIAL: lambda: NAMESPACES["array_api"].special}
#: What the names of CuPy's ufuncs and reductions begin with, by module.
_PREFIXES = {"cupyx_scipy_special_": _SPECIAL, "cupy_": "cupy"}
#: Functions that make arrays of numbers.
_MAKERS = frozenset({"arange", "array", "asarray", "empty", "eye", "full", "identity",
                     "indices", "linspace", "logspace", "ones", "tri", "zeros"})
#: Functions that give an array as it is, or its copy; lists are put together.
_GIVERS = frozenset({"array", "asanyarray", "asarray", "ascontiguousarray"})


class _Active(threading.local):
    """The functions that run in a thread, and what is done with an array they make."""

    count = 0
    made: Callable[[Any], Any] | None = None


_ACTIVE = _Active()


class CupyProtocols:
    """Dispatch of CuPy's ufuncs, elementwise kernels and reductions."""

    __slots__ = ()

    def __cupy_override_elementwise_kernel__(self, kernel: Any, *args: Any,
                                             **kwargs: Any) -> Any:
        """Run CuPy's ufuncs and ``cupy.ElementwiseKernel``."""
        if hasattr(kernel, "operation"):
            return _own_kernel(_described(kernel))(*args, **kwargs)
        return _call(self, *_place(kernel.name), args, kwargs)

    def __cupy_override_reduction_kernel__(self, kernel: Any, axis: Any, dtype: Any,
                                           out: Any, keepdims: bool) -> Any:
        """Run CuPy's reductions."""
        given = {"axis": axis, "dtype": dtype, "out": out, "keepdims": keepdims}
        return _call(self, *_place(kernel.name), (self,), {
            k: v for k, v in given.items() if v is not None and v is not False})


def _place(name: str) -> tuple[str, str]:
    """The module of a kernel of CuPy, and its name there."""
    return next(((module, name[len(prefix):]) for prefix, module in _PREFIXES.items()
                 if name.startswith(prefix)), ("cupy", name))


def _call(owner: Any, module: str, name: str, args: Sequence[Any],
          kwargs: Mapping[str, Any]) -> Any:
    """Call NumPy's function of the same name; `owner` is one of the arguments."""
    found = getattr(_MODULES[module](), name, None)
    if module == _SPECIAL:
        found = found or getattr(NAMESPACES["ops"], name, None)
    if isinstance(found, np.ufunc):
        return owner.__array_ufunc__(found, "__call__", *args, **kwargs)
    if name in _GIVERS:
        return _given(*args, **kwargs)
    if name == "get_array_module":
        return sys.modules["cupy"]
    if not callable(found):
        raise KernelTypeError(
            f"{module}.{name} has no operation for a {type(owner).__name__}; use "
            "functions of nf.ops or NumPy, or pass x.data if no gradient is wanted")
    if module == _SPECIAL:
        return found(*args, **kwargs)
    return owner.__array_function__(found, (type(owner),), tuple(args), kwargs)


def _given(a: Any, dtype: Any = None, copy: Any = None, **options: Any) -> Any:
    """An array in a dtype; a list of arrays as one."""
    left = {k: v for k, v in options.items() if v not in (None, "K", "C", False)}
    if left:
        raise KernelTypeError(f"{next(iter(left))}: the layout of what is computed is "
                              "its own; leave it out")
    made = np.stack(list(map(_given, a))) if isinstance(a, (list, tuple)) else a
    if dtype is not None and made.dtype != np.dtype(dtype):
        return made.astype(dtype)
    return made.copy() if copy and made is a else made


def _described(kernel: Any) -> tuple[Any, ...]:
    """The arguments that make a ``cupy.ElementwiseKernel`` again."""
    params = [", ".join(
        f"{'raw ' if p.raw else ''}{p.ctype if p.dtype is None else p.dtype.name} "
        f"{p.name}" for p in given) for given in (kernel.in_params, kernel.out_params)]
    options = {k: kernel.kwargs[k] for k in ("loop_prep", "after_loop", "options")
               if kernel.kwargs.get(k)}
    return (*params, kernel.operation, kernel.name, kernel.reduce_dims, kernel.preamble,
            kernel.no_return, kernel.return_tuple, tuple(sorted(options.items())))


@lru_cache(maxsize=256)
def _own_kernel(described: tuple[Any, ...]) -> Callable[..., Any]:
    *args, options = described
    make: Callable[..., Any] = NAMESPACES["nbfused"].ElementwiseKernel
    return make(*args, **dict(options))


# --- CuPy's modules while a function runs


class _Cupy(ModuleType):
    """A module of CuPy while functions are traced or differentiated."""

    def __getattribute__(self, name: str) -> Any:
        # Not by `super()`: another thread may have given the module its class back.
        found = ModuleType.__getattribute__(self, name)
        kept = isinstance(found, (type, ModuleType)) or type(found).__name__ == "ufunc"
        if not _ACTIVE.count or name.startswith("_") or kept or not callable(found):
            return found
        caller = str(sys._getframe(1).f_globals.get("__name__", ""))
        if caller.partition(".")[0] in ("cupy", "cupyx"):
            return found
        return _asking(found, ModuleType.__getattribute__(self, "__name__"), name)


@cache
def _asking(function: Callable[..., Any], module: str, name: str) -> Callable[..., Any]:
    """A function of CuPy that looks at what it is called with."""
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = list(leaves_of((args, kwargs)))
        owner = next((x for x in given if isinstance(x, CupyProtocols)), None)
        if owner is not None:
            return _call(owner, module, name, args, kwargs)
        made = function(*args, **kwargs)
        if _ACTIVE.made is None or name not in _MAKERS or any(
                hasattr(x, "__array_interface__") or
                hasattr(x, "__cuda_array_interface__") for x in given):
            return made
        if name == "empty":
            made.fill(0)  # as it has to be the same in each call
        return _ACTIVE.made(made)

    return call


def looking_at_arguments(
        made: Callable[[Any], Any] | None = None) -> AbstractContextManager[None]:
    """A context in which CuPy's functions take Variables and traced arrays.

    Parameters
    ----------
    made
        Given an array that a function has made of numbers, what to use in its place;
        None for that of the context around.
    """
    return _looking(made) if "cupy" in sys.modules else nullcontext()


@contextmanager
def _looking(made: Callable[[Any], Any] | None) -> Iterator[None]:
    outer = _ACTIVE.made
    _ACTIVE.count, _ACTIVE.made = _ACTIVE.count + 1, made or outer
    try:
        with _LOOKING:
            yield
    finally:
        _ACTIVE.count, _ACTIVE.made = _ACTIVE.count - 1, outer


def _turn(old: type, new: type) -> None:
    """Give CuPy's modules of one class another."""
    for name in _MODULES:
        module = sys.modules.get(name)
        if type(module) is old:
            module.__class__ = new


#: Other functions may run in other threads.
_LOOKING = SharedBlock(partial(_turn, ModuleType, _Cupy),
                       partial(_turn, _Cupy, ModuleType))
