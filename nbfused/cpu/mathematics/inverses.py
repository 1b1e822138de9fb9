"""Inverse trigonometric and hyperbolic functions, and the cube root, without branches.

Polynomials are Chebyshev fits near 0, of degrees that leave a tenth of a unit in the
last place; farther away angles are taken off multiples of pi/4, and the hyperbolic
functions are logarithms.
"""

from __future__ import annotations

import math

from ...support.records import record
from .formats import DOUBLE, constant, format_of, horner, product, two_sum
from .logarithms import log1p
from .number import Number, bits, fma, real, select

__all__ = ["acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt"]

#: Tangents of pi/8 and 3*pi/8: beyond them an angle is taken off pi/4 and pi/2.
_TANGENTS = math.sqrt(2.0) - 1.0, math.sqrt(2.0) + 1.0


@record(frozen=True)
class _Coefficients:
    r"""Polynomials ``(f(x)/x - 1)/x**2`` in ``x**2``, highest degree first.

    `cbrt` is ``m**(-1/3)``, 1 <= m < 8, within 0.0035.
    """

    half_pi: tuple[float, float]  # and what it is rounded by
    atan: tuple[float, ...]  # |x| <= tan(pi/8)
    asin: tuple[float, ...]  # |x| <= 1/2, as those that follow
    asinh: tuple[float, ...]
    atanh: tuple[float, ...]
    cbrt: tuple[float, ...] = (
        -0.00010790352720438857, 0.002967073319555683, -0.03233586898392608,
        0.1792104144854146, -0.5538784978606232, 1.3994427296412673)


_SINGLES = _Coefficients(
    (1.5707963705062866, -4.3711390001862426e-08),
    (-0.06451718869358958, 0.10743668324830098, -0.14263949753605723,
     0.1999954031495797, -0.33333331760434554),
    (0.033693316629167705, 0.01714785837595647, 0.03110092889161848,
     0.04459938094922169, 0.07500094597876228, 0.166666663372085),
    (0.009935991018883074, -0.020526503245314884, 0.03015612181955481,
     -0.04463001746857529, 0.07499972881832104, -0.1666666657276339),
    (0.1563064269157961, 0.040906132944326476, 0.09752197266767251,
     0.11050800731858247, 0.1428828757181527, 0.19999959307921802,
     0.33333333437389884))

_DOUBLES = _Coefficients(
    (1.5707963267948966, 6.123233995736766e-17),
    (-0.019175404711104935, 0.03923044778479309, -0.050854078345894844,
     0.05858140904866328, -0.06664510525508936, 0.07692183125376892,
     -0.0909090457530649, 0.11111111015187018, -0.14285714284665682,
     0.19999999999995516, -0.3333333333333333),
    (0.028762997617254003, -0.014859264309819778, 0.017405496291324245,
     0.005455850831324314, 0.010323189996124416, 0.011479121292946488,
     0.013971218548752051, 0.0173523923576202, 0.022372172957091412,
     0.030381944138170334, 0.04464285714635991, 0.0749999999999843,
     0.16666666666666669),
    (-0.0014986500237678395, 0.004138090407037621, -0.006474432379964956,
     0.00818230686120939, -0.009725702263764366, 0.011547473837385526,
     -0.013964483114162608, 0.01735274414193757, -0.022372158355164817,
     0.03038194442849972, -0.04464285714267705, 0.07499999999999919,
     -0.16666666666666666),
    (0.22658712413625554, -0.18458898621423073, 0.16373047076862796,
     -0.005811016621150076, 0.05469053144496209, 0.04569198655106971,
     0.05286758455774936, 0.05880294511950679, 0.06666792764611748,
     0.07692302419896312, 0.09090909234264993, 0.11111111108770932,
     0.14285714285734238, 0.19999999999999932, 0.3333333333333333))


def _coefficients(x: Number) -> _Coefficients:
    return _DOUBLES if format_of(x) is DOUBLE else _SINGLES


def _odd(x: Number, square: Number, polynomial: tuple[float, ...]) -> Number:
    """All but the first term, `x`, of an odd function."""
    return x*square*horner(polynomial, square)


# Angles -------------------------------------------------------------------------------


def _angle(a: Number, b: Number) -> tuple[Number, Number]:
    """The angle whose tangent is ``a/b``, of two positive numbers; and what it lacks.

    Neither the sum of the numbers nor the inverse of a larger one may be infinite.
    """
    coefficients, form = _coefficients(a), format_of(a)
    steep, wide = a > b*_TANGENTS[1], a > b*_TANGENTS[0]
    less, less_lost = two_sum(a, -b)
    more, more_lost = two_sum(a, b)
    up = select(steep, -b, select(wide, less, a))
    down = select(steep, a, select(wide, more, b))
    between = wide & (steep ^ 1)
    inverse = 1.0/down
    t = up*inverse
    s, lost = product(t, down)
    low = (up - s) - lost
    low = (low + select(between, less_lost - t*more_lost, 0.0))*inverse
    # Of a number that is hardly normal the product's error is none.
    small = up.abs() < 2.0**(2*form.mantissa - form.bias)
    low = select(small, 0.0, low) + _odd(t, t*t, coefficients.atan)
    high, rest = coefficients.half_pi
    begin = select(steep, high, select(wide, constant(a, high/2), 0.0))
    begin_low = select(steep, rest, select(wide, constant(a, rest/2), 0.0))
    angle = begin + t
    return angle, low + ((begin - angle) + t) + begin_low


