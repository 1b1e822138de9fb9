"""Elementary functions that LLVM vectorises: straight lines without branches.

float32 within 2 ulp, float64 within 2 ulp, on the whole range; NaN, infinities, signed
zeros and subnormal results as in C.  PyPI's llvmlite has no vector library, and a call
of libm in a loop costs ten times as much.

Reductions and the logarithms' polynomials follow FreeBSD's msun, erf and the form of
erfc N. Juffa's published approximations; the other polynomials are Chebyshev fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .calls import CALLS, FUNCTIONS
from .number import Number, bits, fma, real, select

__all__ = ["MATH"]


@dataclass(frozen=True)
class _Format:
    """A floating format and the coefficients that suffice for it.

    Polynomials have the highest degree first.
    """

    mantissa: int
    bias: int
    round: float  # adding it leaves the nearest integer in the last bits
    log_least: float  # exp of less is 0
    log_most: float  # exp of more is infinite
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


_SINGLE = _Format(
    23, 127, 1.5*2.0**23, -104.0, 89.0, -18.0,
    (0.693145751953125, 1.4286068203094173e-06),
    (1.4423828125, 0.00031222838896340733),
    (0.4342041015625, 9.038034075182765e-05),
    (0.301025390625, 4.605038981195214e-06),
    (0.00019891080463998843, 0.0013933730715792083, 0.008333310844647862,
     0.04166646419740569, 0.16666666681704215, 0.500000001353873),
    (1.529741310727295e-05, 0.00015461560778872135, 0.001333350216258813,
     0.009618056388057775, 0.05550410884014512, 0.24022650923651495,
     0.6931471805599453),
    (0.24279078841, 0.28498786688, 0.40000972152, 0.66666662693),
    (2.8062802582276946e-06, 0.00019838101968683888, 0.00833333967591706,
     0.16666666646842135),
    (0.0022927323411153365, -0.008343934506616963, 0.021768915289038848,
     -0.05395925916407666, 0.13333303555171194, -0.3333333317212886))

_DOUBLE = _Format(
    52, 1023, 1.5*2.0**52, -746.0, 710.0, -38.0,
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


def _format(x: Number) -> _Format:
    return _DOUBLE if isinstance(x.type, ir.DoubleType) else _SINGLE


def _horner(coefficients: Sequence[float], x: Number) -> Number:
    """A polynomial, the highest degree first."""
    total = Number(x.builder, x.constant(coefficients[0]))
    for c in coefficients[1:]:
        total = fma(total, x, c)
    return total


# Exponentials ----------------------------------------------------------------------


def _power_of_two(n: Number, form: _Format) -> Number:
    """``2**n`` for an integer in the range of normal numbers."""
    return real((n + form.bias) << form.mantissa)


def _scaled(y: Number, n: Number, form: _Format) -> Number:
    """``y*2**n``: in two steps, so that it overflows and underflows as it should."""
    half = n >> 1
    return y*_power_of_two(half, form)*_power_of_two(n - half, form)


def _nearest(x: Number, form: _Format) -> tuple[Number, Number]:
    """The nearest integer of a small number, as float and as integer.

    Neither a conversion, which is undefined for NaN, nor a library function.
    """
    shifted = x + form.round
    whole = shifted - form.round
    return whole, bits(shifted) - bits(Number(x.builder, x.constant(form.round)))


def _clamped(x: Number, low: float, high: float) -> Number:
    """`x` between two bounds; NaN stays."""
    x = select(x > high, high, x)
    return select(x < low, low, x)


def _reduced(x: Number, form: _Format) -> tuple[Number, Number]:
    """``exp(r) - 1`` and the integer ``n`` of ``x = n*log(2) + r``."""
    whole, n = _nearest(x*math.log2(math.e), form)
    negative = -whole
    r = fma(negative, Number(x.builder, x.constant(form.ln2[0])), x)
    r = fma(negative, Number(x.builder, x.constant(form.ln2[1])), r)
    return fma(r*r, _horner(form.exp, r), r), n


def _exp(x: Number, halvings: int = 0) -> Number:
    """``exp(x)/2**halvings``."""
    form = _format(x)
    y, n = _reduced(_clamped(x, form.log_least, form.log_most + halvings), form)
    return _scaled(y + 1.0, n - halvings, form)


def _exp2(x: Number) -> Number:
    form = _format(x)
    least, most = form.log_least*1.4426950408889634, form.bias + 1.0
    x = _clamped(x, math.floor(least), most)
    whole, n = _nearest(x, form)
    r = x - whole
    return _scaled(fma(_horner(form.exp2, r), r, 1.0), n, form)


def _expm1(x: Number) -> Number:
    form = _format(x)
    y, n = _reduced(_clamped(x, form.log_half_ulp, form.log_most), form)
    half = _power_of_two(n - 1, form)  # 2**n itself may be infinite
    result = fma(y, half, half - 0.5)*2.0
    return select(x.abs() < 2.0**-form.mantissa, x, result)


def _sinh(x: Number) -> Number:
    form = _format(x)
    z, large = x*x, _exp(x.abs(), 1)
    small = fma(x*z, _horner(form.sinh, z), x)
    return select(x.abs() < 1.0, small, (large - 0.25/large).copysign(x))


def _cosh(x: Number) -> Number:
    half = _exp(x.abs(), 1)
    return half + 0.25/half


def _tanh(x: Number) -> Number:
    form = _format(x)
    z = x*x
    small = fma(x*z, _horner(form.tanh, z), x)
    large = 1.0 - 2.0/(_exp(x.abs()*2.0) + 1.0)
    return select(x.abs() < 0.625, small, large).copysign(x)


# Logarithms ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Split:
    """``x = 2**exponent*(1 + f)`` with ``sqrt(1/2) <= 1 + f < sqrt(2)``."""

    exponent: Number
    f: Number


def _split(x: Number, form: _Format) -> _Split:
    least = 2.0**(1 - form.bias)
    subnormal = x < least
    x = select(subnormal, x*2.0**form.mantissa, x)
    root = bits(Number(x.builder, x.constant(math.sqrt(0.5))))
    offset = bits(x) - root
    exponent = offset >> form.mantissa
    f = real((offset & ((1 << form.mantissa) - 1)) + root) - 1.0
    exponent = select(subnormal, exponent - form.mantissa, exponent)
    return _Split(exponent.converted(x.type), f)


def _log_parts(f: Number, form: _Format) -> tuple[Number, Number]:
    """``f*f/2`` and what ``f - f*f/2`` lacks to be ``log(1 + f)``."""
    s = f/(f + 2.0)
    z = s*s
    half = f*f*0.5
    return half, s*fma(z, _horner(form.log, z), half)


def _domain(x: Number, result: Number, pole: float = 0.0) -> Number:
    """`result`, or what a logarithm is at infinity, at its pole and beyond it."""
    result = select(x.equals(math.inf), x, result)
    outside = select(x.equals(pole), Number(x.builder, x.constant(-math.inf)), math.nan)
    return select(x > pole, result, outside)


def _log(x: Number) -> Number:
    form = _format(x)
    split = _split(x, form)
    half, rest = _log_parts(split.f, form)
    low = rest + split.exponent*form.ln2[1]
    return _domain(x, split.exponent*form.ln2[0] - ((half - low) - split.f))


def _log1p(x: Number) -> Number:
    form = _format(x)
    u = x + 1.0
    split = _split(u, form)
    lost = select(split.exponent > 1.0, 1.0 - (u - x), x - (u - 1.0))/u
    whole = split.exponent.equals(0.0)
    f, lost = select(whole, x, split.f), select(whole, 0.0, lost)
    half, rest = _log_parts(f, form)
    low = rest + fma(split.exponent, _constant(x, form.ln2[1]), lost)
    result = split.exponent*form.ln2[0] - ((half - low) - f)
    return select(x.equals(0.0), x, _domain(x, result, -1.0))


def _constant(x: Number, value: float) -> Number:
    return Number(x.builder, x.constant(value))


def _log_in_parts(x: Number, form: _Format) -> tuple[Number, Number, Number]:
    """Exponent, and ``log(1 + f)`` as a number with zeros at its end and a rest."""
    split = _split(x, form)
    half, rest = _log_parts(split.f, form)
    high = real(bits(split.f - half) & -(1 << (form.mantissa + 1)//2))
    return split.exponent, high, ((split.f - high) - half) + rest


def _log2(x: Number) -> Number:
    form = _format(x)
    exponent, high, low = _log_in_parts(x, form)
    tail = (low + high)*form.log2e[1] + low*form.log2e[0]
    head = high*form.log2e[0]
    total = exponent + head
    return _domain(x, total + (tail + ((exponent - total) + head)))


def _log10(x: Number) -> Number:
    form = _format(x)
    exponent, high, low = _log_in_parts(x, form)
    tail = (low + high)*form.log10e[1] + low*form.log10e[0] \
        + exponent*form.log10_2[1]
    first, head = exponent*form.log10_2[0], high*form.log10e[0]
    total = first + head
    return _domain(x, total + (tail + ((first - total) + head)))


# float32 only ----------------------------------------------------------------------


#: erf(x)/x - 1 in x**2, |x| <= 0.93.
_ERF = (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1,
        1.28379166e-1)

#: (1 + 2*a)*exp(a*a)*erfc(a) - 1 in (a - 2)/(a + 2), 0.65 <= a <= 10.06.
_ERFC = (-0.0014706323775002285, 0.0010494935239630247, 0.008770371445114365,
         -0.007995592121576849, -0.05423021268342959, 0.16404883461941336,
         -0.16602978541824026, -0.0927637861697638, 0.27697837598724895)


def _erf(x: Number) -> Number:
    t, s = x.abs(), x*x
    r = fma(t, _constant(x, -1.72853470e-5), 3.83197126e-4)
    u = fma(t, _constant(x, -3.88396438e-3), 2.42546219e-2)
    r = fma(r, s, u)
    for c in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
        r = fma(r, t, c)
    large = (1.0 - _exp(fma(r, t, -t))).copysign(x)
    return select(t > 0.927734375, large, fma(_horner(_ERF, s), x, x))


def _square(a: Number) -> tuple[Number, Number]:
    """``a*a`` as a rounded number and what it lacks."""
    s = a*a
    high = real(bits(a) & -(1 << 12))
    low = a - high
    return s, (high*high - s) + high*low*2.0 + low*low


def _erfc(x: Number) -> Number:
    a = x.abs()
    r = 1.0/(a + 2.0)
    q = fma(r, _constant(x, -4.0), 1.0)
    t = fma(q + 1.0, _constant(x, -2.0), a)
    q = fma(r, fma(-a, q, t), q)
    p = _horner(_ERFC, q)
    r = 1.0/fma(a, _constant(x, 2.0), 1.0)
    q = fma(p, r, r)
    e = fma(fma(q, -a, 0.5), _constant(x, 2.0), p - q)
    r = fma(e, r, q)
    s, lacking = _square(a)
    y, n = _reduced(_clamped(-s, _SINGLE.log_least, 0.0), _SINGLE)
    y = fma(-lacking, y + 1.0, y)  # exp(-a*a) = (1 + y)*2**n
    r = _scaled(fma(r, y, r), n, _SINGLE)
    r = select(a > 10.0546875, 0.0, r)
    tail = select(x < 0.0, 2.0 - r, r)
    y = _horner(_ERF, s)
    middle = select(x < 0.25, 1.0 - fma(y, x, x), 0.5 - fma(y, x, x - 0.5))
    result = select(a < 0.65, middle, tail)
    return select(x.equals(x), result, x)


def _pow(x: Number, y: Number) -> Number:
    """In float64: the exponent magnifies the logarithm's error."""
    a, b = x.converted(ir.DoubleType()), y.converted(ir.DoubleType())
    size = a.abs()
    result = _exp2(_log2(size)*b)
    result = select(size.equals(1.0), select(b.equals(b), 1.0, b), result)
    half = b*0.5
    whole = b.floor().equals(b)
    odd = whole & (half.floor() < half)
    result = select((bits(a) < 0) & odd, -result, result)
    defined = (a >= 0.0) | size.equals(math.inf) | whole
    result = select(defined, result, math.nan)
    result = select(b.equals(0.0) | a.equals(1.0), 1.0, result)
    return result.converted(x.type)


