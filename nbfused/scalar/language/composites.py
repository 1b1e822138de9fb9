"""Operations that are made of others but keep a derivative of their own.

Each is written so that nothing overflows, cancels or divides by zero on the way, at
either end of the range; its own partial derivative does the same.  Typing replaces
them by their definitions, so that no printer knows them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import DefinitionError
from .elementary import EVERYWHERE, FLOATS, POSITIVE
from .row import define

__all__ = ["compose"]


def compose(name: str, arguments: str, body: str, *partials: str | None, doc: str,
            **facts: Any) -> None:
    """Add the row of an operation that returns what `body` computes.

    Parameters
    ----------
    name, arguments, body
        Of its definition: names, and statements of the scalar language.  The operands
        are called ``a``, ``b``, ``c`` where there are partial derivatives, which name
        them so.
    *partials, doc, **facts
        As in `row.Op`; types as for ``numpy.exp`` if nothing else is said, which has
        one operand: `rule` names another ufunc.

    Raises
    ------
    DefinitionError
        As `define`; or partial derivatives would not know the operands by their names.
    """
    operands = [word.strip() for word in arguments.split(",")]
    if any(partials) and operands != list("abc")[:len(operands)]:
        raise DefinitionError(f"{name}: operands {arguments!r}; expected 'a', 'a, b' "
                              "or 'a, b, c', as partial derivatives call them")
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    define(name, partials, doc, **{
        "rule": "exp", "arity": len(operands),
        "definition": f"def {name}({arguments}):\n{lines}", **facts})


compose("square", "a", "return a*a", "2.0*a", rule="square", doc="``a*a``.",
        exact="a*a", points=EVERYWHERE)
compose("reciprocal", "a", "return 1.0/a", "-y*y",
        doc="``1/a``, floating also for integers.",
        exact="1/a", points=EVERYWHERE)
# Not `sqrt`: that has other values at -0.0 and -inf, and the derivative 0 at 0.
compose("half_power", "a", "return inf if a == -inf else sqrt(a + 0.0)", "0.5/y",
        real=True, doc="``a**0.5``: inf at -inf; its derivative at 0 is inf.",
        exact="sqrt(a)", points=POSITIVE)
compose("round", "a", "return rint(a)", None, rule="rint", passes="iu",
        aliases=(round, np.round, np.around), python="round", real=True,
        on_complex="complex_rint",
        doc="The nearest integer, the even one of two; integers stay what they are.")
compose("round_to", "a, b", "scale = 10.0**int(b)\nreturn rint(a*scale)/scale",
        None, None, rule="same", passes="iu", python="round",
        doc="`a` to `b` decimals, as `numpy.round`; integers stay what they are.")
compose("relu", "a", "return max(a, 0)", "1.0 if y > 0.0 else y", rule="same",
        doc="``max(a, 0)``; NaN stays NaN.",
        exact="max(a, 0)", points=EVERYWHERE)

compose("sigmoid", "a", """
e = exp(-abs(a))
return select(a >= 0.0, 1.0, e)/(1.0 + e)
""", "y*(1.0 - y)", doc="``1/(1 + exp(-a))``, accurate in both tails.",
        cpu=FLOATS, exact="1/(1 + exp(-a))", points=EVERYWHERE)

compose("softplus", "a", "return max(a, 0.0) + log1p(exp(-abs(a)))", "sigmoid(a)",
        doc="``log(1 + exp(a))``.",
        exact="log1p(exp(a))", points=EVERYWHERE)

compose("log_sigmoid", "a", "return min(a, 0.0) - log1p(exp(-abs(a)))",
        "sigmoid(-a)", doc="``log(sigmoid(a))``.",
        exact="-log1p(exp(-a))", points=EVERYWHERE)

# Of two equal infinities the difference is NaN, and each has half the derivative.
compose("logaddexp", "a, b", """
top = max(a, b)
gap = select(a == b, 0.0, -abs(a - b))
return top + log1p(exp(gap))
""", "0.5 if a == b and isinf(a) else sigmoid(a - b)",
        "0.5 if a == b and isinf(a) else sigmoid(b - a)",
        rule="logaddexp", doc="``log(exp(a) + exp(b))``; equal infinities are right.",
        exact="log(exp(a) + exp(b))")

# ln 2 and 1/ln 2: sums of powers of two are logaddexp in other units.  A quotient, as a
# product would be contracted with the sum, which may cancel.
compose("logaddexp2", "a, b", """
top = max(a, b)
gap = select(a == b, 0.0, -abs(a - b))
return top + log1p(exp2(gap))/0.6931471805599453
""", "0.5 if a == b and isinf(a) else sigmoid(0.6931471805599453*(a - b))",
        "0.5 if a == b and isinf(a) else sigmoid(0.6931471805599453*(b - a))",
        rule="logaddexp2", doc="``log2(2**a + 2**b)``; equal infinities are right.",
        exact="log(2**a + 2**b)/log(2)")

compose("degrees", "a", "return 57.29577951308232*a", "57.29577951308232",
        rule="degrees", aliases=(np.rad2deg,), doc="Radians in degrees.",
        exact="a*180/pi", points=EVERYWHERE)
compose("radians", "a", "return 0.017453292519943295*a", "0.017453292519943295",
        rule="radians", aliases=(np.deg2rad,), doc="Degrees in radians.",
        exact="a*pi/180", points=EVERYWHERE)

compose("silu", "a", "return a*sigmoid(a)", "sigmoid(a) + y*(1.0 - sigmoid(a))",
        doc="``a*sigmoid(a)``, also named swish; NaN at -inf.",
        exact="a/(1 + exp(-a))", points=EVERYWHERE)

# tanh(log(1 + u)) = (u*u + 2*u)/(u*u + 2*u + 2), with u = exp(a) or its inverse.
compose("mish", "a", """
e = exp(-abs(a))
n = select(a >= 0.0, 1.0 + 2.0*e, e*(e + 2.0))
d = n + select(a >= 0.0, 2.0*e*e, 2.0)
return a*(n/d)
""", "tanh(softplus(a)) + a*sigmoid(a)"
        "*(1.0 - tanh(softplus(a))*tanh(softplus(a)))",
        doc="``a*tanh(softplus(a))``; NaN at -inf.",
        exact="a*tanh(log1p(exp(a)))", points=EVERYWHERE)

# (1 + tanh(z))/2 = sigmoid(2*z), which does not cancel in the left tail.  Beyond
# |a| = 100 the derivative's second term is 0; clamping a there avoids 0*inf.
compose("gelu_tanh", "a",
        "return a*sigmoid(1.5957691216057308*(a + 0.044715*a*a*a))",
        "sigmoid(1.5957691216057308*(a + 0.044715*a*a*a))"
        " + min(max(a, -100.0), 100.0)"
        "*sigmoid(1.5957691216057308*(a + 0.044715*a*a*a))"
        "*sigmoid(-1.5957691216057308*(a + 0.044715*a*a*a))"
        "*(1.5957691216057308 + 0.21406444881780073"
        "*min(max(a, -100.0), 100.0)*min(max(a, -100.0), 100.0))",
        doc="GELU by the tanh approximation; NaN at -inf.",
        exact="a/2*(1 + tanh(sqrt(2/pi)*(a + mpf('0.044715')*a**3)))",
        points=EVERYWHERE)

compose("gelu_erf", "a", "return 0.5*a*erfc(-0.7071067811865476*a)",
        "0.5*erfc(-0.7071067811865476*a)"
        " + 0.3989422804014327*min(max(a, -100.0), 100.0)*exp(-0.5*a*a)",
        doc="GELU, ``a*Phi(a)`` with the normal distribution's Phi; NaN at -inf.",
        exact="a*ncdf(a)", points=EVERYWHERE)

# Shift up by ten, then the asymptotic series; on the left, the reflection formula.
compose("digamma", "a", """
x = select(a > 0.0, a, 1.0 - a)
shift = 0.0*x
for k in range(10):
    shift = shift + 1.0/(x + k)
