"""Bessel functions of CUDA's that the vocabulary lacks, in the scalar language.

Within 1e-15 of the amplitude of order 0 and 1, others by recurrences; a function is
differentiated through what it does.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["BESSEL"]

# Polynomials in t from -1 to 1, lowest power first, converted from Chebyshev series of
# 40 digits: up to 8, of J0, J1/x, Y0 and Y1/x without what is singular, where
# t = x*x/32 - 1; beyond, of Hankel's P and of Q*x, where t = 128/(x*x) - 1.
_SERIES: Mapping[str, tuple[float, ...]] = {
    "j0": (
        0.04582966485981377, 0.9303012472958572, -0.6484692830871837,
        -0.808088807669687, 1.0383794611437211, -0.507468045847102, 0.14598884856759273,
        -0.028472718610869575, 0.00405807898914049, -0.00044354592247272207,
        3.847319785739127e-05, -2.7177491450236107e-06, 1.5956108859013864e-07,
        -7.915407738245845e-09, 3.3634718625335544e-10, -1.2384637259147907e-11,
        3.9908119662761275e-13, -1.1382224373024272e-14, 2.878070067455014e-16,
    ),
    "j1": (
        -0.05814382795599107, 0.08105866038589796, 0.15151665143806634,
        -0.2595948652859303, 0.15858376432721938, -0.054745818212847276,
        0.01245681439225544, -0.002029039494570245, 0.0002494945813908964,
        -2.4045748660869658e-05, 1.8684525372339904e-06, -1.1967081644236783e-07,
        6.431268732310459e-09, -2.943037882441676e-10, 1.1610655467503859e-11,
        -3.990810305436148e-13, 1.2060725733143973e-14, -3.238244035881746e-16,
        7.738273692780193e-18,
    ),
    "y0": (
        -0.382250654459425, -0.8284358903604587, 1.6470964788745466,
        0.14412632369302442, -1.0775477338215995, 0.6721770783431723,
        -0.2189574709617165, 0.0463670476813471, -0.0070257410572698254,
        0.0008061586060550644, -7.279541882784653e-05, 5.321318633735116e-06,
        -3.21850778850227e-07, 1.6391065268260488e-08, -7.130516940302427e-10,
        2.681822137847736e-11, -8.810525464319686e-13, 2.558039436392922e-14,
        -6.574807056314511e-16,
    ),
    "y1": (
        0.07075985882118005, -0.24337743079193114, 0.023367571720993584,
        0.23507209206669755, -0.19639839859930425, 0.07854786922242545,
        -0.01962875683309943, 0.0034224907399180455, -0.00044381734351146775,
        4.467433012914413e-05, -3.6009998744473813e-06, 2.380492991366028e-07,
        -1.3153322399136199e-08, 6.169742613332968e-10, -2.4887660224192962e-11,
        8.728810134833414e-13, -2.6871218482061387e-14, 7.339060975161991e-16,
        -1.7815800395320226e-17,
    ),
    "p0": (
        0.9994572757882519, -0.0005363673192130031, 6.137416080160052e-06,
        -2.0527448162501888e-07, 1.2803760647097586e-08, -1.212117537945456e-09,
        1.5501028980223302e-10, -2.4885888653391632e-11, 4.774299364892953e-12,
        -1.0558984414729946e-12, 2.626046991393439e-13, -7.436258291563228e-14,
        2.276327211497916e-14, -5.003512606549755e-15, 1.3737078896264978e-15,
        -1.8124040596405556e-15, 7.764363816048253e-16,
    ),
    "q0": (
        -0.12444091103610815, 0.0005466519279475109, -1.1817110661171062e-05,
        5.68497188761875e-07, -4.534972900180117e-08, 5.146225268539058e-09,
        -7.576280245550776e-10, 1.36265138876175e-10, -2.8726953457199982e-11,
        6.878054876576863e-12, -1.831523653207644e-12, 5.570266801419944e-13,
        -1.8114989811221734e-13, 3.750385225206484e-14, -9.94348527082922e-15,
        1.715922366263432e-14, -7.657652788300258e-15,
    ),
    "p1": (
        1.0009070262780821, 0.0008988049416705562, -7.959694698491683e-06,
        2.453676622919676e-07, -1.4708512153102214e-08, 1.3603051003202518e-09,
        -1.7131564368232615e-10, 2.7207423845067296e-11, -5.177745647802079e-12,
        1.1380209827646576e-12, -2.8162645505374063e-13, 7.938203357852539e-14,
        -2.4209339956099604e-14, 5.3318179078548966e-15, -1.4645155990436493e-15,
        1.908829676455745e-15, -8.1606305518051685e-16,
    ),
    "q1": (
        0.3742149922195918, -0.0007697167057643541, 1.4569614809820019e-05,
        -6.63356856721788e-07, 5.136106062996899e-08, -5.720884228409981e-09,
        8.3160246094734e-10, -1.4819760550541304e-10, 3.10243678799299e-11,
        -7.387575652695626e-12, 1.9585271585017253e-12, -5.930663429711509e-13,
        1.9220091830228062e-13, -3.9930634717455626e-14, 1.0609588211141575e-14,
        -1.8043072000621468e-14, 8.036657502701627e-15,
    ),
}


def _horner(name: str) -> str:
    """The text of a series in `t`."""
    *lower, text = map(repr, _SERIES[name])
    for number in reversed(lower):
        text = f"{number} + t * ({text})"
    return text


#: Beyond 8: the sine and cosine of the phase without the digits that x - pi/4 drops.
_PHASES = {0: ("c + s", "s - c"), 1: ("s - c", "-(s + c)")}


def _far(order: int, second: bool) -> list[str]:
    """Lines of Hankel's asymptotic form, of J or of Y."""
    cosine, sine = _PHASES[order]
    p, q = (f"({_horner(f'{part}{order}')})" for part in "pq")
    first, other = (sine, f"+ q * ({cosine})") if second else (
        cosine, f"- q * ({sine})")
    return ["t = 128.0 / (a * a) - 1.0", "c = cos(a)", "s = sin(a)", f"p = {p}",
            f"q = {q} / a",
            # sqrt(1 / (pi * a)), the half of 2 / (pi * a) being in the phase
            f"wave = 0.5641895835477563 * (p * ({first}) {other}) / sqrt(a)",
            "far = 0.0 if 1.0 / a == 0.0 else wave"]


