"""Definitions and derivatives of operations on complex numbers.

A holomorphic function has one derivative, by which the change of its operand is
multiplied.  Cotangents are those of JAX and of autograd: that of `z` times a change of
`z` has the change of what is differentiated as its real part.
"""

from __future__ import annotations

from .composites import SINC_SLOPE, compose

compose("modulus", "a", "return abs(a)", "conj(a)/y if y != 0.0 else 0.0",
        rule="absolute", python="abs", change="real",
        doc="The absolute value; its derivative at 0 is 0.")
compose("complex_sign", "a", """
m = modulus(a)
known = real(a) == real(a) and imag(a) == imag(a)
if isinf(m) and known:  # by overflow of large parts, or along an infinite one
    x = copysign(1.0, real(a)) if isinf(real(a)) else 0.0
    y = copysign(1.0, imag(a)) if isinf(imag(a)) else 0.0
    small = 0.25*a
    size = modulus(small)
    none = m - m if x*y != 0.0 else 0.0
    return small/size if isfinite(size) else complex_from(x + none, y + none)
return a/m if m != 0.0 else a
""", rule="sign", python="np.sign",
        doc="``a/abs(a)``, 0 at 0, along an infinite part; NaN of NaN.")

# The logarithm's derivative by the exponent has the value as a factor: 0 at base 0.
compose("complex_pow", "a, b", "return pow(a, b)",
        "0.0 if b == 0.0 and not isfinite(1.0/a) else b*complex_pow(a, b - 1.0)",
        "y*log(a if a != 0.0 else 1.0)", rule="power", python="{a} ** {b}",
        doc="The principal power.")
compose("complex_rint", "a", "return complex_from(rint(real(a)), rint(imag(a)))",
        None, rule="rint", python="np.rint", doc="The nearest integers of both parts.")
compose("complex_sinc", "a", """
z = 3.141592653589793*(a if a != 0.0 else 1.0)
return sin(z)/z if a != 0.0 else 1.0
""", f"{SINC_SLOPE} if abs(a) < 0.05 else (cos(3.141592653589793*a) - y)/a",
        rule="exp", python="np.sinc", doc="``sin(pi*a)/(pi*a)``, 1 at 0.")

# NumPy's order: by the real part, equal ones by the imaginary; a NaN beside different
# real parts decides nothing.
for _name, _rule, _first, _operator in (
        ("lt", "less", "<", "<"), ("le", "less_equal", "<", "<="),
        ("gt", "greater", ">", ">"), ("ge", "greater_equal", ">", ">=")):
    compose(f"complex_{_name}", "a, b", f"""
number = imag(a) == imag(a) and imag(b) == imag(b)
first = real(a) {_first} real(b) and number
return first or (real(a) == real(b) and imag(a) {_operator} imag(b))
""", None, None, rule=_rule, python=f"np.{_rule}", boolean=True,
            doc=f"``a {_operator} b`` in NumPy's order.")

for _name, _word, _more, _most in (("max", "larger", "complex_gt", "complex_ge"),
                                   ("min", "smaller", "complex_lt", "complex_le")):
    compose(f"complex_{_name}", "a, b",
            f"return a if isnan(a) or (not isnan(b) and {_most}(a, b)) else b",
            f"1.0 if {_more}(a, b) else (0.0 if {_more}(b, a) else 0.5)",
            f"1.0 if {_more}(b, a) else (0.0 if {_more}(a, b) else 0.5)",
            rule=f"{_name}imum", python=f"np.{_name}imum",
            doc=f"The {_word} one in NumPy's order; NaN if either is.")
    compose(f"complex_f{_name}", "a, b",
            f"return b if isnan(a) else a if isnan(b) else complex_{_name}(a, b)",
            f"0.0 if isnan(a) else 1.0 if isnan(b) or {_more}(a, b) else "
            f"0.0 if {_more}(b, a) else 0.5",
            f"0.0 if isnan(b) else 1.0 if isnan(a) or {_more}(b, a) else "
            f"0.0 if {_more}(a, b) else 0.5",
            rule=f"f{_name}", python=f"np.f{_name}",
            doc=f"The {_word} one in NumPy's order; a number rather than NaN.")
