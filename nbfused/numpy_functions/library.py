"""Functions that the caller's own library computes, with our rules for gradients."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

from ..arrays import dtype_of, library_of
from ..arrays.traced import Traced, find_traced
from ..autograd import Function, Variable
from ..autograd.calls.batched import Batched
from ..autograd.recording import RECORDING, recording
from ..autograd.tape import tracked_by_library
from ..errors import KernelTypeError
from ..registry.operations import NUMPY

__all__ = ["computed", "has_samples", "is_constant", "native", "without_gradient"]

#: The module of each library that has NumPy's functions.
_MODULES = {"numpy": "numpy", "cupy": "cupy", "jax": "jax.numpy", "torch": "torch"}

#: NumPy's functions of PyTorch that have other parameters.
_IN_TORCH: dict[str, Callable[..., Any]] = {
    "cumsum": lambda torch, x, axis: torch.cumsum(x, axis),
    "cumprod": lambda torch, x, axis: torch.cumprod(x, axis),
    "sort": lambda torch, x, axis, kind=None: torch.sort(x, dim=axis).values,
    "argsort": lambda torch, x, axis, kind=None: torch.argsort(
        x, dim=axis, stable=True),
    "linalg.svd": lambda torch, x, full_matrices, compute_uv=True: (
        torch.linalg.svd(x, full_matrices=full_matrices) if compute_uv else
        torch.linalg.svdvals(x)),
    "searchsorted": lambda torch, a, v, side: torch.searchsorted(a, v, side=side),
}


def native(name: str, x: Any) -> Callable[..., Any]:
    """The function of NumPy's name in the library of an array.

    Raises
    ------
    KernelTypeError
        The library has none.
    """
    library = library_of(x).name
    module = sys.modules.get(_MODULES.get(library, ""))
    if library == "torch" and name in _IN_TORCH:
        special = _IN_TORCH[name]
        return lambda *args, **options: special(module, *args, **options)
    try:
        found: Any = reduce(getattr, name.split("."), module)
    except AttributeError:
        raise KernelTypeError(
            f"numpy.{name}: arrays of {library} have no such function of their own "
            "that nbfused could call; convert to NumPy, CuPy, PyTorch or JAX") from None
    call: Callable[..., Any] = found
    return call


#: The gradients of the arguments: of the cotangents, the results and the arguments.
Pullback = Callable[..., Sequence[Any]]


#: Options of a call by name, which can be a key.
Options = tuple[tuple[str, Any], ...]


def _fixed(options: dict[str, Any]) -> Options:
    return tuple((name, tuple(x) if isinstance(x, list) else x)
                 for name, x in options.items())


def computed(name: str, forward: Callable[..., Any],
             pullback: Pullback) -> Callable[..., Any]:
    """A function of arrays, computed by their library, with a rule.

    Parameters
    ----------
    name : str
        NumPy's name, without ``numpy.``, or that of SciPy's function.
    forward : callable
        ``forward(*arrays, **options)`` of native arrays.
    pullback : callable
        ``pullback(cotangents, results, arguments, **options)`` of Variables gives one
        gradient for each array argument, of which a real one takes the real part.  It
        is made of operations, so that it can be differentiated again.  A `partial`
        in place of a gradient is called where that is wanted.
    """
    def run(ctx: Any, given: Options, *arrays: Any) -> Any:
        options = dict(given)
        made = _of_samples(call, arrays, options) if has_samples(*arrays) else \
            _native(name, forward, arrays, options)
        single = not isinstance(made, (tuple, list))
        results = tuple(x if isinstance(x, Variable) else Variable(x)
                        for x in ((made,) if single else made))
        ctx.options, ctx.count = options, len(arrays)
        ctx.save_for_backward(*arrays, *results)
        return results[0] if single else results

    def pull(ctx: Any, *cotangents: Any) -> Any:
        saved, (_, *wanted) = ctx.saved_tensors, ctx.needs_input_grad
        arrays, results = saved[:ctx.count], saved[ctx.count:]
        found = pullback(cotangents, results, arrays, **ctx.options)
        return None, *map(_of_kind, map(_evaluated, found, wanted), arrays)

    made = type(_qualified(name), (Function,), {
        "native": staticmethod(forward), "forward": staticmethod(run),
        "backward": staticmethod(pull)})

    def call(*arrays: Any, **options: Any) -> Any:
        if has_samples(*arrays) and not (recording() and any(
                isinstance(x, Batched) and x.requires_grad for x in arrays)):
            return _of_samples(call, arrays, options)
        return made.apply(_fixed(options), *arrays)  # type: ignore[attr-defined]

    return call


def _qualified(name: str) -> str:
    return name if name.startswith("scipy.") else f"numpy.{name}"


def _evaluated(gradient: Any, wanted: bool) -> Any:
    if not isinstance(gradient, partial):
        return gradient
    return gradient() if wanted else None


def _native(name: str, forward: Callable[..., Any], arrays: Sequence[Any],
            options: dict[str, Any]) -> Any:
    """Results of the library's function, which is a step of what is traced."""
    traced = find_traced(arrays)
    if traced is None:
        return forward(*(x.data for x in arrays), **options)
    single = True

    def flat(*values: Any) -> tuple[Any, ...]:
        nonlocal single
        made = forward(*values, **options)
        single = not isinstance(made, (tuple, list))
        return (made,) if single else tuple(made)

    flat.__name__ = _qualified(name)
    found = traced.record_native(flat, arrays, flat.__name__)
    return found[0] if single else found


