"""Logarithms as branch-free LLVM code."""

from __future__ import annotations

import math

from ...support.records import record
from .formats import Format, constant, format_of, horner
from .number import Number, bits, fma, real, select

__all__ = ["Split", "log", "log1p", "log2", "log10", "split"]


@record(frozen=True)
class Split:
    """A number split as ``2**exponent*(1 + f)``, ``sqrt(1/2) <= 1 + f < sqrt(2)``."""

    exponent: Number
    f: Number


def split(x: Number, form: Format, *, subnormals: bool = True) -> Split:
    """Split a positive number, which may be one of the `subnormals`."""
    small = x < 2.0**(1 - form.bias)
    if subnormals:
        x = select(small, x*2.0**form.mantissa, x)
    root = bits(Number(x.builder, x.constant(math.sqrt(0.5))))
    offset = bits(x) - root
    exponent = offset >> form.mantissa
    f = real((offset & ((1 << form.mantissa) - 1)) + root) - 1.0
    if subnormals:
        exponent = select(small, exponent - form.mantissa, exponent)
    return Split(exponent.converted(x.type), f)


def _log_parts(f: Number, form: Format) -> tuple[Number, Number]:
    """``f*f/2``, and the rest of ``log(1 + f)`` beyond ``f - f*f/2``."""
    s = f/(f + 2.0)
    z = s*s
    half = f*f*0.5
    return half, s*fma(z, horner(form.log, z), half)


def _domain(x: Number, result: Number, pole: float = 0.0) -> Number:
    """`result`, corrected at infinity, at the pole and below it."""
    result = select(x.equals(math.inf), x, result)
    outside = select(x.equals(pole), Number(x.builder, x.constant(-math.inf)), math.nan)
    return select(x > pole, result, outside)


def log(x: Number) -> Number:
    """``log(x)``."""
    form = format_of(x)
    parts = split(x, form)
    half, rest = _log_parts(parts.f, form)
    low = rest + parts.exponent*form.ln2[1]
    return _domain(x, parts.exponent*form.ln2[0] - ((half - low) - parts.f))


def log1p(x: Number) -> Number:
    """``log(1 + x)``."""
    form = format_of(x)
    u = x + 1.0
    parts = split(u, form)
    lost = select(parts.exponent > 1.0, 1.0 - (u - x), x - (u - 1.0))/u
    whole = parts.exponent.equals(0.0)
    f, lost = select(whole, x, parts.f), select(whole, 0.0, lost)
    half, rest = _log_parts(f, form)
    low = rest + fma(parts.exponent, constant(x, form.ln2[1]), lost)
    result = parts.exponent*form.ln2[0] - ((half - low) - f)
    return select(x.equals(0.0), x, _domain(x, result, -1.0))


def _log_in_parts(x: Number, form: Format) -> tuple[Number, Number, Number]:
    """Exponent, and ``log(1 + f)`` as a high part and a rest."""
    parts = split(x, form)
    half, rest = _log_parts(parts.f, form)
    high = real(bits(parts.f - half) & -(1 << (form.mantissa + 1)//2))
    return parts.exponent, high, ((parts.f - high) - half) + rest


def log2(x: Number) -> Number:
    """``log(x)/log(2)``."""
    form = format_of(x)
    exponent, high, low = _log_in_parts(x, form)
    tail = (low + high)*form.log2e[1] + low*form.log2e[0]
    head = high*form.log2e[0]
    total = exponent + head
    return _domain(x, total + (tail + ((exponent - total) + head)))


def log10(x: Number) -> Number:
    """``log(x)/log(10)``."""
    form = format_of(x)
    exponent, high, low = _log_in_parts(x, form)
    tail = (low + high)*form.log10e[1] + low*form.log10e[0] \
        + exponent*form.log10_2[1]
    first, head = exponent*form.log10_2[0], high*form.log10e[0]
    total = first + head
    return _domain(x, total + (tail + ((first - total) + head)))
