"""The operations that backends compute by themselves, one row each."""

from __future__ import annotations

import math
import operator as py
from collections.abc import Callable
from typing import Any

import numpy as np

from .row import define

FLOATS = ("float32", "float64")
INTEGERS = tuple(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64))
EVERY_KIND, REAL_KINDS, DISCRETE = "biufc", "biuf", "biu"

#: Where tests try functions of one number.
EVERYWHERE = (-30.0, -7.5, -2.3, -0.7, -1e-5, 1e-9, 0.4, 1.0, 3.1, 12.0, 40.0)
POSITIVE = (1e-7, 0.3, 1.0, 2.5, 40.0, 1e5)
UNIT = (-0.99, -0.4, 1e-6, 0.3, 0.97)


def _rounded_to_zero(a: Any, b: Any) -> Any:
    """``a / b`` rounded to zero; NumPy has no function for it."""
    if np.result_type(a, b).kind not in "biu":
        return np.trunc(np.true_divide(a, b))
    down = np.floor_divide(a, b)  # 0 for division by zero
    inexact = (np.multiply(down, b) != a) & np.not_equal(b, 0)
    return down + (inexact & (np.less(a, 0) != np.less(b, 0)))


# Arithmetic, as in NumPy --------------------------------------------------------

_ARITHMETIC = "Arithmetic as in NumPy; ``//`` and ``%`` round down, `fmod` to zero."
_LARGER = "The larger or smaller operand; NaN if either is."
_POWER = "A power; `powi` has an integer exponent and is exact at bases <= 0."

define("add", ("1.0", "1.0"), _ARITHMETIC, number=py.add, operator="({a} + {b})",
       wraps="add", on_bools="logical_or", commutes=True, cost=1, exact="a + b")
define("sub", ("1.0", "-1.0"), _ARITHMETIC, rule="subtract", number=py.sub,
       operator="({a} - {b})", wraps="sub", torch=("sub",), cost=1, exact="a - b")
define("mul", ("b", "a"), _ARITHMETIC, rule="multiply", number=py.mul,
       operator="({a} * {b})", wraps="mul", on_bools="logical_and", commutes=True,
       torch=("mul",), cost=1, exact="a*b")
# By 0 what NumPy has, where Numba raises on complex numbers: nothing is stored.
define("div", ("1.0/b", "-y/b"), _ARITHMETIC, rule="true_divide", number=py.truediv,
       operator="({a} / {b})",
       numba_complex="(({a} / {b}) if ({b}.real != {zero}) | ({b}.imag != {zero}) else "
                     "{t}(complex({a}.real / {zero}, {a}.imag / {zero})))",
       torch=("div", "true_divide"), cost=4, exact="a/b")
define("floordiv", (None, None), _ARITHMETIC, rule="floor_divide",
       number=py.floordiv, python="{a} // {b}", hip="floor_divide",
       formulas=((FLOATS, "floor_divide"),), torch=("floor_divide",))
define("mod", ("1.0", "-(a // b)"), _ARITHMETIC, rule="remainder", number=py.mod,
       python="{a} % {b}", hip="remainder", formulas=((FLOATS, "remainder"),),
       exact="a - b*floor(a/b)")
define("fmod", ("1.0", "-trunc(a/b)"), "The remainder with the sign of `a`, as in C.",
       numba="np.fmod", cuda="libdevice.fmod", c=("fmod",),
       exact="a - b*(floor if a/b > 0 else ceil)(a/b)")
define("truncdiv", (None, None), "The quotient rounded to zero, as C divides integers.",
       rule="floor_divide", numpy=_rounded_to_zero, python="nf.truncdiv",
       hip="truncated_divide", formulas=((FLOATS, "truncated_divide"),))
define("neg", ("-1.0",), _ARITHMETIC, rule="negative", number=py.neg,
       operator="(-{a})", wraps="negate", torch=("neg",), cost=1, exact="-a",
       points=EVERYWHERE)
define("pos", ("1.0",), _ARITHMETIC, rule="positive", number=py.pos, python="+{a}",
       passes=EVERY_KIND, cost=1, exact="a", points=EVERYWHERE)
define("abs", ("sign(a)",), _ARITHMETIC, rule="absolute", aliases=(abs,), number=abs,
       python="abs", numba="abs({a})", c=("abs", "fabs"), on_complex="modulus",
       torch=("abs",), passes="bu", cost=1, exact="abs(a)", points=EVERYWHERE)

