"""Special functions by SciPy's names, which SciPy looks for in a namespace.

Most are functions of the scalar language: they have derivatives, and run on every
device.  SciPy itself computes the others, on the host, with rules for the derivatives
that are elementary; through an argument without one a gradient is refused, and not
before it is asked for, so that a test's statistic is differentiated beside its p-value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from itertools import zip_longest
from typing import Any

import numpy as np

from ..arrays import to_numpy
from ..arrays.creation import array_like
from ..errors import NotDifferentiableError
from ..numpy_functions.base import is_value, ops, vocabulary
from ..numpy_functions.library import computed
from .dtypes import promoted
from .face import binary, unary
from .special_derivatives import DERIVATIVES

__all__: list[str] = []

#: Functions of the scalar language by SciPy's name.
_VOCABULARY = {
    "cbrt": "cbrt", "digamma": "digamma", "erf": "erf", "erfc": "erfc", "exp2": "exp2",
    "expit": "sigmoid", "expm1": "expm1", "gammaln": "lgamma", "i0": "i0", "i1": "i1",
    "log1p": "log1p", "log_expit": "log_sigmoid", "psi": "digamma", "sinc": "sinc",
    "softplus": "softplus",
}


def _logit(x: Any) -> Any:
    return ops.subtract(ops.log(x), ops.log1p(ops.negative(x)))


def _entr(x: Any) -> Any:
    inside = ops.greater(x, 0)
    safe = ops.where(inside, x, 1.0)
    outside = ops.where(ops.equal(x, 0), 0.0, -math.inf)
    found = ops.where(inside, ops.negative(ops.multiply(safe, ops.log(safe))), outside)
    return ops.where(ops.isnan(x), x, found)


def _times_logarithm(logarithm: str, least: float) -> Callable[..., Any]:
    """``x * log(y)``, which is 0 where `x` is, whatever the logarithm is there."""
    def call(x: Any, y: Any) -> Any:
        endless = ops.logical_or(ops.less_equal(y, least), ops.isinf(y))
        nothing = ops.logical_and(ops.equal(x, 0), endless)
        safe = ops.where(nothing, least + 1.0, y)
        return ops.multiply(x, ops[logarithm](safe))

    return call


def _ndtr(x: Any) -> Any:
    return ops.multiply(0.5, vocabulary("erfc", ops.multiply(x, -math.sqrt(0.5))))


_COMPOSED: dict[str, Callable[..., Any]] = {
    "logit": _logit, "entr": _entr, "ndtr": _ndtr}
_OF_TWO: dict[str, Callable[..., Any]] = {
    "xlogy": _times_logarithm("log", 0.0), "xlog1py": _times_logarithm("log1p", -1.0)}


#: Functions of SciPy without derivatives here, those that it has nothing else for.
_WITHOUT_RULE = (
    "bdtr bdtrc bdtri chdtri ellipk ellipkm1 fdtr fdtrc fdtri gammasgn gdtr gdtrc lpmv "
    "nbdtr nbdtrc nbdtri pdtr pdtrc pdtri radian yn zetac")


def _by_scipy(name: str, rules: tuple[Callable[..., Any] | None, ...],
              ) -> Callable[..., Any]:
    """SciPy's function of host copies, with the rules that there are."""
    def forward(*arrays: Any) -> Any:
        compute = getattr(import_module("scipy.special"), name)
        return array_like(np.asarray(compute(*map(to_numpy, arrays))), arrays[0])

    def pullback(cotangents: Any, results: Any, arrays: Any) -> Any:
        return [partial(_pulled, name, k, rule, cotangents[0], results[0], arrays)
                for k, (rule, _) in enumerate(zip_longest(rules, arrays))]

    function = computed(f"scipy.special.{name}", forward, pullback)

    def call(*args: Any) -> Any:
        dtype = promoted(name, *args)
        like = next(x for x in args if is_value(x))
        shape = np.broadcast_shapes(*(np.shape(x) if not is_value(x) else x.shape
                                      for x in args))
        return function(*(_spread(x, like, dtype, shape) for x in args))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"``scipy.special.{name}``, computed on the host."
    call.on_host = True  # type: ignore[attr-defined]
    return call


def _spread(x: Any, like: Any, dtype: np.dtype, shape: tuple[int, ...]) -> Any:
    """An argument in the common dtype and shape."""
    if not is_value(x):
        return ops.full_like(ops.broadcast_to(like, shape), x, dtype)
    x = x if x.dtype == dtype else ops.astype(x, dtype)
    return x if tuple(x.shape) == shape else ops.positive(ops.broadcast_to(x, shape))


def _pulled(name: str, k: int, rule: Callable[..., Any] | None, g: Any, made: Any,
            arrays: Sequence[Any]) -> Any:
    if rule is None:
        raise NotDifferentiableError(
            f"scipy.special.{name}: argument {k} requires grad, and there is no "
            "derivative by it here; use detach(), or an nf.Function with a rule")
    return ops.multiply(g, rule(made, *arrays))


def _vocabulary(name: str) -> Callable[[Any], Any]:
    return lambda x: vocabulary(name, x)


_host: dict[str, Callable[..., Any]] = {
    name: _by_scipy(name, DERIVATIVES.get(name, ()))
    for name in (*DERIVATIVES, *_WITHOUT_RULE.split())}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: unary(name, "floating", _vocabulary(inner))
       for name, inner in _VOCABULARY.items()},
    **{name: unary(name, "real floating", compute)
       for name, compute in _COMPOSED.items()},
    **{name: binary(name, "real floating", compute)
       for name, compute in _OF_TWO.items()},
    **_host}
globals().update(_FUNCTIONS)
__all__ += sorted(_FUNCTIONS)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"nbfused.array_api.special has no {name!r}; scipy.special "
                         "takes x.to_numpy()")