def _text(name: str, *lines: str) -> str:
    return "\n    ".join([f"def {name}(x):", *lines])


def _first(order: int) -> str:
    """J of an order, even or odd."""
    return _text(
        f"j{order}", "a = abs(x)",
        "if a <= 8.0:", "    t = x * x / 32.0 - 1.0",
        f"    return {'x * ' * order}({_horner(f'j{order}')})",
        *_far(order, second=False), "return far" + " * copysign(1.0, x)" * order)


def _second(order: int) -> str:
    """Y of an order: infinite at 0, NaN on the left."""
    pole = "log(x) * j0(x)" if order == 0 else "(log(x) * j1(x) - 1.0 / x)"
    return _text(
        f"y{order}", "if x <= 0.0:", "    return -1.0 / abs(x) if x == 0.0 else "
        "(x - x) / (x - x)", "a = x",
        "if a <= 8.0:", "    t = x * x / 32.0 - 1.0",
        f"    return 0.6366197723675814 * {pole} + {'x * ' * order}"
        f"({_horner(f'y{order}')})",
        *_far(order, second=True), "return far")


# By the recurrence, which is stable upwards for Y, up to what is infinite.
_YN = """
    def yn(n, x):
        low = y0(x)
        high = y1(x)
        for k in range(1, int(n)):
            next = 2.0 * k / x * high - low if high - high == 0.0 else high
            low = high
            high = next
        return (x - x) / (x - x) if n < 0.0 else y0(x) if n < 1.0 else high
"""

# Upwards where that is stable; else down from zeros far above, Miller's way, divided by
# J0 + 2 J2 + 2 J4 + ... = 1 (Abramowitz & Stegun 9.1.46), and by the first term of the
# series where x is small.  The start is that of Numerical Recipes, section 6.5.
_JN = """
    def jn(n, x):
        order = int(n)
        if order < 2:
            return (x - x) / (x - x) if n < 0.0 else j0(x) if order == 0 else j1(x)
        a = abs(x)
        found = j1(a)
        if a > n:
            low = j0(a)
            for k in range(1, order):
                next = 2.0 * k / a * found - low
                low = found
                found = next
        elif a < 0.0001:
            found = 1.0
            for k in range(order):
                found = found * (a / (2.0 * k + 2.0))
            found = found * (1.0 - a * a / (4.0 * n + 4.0))
        else:
            high = 0.0 * a
            here = 1.0 + high
            total = high
            found = high
            start = 2 * ((order + int(sqrt(160.0 * n))) // 2)
            for step in range(start):
                k = start - step
                next = 2.0 * k / a * here - high
                high = here
                here = next
                found = high if k == order else found
                scale = 1e-20 if abs(here) > 1e10 else 1.0
                high = high * scale
                here = here * scale
                found = found * scale
                total = total * scale + (here if k % 2 == 1 and k > 1 else 0.0)
            found = found / (2.0 * total + here)
        return -found if x < 0.0 and order % 2 == 1 else found
"""

#: Definitions by their names in C; each may call those before it.
BESSEL: Mapping[str, str] = {
    "j0": _first(0), "j1": _first(1), "y0": _second(0), "y1": _second(1), "yn": _YN,
    "jn": _JN,
}