# Numba: the first operand if it is a NaN; the second if that is, for then a > b is
# false.
define("max", ("1.0 if a > b else (0.0 if a < b else 0.5)",
               "1.0 if b > a else (0.0 if b < a else 0.5)"), _LARGER, rule="maximum",
       aliases=(max,), python="max", c=("max",), hip="maximum", cpu=FLOATS,
       numba="({a} if ({a} > {b}) | ({a} != {a}) else {b})", real=True,
       on_complex="complex_max", ordering=True,
       on_bools="logical_or", cost=1, exact="max(a, b)")
define("min", ("1.0 if a < b else (0.0 if a > b else 0.5)",
               "1.0 if b < a else (0.0 if b > a else 0.5)"), _LARGER, rule="minimum",
       aliases=(min,), python="min", c=("min",), hip="minimum", cpu=FLOATS,
       numba="({a} if ({a} < {b}) | ({a} != {a}) else {b})", real=True,
       on_complex="complex_min", ordering=True,
       on_bools="logical_and", cost=1, exact="min(a, b)")


def _powi(a: Any, n: Any) -> Any:
    """NumPy's power; the type of a floating `a` is kept, as for a Python exponent."""
    if np.asarray(a).dtype.kind in "fc":
        return np.power(a, np.asarray(n).astype(np.asarray(a).dtype))
    return np.power(a, n)


define("powi", ("0.0 if b == 0 else b*powi(a, b - 1)", None), _POWER, rule="power",
       numpy=_powi, number=py.pow, python="{a} ** {b}", hip="integer_power",
       formulas=((INTEGERS, "integer_power"),), cost=4)
# At a base <= 0 the exponent's derivative is 0, unless the value itself is NaN: so the
# base's has none by the exponent.  An exponent 0 is not set apart where 1/a is finite,
# for its derivative there is not 0.  Complex powers of 0 and by 0 are what NumPy has;
# where both real parts are 0, numba-cuda gives 0.
define("pow", ("0.0 if b == 0.0 and not isfinite(1.0/a) else "
               "select(a > 0.0, b, detach(b))*pow(a, select(a > 0.0, b, detach(b)) "
               "- 1.0)",
               "y*log(a) if a > 0.0 else (0.0 if y == y else y)"), _POWER,
       rule="power", aliases=(pow,), number=py.pow, python="{a} ** {b}",
       numba="math.pow", on_complex="complex_pow",
       numba_complex="({t}(complex(1.0, 0.0)) if {b} == {t}(complex(0.0, 0.0)) else "
                     "({t}(complex(0.0, 0.0)) if {b}.real > {zero} else "
                     "{t}(complex(math.nan, math.nan))) "
                     "if {a} == {t}(complex(0.0, 0.0)) else "
                     "cmath.exp({b} * cmath.log({a})) if ({a}.real == {zero}) & "
                     "({b}.real == {zero}) else ({a} ** {b}))",
       cpu=FLOATS, c=("pow", "__powf"), torch=("pow",), long=True,
       exact="abs(a)**b")


# Bits and predicates ------------------------------------------------------------

_BITS = "Bitwise, on integers; a shift by the width or more gives 0 (or -1)."
_PREDICATE = "A predicate; the result is bool."

define("and", (None, None), _BITS, rule="bitwise_and", number=py.and_,
       operator="({a} & {b})", on_bools="logical_and", cost=1)
define("or", (None, None), _BITS, rule="bitwise_or", number=py.or_,
       operator="({a} | {b})", on_bools="logical_or", cost=1)
define("xor", (None, None), _BITS, rule="bitwise_xor", number=py.xor,
       operator="({a} ^ {b})", on_bools="ne", cost=1)
define("lshift", (None, None), _BITS, rule="left_shift", number=py.lshift,
       python="{a} << {b}", hip="shift_left")
define("rshift", (None, None), _BITS, rule="right_shift", number=py.rshift,
       python="{a} >> {b}", hip="shift_right")
def _inverted(x: Any) -> Any:
    """NumPy's ``~``; a bool that is known may be an array's, and stays a bool."""
    return not x if isinstance(x, bool) else ~x


define("invert", (None,), _BITS, number=_inverted, operator="(~{a})",
       on_bools="logical_not", cost=1)


def _compare(name: str, symbol: str, mirrored: str, rule: str) -> None:
    define(name, (None, None), _PREDICATE, rule=rule, number=getattr(py, name),
           operator=f"({{a}} {symbol} {{b}})", mirrored=mirrored, torch=(name,),
           boolean=True, cost=1, ordering=symbol not in ("==", "!="),
           on_complex="" if symbol in ("==", "!=") else f"complex_{name}")


