"""Elementary functions of complex numbers, after Kahan and C99's annex G.

Written once for every backend: infinities, NaN and the signs of zeros are those of the
array API standard, and nothing overflows on the way.  The power is the backends' own.
"""

from __future__ import annotations

from .composites import compose

# The larger part is a root of a sum of equal signs.  Powers of 2 scale it, which are
# exact: down, as large numbers would overflow, and up where it would be subnormal.
compose("complex_sqrt", "a", """
x, y = real(a), imag(a)
if x == 0.0 and y == 0.0:
    return complex_from(0.0, y)
if isinf(y):
    return complex_from(inf, y)
if isinf(x):
    rest = y - y
    return complex_from(x, rest if isnan(y) else copysign(0.0, y)) if x > 0.0 else \\
        complex_from(abs(rest), copysign(inf, y))
small = abs(x) < 1.0 and abs(y) < 1.0
scale, back = (9007199254740992.0 if small else 0.125, 2.0**-27 if small else 2.0)
u = scale*abs(x)
t = back*sqrt(u + hypot(u, scale*y))
other = abs(y)/(2.0*t)
return complex_from(other if x < 0.0 else t, copysign(t if x < 0.0 else other, y))
""", "0.5/y if y != 0.0 else y", rule="sqrt", python="np.sqrt",
        doc="The square root; its derivative at 0 is 0.")

# exp(x/2) twice, since exp(x) may overflow where its product with cos y does not.
compose("complex_exp", "a", """
x, y = real(a), imag(a)
if y == 0.0:
    return complex_from(exp(x), y)
if not isfinite(y):
    grows = x if isinf(x) else y - y
    size = 0.0 if x < 0.0 and isinf(x) else grows
    return complex_from(size, 0.0 if x < 0.0 and isinf(x) else y - y)
half = exp(0.5*x)
return complex_from(half*cos(y)*half, half*sin(y)*half)
""", "y", rule="exp", python="np.exp", doc="The exponential.")
compose("complex_exp2", "a", """
x, y = real(a), imag(a)
if y == 0.0:
    return complex_from(exp2(x), y)
if not isfinite(y):
    return exp(a)
half, angle = exp2(0.5*x), 0.6931471805599453*y
return complex_from(half*cos(angle)*half, half*sin(angle)*half)
""", "0.6931471805599453*y", rule="exp2", python="np.exp2", doc="``2**a``.")
compose("complex_expm1", "a", """
x, y = real(a), imag(a)
if y == 0.0:
    return complex_from(expm1(x), y)
if abs(x) > 20.0 or not isfinite(y):
    e = exp(a)
    return complex_from(real(e) - 1.0, imag(e))
s = sin(0.5*y)
return complex_from(expm1(x)*cos(y) - 2.0*s*s, exp(x)*sin(y))
""", "exp(a)", rule="expm1", python="np.expm1",
        doc="``exp(a) - 1``, accurate for small `a`.")
# Near the unit circle the logarithm of the modulus is near 0.
compose("complex_log", "a", """
x, y = real(a), imag(a)
size, angle = hypot(x, y), atan2(y, x)
if 0.5 < size and size < 2.0:
    large, small = max(abs(x), abs(y)), min(abs(x), abs(y))
    return complex_from(0.5*log1p((large - 1.0)*(large + 1.0) + small*small), angle)
if isinf(size) and isfinite(a):
    return complex_from(log(hypot(0.5*x, 0.5*y)) + 0.6931471805599453, angle)
return complex_from(log(size), angle)
""", "1.0/a", rule="log", python="np.log", doc="The logarithm.")
for _name, _scale in (("log2", 1.4426950408889634), ("log10", 0.4342944819032518)):
    compose(f"complex_{_name}", "a", f"""
w = log(a)
return complex_from({_scale}*real(w), {_scale}*imag(w))
""", f"{_scale}/a", rule=_name, python=f"np.{_name}",
            doc=f"The logarithm with base {_name[3:]}.")
compose("complex_log1p", "a", """
x, y = real(a), imag(a)
if abs(x) < 0.5 and abs(y) < 0.5:
    return complex_from(0.5*log1p(x*(x + 2.0) + y*y), atan2(y, 1.0 + x))
return log(complex_from(1.0 + x, y))
""", "1.0/(1.0 + a)", rule="log1p", python="np.log1p",
        doc="``log(1 + a)``, accurate for small `a`.")

# Beyond 20, exp(-x) is nothing beside exp(x).
for _name, _other, _real, _imag, _at_inf in (
        ("sinh", "cosh", "copysign(1.0, x)*", "", ("x", "x == 0.0", "y - y")),
        ("cosh", "sinh", "", "copysign(1.0, x)*", ("abs(x)", "False", "x"))):
    _own, _only, _zero = _at_inf
    compose(f"complex_{_name}", "a", f"""
x, y = real(a), imag(a)
if y == 0.0:
    return complex_from({_name}(x), {_imag}y)
if not isfinite(y):
    return complex_from({_own} if isinf(x) or {_only} else y - y,
                        {_zero} if x == 0.0 else y - y)
if abs(x) > 20.0:
    half = exp(0.5*abs(x))
    return complex_from({_real}(0.5*half*cos(y)*half), {_imag}(0.5*half*sin(y)*half))
return complex_from({_name}(x)*cos(y), {_other}(x)*sin(y))
""", f"{_other}(a)", rule=_name, python=f"np.{_name}",
            doc=f"The hyperbolic {'' if _name == 'sinh' else 'co'}sine.")
