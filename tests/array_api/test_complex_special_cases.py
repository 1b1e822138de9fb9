"""Special cases of complex numbers, as the standard 2024.12 lists them.

A row has what the real and the imaginary part are, and what those of the result are;
``?`` stands for a sign that is not specified.  Conjugates are checked instead of being
listed, as in the standard.  Its rows of `sqrt` with an infinite real part and a finite
imaginary one are exchanged and wrong; those here are C99's.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from .oracle import function, host, xp

pytestmark = pytest.mark.interpreted

#: Shared by functions that are logarithms far away from 0.
FAR = ("fin +inf -> +inf pi/2, fin nan -> nan nan, -inf pos -> +inf pi, "
       "+inf pos -> +inf +0, -inf +inf -> +inf 3pi/4, +inf +inf -> +inf pi/4, "
       "inf nan -> +inf nan, nan fin -> nan nan, nan +inf -> +inf nan, ")
TABLE = {
    "acos": "0 +0 -> pi/2 -0, 0 nan -> pi/2 nan, fin +inf -> pi/2 -inf, "
            "nonzero nan -> nan nan, -inf pos -> pi -inf, +inf pos -> +0 -inf, "
            "-inf +inf -> 3pi/4 -inf, +inf +inf -> pi/4 -inf, inf nan -> nan ?inf, "
            "nan fin -> nan nan, nan +inf -> nan -inf, ",
    "acosh": FAR.replace("fin nan ->", "nonzero nan ->")
             + "0 +0 -> +0 pi/2, 0 nan -> nan ?pi/2, ",
    "asinh": "+0 +0 -> +0 +0, pos +inf -> +inf pi/2, fin nan -> nan nan, "
             "+inf pos -> +inf +0, +inf +inf -> +inf pi/4, nan +0 -> nan +0, "
             "nan nonzero -> nan nan, nan +inf -> ?inf nan, ",
    "atanh": "+0 +0 -> +0 +0, +0 nan -> +0 nan, +1 +0 -> +inf +0, pos +inf -> +0 pi/2, "
             "nonzero nan -> nan nan, +inf pos -> +0 pi/2, +inf +inf -> +0 pi/2, "
             "+inf nan -> +0 nan, nan fin -> nan nan, nan +inf -> ?0 pi/2, ",
    "cosh": "+0 +0 -> +1 +0, +0 +inf -> nan ?0, +0 nan -> nan ?0, +inf +0 -> +inf +0, "
            "nonzero +inf -> nan nan, nonzero nan -> nan nan, "
            "+inf nonzero -> inf*cos inf*sin, +inf +inf -> ?inf nan, "
            "+inf nan -> +inf nan, nan 0 -> nan ?0, nan nonzero -> nan nan, ",
    "exp": "0 +0 -> +1 +0, fin +inf -> nan nan, fin nan -> nan nan, "
           "+inf +0 -> +inf +0, -inf fin -> 0*cos 0*sin, "
           "+inf nonzero -> inf*cos inf*sin, -inf +inf -> ?0 ?0, "
           "+inf +inf -> ?inf nan, -inf nan -> ?0 ?0, +inf nan -> ?inf nan, "
           "nan +0 -> nan +0, nan nonzero -> nan nan, ",
    "expm1": "0 +0 -> ?0 +0, fin +inf -> nan nan, fin nan -> nan nan, "
             "+inf +0 -> +inf +0, -inf fin -> -1 0*sin, "
             "+inf nonzero -> inf*cos inf*sin, -inf +inf -> -1 ?0, "
             "+inf +inf -> ?inf nan, -inf nan -> -1 ?0, +inf nan -> ?inf nan, "
             "nan +0 -> nan +0, nan nonzero -> nan nan, ",
    "log": FAR + "-0 +0 -> -inf pi, +0 +0 -> -inf +0, ",
    "log1p": FAR + "-1 +0 -> -inf +0, ",
    "sign": "0 0 -> ?0 ?0, nan any -> nan nan, any nan -> nan nan, ",
    "sinh": "+0 +0 -> +0 +0, +0 +inf -> ?0 nan, +0 nan -> ?0 nan, pos +inf -> nan nan, "
            "pos nan -> nan nan, +inf +0 -> +inf +0, +inf pos -> inf*cos inf*sin, "
            "+inf +inf -> ?inf nan, +inf nan -> ?inf nan, nan +0 -> nan +0, "
            "nan nonzero -> nan nan, ",
    "sqrt": "0 +0 -> +0 +0, any +inf -> +inf +inf, fin nan -> nan nan, "
            "-inf pos -> +0 +inf, +inf pos -> +inf +0, -inf nan -> nan ?inf, "
            "+inf nan -> +inf nan, nan fin -> nan nan, ",
    "tanh": "+0 +0 -> +0 +0, nonzero +inf -> nan nan, +0 +inf -> +0 nan, "
            "nonzero nan -> nan nan, +0 nan -> +0 nan, +inf pos -> +1 ?0, "
            "+inf +inf -> +1 ?0, +inf nan -> +1 ?0, nan +0 -> nan +0, "
            "nan nonzero -> nan nan, ",
}
PARTS = [0.0, -0.0, 1.0, -1.0, 0.5, -3.0, 100.0, 1e-30, math.inf, -math.inf, math.nan]
CONDITIONS = {
    "any": lambda x: True, "fin": math.isfinite, "0": lambda x: x == 0,
    "nonzero": lambda x: math.isfinite(x) and x != 0, "inf": math.isinf,
    "pos": lambda x: 0 < x < math.inf}
MULTIPLES = {"pi/2": 0.5, "pi": 1.0, "3pi/4": 0.75, "pi/4": 0.25}


def value(text: str, turn: float) -> float:
    """A number of the table; a product has the angle `turn`."""
    size, _, factor = text.partition("*")
    if factor:
        angle = math.cos(turn) if factor == "cos" else math.sin(turn)
        return math.copysign(float(size), angle)
    return MULTIPLES[text] * math.pi if text in MULTIPLES else float(text)


def holds(condition: str, x: float) -> bool:
    known = CONDITIONS.get(condition)
    return known(x) if known else agree(x, float(condition), signed=True)


def agree(x: float, wanted: float, *, signed: bool) -> bool:
    if math.isnan(wanted):
        return math.isnan(x)
    same = math.isclose(abs(x), abs(wanted), rel_tol=1e-6)
    return same and (not signed or math.copysign(1, x) == math.copysign(1, wanted))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", TABLE)
def test_results_are_those_of_the_table(name, dtype, device):
    z = np.array([complex(a, b) for a in PARTS for b in PARTS], dtype)
    found = host(function(xp, name)(xp.asarray(z, device=device)))
    assert found.dtype == dtype
    wrong, rows = [], (TABLE[name] + "nan nan -> nan nan").split(", ")
    for row in rows:
        given, _, wanted = row.partition(" -> ")
        met = [(x, y) for x, y in zip(z.tolist(), found.tolist(), strict=True) if all(
            map(holds, given.split(), (x.real, x.imag)))]
        assert met, row
        wrong += [(row, x, y) for x, y in met if not all(
            agree(part, value(text.lstrip("?"), x.imag), signed="?" not in text)
            for text, part in zip(wanted.split(), (y.real, y.imag), strict=True))]
    assert not wrong


@pytest.mark.parametrize("name", [name for name in TABLE if name != "sign"])
def test_conjugates_have_conjugate_results(name, device):
    z = np.array([complex(a, b) for a in PARTS for b in PARTS])
    one, other = (host(function(xp, name)(xp.asarray(x, device=device)))
                  for x in (z, z.conj()))
    np.testing.assert_array_equal(one, other.conj())
    known = ~np.isnan(one) & (np.isfinite(z.real) | np.isfinite(z.imag))
    for part in (np.real, np.imag):
        np.testing.assert_array_equal(*(np.signbit(part(x[known])) for x in (
            one, other.conj())))