_compare("lt", "<", "gt", "less")
_compare("le", "<=", "ge", "less_equal")
_compare("gt", ">", "lt", "greater")
_compare("ge", ">=", "le", "greater_equal")
_compare("eq", "==", "eq", "equal")
_compare("ne", "!=", "ne", "not_equal")

define("logical_and", (None, None), _PREDICATE, number=lambda a, b: bool(a and b),
       python="np.logical_and", operator="({a} & {b})", hip="({a} && {b})",
       boolean=True, cost=1)
define("logical_or", (None, None), _PREDICATE, number=lambda a, b: bool(a or b),
       python="np.logical_or", operator="({a} | {b})", hip="({a} || {b})",
       boolean=True, cost=1)
define("logical_not", (None,), _PREDICATE, number=py.not_, operator="(not {a})",
       hip="(!{a})", boolean=True, cost=1)
define("isnan", (None,), "True for NaN.", numba="({a} != {a})", hip="is_nan",
       numba_complex="(({a}.real != {a}.real) | ({a}.imag != {a}.imag))",
       c=("isnan",), boolean=True, of_integers=False, cost=1)
define("isinf", (None,), "True for inf and -inf.", numba="(abs({a}) == {t}(math.inf))",
       numba_complex="((abs({a}.real) == math.inf) | (abs({a}.imag) == math.inf))",
       hip="is_infinite", c=("isinf",), boolean=True, of_integers=False, cost=1)
define("isfinite", (None,), "True for what is neither NaN nor infinite.",
       numba="(abs({a}) < {t}(math.inf))",
       numba_complex="((abs({a}.real) < math.inf) & (abs({a}.imag) < math.inf))",
       hip="is_finite", c=("isfinite",), boolean=True, of_integers=True, cost=1)

define("select", (None, "1.0 if a else 0.0", "0.0 if a else 1.0"),
       "``select(a, b, c)`` is ``b if a else c`` with both evaluated.", rule="same",
       numpy=np.where, python="nf.select", operator="({b} if {a} else {c})",
       hip="({a} ? {b} : {c})", cost=1)
define("id", ("1.0",), "The operand itself.", rule="same",
       numpy=lambda a: a, python="{a}", passes=EVERY_KIND, cost=1, exact="a",
       points=EVERYWHERE)
define("detach", (None,), "The operand itself, as a constant: the gradient stops here.",
       rule="same", numpy=lambda a: a, passes=EVERY_KIND, cost=1)


# Functions of NumPy's -----------------------------------------------------------

def _function(name: str, doc: str, *partials: str | None, **facts: Any) -> None:
    """A row of a function that C and Python's `math` have too, by the same name."""
    define(name, partials, doc, **{"numba": f"math.{name}", "c": (name,), **facts})


_function("sqrt", "The square root; its derivative at 0 is 0.",
          "0.5/y if y != 0.0 else y", number=math.sqrt,
          c=("sqrt", "__fsqrt_rn"), cost=4, real=True, on_complex="complex_sqrt",
          exact="sqrt(a)", points=POSITIVE)
_function("cbrt", "The cube root.",
          "1.0/(3.0*y*y)", numba="np.cbrt", cuda="libdevice.cbrt",
          cpu=FLOATS,
          exact="cbrt(a)", points=POSITIVE)
_function("exp", "The exponential.",
          "y", number=math.exp, cpu=FLOATS, c=("exp", "__expf"), cost=10,
          real=True, on_complex="complex_exp",
          exact="exp(a)", points=EVERYWHERE)
_function("exp2", "The power ``2**a``.",
          "0.6931471805599453*y", cpu=FLOATS, real=True, cost=10,
          on_complex="complex_exp2",
          exact="mpf(2)**a", points=EVERYWHERE)
_function("expm1", "``exp(a) - 1``, accurate for small `a`.",
          "exp(a)", cpu=FLOATS, real=True, cost=10, exact="expm1(a)",
          on_complex="complex_expm1",
          points=EVERYWHERE)
_function("log", "The natural logarithm.",
          "1.0/a", number=math.log, cpu=FLOATS, c=("log", "__logf"), cost=10,
          real=True, on_complex="complex_log",
          exact="log(a)", points=POSITIVE)
_function("log2", "The logarithm with base 2.",
          "1.4426950408889634/a", number=math.log2, cpu=FLOATS, real=True,
          on_complex="complex_log2", c=("log2", "__log2f"), cost=10,
          exact="log(a, 2)", points=POSITIVE)