def atan(x: Number) -> Number:
    """The inverse tangent."""
    t = x.abs()
    most = 2.0**(format_of(x).mantissa + 8)  # of more it is pi/2
    angle, low = _angle(select(t > most, most, t), constant(x, 1.0))
    return select(t < 2.0**-format_of(x).mantissa, x, (angle + low).copysign(x))


def atan2(y: Number, x: Number) -> Number:
    """The angle of (x, y)."""
    form = format_of(x)
    a, b = y.abs(), x.abs()
    infinite = a.equals(math.inf), b.equals(math.inf)
    either = infinite[0] | infinite[1]
    a, b = (select(either, select(own, constant(x, 1.0), 0.0), n)
            for n, own in zip((a, b), infinite, strict=True))
    top = select(a > b, a, b)
    scale = select(top > 2.0**(form.bias - 4), constant(x, 2.0**-8), select(
        top < 2.0**(3*form.mantissa - form.bias), constant(x, 2.0**(2*form.mantissa)),
        1.0))
    angle, low = _angle(a*scale, select(top.equals(0.0), 1.0, b*scale))
    high, rest = _coefficients(x).half_pi
    turned = 2.0*high - angle
    back = ((2.0*high - turned) - angle) + (2.0*rest - low)
    result = select(bits(x) < 0, turned + back, angle + low)
    known = x.equals(x) & y.equals(y)
    return select(known, result.copysign(y), math.nan)


def _by_root(x: Number) -> tuple[Number, Number, Number]:
    """Whether a magnitude is above a half; a number, and what its arcsine is beyond it.

    The number is the magnitude or, above a half, the sine of half the angle to pi/2.
    """
    t = x.abs()
    large = t > 0.5
    z = select(large, (1.0 - t)*0.5, t*t)
    s = select(large, z.sqrt(), t)
    return large, s, _odd(s, z, _coefficients(x).asin)


def asin(x: Number) -> Number:
    """The inverse sine."""
    large, s, more = _by_root(x)
    high, rest = _coefficients(x).half_pi
    first = high - s*2.0
    result = first + (((high - first) - s*2.0) - more*2.0 + rest)
    return select(large, result, s + more).copysign(x)


def acos(x: Number) -> Number:
    """The inverse cosine."""
    large, s, more = _by_root(x)
    high, rest = _coefficients(x).half_pi
    negative = x < 0.0
    double, beyond = select(large, s*2.0, s), select(large, more*2.0, more)
    # pi/2 and pi without, or with, an angle.
    begin = select(large, constant(x, 2.0*high), high)
    begin_low = select(large, constant(x, 2.0*rest), rest)
    plus = negative ^ large
    first = begin + select(plus, double, -double)
    lost = (begin - first) + select(plus, double, -double)
    result = first + (lost + select(plus, beyond, -beyond) + begin_low)
    return select(large & (negative ^ 1), double + beyond, result)


# Hyperbolic functions -----------------------------------------------------------------


def _most(x: Number) -> float:
    """Numbers above which 1 does not count beside a square."""
    return 2.0**(format_of(x).mantissa//2 + 4)


def asinh(x: Number) -> Number:
    """The inverse hyperbolic sine."""
    t = x.abs()
    square, far = t*t, t > _most(x)
    near = t + _odd(t, square, _coefficients(x).asinh)
    inner = select(far, t - 1.0, t + square/((square + 1.0).sqrt() + 1.0))
    result = log1p(inner) + select(far, constant(x, math.log(2.0)), 0.0)
    return select(t < 0.5, near, result).copysign(x)


def acosh(x: Number) -> Number:
    """The inverse hyperbolic cosine."""
    t, far = x - 1.0, x > _most(x)
    inner = select(far, t, t + (t*(t + 2.0)).sqrt())
    result = log1p(inner) + select(far, constant(x, math.log(2.0)), 0.0)
    return select(x >= 1.0, result, math.nan)


def atanh(x: Number) -> Number:
    """The inverse hyperbolic tangent."""
    t = x.abs()
    near = t + _odd(t, t*t, _coefficients(x).atanh)
    return select(t < 0.5, near, log1p(t*2.0/(1.0 - t))*0.5).copysign(x)


# The cube root ------------------------------------------------------------------------


def cbrt(x: Number) -> Number:
    """The cube root: Newton's steps for its inverse, of a number from 1 to 8."""
    form, t = format_of(x), x.abs()
    thirds = form.mantissa//3 + 1
    subnormal = t < 2.0**(1 - form.bias)
    t = select(subnormal, t*2.0**(3*thirds), t)
    exponent = (bits(t) >> form.mantissa) - form.bias
    # Integers are the last bits of floats here, as few processors convert long ones.
    last = bits(constant(x, form.round))
    third = ((real(exponent + last) - form.round + 0.5)*(1.0/3.0)).floor()
    whole = bits(third + form.round)
    m = real((bits(t) & ((1 << form.mantissa) - 1))
             | ((exponent - whole*3 + form.bias) << form.mantissa))
    inverse = horner(_coefficients(x).cbrt, m)
    for _ in range(3 if form is DOUBLE else 2):
        lacking = fma(-m*inverse, inverse*inverse, constant(x, 1.0))
        inverse = fma(lacking*inverse, constant(x, 1.0/3.0), inverse)
    root = m*inverse*inverse
    square, lost = product(root, root)
    over = fma(square, root, -m) + lost*root
    root = root - over*(inverse*inverse)*(1.0/3.0)
    whole = select(subnormal, whole - thirds, whole)
    root = root*real((whole + form.bias) << form.mantissa)
    usual = (x.abs() < math.inf) & (x.abs() > 0.0)
    return select(usual, root.copysign(x), x)