z = x + 10.0
r = 1.0/(z*z)
s = r*(0.007575757575757576 - r*(0.021092796092796094 - r*0.08333333333333333))
s = r*(0.003968253968253968 - r*(0.004166666666666667 - s))
s = r*(0.08333333333333333 - r*(0.008333333333333333 - s))
right = log(z) - 0.5/z - s - shift
left = 3.141592653589793/tan(3.141592653589793*(a - rint(a)))
return select(a > 0.0, right, right - left)
""", "trigamma(a)", doc="The logarithmic derivative of the gamma function.",
        exact="digamma(a)", points=(-2.5, -0.3, 1e-3, 0.5, 2.0, 9.0, 1e6))

compose("trigamma", "a", """
x = select(a > 0.0, a, 1.0 - a)
shift = 0.0*x
for k in range(10):
    shift = shift + 1.0/((x + k)*(x + k))
z = x + 10.0
r = 1.0/(z*z)
s = r*(0.07575757575757576 - r*(0.2531135531135531 - r*1.1666666666666667))
s = r*(0.03333333333333333 - r*(0.023809523809523808 - r*(0.03333333333333333 - s)))
right = (1.0 + 0.5/z + r*(0.16666666666666666 - s))/z + shift
sine = sin(3.141592653589793*(a - rint(a)))
left = 9.869604401089358/(sine*sine)
return select(a > 0.0, right, left - right)
""", doc="The derivative of `digamma`.",
        exact="psi(1, a)", points=(-2.5, -0.3, 1e-3, 0.5, 2.0, 9.0, 1e6))

# The argument is cut to half a turn and to eighths of one before pi comes in: exactly.
# Chebyshev's polynomials in z on [0, 1/16] follow; pi's first digits stand apart, so
# that its rounding does not show.
_TURN = """
m = a - 2.0*rint(0.5*a)
n = rint(2.0*m)
r = m - 0.5*n
z = r*r
s = -0.5992645289396449 + z*(0.08214586918000175 + z*(-0.007370021586907771
    + z*0.000461531855383581))
