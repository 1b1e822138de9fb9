"""What programs are made of: one table of expressions, one of statements.

An expression is a template; its holes are filled by `holes`.  To teach the fuzzer
something new, add a row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

__all__ = ["EXPRESSIONS", "STATEMENTS", "Row"]

REAL = "biuf"
ANY = "biufc"


@dataclass(frozen=True)
class Row:
    """A template of an expression or statement.

    Attributes
    ----------
    text
        ``{a}`` and ``{b}`` are operands, the other holes are in `holes`.
    kinds
        Kinds of dtypes that ``{a}`` may have, those of ``{b}`` after a comma.
    domain
        Where ``{a}`` has to be; it is wrapped where it is not.
    features
        What some ways refuse.
    exact
        Whether it rounds nothing.
    smooth
        Whether it can be differentiated by its floating operands.
    ndim
        Dimensions that ``{a}`` has at least.
    """

    text: str
    kinds: str = REAL
    domain: tuple[float, float] = (-inf, inf)
    features: frozenset[str] = frozenset()
    exact: bool = False
    smooth: bool = True
    weight: float = 1.0
    ndim: int = 0


def _rows(template: str, names: Iterable[str], kinds: str = REAL,
          domain: tuple[float, float] = (-inf, inf), features: str = "",
          exact: bool = False, smooth: bool = True, weight: float = 1.0,
          ndim: int = 0) -> list[Row]:
    return [Row(template.replace("@", name), kinds, domain,
                frozenset(features.split()), exact, smooth, weight, ndim)
            for name in names]


#: A feature is named where some way of running refuses it: `ways.REFUSED`.
EXPRESSIONS: tuple[Row, ...] = (
    # Operators: with another array, with a number, reflected.
    *_rows("{a} @ {b}", "+-*", "iufc,iufc", weight=3),
    *_rows("{a} @ {n}", "+-*", "iufc", weight=2),
    *_rows("{n} @ {a}", "+-*", "iufc"),
    *_rows("{a} / {n}", [""], "iuf"),
    *_rows("{b} / {a}", [""], "iuf,iuf", (0.3, 9), weight=2),
    *_rows("{n} / {a}", [""], "iuf", (0.3, 9)),
    *_rows("{a} ** {p}", [""], "iuf", (0.3, 4)),
    *_rows("{a} ** {k}", [""], "iuf", (-4, 4)),
    *_rows("{a} ** {b}", [""], "f,f", (0.3, 3), weight=0.5),
    *_rows("{b} @ {a}", ["//", "%"], "iuf,iuf", (0.3, 9), smooth=False, weight=0.7),
    *_rows("{a} @ {m}", ["//", "%"], "iuf", smooth=False, weight=0.7),
    *_rows("-{a}", [""], "ifc", exact=True),
    *_rows("+{a}", [""], "iufc", exact=True, weight=0.3),
    *_rows("abs({a})", [""], "iuf", exact=True, weight=0.7),
    *_rows("({a} @ {b})", ["<", "<=", ">", ">=", "==", "!="], exact=True, smooth=False,
           weight=0.4),
    *_rows("({a} @ {n})", ["<", ">=", "!="], exact=True, smooth=False, weight=0.4),
    *_rows("({n} @ {a})", ["<", ">"], exact=True, smooth=False, weight=0.3),
    # Bits and truth.
    *_rows("({a} @ {b})", "&|^", "b,b", features="bits", exact=True, smooth=False),
    *_rows("({a} @ {b})", "&|^", "biu,biu", features="bits", exact=True, smooth=False,
           weight=0.5),
    *_rows("({a} @ {k})", ["&", "|", "^", "<<", ">>"], "iu", features="bits",
           exact=True, smooth=False, weight=0.5),
    *_rows("~{a}", [""], "biu", features="bits", exact=True, smooth=False),
    *_rows("np.@({a}, {b})", ["logical_and", "logical_or"], exact=True, smooth=False,
           weight=0.5),
    *_rows("np.@({a})", ["logical_not", "isnan", "isfinite", "isinf"], exact=True,
           smooth=False, weight=0.3),
    # Ufuncs of one argument.
    *_rows("np.@({a})", ["sin", "cos", "arctan", "tanh", "arcsinh"], "biuf"),
    *_rows("np.@({a})", ["square"], "iufc"),
    *_rows("np.@({a})", ["exp", "exp2", "expm1", "sinh", "cosh"], "biuf", (-4, 4)),
    *_rows("np.@({a})", ["sqrt", "log", "log2", "log10", "log1p", "cbrt"], "biuf",
           (0.1, 1e4)),
    *_rows("np.@({a})", ["arcsin", "arccos"], "f", (-0.95, 0.95), weight=0.5),
    *_rows("np.tan({a})", [""], "f", (-1.2, 1.2), weight=0.5),
    *_rows("np.reciprocal({a})", [""], "f", (0.2, 1e4), weight=0.5),
    *_rows("np.@({a})", ["arctanh"], "f", (-0.9, 0.9), "fused-only", weight=0.3),
    *_rows("np.@({a})", ["arccosh"], "f", (1.2, 1e4), "fused-only", weight=0.3),
    *_rows("np.@({a})", ["negative", "positive"], "if", exact=True, weight=0.4),
    *_rows("np.@({a})", ["absolute"], "iuf", exact=True, weight=0.6),
    *_rows("np.@({a})", ["floor", "ceil", "trunc", "rint", "sign"], "iuf", exact=True,
           smooth=False, weight=0.4),
    # Ufuncs of two.
    *_rows("np.@({a}, {b})", ["add", "subtract", "multiply"], "iufc,iufc"),
    *_rows("np.@({a}, {n})", ["add", "subtract", "multiply"], "iufc", weight=0.6),
    *_rows("np.@({a}, {b})", ["maximum", "minimum"], "iuf,iuf", exact=True),
    *_rows("np.@({a}, {n})", ["maximum", "minimum"], "iuf", exact=True),
    *_rows("np.@({a}, {b})", ["arctan2", "hypot"], "f,f", (0.2, 1e4), weight=0.5),
    *_rows("np.divide({b}, {a})", [""], "iuf,iuf", (0.3, 9), weight=0.5),
    *_rows("np.power({a}, {p})", [""], "f", (0.3, 4), weight=0.5),
    *_rows("np.@({b}, {a})", ["floor_divide", "remainder"], "iuf,iuf", (0.3, 9),
           smooth=False, weight=0.3),
    *_rows("np.@({a}, {b})", ["logaddexp", "copysign"], "f,f", (-20, 20), "fused-only",
           weight=0.4),
    *_rows("np.fmod({b}, {a})", [""], "f,f", (0.3, 9), "fused-only", smooth=False,
           weight=0.3),
    *_rows("np.@({a}, {b}, dtype='f8')", ["add", "multiply"], "iuf,iuf",
           features="not-torch", weight=0.3),
    # A choice between values.
    *_rows("np.where({c}, {a}, {b})", [""], ANY + "," + ANY, exact=True, weight=2),
    *_rows("np.where({c}, {a}, {n})", [""], "iuf", exact=True),
    *_rows("np.where({a} > {n}, {a}, {b})", [""], "f,f", exact=True),
    *_rows("np.clip({a}, -1, 2)", [""], "if", exact=True, weight=0.7),
    *_rows("{a}.clip(0, 3)", [""], "iuf", exact=True, weight=0.5),
    # Reductions.
    *_rows("{a}.@({axis}{keep})", ["sum", "mean"], "iuf", weight=2, ndim=1),
    *_rows("np.@({a}{,axis}{keep})", ["sum", "mean"], "iuf", weight=2, ndim=1),
    *_rows("np.sum({a}{,axis}{keep})", [""], "bc", ndim=1),
    *_rows("{a}.@({axis}{keep})", ["max", "min"], "iuf", features="not-torch",
           exact=True, ndim=1),
    *_rows("np.@({a}{,axis}{keep})", ["max", "min"], "iuf", features="not-torch",
           exact=True, ndim=1),
    *_rows("np.@({a}{,axis}{keep})", ["var", "std"], "f", features="not-torch",
           weight=0.6, ndim=1),
    *_rows("np.prod({a}{,axis}{keep})", [""], "iuf", (0.4, 2.5), weight=0.6, ndim=1),
    *_rows("np.@({a}{,one axis}{keep})", ["argmax", "argmin"], "iuf",
           features="not-torch", exact=True, smooth=False, weight=0.5, ndim=1),
    *_rows("np.@({a}{,axis}{keep})", ["all", "any"], REAL, features="fused-only",
           exact=True, smooth=False, weight=0.4, ndim=1),
    *_rows("np.@.reduce({a}{,axis})", ["add", "maximum", "minimum"], "if", weight=0.4,
           ndim=1),
    *_rows("{a}.sum(dtype='f8')", [""], "iuf", features="not-torch", weight=0.4),
    # Products.
    *_rows("{a} @ {b}", ["@"], "f,f", weight=2, ndim=1),
    *_rows("{a} @ {b}.T", ["@"], "f,f", features="view", weight=2, ndim=1),
    *_rows("np.matmul({a}, {b})", [""], "f,f", ndim=1),
    *_rows("np.dot({a}, {b})", [""], "f,f", features="fused-only dot", weight=0.5,
           ndim=1),
    *_rows("{a} @ {b}.T", ["@"], "iu,iu", features="view", exact=True, ndim=1),
    # Shapes.
    *_rows("{a}{index}", [""], ANY, features="view", exact=True, weight=3, ndim=1),
    *_rows("{a}@", [".T", ".reshape(-1)", "[None]", "[..., None]", ".squeeze()"], ANY,
           features="view", exact=True, weight=0.6),
    *_rows("{a}.ravel()", [""], ANY, features="view ravel", exact=True, weight=0.6),
    *_rows("{a}.transpose({axes})", [""], ANY, features="view numpy-only", exact=True,
           ndim=2),
    *_rows("np.transpose({a})", [""], ANY, features="view", exact=True, weight=0.5),
    *_rows("{a}.reshape({shape})", [""], ANY, features="view", exact=True),
    *_rows("np.reshape({a}, {shape})", [""], ANY, features="view", exact=True,
           weight=0.5),
    *_rows("np.broadcast_to({a}, {wider})", [""], ANY, features="view", exact=True,
           weight=0.7),
    *_rows("np.@({a}, 0, -1)", ["swapaxes", "moveaxis"], ANY,
           features="view fused-only", exact=True, weight=0.4, ndim=2),
    *_rows("np.expand_dims({a}, {axis0})", [""], ANY, features="view fused-only",
           exact=True, weight=0.4),
    *_rows("np.concatenate([{a}, {a}], axis={axis0})", [""], ANY, exact=True, ndim=1,
           weight=0.7),
    *_rows("np.concatenate(({a}, {b}))", [""], "if,if", features="arrays", exact=True,
           ndim=1, weight=0.5),
    *_rows("np.stack([{a}, {b}])", [""], "if,if", features="arrays", exact=True,
           weight=0.7),
    *_rows("np.take({a}, np.array({indices}), axis=0)", [""], ANY, features="constant",
           exact=True, ndim=1, weight=0.7),
    *_rows("{a}[np.array({indices})]", [""], ANY, features="constant", exact=True,
           ndim=1, weight=0.7),
    # Conversions and new arrays.
    *_rows("{a}.astype('{dtype}')", [""], REAL, (-50, 50), smooth=False, weight=2),
    *_rows("{a}.copy()", [""], ANY, features="fused-only", exact=True, weight=0.7),
    *_rows("np.copy({a})", [""], ANY, features="fused-only", exact=True, weight=0.4),
    *_rows("np.@({a})", ["zeros_like", "ones_like"], ANY, features="arrays", exact=True,
           weight=0.5),
    *_rows("np.full_like({a}, 2)", [""], "iuf", features="arrays", exact=True,
           weight=0.5),
    # Functions of nbfused.
    *_rows("ops.@({a})", ["relu", "sigmoid", "silu", "gelu", "softplus", "elu",
                          "leaky_relu", "erf", "log_sigmoid"], "f", (-20, 20),
           "ops", weight=0.5),
    *_rows("ops.@({a}, axis={axis0})", ["softmax", "log_softmax"], "f", (-20, 20),
           "ops", weight=1.0, ndim=1),
    *_rows("ops.@({a})", ["layer_norm", "rms_norm"], "f", features="ops", ndim=1),
    *_rows("ops.logsumexp({a}{,axis}{keep})", [""], "f", (-20, 20), "ops", ndim=1),
    *_rows("ops.rsqrt({a})", [""], "f", (0.2, 1e4), "ops", weight=0.5),
)

#: ``{e}`` is an expression, ``{s}`` another statement, ``{t}`` a new name; ``{a}`` is
#: a name and not an expression.
STATEMENTS: tuple[Row, ...] = (
    Row("{t} = {e}", ANY, exact=True, weight=14),
    Row("{t} = {a}", ANY, exact=True, weight=0.8),
    Row("{a} = {e}", ANY, exact=True, weight=0.8),
    *_rows("{a} @= {b}", "+-*", "iufc,iufc", features="in-place"),
    *_rows("{a} @= {n}", "+-*", "iufc", features="in-place", weight=0.5),
    *_rows("{a} @= {e}", "+-*", "f", features="in-place", weight=1.0),
    *_rows("{a} /= {m}", [""], "f", features="in-place", weight=0.7),
    *_rows("{a} @= {m}", ["//", "%"], "iuf", features="in-place", smooth=False,
           weight=0.4),
    *_rows("{a} **= {k}", [""], "if", (-4, 4), "in-place", weight=0.5),
    *_rows("{a} @= {b}", "&|^", "b,b", features="bits in-place-bits", exact=True,
           smooth=False, weight=0.5),
    *_rows("{a} @= {k}", ["&", "|", "^", "<<", ">>"], "iu",
           features="bits in-place-bits", exact=True, smooth=False, weight=0.4),
    *_rows("{a} @= {b}", ["@"], "f,f", features="in-place-bits numpy-only",
           weight=0.4, ndim=2),
    *_rows("np.@({b}, {b}, out={a})", ["add", "multiply", "subtract", "maximum"],
           "if,if", features="out", weight=0.5),
    *_rows("{t} = np.@({b}, {n}, out={a})", ["add", "multiply", "subtract"], "f,f",
           features="out", weight=0.4),
    *_rows("np.@({b}, out=({a},))", ["sin", "tanh", "negative", "square"], "f,f",
           features="out", weight=0.4),
    *_rows("np.@({a}, out={a})", ["floor", "sign"], "f", features="out", smooth=False,
           weight=0.3),
    *_rows("np.@({b}, {b}, out={a})", ["bitwise_and", "logical_or", "less"],
           "b,iub", features="out", exact=True, smooth=False, weight=0.3),
    *_rows("np.@({a}, axis=0, out={b})", ["sum", "max"], "f,f", features="out",
           weight=0.3, ndim=1),
    Row("{a}[...] = {e}", "if", features=frozenset(["store"]), weight=0.8),
    Row("{a}[:] = {n}", "f", features=frozenset(["store"]), weight=0.4, ndim=1,
        exact=True),
    Row("{a}{index} = {n}", "f", features=frozenset(["store", "store-part"]),
        weight=0.15, ndim=1, exact=True),
    Row("{a}[{a} > 1] = 0", "f", features=frozenset(["store", "store-part"]),
        weight=0.15, exact=True),
    Row("if {a}.ndim == {k}:\n    {s}\nelse:\n    {s}", ANY, weight=0.5),
    Row("if {a}.shape[0] > 2:\n    {s}", ANY, weight=0.4, ndim=1),
    Row("for _ in range(2):\n    {s}", ANY, weight=0.6),
    Row("for _ in {a}.shape:\n    {s}", ANY, weight=0.3, ndim=1),
)