_function("log10", "The logarithm with base 10.",
          "0.4342944819032518/a", number=math.log10, cpu=FLOATS,
          c=("log10", "__log10f"), cost=10, real=True, on_complex="complex_log10",
          exact="log10(a)", points=POSITIVE)
_function("log1p", "``log(1 + a)``, accurate for small `a`.",
          "1.0/(1.0 + a)", cpu=FLOATS, real=True, cost=10, exact="log1p(a)",
          on_complex="complex_log1p",
          points=(-0.9, *POSITIVE))
_function("sin", "The sine of radians.",
          "cos(a)", number=math.sin, c=("sin", "__sinf"), long=True,
          cpu=FLOATS, formulas=((("float32",), "sine"),), real=True,
          on_complex="complex_sin", exact="sin(a)",
          points=EVERYWHERE)
_function("cos", "The cosine of radians.",
          "-sin(a)", number=math.cos, c=("cos", "__cosf"), long=True,
          cpu=FLOATS, formulas=((("float32",), "cosine"),), real=True,
          on_complex="complex_cos", exact="cos(a)",
          points=EVERYWHERE)
_function("tan", "The tangent of radians.",
          "1.0 + y*y", c=("tan", "__tanf"), long=True,
          cpu=FLOATS, formulas=((("float32",), "tangent"),), real=True,
          on_complex="complex_tan", exact="tan(a)",
          points=EVERYWHERE)
_function("asin", "The inverse sine, `numpy.arcsin`.",
          "1.0/sqrt((1.0 - a)*(1.0 + a))", rule="arcsin", cpu=FLOATS, torch=("asin",),
          real=True, on_complex="complex_asin",
          exact="asin(a)", points=UNIT)
_function("acos", "The inverse cosine, `numpy.arccos`.",
          "-1.0/sqrt((1.0 - a)*(1.0 + a))", rule="arccos", cpu=FLOATS, torch=("acos",),
          real=True, on_complex="complex_acos",
          exact="acos(a)", points=UNIT)
_function("atan", "The inverse tangent, `numpy.arctan`.",
          "1.0/(1.0 + a*a)", rule="arctan", cpu=FLOATS, torch=("atan",),
          real=True, on_complex="complex_atan",
          exact="atan(a)",
          points=EVERYWHERE)
_function("sinh", "The hyperbolic sine.",
          "cosh(a)", cpu=FLOATS, real=True,
          on_complex="complex_sinh", exact="sinh(a)",
          points=EVERYWHERE)
_function("cosh", "The hyperbolic cosine.",
          "sinh(a)", cpu=FLOATS, real=True, on_complex="complex_cosh",
          exact="cosh(a)", points=EVERYWHERE)
_function("tanh", "The hyperbolic tangent.",
          "1.0 - y*y", number=math.tanh, cpu=FLOATS, cost=10, real=True,
          on_complex="complex_tanh", exact="tanh(a)",
          points=(-3.0, -0.4, 0.2, 2.0))
# hypot and split roots: a*a would overflow long before the result does.
_function("asinh", "The inverse hyperbolic sine, `numpy.arcsinh`.",
          "1.0/hypot(a, 1.0)", rule="arcsinh", cpu=FLOATS, torch=("asinh",),
          real=True, on_complex="complex_asinh",
          exact="asinh(a)", points=EVERYWHERE)
_function("acosh", "The inverse hyperbolic cosine, `numpy.arccosh`.",
          "1.0/(sqrt(a - 1.0)*sqrt(a + 1.0))", rule="arccosh",
          cpu=FLOATS, torch=("acosh",), real=True, on_complex="complex_acosh",
          exact="acosh(a)", points=(1.001, 2.0, 1e10))
_function("atanh", "The inverse hyperbolic tangent, `numpy.arctanh`.",
          "1.0/((1.0 - a)*(1.0 + a))", rule="arctanh", cpu=FLOATS, torch=("atanh",),
          real=True, on_complex="complex_atanh",
          exact="atanh(a)", points=UNIT)
_function("hypot",
          "``sqrt(a*a + b*b)`` without overflow; its derivative at (0, 0) is 0.",
          "a/y if y > 0.0 else y", "b/y if y > 0.0 else y", cpu=("float32",),
          formulas=((("float64",), "hypotenuse"),), exact="hypot(a, b)")
_function("atan2",
          "The angle of (b, a), `numpy.arctan2`; its derivative at (0, 0) is 0.",
          "0.0 if hypot(a, b) == 0.0 else b/hypot(a, b)/hypot(a, b)",
          "0.0 if hypot(a, b) == 0.0 else -a/hypot(a, b)/hypot(a, b)", rule="arctan2",
          cpu=FLOATS, torch=("atan2",), exact="atan2(a, b)")
