"""Functions of `math`, `cmath` and NumPy that are written in the scalar language.

Each is copied in where a scalar function calls the library's, and is differentiated
through what it does.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .names import (
    atan2,
    copysign,
    cos,
    exp,
    floor,
    fmod,
    isfinite,
    isinf,
    isnan,
    select,
    sin,
    sinpi,
    trunc,
)

__all__ = ["WRITTEN", "gamma", "remainder", "signbit"]


def gamma(x: Any) -> Any:
    """The gamma function, within about fifty units of float64's last place.

    Stirling's series from 20 on, its power in two factors that do not overflow; below,
    what the recurrence divides by; the reflection formula on the left.
    """
    t = abs(x)
    big = min(t, 200.0)
    steps = 1.0
    for _ in range(20):
        below = big < 20.0
        steps = steps*(big if below else 1.0)
        big = big + (1.0 if below else 0.0)
    r = 1.0/(big*big)
    series = (1.0/12.0 - r*(1.0/360.0 - r*(1.0/1260.0 - r*(1.0/1680.0 - r/1188.0))))/big
    half = big**(0.5*big - 0.25)
    found = 2.5066282746310002*half*exp(-big)*half*exp(series)/steps
    left = -3.141592653589793/(t*sinpi(t)*found)
    return 1.0/x if t < 1e-300 else x*np.inf if t > 200.0 and x > 0.0 else (
        found if x > 0.0 else left if x != floor(x) else (t - t)/(t - t))


def remainder(x: Any, y: Any) -> Any:
    """The distance of `x` to the nearest multiple of `y`, an even one of two."""
    p = abs(y)  # fmod is exact, and what is left is below 2 |y|
    a = abs(fmod(x, p + p))
    b = a - p if a + a > p else a
    c = b - p if a + a > p and b + b >= p else b
    return c*copysign(1.0, x)


def signbit(x: Any) -> Any:
    """Whether a number, also a zero, has the sign minus."""
    return copysign(1.0, x) < 0.0


def _modf(x: Any) -> Any:
    # By fmod, whose derivative is 1 at whole numbers too.
    return select(isinf(x), copysign(0.0, x), fmod(x, 1.0)), trunc(x*1.0)


def _isclose(a: Any, b: Any, *, rel_tol: Any = 1e-09, abs_tol: Any = 0.0) -> Any:
    a, b = a*1.0, b*1.0
    near = abs(a - b) <= max(rel_tol*max(abs(a), abs(b)), abs_tol)
    return a == b or (near and isfinite(a) and isfinite(b))


def _numpy_isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08,
                   equal_nan: Any = False) -> Any:
    a, b = a*1.0, b*1.0
    near = abs(a - b) <= atol + rtol*abs(b) and isfinite(b)
    return a == b or near or (equal_nan and isnan(a) and isnan(b))


def _gcd(a: Any, b: Any) -> Any:
    while b != 0:
        a, b = b, a % b
    return abs(a)


def _lcm(a: Any, b: Any) -> Any:
    found = _gcd(a, b)
    return abs(a//(found if found != 0 else 1)*b)


def _logical_xor(a: Any, b: Any) -> Any:
    return bool(a) != bool(b)


def _float_power(a: Any, b: Any) -> Any:
    return (a - np.float64(0.0))**(b - np.float64(0.0))  # -0.0 stays what it is


def _isneginf(x: Any) -> Any:
    return isinf(x) and x < 0.0


def _isposinf(x: Any) -> Any:
    return isinf(x) and x > 0.0


def _isreal(x: Any) -> Any:
    return x.imag == 0


def _iscomplex(x: Any) -> Any:
    return x.imag != 0


def _phase(z: Any) -> Any:
    return atan2(z.imag, z.real)


def _polar(z: Any) -> Any:
    return abs(z*1.0), _phase(z)


def _rect(r: Any, phi: Any) -> Any:
    return complex(r*cos(phi), r*sin(phi))


#: By the `id` of the library's, as what is looked up need not have a hash.
WRITTEN: Mapping[int, Callable[..., Any]] = {id(theirs): ours for theirs, ours in (
    (math.gamma, gamma), (math.remainder, remainder), (np.signbit, signbit),
    (math.modf, _modf), (np.modf, _modf), (math.isclose, _isclose),
    (cmath.isclose, _isclose), (np.isclose, _numpy_isclose), (math.gcd, _gcd),
    (np.gcd, _gcd), (math.lcm, _lcm), (np.lcm, _lcm),
    (np.logical_xor, _logical_xor), (np.float_power, _float_power),
    (np.isneginf, _isneginf), (np.isposinf, _isposinf), (np.isreal, _isreal),
    (np.iscomplex, _iscomplex), (cmath.phase, _phase), (cmath.polar, _polar),
    (cmath.rect, _rect),
)}
