"""erf and erfc as branch-free LLVM code.

erf of float32 and erfc of float64 have the form of N. Juffa's published approximations;
the polynomial for erfc of float32 is a fit to its values (mpmath), 0.34 units at most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...support.records import record
from .exponentials import at_least, exp, expm1_of_rest, reduce_range, scale
from .formats import DOUBLE, SINGLE, constant, format_of, horner, product
from .number import Number, bits, fma, real, select

__all__ = ["erf", "erfc", "erfc_of_half"]

_HALF_ROOT = 0.7071067811865476  # the root of a half


@record(frozen=True)
class _Coefficients:
    """Polynomial coefficients for one floating format, highest degree first."""

    erf: tuple[float, ...]  # erf(x)/x - 1 in x**2, |x| <= 0.93 or 1
    erfc: tuple[float, ...]  # see `_scaled_single` and `_scaled_double`
    least: float  # erfc of more is 0
    normal: float  # exp of more is normal, and a 100th of it


_SINGLES = _Coefficients(
    (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1,
     1.28379166e-1),
    (0.00032910952, 0.000755994173, -0.000180604242, -0.00248234905, -0.00387912639,
     -0.00117777137, 0.00960433763, 0.0253879968, 0.0139021063, -0.0955559015,
     -0.237680689, 0.85516715),
    10.0546875, -80.0)

_DOUBLES = _Coefficients(
    (5.960685338520971e-11, -1.137495573607015e-09, 1.466032872274226e-08,
     -1.6350396222864617e-07, 1.64610084778027e-06, -1.4925595772180906e-05,
     0.0001205533113295582, -0.0008548326981425542, 0.005223977624828431,
     -0.026866170645077875, 0.11283791670954885, -0.3761263890318375,
     0.1283791670955126),
    (-1.6958958341253103e-08, 2.5781412681115207e-08, 1.1381408505629128e-07,
     -1.279545587002759e-07, -6.300842024890993e-07, 3.5062899091496303e-07,
     3.480539963798607e-06, -7.300209133725382e-07, -2.0103552760405448e-05,
     4.949360085540628e-06, 0.00012510004592632977, -0.00010515982272907007,
     -0.0007798323739748671, 0.0018886903659531017, 0.00252939182518518,
     -0.02377051491928572, 0.06830802734352127, -0.11927366341528375,
     0.12964515870277138, -0.04756229435345108, -0.13562110612458125,
     0.25300805826972966),
    27.25, -700.0)

#: log(1 - erf(x)), 1 <= x <= 5.95, in float64.
_LOG_ERFC = (
    1.0390303090149958e-12, -4.751645306650357e-11, 1.0170384901870327e-09,
    -1.3522155944749014e-08, 1.248304649954929e-07, -8.451914873349209e-07,
    4.301775794926406e-06, -1.642146703340059e-05, 4.476985258303978e-05,
    -6.975021027729658e-05, -4.5956540584648895e-05, 0.0006428347753165613,
    -0.0017709268265738072, 0.00028222995938324364, 0.019076954496495324,
    -0.10274664223567015, -0.6366287038343046, -1.1283772823790426,
    -1.8438671769672282e-07)

#: P and R of `_normal_tail`, within 7e-9 up to `_LAST_TAIL`, where the tail is 0.  Of
#: multiples of both, where they are near a power of two decides how they are rounded.
_NORMAL_TAIL = (
    (0.00631288905, 0.0621391721, 0.279632658, 0.667710245, 0.75999999),
    (0.00159905921, 0.015745379, 0.0786373839, 0.248505577, 0.514102817, 0.75999999))
_LAST_TAIL, _TAIL_UP = 15.0, 64


def erf(x: Number) -> Number:
    """The error function."""
    return (_erf_double if format_of(x) is DOUBLE else _erf_single)(x)


def _erf_double(x: Number) -> Number:
    t = x.abs()
    logarithm = horner(_LOG_ERFC, select(t > 5.95, 5.95, t))
    large = (1.0 - exp(logarithm)).copysign(x)
    return select(t > 1.0, large, fma(horner(_DOUBLES.erf, x*x), x, x))


def _erf_single(x: Number) -> Number:
    t, s = x.abs(), x*x
    r = fma(t, constant(x, -1.72853470e-5), 3.83197126e-4)
    u = fma(t, constant(x, -3.88396438e-3), 2.42546219e-2)
    r = fma(r, s, u)
    for c in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
        r = fma(r, t, c)
    large = (1.0 - exp(fma(r, t, -t))).copysign(x)
    return select(t > 0.927734375, large, fma(horner(_SINGLES.erf, s), x, x))


def erfc(x: Number) -> Number:
    """``1 - erf(x)``, without cancellation."""
    return _erfc(x, _coefficients(x), *product(x, x))


def erfc_of_half(x: Number) -> Number:
    """``erfc(-x/sqrt(2))``: twice the normal distribution function of `x`.

    The tail is ``exp(-x*x/2)`` times what varies little.  Of a rounded argument it
    would be ``x*x`` times as wrong as that.
    """
    if format_of(x) is SINGLE:
        tail = _normal_tail(x.abs())
        return select(x < 0.0, tail, 2.0 - tail)
    square, lacking = product(x, x)
    return _erfc(x*-_HALF_ROOT, _DOUBLES, square*0.5, lacking*0.5)


def _normal_tail(a: Number) -> Number:
    """``erfc(a/sqrt(2))`` of a positive float32, as ``exp(-a*a/2)*P(a)/Q(a)``.

    ``Q = a*P + R``, so that most of what is wrong with P cancels; all coefficients are
    positive.  The exponential is made 2**64 times as large, which is taken back in the
    end: nothing has to be chosen where the tail is subnormal.
    """
    form, a = SINGLE, select(a > _LAST_TAIL, _LAST_TAIL, a)
    square, lacking = product(a, a)
    nearest = form.round + (form.bias + _TAIL_UP)  # in the last bits: an exponent
    shifted = fma(square, constant(a, -0.5*math.log2(math.e)), nearest)
    negative = nearest - shifted
    r = fma(negative, constant(a, form.ln2[0]), square*-0.5)
    r = fma(negative, constant(a, form.ln2[1]), r)
    y = expm1_of_rest(fma(lacking, constant(a, -0.5), r))
    p = horner(_NORMAL_TAIL[0], a)
    q = fma(a, p, horner(_NORMAL_TAIL[1], a))
    power = real(bits(shifted) << form.mantissa)
    return fma(p, y, p)/q*power*2.0**-_TAIL_UP


def _coefficients(x: Number) -> _Coefficients:
    return _DOUBLES if format_of(x) is DOUBLE else _SINGLES


def _erfc(x: Number, form: _Coefficients, square: Number, lacking: Number) -> Number:
    """``erfc(x)`` from ``x*x``, given as a rounded product and its error."""
    a = x.abs()
    tail = _tail(a, form, square, lacking)
    result = select(x < 0.0, 2.0 - tail, tail)
    if form is _DOUBLES:
        y = horner(form.erf, x*x)
        middle = select(x < 0.25, 1.0 - fma(y, x, x), 0.5 - fma(y, x, x - 0.5))
        return select(a < 0.65, middle, result)
    return result


def _tail(a: Number, form: _Coefficients, s: Number, lacking: Number) -> Number:
    """``1 - erf(a)`` of a positive number; in float64 of one that is not small."""
    r, more = (_scaled_double if form is _DOUBLES else _scaled_single)(a, form.erfc)
    low = at_least(-s, format_of(a).log_least)
    parts = reduce_range(low)
    y = expm1_of_rest(parts.rest)
    y = fma(-lacking, y + 1.0, y)  # exp(-a*a) = (1 + y)*2**n
    r = r + fma(r, y, fma(more, y, more))
    r = scale(r, parts.power, low < form.normal)
    return select(a > form.least, 0.0, r)


def _scaled_single(a: Number, coefficients: Sequence[float]) -> tuple[Number, Number]:
    """``exp(a*a)*erfc(a)``: ``1/(a + 1)`` times a polynomial in ``(a-1)/(a+1)``.

    A number and what it lacks.  One division, as the rounding errors of the sum and of
    the quotient are known.
    """
    total = a + 1.0
    rest = a - (total - 1.0)
    r = 1.0/total
    q = _quotient(a, r, 1.0)
    *inner, last = coefficients
    p = horner(inner, q)
    high = fma(p, q, last)
    low = fma(p, q, last - high)
    y = r*high
    return y, fma(-y, rest, fma(-y, total, high) + low)*r


def _scaled_double(a: Number, coefficients: Sequence[float]) -> tuple[Number, Number]:
    """The same, ``a > 0.6``: ``1/(1 + 2*a)`` times 1 and a polynomial."""
    q = _quotient(a, 1.0/(a + 3.0), 3.0)
    p = horner(coefficients, q)
    r = 1.0/fma(a, constant(a, 2.0), 1.0)
    q = fma(p, r, r)
    e = fma(fma(q, -a, 0.5), constant(a, 2.0), p - q)
    return q, e*r


def _quotient(a: Number, r: Number, centre: float) -> Number:
    """``(a - centre)/(a + centre)`` with the inverse `r` of the sum, corrected."""
    q = fma(r, constant(a, -2.0*centre), 1.0)
    t = fma(q + 1.0, constant(a, -centre), a)
    return fma(r, fma(-a, q, t), q)
