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

from ..language.names import rint, select

__all__ = ["cosine", "sine", "tangent"]

#: The quotient by pi/2 has at most 13 bits up to here.
NEAR = 12800.0

# pi/2 in parts of 8, 11, 11 and 24 bits.
_PART1 = 1.5703125
_PART2 = 0.0004837512969970703
_PART3 = 7.549533620476723e-08
_PART4 = 2.5633440682570896e-12
_QUARTER_TURN = 8.515303950216386e-20  # pi/2 * 2**-64


def _words(offset: Any) -> Any:
    """The four words of 2/pi from word ``offset // 32``, at most 4, on."""
    table = (np.uint64(0), np.uint64(0xA2F9836E), np.uint64(0x4E441529),
             np.uint64(0xFC2757D1), np.uint64(0xF534DDC0), np.uint64(0xDB629599),
             np.uint64(0x3C439041), np.uint64(0xFE5163AB))
    by_four, by_two, by_one = (offset & 128) != 0, (offset & 64) != 0, \
        (offset & 32) != 0
    u = (*[select(by_four, table[k + 4], table[k]) for k in range(4)], *table[4:7])
    v = [select(by_two, u[k + 2], u[k]) for k in range(5)]
    return [select(by_one, v[k + 1], v[k]) for k in range(4)]


def _halve(a: Any, offset: Any, step: int, bound: float, scale: float) -> Any:
    large = a >= bound
    return select(large, a*scale, a), select(large, offset + step, offset)


def _split(a: Any) -> Any:
    """`a`, at least 2**13, as integer below 2**24, and 30 + the exponent of 2."""
    small = a < 8388608.0
    offset = select(small, np.uint64(20), np.uint64(30))
    a = select(small, a*1024.0, a)
    a, offset = _halve(a, offset, 64, 2.0**87, 2.0**-64)
    a, offset = _halve(a, offset, 32, 2.0**55, 2.0**-32)
    a, offset = _halve(a, offset, 16, 2.0**39, 2.0**-16)
    a, offset = _halve(a, offset, 8, 2.0**31, 2.0**-8)
    a, offset = _halve(a, offset, 4, 2.0**27, 2.0**-4)
    a, offset = _halve(a, offset, 2, 2.0**25, 2.0**-2)
    a, offset = _halve(a, offset, 1, 2.0**24, 2.0**-1)
    return np.uint64(a), offset


def _far(a: Any) -> tuple[Any, Any]:
    """Quadrant and remainder of a large `a`."""
    m, offset = _split(a)
    scale = np.uint64(1) << (offset & 31)
    w = [word*scale for word in _words(offset)]
    # 32 bits each, after a word of zeros, from bit `offset` on.
    first, second, third = [(w[k] & 0xFFFFFFFF) | (w[k + 1] >> 32) for k in range(3)]
    low = m*third
    middle = m*second + (low >> 32)
    high = (m*first + (middle >> 32)) & 0xFFFFFFFF
    fraction = (((high & 0x3FFFFFFF) << 34) | ((middle & 0xFFFFFFFF) << 2)
                | ((low & 0xFFFFFFFF) >> 30))
    quadrant = (high >> 30) + (fraction >> 63)
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
