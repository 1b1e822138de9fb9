"""Derivatives of the special functions that SciPy computes, by each argument.

The formulas are those of F. W. J. Olver et al., "NIST Handbook of Mathematical
Functions" (2010), by the names of `scipy.special`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..numpy_functions.base import ops, vocabulary
from ..registry.operations import NAMESPACES

__all__ = ["DERIVATIVES"]

#: ``f(result, *arguments)``, or None where there is no elementary one.
Rule = Callable[..., Any] | None
_DEGREE = math.pi / 180


def _special(name: str, *args: Any) -> Any:
    """A function of `nbfused.array_api.special`, which this module is below."""
    return getattr(NAMESPACES["array_api"].special, name)(*args)


def _digamma(x: Any) -> Any:
    return vocabulary("digamma", x)


def _ln_gamma(x: Any) -> Any:
    return vocabulary("lgamma", x)


def _over(y: Any, x: Any, limit: float) -> Any:
    """``y / x``, and its limit at 0."""
    none = ops.equal(x, 0)
    return ops.where(none, limit, ops.divide(y, ops.where(none, 1.0, x)))


def _beta_density(a: Any, b: Any, x: Any) -> Any:
    scale = _ln_gamma(a) + _ln_gamma(b) - _ln_gamma(a + b)
    return x**(a - 1.0) * (1.0 - x)**(b - 1.0) * ops.exp(-scale)


def _gamma_density(a: Any, x: Any) -> Any:
    return x**(a - 1.0) * ops.exp(-x - _ln_gamma(a))


def _normal_density(x: Any, logarithm: Any) -> Any:
    """The density of a normal number over ``exp(logarithm)``."""
    return ops.exp(ops.square(x) * -0.5 - logarithm) * (1 / math.sqrt(2 * math.pi))


def _by_first(a: Any, b: Any) -> Any:
    """The derivative of the logarithm of a beta function by its first argument."""
    return _digamma(a) - _digamma(a + b)


def _slope_of_pseudo_huber(delta: Any, r: Any) -> Any:
    """The derivative of the pseudo-Huber loss by its scale."""
    root = ops.sqrt(1.0 + ops.square(r / delta))
    return 2.0 * delta * (root - 1.0) - ops.square(r) / delta / root


DERIVATIVES: dict[str, tuple[Rule, ...]] = {
    "betainc": (None, None, lambda y, a, b, x: _beta_density(a, b, x)),
    "betaincinv": (None, None, lambda y, a, b, p: 1.0 / _beta_density(a, b, y)),
    "betaln": (lambda y, a, b: _by_first(a, b), lambda y, a, b: _by_first(b, a)),
    "binom": (lambda y, n, k: y * (_digamma(n + 1.0) - _digamma(n - k + 1.0)),
              lambda y, n, k: y * (_digamma(n - k + 1.0) - _digamma(k + 1.0))),
    "boxcox": (lambda y, x, power: x**(power - 1.0), None),
    "boxcox1p": (lambda y, x, power: (x + 1.0)**(power - 1.0), None),
    "cosdg": (lambda y, x: _special("sindg", x) * -_DEGREE,),
    "cosm1": (lambda y, x: -ops.sin(x),),
    "cotdg": (lambda y, x: (ops.square(y) + 1.0) * -_DEGREE,),
    "erfcx": (lambda y, x: 2.0 * x * y - 2 / math.sqrt(math.pi),),
    "erfinv": (lambda y, x: math.sqrt(math.pi) / 2 * ops.exp(ops.square(y)),),
    "exp1": (lambda y, x: -ops.exp(-x) / x,),
    "exp10": (lambda y, x: y * math.log(10),),
    "expi": (lambda y, x: ops.exp(x) / x,),
    "expn": (None, lambda y, n, x: -_special("expn", n - 1.0, x)),
    "exprel": (lambda y, x: _over(ops.exp(x) - y, x, 0.5),),
    "gamma": (lambda y, x: y * _digamma(x),),
    "gammainc": (None, lambda y, a, x: _gamma_density(a, x)),
    "gammaincc": (None, lambda y, a, x: -_gamma_density(a, x)),
    "gammainccinv": (None, lambda y, a, p: -1.0 / _gamma_density(a, y)),
    "gammaincinv": (None, lambda y, a, p: 1.0 / _gamma_density(a, y)),
    "huber": (lambda y, delta, r: ops.maximum(ops.absolute(r) - delta, 0.0),
              lambda y, delta, r: ops.clip(r, -delta, delta)),
    "hyp1f1": (None, None, lambda y, a, b, x: a / b * _special(
        "hyp1f1", a + 1.0, b + 1.0, x)),
    "i0e": (lambda y, x: _special("i1e", x) - ops.sign(x) * y,),
    "i1e": (lambda y, x: _special("i0e", x) - ops.sign(x) * y - _over(y, x, 0.5),),
    "inv_boxcox": (lambda y, x, power: y**(1.0 - power), None),
    "inv_boxcox1p": (lambda y, x, power: (y + 1.0)**(1.0 - power), None),
    "j0": (lambda y, x: -_special("j1", x),),
    "j1": (lambda y, x: _special("j0", x) - _over(y, x, 0.5),),
    "k0": (lambda y, x: -_special("k1", x),),
    "k0e": (lambda y, x: y - _special("k1e", x),),
    "k1": (lambda y, x: -_special("k0", x) - y / x,),
    "k1e": (lambda y, x: y - _special("k0e", x) - y / x,),
    "kl_div": (lambda y, x, other: ops.log(x / other),
               lambda y, x, other: 1.0 - x / other),
    "log_ndtr": (lambda y, x: _normal_density(x, y),),
    "ndtri": (lambda y, p: 1.0 / _normal_density(y, 0.0),),
    "poch": (lambda y, a, m: y * (_digamma(a + m) - _digamma(a)),
             lambda y, a, m: y * _digamma(a + m)),
    "polygamma": (None, lambda y, n, x: _special("polygamma", n + 1.0, x)),
    "pseudo_huber": (lambda y, delta, r: _slope_of_pseudo_huber(delta, r),
                     lambda y, delta, r: r / ops.sqrt(1.0 + ops.square(r / delta))),
    "rgamma": (lambda y, x: -y * _digamma(x),),
    "sindg": (lambda y, x: _special("cosdg", x) * _DEGREE,),
    "spence": (lambda y, x: -_over(ops.log(x), x - 1.0, 1.0),),
    "tandg": (lambda y, x: (ops.square(y) + 1.0) * _DEGREE,),
    "y0": (lambda y, x: -_special("y1", x),),
    "y1": (lambda y, x: _special("y0", x) - y / x,),
    "zeta": (None, lambda y, x, q: -x * _special("zeta", x + 1.0, q)),
}
