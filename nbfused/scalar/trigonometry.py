"""sin, cos and tan of float32 without float64, for arguments of any size.

Up to `NEAR` the multiple of pi/2 is subtracted in four parts, the products of the
first three being exact (Cody and Waite).  Beyond, the argument is multiplied with the
96 bits of 2/pi that matter, in integers (Payne and Hanek).  The polynomials on
[-pi/4, pi/4] are those of Cephes.  The order of additions matters: compilers must not
reassociate.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .language import rint, select

__all__ = ["cosine", "sine", "tangent"]

#: The quotient by pi/2 has at most 13 bits up to here.
NEAR = 12800.0

# pi/2 in parts of 8, 11, 11 and 24 bits.
_PART1 = 1.5703125
_PART2 = 0.0004837512969970703
_PART3 = 7.549533620476723e-08
_PART4 = 2.5633440682570896e-12
_QUARTER_TURN = 8.515303950216386e-20  # pi/2 * 2**-64


def _word(i: Any) -> Any:
    """Bits 32*(i - 1) and on of 2/pi; 32 zeros come first."""
    return select(i == 0, 0, select(
        i == 1, 0xA2F9836E, select(
            i == 2, 0x4E441529, select(
                i == 3, 0xFC2757D1, select(
                    i == 4, 0xF534DDC0, select(
                        i == 5, 0xDB629599, select(
                            i == 6, 0x3C439041, 0xFE5163AB)))))))


def _window(i: Any, shift: Any) -> Any:
    """32 bits of 2/pi from bit ``32*(i - 1) + shift`` on."""
    pair = (np.uint64(_word(i)) << 32) | np.uint64(_word(i + 1))
    return (pair >> (32 - shift)) & 0xFFFFFFFF


def _halve(a: Any, exponent: Any, step: int, bound: float, scale: float) -> Any:
    large = a >= bound
    return select(large, a*scale, a), select(large, exponent + step, exponent)


def _split(a: Any) -> Any:
    """`a`, at least 2**13, as integer below 2**24 and the exponent of a power of 2."""
    small = a < 8388608.0
    exponent = select(small, -10, 0)
    a = select(small, a*1024.0, a)
    a, exponent = _halve(a, exponent, 64, 2.0**87, 2.0**-64)
    a, exponent = _halve(a, exponent, 32, 2.0**55, 2.0**-32)
    a, exponent = _halve(a, exponent, 16, 2.0**39, 2.0**-16)
    a, exponent = _halve(a, exponent, 8, 2.0**31, 2.0**-8)
    a, exponent = _halve(a, exponent, 4, 2.0**27, 2.0**-4)
    a, exponent = _halve(a, exponent, 2, 2.0**25, 2.0**-2)
    a, exponent = _halve(a, exponent, 1, 2.0**24, 2.0**-1)
    return np.uint64(a), exponent


def _far(a: Any) -> tuple[Any, Any]:
    """Quadrant and remainder of a large `a`."""
    m, exponent = _split(a)
    offset = np.uint64(exponent + 30)
    i, shift = int(offset >> 5), offset & 31
    low = m*_window(i + 2, shift)
    middle = m*_window(i + 1, shift) + (low >> 32)
    high = (m*_window(i, shift) + (middle >> 32)) & 0xFFFFFFFF
    fraction = (((high & 0x3FFFFFFF) << 34) | ((middle & 0xFFFFFFFF) << 2)
                | ((low & 0xFFFFFFFF) >> 30))
    quadrant = int(high >> 30) + int(fraction >> 63)
    return np.int32(quadrant), np.float32(np.int64(fraction))*_QUARTER_TURN


def _reduced(x: Any) -> Any:
    """The quadrant of `x`, counted from 0 and not wrapped, and what is left of it."""
    a = abs(x)
    if a < NEAR:
        k = rint(x*0.6366197723675814)
        quadrant = np.int32(k)
        r = ((x - k*_PART1) - k*_PART2) - k*_PART3 - k*_PART4
    else:
        quadrant, r = _far(a)
        quadrant = select(x < 0.0, -quadrant, quadrant)
        r = select(x < 0.0, -r, r)
        r = select(a < math.inf, r, math.nan)
    return quadrant, r


def _waves(r: Any) -> Any:
    r"""sin(r) and cos(r) for \|r\| <= pi/4."""
    z = r*r
    s = r + r*z*(-0.16666654611 + z*(0.0083321608736 - z*0.00019515295891))
    c = 1.0 - 0.5*z + z*z*(0.04166664568298827 + z*(
        -0.001388731625493765 + z*2.443315711809948e-05))
    return s, c


def sine(x: Any) -> Any:
    """The sine of a float32."""
    quadrant, r = _reduced(x)
    s, c = _waves(r)
    y = select((quadrant & 1) == 0, s, c)
    return select(x == 0.0, x, select((quadrant & 2) == 0, y, -y))  # keeps -0


def cosine(x: Any) -> Any:
    """The cosine of a float32."""
    quadrant, r = _reduced(x)
    s, c = _waves(r)
    y = select((quadrant & 1) == 0, c, s)
    return select(((quadrant + 1) & 2) == 0, y, -y)


def tangent(x: Any) -> Any:
    """The tangent of a float32."""
    quadrant, r = _reduced(x)
    s, c = _waves(r)
    return select(x == 0.0, x, select((quadrant & 1) == 0, s/c, -c/s))
