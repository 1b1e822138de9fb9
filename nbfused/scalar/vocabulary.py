"""The vocabulary of scalar functions: every operation, its dtype rule, its derivative.

One table serves both directions of differentiation, the typing pass and the printers.
Conventions, the same on every backend:

- relu'(0) = abs'(0) = sqrt'(0) = hypot'(0, 0) = atan2'(0, 0) = 0;
- a tie of max or min, or an operand that is NaN, gives each side one half;
- where a value is NaN, a derivative that is not identically zero is NaN or a share,
  never a silent zero;
- rounding functions, `sign` and comparisons have derivative zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..records import record
from .composites import COMPOSITES, python_function
from .numeric import NUMPY
from .python_numbers import plain_number

__all__ = ["OPS", "Op"]


@record(frozen=True)
class Op:
    """One operation of the scalar language; calling it evaluates it with NumPy.

    Attributes
    ----------
    name
        As in the `op` field of `ir.Let`.
    arity
        Number of operands.
    partials
        For each operand, the partial derivative as an expression in the operands
        ``a``, ``b``, ``c`` and the result ``y``; None where it is identically zero.
        Empty: a composite is differentiated through its definition; what is none has
        no derivative, and asking for one is an error.
    rule
        The NumPy ufunc whose type resolution decides the dtypes, or ``"same"``: the
        operands are taken as they are.
    definition
        For a composite: its ``def`` in terms of other operations.
    doc
        What it computes.
    """

    name: str
    arity: int
    partials: tuple[str | None, ...]
    rule: str
    definition: str | None = None
    doc: str = ""

    def __call__(self, *args: Any) -> Any:
        """Evaluate on numbers and NumPy arrays, or defer to a symbolic operand."""
        for arg in args:
            if hasattr(arg, "__nbfused_op__"):
                return arg.__nbfused_op__(self.name, args)
        if len(args) != self.arity:
            raise TypeError(f"{self.name}() takes {self.arity} arguments, not "
                            f"{len(args)}")
        args = tuple(map(plain_number, args))
        numbers = all(type(arg) in (bool, int, float, complex) for arg in args)
        if numbers or (self.definition is not None and self.rule == "same"):
            args = tuple(np.asarray(arg) for arg in args)
        with np.errstate(all="ignore"):
            result = self.implementation(*args)
        return result.item() if numbers and hasattr(result, "item") else result

    def __repr__(self) -> str:
        return f"<nbfused {self.name}>"

    @property
    def __nbfused_op_name__(self) -> str:
        """By which the parser knows an operation among other callables."""
        return self.name

    @property
    def implementation(self) -> Callable[..., Any]:
        """A NumPy callable."""
        return NUMPY[self.name] if self.definition is None else self.function

    @property
    def function(self) -> Callable[..., Any]:
        """The Python function of a composite's `definition`; it has a source."""
        assert self.definition is not None
        return python_function(self.name, self.definition, OPS)


OPS: dict[str, Op] = {}

Partials = tuple[str | None, ...]

#: Where the ufunc that rules the dtypes has another name.
_UFUNCS = {
    "sub": "subtract", "mul": "multiply", "div": "true_divide",
    "floordiv": "floor_divide", "mod": "remainder", "pow": "power", "powi": "power",
    "neg": "negative", "pos": "positive", "abs": "absolute", "min": "minimum",
    "max": "maximum", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "left_shift", "rshift": "right_shift", "lt": "less",
    "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal",
    "ne": "not_equal", "asin": "arcsin", "acos": "arccos", "atan": "arctan",
    "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "atan2": "arctan2",
    "conj": "conjugate", "real": "absolute", "imag": "absolute",
}


def _register(doc: str, table: dict[str, Partials], *, arity: int = 0,
              rule: str = "") -> None:
    for name, partials in table.items():
        ufunc = rule or _UFUNCS.get(name, name)
        OPS[name] = Op(name, arity or len(partials), partials, ufunc, None, doc)


_register("Arithmetic as in NumPy; ``//`` and ``%`` round down, `fmod` to zero.", {
    "add": ("1.0", "1.0"),
    "sub": ("1.0", "-1.0"),
    "mul": ("b", "a"),
    "div": ("1.0/b", "-y/b"),
    "floordiv": (None, None),
    "mod": ("1.0", "-(a // b)"),
    "fmod": ("1.0", "-trunc(a/b)"),
    "neg": ("-1.0",),
    "pos": ("1.0",),
    "abs": ("sign(a)",),
})

