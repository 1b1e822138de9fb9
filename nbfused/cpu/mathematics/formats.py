"""The two floating formats, and arithmetic on polynomials in them.

Polynomials have the highest degree first.  Those of the logarithms follow FreeBSD's
msun; the others are minimax or Chebyshev fits.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from ...support.records import record
from .number import Number, bits, fma, fma_is_fast, real

__all__ = ["DOUBLE", "SINGLE", "Format", "constant", "format_of", "horner", "product",
           "two_sum"]

#: Coefficients of a polynomial from which two chains of multiply-adds are faster than
#: one: benchmarks/notes/cpu.md#maps-on-the-cpu.
_LONG = 10


@record(frozen=True)
class Format:
    """Parameters of a floating format."""

    mantissa: int
    bias: int
    round: float  # adding it leaves the nearest integer in the last bits
    log_least: float  # exp of less is 0
    log_small: float  # exp of more is normal, and so is half of it
    log_most: tuple[float, float]  # exp of more is infinite; half of it
    log_half_ulp: float  # exp of less is nothing beside 1
    ln2: tuple[float, float]  # upper part with zeros at its end, and the rest
    log2e: tuple[float, float]
    log10e: tuple[float, float]
    log10_2: tuple[float, float]
    exp: tuple[float, ...]  # (exp(r) - 1 - r)/r**2, |r| <= log(2)/2
    exp2: tuple[float, ...]  # (2**r - 1)/r, |r| <= 1/2
    log: tuple[float, ...]  # (log((1 + s)/(1 - s)) - 2*s)/s**3 in s**2
    sinh: tuple[float, ...]  # (sinh(x)/x - 1)/x**2 in x**2, |x| <= 1
    tanh: tuple[float, ...]  # (tanh(x)/x - 1)/x**2 in x**2, |x| <= 5/8


SINGLE = Format(
    23, 127, 1.5*2.0**23, -104.0, -86.0, (88.72283172607422, 89.41598510742188), -18.0,
    (0.693145751953125, 1.4286068203094173e-06),
    (1.4423828125, 0.00031222838896340733),
    (0.4342041015625, 9.038034075182765e-05),
    (0.301025390625, 4.605038981195214e-06),
    (0.0013814897974953055, 0.008368710987269878, 0.041668377816677094,
     0.1666652113199234, 0.4999999403953552),
    (1.529741310727295e-05, 0.00015461560778872135, 0.001333350216258813,
     0.009618056388057775, 0.05550410884014512, 0.24022650923651495,
     0.6931471805599453),
    (0.24279078841, 0.28498786688, 0.40000972152, 0.66666662693),
    (2.8062802582276946e-06, 0.00019838101968683888, 0.00833333967591706,
     0.16666666646842135),
    (0.0022927323411153365, -0.008343934506616963, 0.021768915289038848,
     -0.05395925916407666, 0.13333303555171194, -0.3333333317212886))

DOUBLE = Format(
    52, 1023, 1.5*2.0**52, -746.0, -707.0, (709.782712893384, 710.4758600739439), -38.0,
    (0.6931471803691238, 1.9082149292705877e-10),
    (1.4426946640014648, 3.768874985636099e-07),
    (0.4342944622039795, 1.9699272335463627e-08),
    (0.30102992057800293, 7.508597826552624e-08),
    (2.09147553258932e-09, 2.5105312729622103e-08, 2.755727347871858e-07,
     2.755725517000089e-06, 2.480158732567746e-05, 0.0001984126987500228,
     0.0013888888888883711, 0.008333333333326084, 0.04166666666666667,
     0.1666666666666667, 0.5),
    (2.5729426100386435e-11, 4.4558384999982015e-10, 7.054897246767236e-09,
     1.01780569717918e-07, 1.321548680881726e-06, 1.5252733841782436e-05,
     0.00015403530393370645, 0.0013333558146406295, 0.00961812910762848,
     0.055504108664821625, 0.24022650695910072, 0.6931471805599453),
    (1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01,
     2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01,
     6.666666666666735130e-01),
    (2.8445264169895285e-15, 7.646625361656657e-13, 1.6059048396350562e-10,
     2.505210836405804e-08, 2.755731922404034e-06, 0.00019841269841269773,
     0.008333333333333333, 0.16666666666666666),
    (9.171432961887192e-07, -4.770806178655063e-06, 1.4832866805222546e-05,
     -3.87990228835672e-05, 9.676688430107833e-05, -0.00023909642558284452,
     0.0005900223325064941, -0.0014558338278538275, 0.00359212799487288,
     -0.008863235527882225, 0.021869488536096462, -0.053968253968253076,
     0.13333333333333333, -0.3333333333333333))


def format_of(x: Number) -> Format:
    """The floating format of a number."""
    return DOUBLE if isinstance(x.element, ir.DoubleType) else SINGLE


def horner(coefficients: Sequence[float], x: Number) -> Number:
    """Evaluate a polynomial, given with the highest degree first.

    In a long one each step waits for the one before: all but the last two are two
    polynomials in the square, of even and of odd powers.  Those two decide how the
    result is rounded.
    """
    if len(coefficients) < _LONG:
        return _steps(Number(x.builder, x.constant(coefficients[0])),
                      coefficients[1:], x)
    square, first = x*x, coefficients[:-2]
    odd, even = (horner(first[at::-2][::-1], square) for at in (-2, -1))
    return _steps(fma(odd, x, even), coefficients[-2:], x)


def _steps(total: Number, coefficients: Sequence[float], x: Number) -> Number:
    for c in coefficients:
        total = fma(total, x, c)
    return total


def constant(x: Number, value: float) -> Number:
    """`value` in the format of `x`."""
    return Number(x.builder, x.constant(value))


def product(u: Number, v: Number) -> tuple[Number, Number]:
    """``u*v`` as a rounded number and its rounding error."""
    s = u*v
    if fma_is_fast():
        return s, fma(u, v, -s)
    mask = -(1 << format_of(u).mantissa//2 + 1)  # halves, whose products are exact
    a, b = real(bits(u) & mask), real(bits(v) & mask)
    return s, (a*b - s) + (a*(v - b) + (u - a)*b) + (u - a)*(v - b)


def two_sum(a: Number, b: Number) -> tuple[Number, Number]:
    """``a + b`` and its rounding error."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)