_function("copysign", "The magnitude of `a` with the sign of `b`.",
          "sign(a)*copysign(1.0, b)", None, cost=1,
          exact="abs(a)*(1 if b > 0 else -1)")
_function("floor", "The largest integer that is not above `a`.",
          None, numba="np.floor", cuda="libdevice.floor", passes=DISCRETE,
          cost=1)
_function("ceil", "The smallest integer that is not below `a`.",
          None, numba="np.ceil", cuda="libdevice.ceil", passes=DISCRETE,
          cost=1)
_function("trunc", "The integer next to `a` towards 0.",
          None, aliases=(np.fix,), numba="np.trunc", cuda="libdevice.trunc",
          passes=DISCRETE, cost=1)
_function("rint", "The nearest integer, the even one of two.",
          None, numba="np.rint",
          cuda="libdevice.rint", c=("rint", "nearbyint"), torch=("round",), real=True,
          on_complex="complex_rint", cost=1)
define("sign", (None,), "The sign: -1, 0 or 1, of a complex number one of modulus 1; "
       "NaN stays NaN.", real=True, on_complex="complex_sign", ordering=True,
       cost=1,
       numba="({t}(1.0) if {a} > {t}(0.0) else "
             "({t}(-1.0) if {a} < {t}(0.0) else {a} + {t}(0.0)))")  # of -0, 0


# Functions that NumPy lacks -----------------------------------------------------

def _by_element(function: Callable[[float], float]) -> Callable[..., Any]:
    """Evaluate in double precision, rounded to the dtype of ``numpy.exp``."""
    double = np.vectorize(function, otypes=[np.float64])

    def call(a: Any) -> Any:
        dtype = np.exp.resolve_dtypes((np.asarray(a).dtype, None))[-1]
        return double(a).astype(dtype)[()]
    return call


def _lgamma(a: float) -> float:
    try:
        return math.lgamma(a)
    except (ValueError, OverflowError):  # a pole, or beyond the largest number
        return math.inf


_function("rsqrt", "``1/sqrt(a)``.",
          "-0.5*y*y*y", rule="exp", real=True,
          numpy=lambda a: 1 / np.sqrt(a), numba="({t}(1.0) / math.sqrt({a}))",
          c=("rsqrt", "__frsqrt_rn"), cost=4, exact="1/sqrt(a)", points=POSITIVE)
_function("erf", "The error function.",
          "1.1283791670955126*exp(-a*a)", rule="exp", real=True,
          numpy=_by_element(math.erf), number=math.erf, cpu=FLOATS, long=True,
          exact="erf(a)", points=(-2.0, -0.3, 0.5, 3.0))
_function("erfc", "``1 - erf(a)``, accurate for large `a`.",
          "-1.1283791670955126*exp(-a*a)", rule="exp", real=True,
          numpy=_by_element(math.erfc), cpu=FLOATS, long=True, exact="erfc(a)",
          points=(-3.0, 0.2, 5.0, 20.0))
_function("lgamma", "The logarithm of the absolute value of the gamma function.",
          "digamma(a)", rule="exp", real=True,
          numpy=_by_element(_lgamma), number=math.lgamma, long=True,
          exact="loggamma(a)", points=(0.3, 1.7, 5.0, 100.0))

_PART = "A part or the conjugate of a complex number."

define("real", ("1.0",), _PART, rule="absolute", numpy=np.real, python="np.real",
       numba_complex="{a}.real", hip="{a}.real", passes=REAL_KINDS, c=("real",),
       change="real", cost=1)
define("imag", ("-1j",), _PART, rule="absolute", numpy=np.imag, python="np.imag",
       numba_complex="{a}.imag", hip="{a}.imag", c=("imag",), change="real", cost=1)
define("conj", ("1.0",), _PART, rule="conjugate", python="np.conj",
       numba_complex="{a}.conjugate()", passes=REAL_KINDS, c=("conj",),
       change="conjugate", cost=1)


def _complex_from(a: Any, b: Any) -> Any:
    """A product with 1j would make NaN of infinities, and lose signs of zeros."""
    a, b = np.broadcast_arrays(a, b)
    z = np.empty(a.shape, np.result_type(a, b, np.complex64))
    z.real, z.imag = a, b
    return z[()]


define("complex_from", ("1.0", "1j"), "The complex number of two parts.",
       rule="arctan2", aliases=(complex,), numpy=_complex_from, python="complex",
       numba="complex", cost=1)