_register("The larger or smaller operand; NaN if either is.", {
    "max": ("1.0 if a > b else (0.0 if a < b else 0.5)",
            "1.0 if b > a else (0.0 if b < a else 0.5)"),
    "min": ("1.0 if a < b else (0.0 if a > b else 0.5)",
            "1.0 if b < a else (0.0 if b > a else 0.5)"),
})

_register("A power; `powi` has an integer exponent and is exact at bases <= 0.", {
    "powi": ("0.0 if b == 0 else b*powi(a, b - 1)", None),
    # At a base <= 0 the exponent's derivative is 0, unless the value itself is NaN:
    # so the base's has none by the exponent.  An exponent 0 is not set apart where
    # 1/a is finite, for its derivative there is not 0.
    "pow": ("0.0 if b == 0.0 and not isfinite(1.0/a) else "
            "select(a > 0.0, b, detach(b))*pow(a, select(a > 0.0, b, detach(b)) - 1.0)",
            "y*log(a) if a > 0.0 else (0.0 if y == y else y)"),
})

_register("Bitwise, on integers; a shift by the width or more gives 0 (or -1).", {
    "and": (None, None), "or": (None, None), "xor": (None, None),
    "lshift": (None, None), "rshift": (None, None), "invert": (None,),
})

_register("A predicate; the result is bool.", {
    "lt": (None, None), "le": (None, None), "gt": (None, None),
    "ge": (None, None), "eq": (None, None), "ne": (None, None),
    "logical_and": (None, None), "logical_or": (None, None), "logical_not": (None,),
    "isnan": (None,), "isinf": (None,), "isfinite": (None,),
})

_register("``select(a, b, c)`` is ``b if a else c`` with both evaluated.", {
    "select": (None, "1.0 if a else 0.0", "0.0 if a else 1.0"),
}, rule="same")

_register("The operand itself; `detach` stops the gradient.", {
    "id": ("1.0",), "detach": (None,),
}, rule="same")

_register("As the NumPy function of the same meaning.", {
    "sqrt": ("0.5/y if y > 0.0 else y",),
    "cbrt": ("1.0/(3.0*y*y)",),
    "exp": ("y",),
    "exp2": ("0.6931471805599453*y",),
    "expm1": ("exp(a)",),
    "log": ("1.0/a",),
    "log2": ("1.4426950408889634/a",),
    "log10": ("0.4342944819032518/a",),
    "log1p": ("1.0/(1.0 + a)",),
    "sin": ("cos(a)",),
    "cos": ("-sin(a)",),
    "tan": ("1.0 + y*y",),
    "asin": ("1.0/sqrt((1.0 - a)*(1.0 + a))",),
    "acos": ("-1.0/sqrt((1.0 - a)*(1.0 + a))",),
    "atan": ("1.0/(1.0 + a*a)",),
    "sinh": ("cosh(a)",),
    "cosh": ("sinh(a)",),
    "tanh": ("1.0 - y*y",),
    # hypot and split roots: a*a would overflow long before the result does.
    "asinh": ("1.0/hypot(a, 1.0)",),
    "acosh": ("1.0/(sqrt(a - 1.0)*sqrt(a + 1.0))",),
    "atanh": ("1.0/((1.0 - a)*(1.0 + a))",),
    "hypot": ("a/y if y > 0.0 else y", "b/y if y > 0.0 else y"),
    "atan2": ("0.0 if hypot(a, b) == 0.0 else b/hypot(a, b)/hypot(a, b)",
              "0.0 if hypot(a, b) == 0.0 else -a/hypot(a, b)/hypot(a, b)"),
    "copysign": ("sign(a)*copysign(1.0, b)", None),
    "floor": (None,), "ceil": (None,), "trunc": (None,), "rint": (None,),
    "sign": (None,),
})

_register("A function that NumPy lacks; dtypes as for `numpy.exp`.", {
    "rsqrt": ("-0.5*y*y*y",),
    "erf": ("1.1283791670955126*exp(-a*a)",),
    "erfc": ("-1.1283791670955126*exp(-a*a)",),
    "lgamma": ("digamma(a)",),
}, rule="exp")

_register("A part or the conjugate of a complex number; forward only.", {
    "real": (), "imag": (), "conj": (),
}, arity=1)

for _name, _composite in COMPOSITES.items():
    OPS[_name] = Op(_name, _composite.arity, _composite.partials, _composite.rule,
                    _composite.definition, _composite.doc)

for _op in OPS.values():
    object.__setattr__(_op, "__doc__", _op.doc)  # which `help` shows
