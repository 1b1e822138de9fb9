"""Primitives of JAX that call a kernel or a program: what they have in common."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from ....errors import NbFusedPerformanceWarning, UnsupportedError

__all__ = ["call_foreign", "check_extents", "instantiated", "new_primitive",
           "no_tangent", "set_rules", "transposed_linear"]


def new_primitive(name: str, avals: Callable[..., list[Any]],
                  run: Callable[..., Any]) -> Any:
    """A primitive with several results.

    Parameters
    ----------
    avals
        Shape and dtype of each result.
    run
        What it does in a compiled program, by JAX's own functions.

    Raises
    ------
    UnsupportedError
        JAX is too old.
    """
    import jax

    try:
        from jax.extend.core import Primitive
        from jax.interpreters import mlir, xla
    except ImportError as error:
        raise UnsupportedError(
            f"JAX {jax.__version__} has no {error.name}, by which operations are "
            "called inside of its transforms; install JAX 0.4.36 or later, or call "
            "them outside, or through jax.pure_callback") from error

    made = Primitive(name)
    made.multiple_results = True
    made.def_impl(partial(xla.apply_primitive, made))
    made.def_abstract_eval(avals)
    mlir.register_lowering(made, mlir.lower_fun(run))
    return made


def set_rules(primitive: Any, jvp: Callable[..., Any], transpose: Callable[..., Any],
              batch: Callable[..., Any]) -> None:
    """Register the rules of a primitive, which are given arrays for numbers.

    JAX hands over Python's numbers as they are, as in ``jax.grad(f)(1.5)``.
    """
    from jax.interpreters import ad, batching

    ad.primitive_jvps[primitive] = lambda primals, tangents, **params: jvp(
        [*map(_as_array, primals)], [*map(_as_array, tangents)], **params)
    ad.primitive_transposes[primitive] = lambda cotangents, *values, **params: \
        transpose([*map(_as_array, cotangents)], *map(_as_array, values), **params)
    batching.primitive_batchers[primitive] = lambda values, dims, **params: batch(
        [*map(_as_array, values)], dims, **params)


def _as_array(x: Any) -> Any:
    """An array of a number; all else, such as what is not known yet, is itself."""
    if not isinstance(x, (bool, int, float, complex)) or isinstance(x, np.generic):
        return x
    jax = sys.modules["jax"]
    return jax.numpy.asarray(x, jax.typeof(x).dtype)


def check_extents(name: str, arrays: Sequence[Any]) -> None:
    """Refuse arrays of which an extent is a symbol of `jax.export`.

    Raises
    ------
    UnsupportedError
        One is.
    """
    for x in arrays:
        if not all(isinstance(n, (int, np.integer)) for n in x.shape):
            raise UnsupportedError(
                f"{name}: an argument has the extents {tuple(map(str, x.shape))}, of "
                "which some are symbols of jax.export; a call of nbfused in a program "
                "of JAX is for given extents: export the program once for each shape")


def call_foreign(number: int, arrays: Sequence[Any], results: Sequence[Any],
                 scratch: int = 0) -> list[Any]:
    """Call what has a number, from a compiled program.

    Parameters
    ----------
    results
        Shape and dtype of each result.
    scratch
        Bytes of memory that it needs beside them.
    """
    jax = sys.modules["jax"]
    made = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in results]
    if scratch:
        made.append(jax.ShapeDtypeStruct((scratch,), np.uint8))
    if hasattr(jax, "ffi"):
        from .ffi import TARGET
        from .kernels import register_handlers

        register_handlers()
        found = jax.ffi.ffi_call(TARGET, made)(*arrays, call=np.int64(number))
    else:
        _warn()
        found = jax.pure_callback(partial(_called_back, number, made), made, *arrays)
    return list(found[:len(results)])


def _called_back(number: int, made: Sequence[Any], *host: Any) -> Any:
    from .ffi import HOST
    from .kernels import run_number

    given = [np.ascontiguousarray(x).reshape(x.shape) for x in host]
    results = [np.empty(x.shape, x.dtype) for x in made]
    run_number(number, tuple([x.ctypes.data for x in (*given, *results)]), HOST)
    return results


@cache
def _warn() -> None:
    warnings.warn(
        f"JAX {sys.modules['jax'].__version__} has no jax.ffi, so that operations of "
        "nbfused are called through jax.pure_callback, which copies arrays; install "
        "JAX 0.5 or later", NbFusedPerformanceWarning, stacklevel=2)


def no_tangent(x: Any, ad: Any) -> Any:
    """The tangent of what does not move."""
    return ad.Zero(sys.modules["jax"].typeof(x).to_tangent_aval())


def instantiated(tangent: Any, ad: Any) -> Any:
    """A tangent or cotangent as an array: zeros where there is none."""
    return ad.instantiate_zeros(tangent) if type(tangent) is ad.Zero else tangent


def transposed_linear(primitive: Any, cotangents: Sequence[Any], *values: Any,
                      **params: Any) -> list[Any]:
    """Cotangents of the inputs that a call is linear in, as in a rule for tangents."""
    jax = sys.modules["jax"]
    from jax.interpreters import ad

    unknown = [k for k, x in enumerate(values) if ad.is_undefined_primal(x)]

    def of_unknown(*moving: Any) -> list[Any]:
        given = list(values)
        for k, x in zip(unknown, moving, strict=True):
            given[k] = x
        return list(primitive.bind(*given, **params))

    # The same anywhere, as it is linear.
    _, back = jax.vjp(of_unknown, *[
        jax.numpy.zeros(values[k].aval.shape, values[k].aval.dtype) for k in unknown])
    found = dict(zip(unknown, back([instantiated(c, ad) for c in cotangents]),
                     strict=True))
    return [found.get(k) for k in range(len(values))]