def _of_kind(gradient: Any, x: Any) -> Any:
    """The real part of the gradient of a real argument."""
    if gradient is None or dtype_of(x).kind == "c" or dtype_of(gradient).kind != "c":
        return gradient
    return NUMPY["numpy.real"](gradient)


def has_samples(*arrays: Any) -> bool:
    """Whether one of the arrays is that of the samples of a `vmap`."""
    return any(type(x) is Batched for x in arrays)


def _of_samples(function: Callable[..., Any], arrays: Sequence[Any],
                options: dict[str, Any]) -> Any:
    """Results for all samples of a `vmap`: their axis is the first one.

    The functions work along axes that are counted from the end.
    """
    level = next(x.level for x in arrays if isinstance(x, Batched))
    level.recorder = None  # what it does may depend on the elements
    many = any(isinstance(x, Batched) and x.batched for x in arrays)
    before = RECORDING.get()
    RECORDING.set(level.recording)  # as it is around the `vmap`
    try:
        made = function(*(x.held if isinstance(x, Batched) else x for x in arrays),
                        **options)
    finally:
        RECORDING.set(before)
    if isinstance(made, (tuple, list)):
        return tuple(Batched(level, x, many) for x in made)
    return Batched(level, made, many)


def is_constant(x: Any) -> bool:
    """Whether nothing differentiates through an array, here or outside."""
    if isinstance(x, Batched):
        return not x.requires_grad and is_constant(x.held)
    if isinstance(x, Traced):
        return not x.differentiated
    if isinstance(x, Variable):
        return not (recording() and x.requires_grad)
    return not tracked_by_library(x)


def without_gradient(name: str, forward: Callable[..., Any]) -> Callable[..., Any]:
    """A function of arrays, computed by their library, of integers or booleans."""
    def run(ctx: Any, given: Options, *arrays: Any) -> Any:
        options = dict(given)
        if has_samples(*arrays):
            return _constant(ctx, _of_samples(call, arrays, options))
        return _constant(ctx, _native(name, forward, arrays, options))

    made = type(f"numpy.{name}", (Function,), {
        "native": staticmethod(forward), "forward": staticmethod(run)})

    def call(*arrays: Any, **options: Any) -> Any:
        if has_samples(*arrays) and not (recording() and any(
                isinstance(x, Batched) and x.requires_grad for x in arrays)):
            return _of_samples(call, arrays, options)
        return made.apply(_fixed(options), *arrays)  # type: ignore[attr-defined]

    return call


def _constant(ctx: Any, results: Any) -> Any:
    ctx.mark_non_differentiable(
        *(results if isinstance(results, (tuple, list)) else (results,)))
    return results