s = 0.0009676535897932385 + z*(-5.167712780049954 + z*(2.5501640398733763 + z*s))
s = 3.140625*r + r*s
c = 0.23533063028399223 + z*(-0.025806887964701878 + z*(0.001929493874894941
    + z*-0.00010370082971594627))
c = -4.934802200544679 + z*(4.058712126416765 + z*(-1.3352627688538095 + z*c))
c = 1.0 + z*c
"""

compose("sinpi", "a", _TURN + """
y = select(abs(n) == 1.0, n*c, select(n == 0.0, s, -s))
return select(m == rint(m), copysign(0.0, a), y)
""", "3.141592653589793*cospi(a)", real=True, c=("sinpi",),
        doc="``sin(pi*a)``: 0 with the sign of `a` at integers; NaN at inf and -inf.",
        exact="sinpi(a)", points=EVERYWHERE)

compose("cospi", "a", _TURN + """
return select(abs(n) == 1.0, 0.0 - n*s, select(n == 0.0, c, -c))
""", "-3.141592653589793*sinpi(a)", real=True, c=("cospi",),
        doc="``cos(pi*a)``: 0 at half-integers; NaN at inf and -inf.",
        exact="cospi(a)", points=EVERYWHERE)

# Near 0 the derivative cancels: five terms of its series there.
SINC_SLOPE = (
    "-3.289868133696453*a*(1.0 - 0.9869604401089358*a*a*(1.0"
    " - 0.35248587146747707*a*a*(1.0 - 0.18277045187202515*a*a*(1.0"
    " - 0.11215459546692452*a*a))))")
compose("sinc", "a", """
return select(a == 0.0, 1.0, sinpi(a)/(3.141592653589793*select(a == 0.0, 1.0, a)))
""", f"select(abs(a) < 0.05, {SINC_SLOPE}, (cospi(a) - y)/select(a == 0.0, 1.0, a))",
        aliases=(np.sinc,), real=True, on_complex="complex_sinc",
        doc="``sin(pi*a)/(pi*a)``, 1 at 0; NaN at inf and -inf.",
        exact="sincpi(a)", points=(-2.3, -0.4, 0.0, 1e-3, 1.7, 30.25))

# All terms of the power series are positive: nothing cancels.  From 30 on the
# asymptotic series is as exact, and shorter.
_BESSEL = """
x = abs(a)
if x < 30.0:
    q = 0.25*x*x
    t = {first}
    s = t
    for k in range(1, 64):
        t = t*(q/(k*(k + {order})))
        s = s + t