compose("complex_tanh", "a", """
x, y = real(a), imag(a)
if isinf(x):
    turn = sin(y)*cos(y) if isfinite(y) else y
    return complex_from(copysign(1.0, x), copysign(0.0, turn))
if isnan(x):
    return complex_from(x, y if y == 0.0 else x)
if not isfinite(y):
    return complex_from(x if x == 0.0 else y - y, y - y)
if abs(x) > 20.0:
    return complex_from(copysign(1.0, x), 4.0*sin(y)*cos(y)*exp(-2.0*abs(x)))
t, s = tan(y), sinh(x)
slope = 1.0 + t*t
rest = 1.0 + slope*s*s
return complex_from(slope*sqrt(1.0 + s*s)*s/rest, t/rest)
""", "1.0 - y*y", rule="tanh", python="np.tanh", doc="The hyperbolic tangent.")

# sin z = -i sinh iz, and so on.
compose("complex_cos", "a", "return cosh(complex_from(-imag(a), real(a)))", "-sin(a)",
        rule="cos", python="np.cos", doc="The cosine.")
for _name, _rule, _of, _partial in (
        ("sin", "sin", "sinh", "cos(a)"), ("tan", "tan", "tanh", "1.0 + y*y"),
        ("asinh", "arcsinh", "asin", "1.0/(sqrt(complex_from(1.0 - imag(a), real(a)))*"
         "sqrt(complex_from(1.0 + imag(a), -real(a))))"),
        ("atan", "arctan", "atanh", "1.0/(1.0 + 1j*a)/(1.0 - 1j*a)")):
    compose(f"complex_{_name}", "a", f"""
w = {_of}(complex_from(-imag(a), real(a)))
return complex_from(imag(w), -real(w))
""", _partial, rule=_rule, python=f"np.{_rule}",
            doc=f"``{_name} a``, by `{_of}` on the other axis.")

# Sums of products of equal signs, which do not cancel.  Far away, log(2*a) on an axis.
# A number that is subtracted leaves the sign of a zero beside it, which says on which
# side of a cut the derivative is.
compose("complex_asin", "a", """
x, y = real(a), imag(a)
if abs(x) > 1e8 or abs(y) > 1e8:
    size = log(hypot(0.5*x, 0.5*y)) + 1.3862943611198906
    return complex_from(atan2(x, abs(y)), copysign(size, y))
if x == 0.0 and isnan(y):
    return a
p, q = sqrt(complex_from(1.0 + x, y)), sqrt(complex_from(1.0 - x, -y))
return complex_from(atan2(x, real(p)*real(q) - imag(p)*imag(q)),
                    asinh(real(q)*imag(p) - imag(q)*real(p)))
""", "1.0/(sqrt(-(a - 1.0))*sqrt(a - -1.0))", rule="arcsin", python="np.arcsin",
        doc="The inverse sine.")
compose("complex_acos", "a", """
x, y = real(a), imag(a)
if abs(x) > 1e8 or abs(y) > 1e8:
    size = log(hypot(0.5*x, 0.5*y)) + 1.3862943611198906
    return complex_from(atan2(abs(y), x), -copysign(size, y))
if x == 0.0 and isnan(y):
    return complex_from(1.5707963267948966, y)
p, q = sqrt(complex_from(1.0 + x, y)), sqrt(complex_from(1.0 - x, -y))
return complex_from(2.0*atan2(real(q), real(p)),
                    asinh(real(p)*imag(q) - imag(p)*real(q)))
""", "-1.0/(sqrt(-(a - 1.0))*sqrt(a - -1.0))", rule="arccos", python="np.arccos",
        doc="The inverse cosine.")
compose("complex_acosh", "a", """
x, y = real(a), imag(a)
if abs(x) > 1e8 or abs(y) > 1e8:
    size = log(hypot(0.5*x, 0.5*y)) + 1.3862943611198906
    return complex_from(size, atan2(y, x))
if x == 0.0 and isnan(y):
    return complex_from(y, 1.5707963267948966)
p, q = sqrt(complex_from(x + 1.0, y)), sqrt(complex_from(x - 1.0, y))
return complex_from(asinh(real(q)*real(p) + imag(q)*imag(p)),
                    2.0*atan2(imag(q), real(p)))
""", "1.0/(sqrt(a - 1.0)*sqrt(a - -1.0))", rule="arccosh", python="np.arccosh",
        doc="The inverse hyperbolic cosine.")

# Far away it is a quarter turn and 1/a.  Near 1 the square of the distance might be 0,
# elsewhere the quotient of the two distances near 1.
compose("complex_atanh", "a", """
x, y = abs(real(a)), abs(imag(a))
if x == 0.0 and isnan(y):
    return a
if x > 1e8 or y > 1e8:
    size = hypot(x, y)
    near = 0.0 if isinf(size) else x/size/size
    turn = 1.5707963267948966 - (0.0 if isinf(y) else y/size/size)
    return complex_from(copysign(near, real(a)), copysign(turn, imag(a)))
gap = hypot(1.0 - x, y)
near = 0.5*(log(hypot(1.0 + x, y)) - log(gap)) if gap < 0.1 else \\
    0.25*log1p(4.0*x/(gap*gap))
turn = 0.5*atan2(2.0*y, (1.0 - x)*(1.0 + x) - y*y)
return complex_from(copysign(near, real(a)), copysign(turn, imag(a)))
""", "1.0/(1.0 - a)/(1.0 + a)", rule="arctanh", python="np.arctanh",
        doc="The inverse hyperbolic tangent.")