def _hypot(x: Number, y: Number) -> Number:
    a, b = x.converted(ir.DoubleType()), y.converted(ir.DoubleType())
    result = (a*a + b*b).sqrt()
    infinite = a.abs().equals(math.inf) | b.abs().equals(math.inf)
    return select(infinite, math.inf, result).converted(x.type)


_DEFINITIONS: dict[str, Callable[..., Number]] = {
    "exp": _exp, "exp2": _exp2, "expm1": _expm1, "log": _log, "log2": _log2,
    "log10": _log10, "log1p": _log1p, "sinh": _sinh, "cosh": _cosh, "tanh": _tanh,
    "erf": _erf, "erfc": _erfc, "pow": _pow, "hypot": _hypot,
}
_TYPES = {"float32": types.float32, "float64": types.float64}


def _unary(define: Callable[..., Number], kind: Any) -> Any:
    @intrinsic
    def function(typing: Any, x: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return define(Number(builder, values[0])).value

        return kind(kind), codegen

    return function


def _binary(define: Callable[..., Number], kind: Any) -> Any:
    @intrinsic
    def function(typing: Any, x: Any, y: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return define(*(Number(builder, v) for v in values)).value

        return kind(kind, kind), codegen

    return function


#: Text of a kernel calls these by the names in `CALLS`.
MATH: dict[str, Any] = {
    CALLS[op, dtype]: (_binary if op in ("pow", "hypot") else _unary)(
        _DEFINITIONS[op], _TYPES[dtype])
    for dtype, ops in FUNCTIONS.items() for op in ops
}
