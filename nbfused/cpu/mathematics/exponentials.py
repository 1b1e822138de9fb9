"""Exponential and hyperbolic functions as branch-free LLVM code.

``x`` is ``n*log(2) + r`` with a whole ``n``; ``exp(r)`` is a polynomial, to whose
exponent, in the bits, ``n`` is added.  Where the result may be subnormal, more than
``n`` is added and the sum multiplied down, with one rounding.
"""

from __future__ import annotations

import math

from ...support.records import record
from .formats import Format, constant, format_of, horner, product
from .number import Number, bits, fma, real, select

__all__ = ["Reduced", "at_least", "cosh", "exp", "exp2", "exp_of_product", "expm1",
           "expm1_of_rest", "reduce_range", "scale", "sigmoid", "sinh", "tanh"]


@record(frozen=True)
class Reduced:
    """A range-reduced argument: ``x = n*log(2) + r``."""

    rest: Number
    power: Number


def reduce_range(x: Number) -> Reduced:
    """Reduce ``x`` to ``n*log(2) + r``; not for large numbers; NaN stays."""
    form = format_of(x)
    # The sum has the nearest whole number in its last bits.  A conversion would be
    # undefined for NaN.
    shifted = fma(x, constant(x, math.log2(math.e)), form.round)
    negative = form.round - shifted
    r = fma(negative, constant(x, form.ln2[0]), x)
    return Reduced(fma(negative, constant(x, form.ln2[1]), r), bits(shifted))


def _exp_of_rest(r: Number) -> Number:
    """``exp(r)`` of a reduced argument."""
    return horner((*format_of(r).exp, 1.0, 1.0), r)


def expm1_of_rest(r: Number) -> Number:
    """``exp(r) - 1`` of a reduced argument."""
    return fma(r*r, horner(format_of(r).exp, r), r)


def scale(y: Number, power: Number, small: Number) -> Number:
    """``y*2**n`` for a normal `y`; `small` is true where the result may be subnormal.

    The last bits of `power` are ``n``, and what is before them is shifted out.
    """
    form = format_of(y)
    up = form.bias//2 + 1
    power = select(small, power + up, power)
    result = real(bits(y) + (power << form.mantissa))
    return select(small, result*2.0**-up, result)


def at_least(x: Number, low: float) -> Number:
    """The larger number; NaN stays."""
    return select(x < low, low, x)


def exp(x: Number, halvings: int = 0) -> Number:
    """``exp(x)/2**halvings``, for at most one halving."""
    form = format_of(x)
    low = at_least(x, form.log_least)
    parts = reduce_range(low)
    result = scale(_exp_of_rest(parts.rest), parts.power - halvings,
                   low < form.log_small)
    return select(x <= form.log_most[halvings], result, x + math.inf)


def exp_of_product(u: Number, v: Number) -> Number:
    """``exp(u*v)`` of the exact, not the rounded, product."""
    x, lacking = product(u, v)
    form = format_of(x)
    parts = reduce_range(x)  # where x is too small, this is replaced below
    result = scale(_exp_of_rest(parts.rest + lacking), parts.power, x < form.log_small)
    result = select(x <= form.log_most[0], result, x + math.inf)
    return select(x < form.log_least, 0.0, result)


def exp2(x: Number) -> Number:
    """``2**x``."""
    form = format_of(x)
    low = at_least(x, math.floor(form.log_least/math.log(2.0)))
    shifted = low + form.round
    r = low - (shifted - form.round)
    result = scale(fma(horner(form.exp2, r), r, 1.0), bits(shifted),
                   low < 3.0 - form.bias)
    return select(x < form.bias + 1.0, result, x + math.inf)


def _power_of_two(n: Number, form: Format) -> Number:
    """``2**n`` for an integer in the range of normal numbers."""
    return real((n + form.bias) << form.mantissa)


def expm1(x: Number) -> Number:
    """``exp(x) - 1``."""
    form = format_of(x)
    clamped = at_least(x, form.log_half_ulp)
    parts = reduce_range(clamped)
    n = parts.power - bits(constant(x, form.round))
    half = _power_of_two(n - 1, form)  # 2**n itself may be infinite
    result = fma(expm1_of_rest(parts.rest), half, half - 0.5)*2.0
    result = select(x <= form.log_most[0], result, x + math.inf)
    return select(x.abs() < 2.0**-form.mantissa, x, result)


def sigmoid(x: Number) -> Number:
    """``1/(1 + exp(-x))``.

    Both terms below are multiplied by so small a power of two that ``exp(-x)`` is a
    normal number wherever it matters: nothing has to be chosen, in either tail.
    """
    form = format_of(x)
    down = form.mantissa + 1
    x = at_least(x, form.log_least)
    x = select(x > float(down), float(down), x)
    nearest = form.round + (form.bias - down)  # in the last bits: a biased exponent
    shifted = fma(x, constant(x, -math.log2(math.e)), nearest)
    negative = nearest - shifted
    r = fma(negative, constant(x, form.ln2[0]), -x)
    r = fma(negative, constant(x, form.ln2[1]), r)
    power = real(bits(shifted) << form.mantissa)
    scale = constant(x, 2.0**-down)
    return scale/fma(_exp_of_rest(r), power, scale)


def sinh(x: Number) -> Number:
    """``(exp(x) - exp(-x))/2``."""
    form = format_of(x)
    z, large = x*x, exp(x.abs(), 1)
    small = fma(x*z, horner(form.sinh, z), x)
    return select(x.abs() < 1.0, small, (large - 0.25/large).copysign(x))


def cosh(x: Number) -> Number:
    """``(exp(x) + exp(-x))/2``."""
    half = exp(x.abs(), 1)
    return half + 0.25/half


def tanh(x: Number) -> Number:
    """``sinh(x)/cosh(x)``."""
    form = format_of(x)
    z = x*x
    small = fma(x*z, horner(form.tanh, z), x)
    large = 1.0 - 2.0/(exp(x.abs()*2.0) + 1.0)
    return select(x.abs() < 0.625, small, large).copysign(x)
