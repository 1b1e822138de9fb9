"""Operations that are made of others but keep a derivative of their own.

Each is written so that nothing overflows, cancels or divides by zero on the way, at
either end of the range; its own partial derivative does the same.  Typing replaces
them by their definitions, so that no printer knows them.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..records import record

__all__ = ["COMPOSITES", "Composite", "python_function"]


@record(frozen=True)
class Composite:
    """See `vocabulary.Op`."""

    definition: str
    partials: tuple[str | None, ...]
    rule: str
    doc: str

    @property
    def arity(self) -> int:
        """Number of operands."""
        return self.definition.split(")")[0].count(",") + 1


COMPOSITES: dict[str, Composite] = {}

#: Casts that definitions may use, besides the vocabulary.
_CASTS = {"uint64": np.uint64, "float32": np.float32}
_DEFINED: dict[str, Callable[..., Any]] = {}


def python_function(name: str, definition: str,
                    vocabulary: Mapping[str, Any]) -> Callable[..., Any]:
    """Execute `definition` once; `inspect.getsource` of the function works."""
    if name not in _DEFINED:
        pyfile = f"<nbfused vocabulary: {name}>"
        linecache.cache[pyfile] = (len(definition), None,
                                   definition.splitlines(True), pyfile)
        namespace: dict[str, Any] = {**vocabulary, **_CASTS}
        exec(compile(definition, pyfile, "exec"), namespace)
        _DEFINED[name] = namespace[name]
    return _DEFINED[name]


def _define(name: str, arguments: str, body: str, *partials: str | None,
            rule: str = "exp", doc: str) -> None:
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    COMPOSITES[name] = Composite(f"def {name}({arguments}):\n{lines}", partials,
                                 rule, doc)


_define("square", "a", "return a*a", "2.0*a", rule="square", doc="``a*a``.")
_define("reciprocal", "a", "return 1.0/a", "-y*y",
        doc="``1/a``, floating also for integers.")
_define("relu", "a", "return max(a, 0)", "1.0 if y > 0.0 else y", rule="same",
        doc="``max(a, 0)``; NaN stays NaN.")

_define("sigmoid", "a", """
e = exp(-abs(a))
return select(a >= 0.0, 1.0, e)/(1.0 + e)
""", "y*(1.0 - y)", doc="``1/(1 + exp(-a))``, accurate in both tails.")

_define("softplus", "a", "return max(a, 0.0) + log1p(exp(-abs(a)))", "sigmoid(a)",
        doc="``log(1 + exp(a))``.")

_define("log_sigmoid", "a", "return min(a, 0.0) - log1p(exp(-abs(a)))",
        "sigmoid(-a)", doc="``log(sigmoid(a))``.")

# Of two equal infinities the difference is NaN, and each has half the derivative.
_define("logaddexp", "a, b", """
top = max(a, b)
gap = select(a == b, 0.0, -abs(a - b))
return top + log1p(exp(gap))
""", "0.5 if a == b and isinf(a) else sigmoid(a - b)",
        "0.5 if a == b and isinf(a) else sigmoid(b - a)",
        rule="logaddexp", doc="``log(exp(a) + exp(b))``; equal infinities are right.")

_define("silu", "a", "return a*sigmoid(a)", "sigmoid(a) + y*(1.0 - sigmoid(a))",
        doc="``a*sigmoid(a)``, also named swish; NaN at -inf.")

# tanh(log(1 + u)) = (u*u + 2*u)/(u*u + 2*u + 2), with u = exp(a) or its inverse.
_define("mish", "a", """
e = exp(-abs(a))
n = select(a >= 0.0, 1.0 + 2.0*e, e*(e + 2.0))
d = n + select(a >= 0.0, 2.0*e*e, 2.0)
return a*(n/d)
""", "tanh(softplus(a)) + a*sigmoid(a)"
        "*(1.0 - tanh(softplus(a))*tanh(softplus(a)))",
        doc="``a*tanh(softplus(a))``; NaN at -inf.")

# (1 + tanh(z))/2 = sigmoid(2*z), which does not cancel in the left tail.  Beyond
# |a| = 100 the derivative's second term is 0; clamping a there avoids 0*inf.
_define("gelu_tanh", "a",
        "return a*sigmoid(1.5957691216057308*(a + 0.044715*a*a*a))",
        "sigmoid(1.5957691216057308*(a + 0.044715*a*a*a))"
        " + min(max(a, -100.0), 100.0)"
        "*sigmoid(1.5957691216057308*(a + 0.044715*a*a*a))"
        "*sigmoid(-1.5957691216057308*(a + 0.044715*a*a*a))"
        "*(1.5957691216057308 + 0.21406444881780073"
        "*min(max(a, -100.0), 100.0)*min(max(a, -100.0), 100.0))",
        doc="GELU by the tanh approximation; NaN at -inf.")

_define("gelu_erf", "a", "return 0.5*a*erfc(-0.7071067811865476*a)",
        "0.5*erfc(-0.7071067811865476*a)"
        " + 0.3989422804014327*min(max(a, -100.0), 100.0)*exp(-0.5*a*a)",
        doc="GELU, ``a*Phi(a)`` with the normal distribution's Phi; NaN at -inf.")

# Shift up by ten, then the asymptotic series; on the left, the reflection formula.
_define("digamma", "a", """
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
""", "trigamma(a)", doc="The logarithmic derivative of the gamma function.")

_define("trigamma", "a", """
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
""", doc="The derivative of digamma.")

# Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011): 10 rounds on
# the counter (index, 0) with the key `seed`.  32-bit words are kept in uint64.
_define("philox", "seed, index", """
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