else:
    t = 1.0 + 0.0*x
    s = t
    for k in range(1, 24):
        t = t*(((2.0*k - 1.0)*(2.0*k - 1.0) - {square})/(8.0*x*k))
        s = s + t
    e = exp(0.5*x)
    s = e*(s/sqrt(6.283185307179586*x))*e
"""
compose("i0", "a", _BESSEL.format(first="1.0 + 0.0*x", order=0, square=0.0)
        + "return s", "i1(a)", aliases=(np.i0,), real=True,
        doc="The modified Bessel function of the first kind of order 0.",
        exact="besseli(0, a)", points=(-2.3, 0.0, 0.4, 29.0, 31.0))
compose("i1", "a", _BESSEL.format(first="0.5*x", order=1, square=4.0)
        + "return copysign(s, a)",
        "i0(a) - select(a == 0.0, 0.5, y/select(a == 0.0, 1.0, a))", real=True,
        doc="The modified Bessel function of the first kind of order 1.",
        exact="besseli(1, a)", points=(-2.3, 0.0, 0.4, 29.0, 31.0))

compose("fmax", "a, b", "return select(isnan(a), b, select(isnan(b), a, max(a, b)))",
        "0.0 if isnan(a) else 1.0 if isnan(b) or a > b else 0.5 if a == b else 0.0",
        "0.0 if isnan(b) else 1.0 if isnan(a) or b > a else 0.5 if a == b else 0.0",
        rule="fmax", real=True, on_complex="complex_fmax",
        doc="The larger one; a number rather than NaN.", exact="max(a, b)")
compose("fmin", "a, b", "return select(isnan(a), b, select(isnan(b), a, min(a, b)))",
        "0.0 if isnan(a) else 1.0 if isnan(b) or a < b else 0.5 if a == b else 0.0",
        "0.0 if isnan(b) else 1.0 if isnan(a) or b < a else 0.5 if a == b else 0.0",
        rule="fmin", real=True, on_complex="complex_fmin",
        doc="The smaller one; a number rather than NaN.", exact="min(a, b)")
compose("heaviside", "a, b",
        "return select(a < 0.0, 0.0, select(a > 0.0, 1.0, select(a == 0.0, b, a)))",
        "0.0", "1.0 if a == 0.0 else 0.0",
        rule="heaviside", doc="0 below 0, 1 above, `b` at 0.",
        exact="b if a == 0 else mpf(a > 0)")

# Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011): 10 rounds on
# the counter (index, 0) with the key `seed`.  32-bit words are kept in uint64.
compose("philox", "seed, index", """
key0 = uint64(seed) & 0xFFFFFFFF
key1 = uint64(seed) >> 32
c0 = uint64(index) & 0xFFFFFFFF
c1 = uint64(index) >> 32
c2 = uint64(0)
c3 = uint64(0)
for k in range(10):
    p = c0*0xD2511F53
    q = c2*0xCD9E8D57
    c0 = (q >> 32) ^ c1 ^ key0
    c2 = (p >> 32) ^ c3 ^ key1
    c1 = q & 0xFFFFFFFF
    c3 = p & 0xFFFFFFFF
    key0 = (key0 + 0x9E3779B9) & 0xFFFFFFFF
    key1 = (key1 + 0xBB67AE85) & 0xFFFFFFFF
return float32(c0 >> 8)*5.9604644775390625e-08
""", None, None, rule="same",
        doc="A uniform float32 in [0, 1) from a seed and a counter (Philox4x32-10).")
