"""Special functions of CUDA's that the vocabulary lacks, in the scalar language.

Each is within about fifty units of the last place of a float64, and is differentiated
through what it does.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["SPECIAL"]

# exp(x*x) in two factors, the first of them exact; an asymptotic series from 9 on.
_ERFCX = """
    def erfcx(x):
        near = min(max(x, -30.0), 9.0)
        head = rint(near * 64.0) / 64.0
        square = exp(head * head) * exp((near - head) * (near + head))
        far = max(x, 9.0)
        r = 0.5 / (far * far)
        tail = 1.0
        for k in range(13):
            tail = 1.0 - (25.0 - 2.0 * k) * r * tail
        return 0.5641895835477563 / far * tail if x > 9.0 else square * erfc(near)
"""

# Of a tail, by Halley's steps on erfc, from a rational start.
_TAIL = """
    def _tail(p):
        inside = p > 0.0
        q = p if inside else 0.5
        t = sqrt(-2.0 * log(0.5 * q))
        y = 0.7071067811865476 * (t - (2.515517 + t * (0.802853 + t * 0.010328)) / (
            1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))))
        for k in range(3):
            head = rint(y * 64.0) / 64.0
            slope = exp(-(head * head)) * exp(-((y - head) * (y + head)))
            step = 0.886226925452758 * ((erfc(y) - q) / slope)
            y = y + step / (1.0 + y * step)
        return y if inside else 1.0 / abs(p) if p == 0.0 else (p - p) / (p - p)
"""

# Of the middle, by steps on erf, which keeps the digits that 1 - s drops.
_MIDDLE = """
    def _middle(s):
        y = s * (0.886226925452758 + s * s * (0.232013666534654 + s * s * (
            0.127556175305598 + s * s * 0.086552129241547)))
        for k in range(3):
            step = 0.886226925452758 * (erf(y) - s) * exp(y * y)
            y = y - step / (1.0 + y * step)
        return y
"""

_ERFINV = """
    def erfinv(x):
        near = abs(x) < 0.5
        middle = _middle(x if near else 0.0)
        far = _tail(1.0 - abs(x))
        return middle if near else far if x > 0.0 else -far
"""

_ERFCINV = """
    def erfcinv(x):
        near = abs(1.0 - x) < 0.5
        middle = _middle(1.0 - x if near else 0.0)
        far = _tail(x if x < 1.0 else 2.0 - x)
        return middle if near else far if x < 1.0 else -far
"""

#: Definitions by their names in C; each may call those before it, of which what begins
#: with an underscore is no function of CUDA's.
SPECIAL: Mapping[str, str] = {
    "_tail": _TAIL, "_middle": _MIDDLE, "erfcx": _ERFCX, "erfinv": _ERFINV,
    "erfcinv": _ERFCINV,
    "normcdfinv": "def normcdfinv(x): return -1.4142135623730951 * erfcinv(2.0 * x)",
}
