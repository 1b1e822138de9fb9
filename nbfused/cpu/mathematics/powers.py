"""Powers of two floats as branch-free LLVM code.

``x**y`` is ``2**(y*log2(x))``, and the exponent magnifies errors: the logarithm of a
float64 is the sum of two numbers, that of a float32 is computed in float64.
"""

from __future__ import annotations

import math

from llvmlite import ir

from .exponentials import scale
from .formats import DOUBLE, constant, horner, product, two_sum
from .logarithms import split
from .number import Number, bits, fma, real, select

__all__ = ["power"]

#: Of ``log2((1 + s)/(1 - s))/s`` in ``z = s**2``, ``|s| <= 3 - 2*sqrt(2)``: the first
#: two coefficients, each in two numbers, and those from ``z**2`` on.
_FIRST = 2.8853900817779268, 4.0710547481862066e-17
_SECOND = 0.9617966939259756, 5.0577616648125907e-17
_LOG2 = (0.1691462857013732, 0.1688837059163064, 0.19238062525550095,
         0.22195278749564187, 0.26230819147835355, 0.32059889796710966,
         0.41219858311114393, 0.5770780163555853)
#: All of them, as far as a float32 needs them; and of ``2**r``, ``|r| <= 1/2``.
_LOG2_SINGLE = (0.28290661731480443, 0.3199053738641181, 0.41220925678788173,
                0.5770779423594369, 0.9617966941132128, 2.88539008177785)
_EXP2_SINGLE = (1.5303700711365693e-05, 0.00015469729214118296, 0.0013333478473685416,
                0.009618025613318034, 0.055504109063258665, 0.24022651213498092,
                0.6931471805568324, 0.9999999999595618)
#: Exponents of two beyond which a float32 is 0 or infinite, and a float64.
_MOST_SINGLE, _MOST = 200.0, 1100.0


def power(x: Number, y: Number) -> Number:
    """``x**y`` as C's ``pow``: NaN of a negative `x` unless `y` is a whole number."""
    size = x.abs()
    single = isinstance(x.element, ir.FloatType)
    result = _single(size, y) if single else _double(size, y)
    infinite, known = size.equals(math.inf), y.equals(y)
    limit = select((y > 0.0) ^ infinite, 0.0, constant(x, math.inf))
    result = select((size.equals(0.0) | infinite) & known, limit, result)
    result = select(size.equals(1.0) & known, 1.0, result)
    half = y*0.5
    whole = y.floor().equals(y)
    odd = whole & (half.floor() < half)
    result = select((bits(x) < 0) & odd, -result, result)
    defined = (x >= 0.0) | ((x < 0.0) & (infinite | whole))
    result = select(defined, result, math.nan)
    return select(y.equals(0.0) | x.equals(1.0), 1.0, result)


def _within(x: Number, most: float) -> Number:
    """`x`, but no larger than `most` in magnitude; NaN stays."""
    x = select(x < -most, -most, x)
    return select(x > most, most, x)


def _single(size: Number, power: Number) -> Number:
    """``size**power`` of float32, of which `size` is positive."""
    x, y = size.converted(ir.DoubleType()), power.converted(ir.DoubleType())
    parts = split(x, DOUBLE, subnormals=False)
    s = parts.f/(parts.f + 2.0)
    total = fma(s, horner(_LOG2_SINGLE, s*s), parts.exponent)*y
    total = _within(total, _MOST_SINGLE)
    shifted = total + DOUBLE.round
    result = horner(_EXP2_SINGLE, total - (shifted - DOUBLE.round))
    result = real(bits(result) + (bits(shifted) << DOUBLE.mantissa))
    return result.converted(size.type)


def _double(size: Number, y: Number) -> Number:
    """``size**y`` of positive float64 numbers."""
    high, low = _log2_in_two(size)
    total, lacking = product(high, y)
    lacking = fma(low, y, lacking)
    inside = total.abs() < _MOST
    total = _within(total, _MOST)
    shifted = total + DOUBLE.round
    r = (total - (shifted - DOUBLE.round)) + select(inside, lacking, 0.0)
    result = scale(fma(horner(DOUBLE.exp2, r), r, 1.0), bits(shifted),
                   total < 3.0 - DOUBLE.bias)
    return select(total < DOUBLE.bias + 1.0, result, total + math.inf)


def _log2_in_two(x: Number) -> tuple[Number, Number]:
    """``log2(x)`` as a float64 and what it lacks."""
    parts = split(x, DOUBLE)
    f, exponent = parts.f, parts.exponent
    below, rounded = two_sum(constant(f, 2.0), f)
    inverse = 1.0/below
    s = f*inverse
    taken, more = product(s, below)
    s_low = (((f - taken) - more) - s*rounded)*inverse

    z, z_low = product(s, s)
    z_low = fma(s*2.0, s_low, z_low)
    second, second_low = product(z, constant(z, _SECOND[0]))
    second_low = second_low + fma(z, constant(z, _SECOND[1]),
                                  z_low*_SECOND[0]) + z*z*horner(_LOG2, z)
    high = second + _FIRST[0]
    low = (second - (high - _FIRST[0])) + (second_low + _FIRST[1])

    head, head_low = product(s, high)
    head_low = fma(s, low, fma(s_low, high, head_low))
    total = exponent + head
    rest = (head - (total - exponent)) + head_low
    whole = total + rest
    return whole, rest - (whole - total)
