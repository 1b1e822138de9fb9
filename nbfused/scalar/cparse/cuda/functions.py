"""The functions that C bodies call: CUDA's, with what each does to types."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ....support.records import record
from ...ir.nodes import Function
from ...language.library import gamma, remainder, signbit
from ...language.threads import atomic
from ...language.vocabulary import OPS, Op
from ...parse.functions import parse, parse_definition
from ...source.resolve import Operation
from .bessel import BESSEL
from .special import SPECIAL

__all__ = ["ATOMICS", "CONSTANTS", "REFUSED", "CFunction", "function_table",
           "limit"]


@record(frozen=True)
class CFunction:
    """A function of CUDA's.

    Attributes
    ----------
    target
        An operation of the scalar language, or a function written in it.
    arity
        Number of arguments.
    rule
        ``"float"``: arguments in their common floating type, that of the result;
        ``"float32"``: arguments as float32; ``"any"``: integers stay integers;
        ``"bool"``: as float, the result is a bool; ``"part"``: of a complex number,
        the result is real; ``"polar"``: as float, the result is complex;
        the name of another dtype: arguments as this.
    result
        The dtype of the result where the rule does not say it.
    """

    target: Operation | Function
    arity: int
    rule: str = "float"
    result: np.dtype | None = None


#: Where C's rule is not ``"float"``, nor ``"bool"`` for a predicate.
_RULES = {"abs": "any", "max": "any", "min": "any", "conj": "any", "real": "part",
          "imag": "part"}

#: What the vocabulary lacks.  fmax and fmin pass over a NaN, unlike NumPy's.
_DEFINED = {
    "fmax": "def fmax(a, b): return b if a != a else a if b != b else max(a, b)",
    "fmin": "def fmin(a, b): return b if a != a else a if b != b else min(a, b)",
    "fdim": "def fdim(a, b): return a - b if a > b else (a - a) + (b - b)",
    "fma": "def fma(a, b, c): return a * b + c",
    "round": "def round(x):\n    t = trunc(x)\n"
             "    return t + copysign(1.0, x) if abs(x - t) >= 0.5 else t",
    "exp10": "def exp10(x): return exp(x * 2.302585092994046)",
    "rcbrt": "def rcbrt(x): return 1.0 / cbrt(x)",
    "normcdf": "def normcdf(x): return 0.5 * erfc(x * -0.7071067811865476)",
    "rhypot": "def rhypot(a, b): return 1.0 / hypot(a, b)",
    "cyl_bessel_i0": "def cyl_bessel_i0(x): return i0(x)",
    "cyl_bessel_i1": "def cyl_bessel_i1(x): return i1(x)",
}
_INTRINSICS = {"__exp10f": "exp10", "__fmaf_rn": "fma"}
#: Intrinsics by formulas, in the type that they begin with: float, or double.
_FORMULAS = {
    "__saturatef": "def clipped(x): return min(max(x, 0.0), 1.0) if x == x else 0.0",
    **{f"__{letter}{name}_rn": f"def {name}(a, b): return a {sign} b"
       for letter in "fd" for name, sign in (
           ("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/"))},
    **{f"__{letter}rcp_rn": "def rcp(x): return 1.0 / x" for letter in "fd"},
}

#: Of C's headers; float ones keep their type.
CONSTANTS: Mapping[str, bool | int | np.floating] = {
    "true": True, "false": False,
    "INFINITY": np.float32(np.inf), "NAN": np.float32(np.nan),
    "CUDART_INF_F": np.float32(np.inf), "CUDART_NAN_F": np.float32(np.nan),
    "CUDART_INF": np.float64(np.inf), "CUDART_NAN": np.float64(np.nan),
    "CUDART_PI_F": np.float32(math.pi), "CUDART_PI": np.float64(math.pi),
    "M_PI": np.float64(math.pi), "M_PI_2": np.float64(math.pi / 2),
    "M_PI_4": np.float64(math.pi / 4), "M_E": np.float64(math.e),
    "M_1_PI": np.float64(1 / math.pi), "M_2_PI": np.float64(2 / math.pi),
    "M_2_SQRTPI": np.float64(2 / math.sqrt(math.pi)),
    "M_SQRT2": np.float64(math.sqrt(2)), "M_SQRT1_2": np.float64(math.sqrt(0.5)),
    "M_LN2": np.float64(math.log(2)), "M_LN10": np.float64(math.log(10)),
    "M_LOG2E": np.float64(1 / math.log(2)), "M_LOG10E": np.float64(1 / math.log(10)),
    **{f"{prefix}_{name}": getattr(np.finfo(dtype), field)
       for prefix, dtype in (("FLT", np.float32), ("DBL", np.float64))
       for name, field in (("MAX", "max"), ("MIN", "tiny"), ("EPSILON", "eps"))},
    **{f"{prefix}_{name}": int(getattr(np.iinfo(dtype), name.lower()))
       for prefix, dtype in (("INT", np.int32), ("LLONG", np.int64),
                             ("LONG", np.int64), ("SHRT", np.int16))
       for name in ("MAX", "MIN")},
    "UINT_MAX": 2**32 - 1,
}


#: Of raw outputs; each gives the old value.
ATOMICS: Mapping[str, Any] = {
    "atomicAdd": atomic.add, "atomicSub": atomic.add, "atomicMin": atomic.min,
    "atomicMax": atomic.max, "atomicAnd": atomic.and_, "atomicOr": atomic.or_,
    "atomicXor": atomic.xor, "atomicExch": atomic.exch, "atomicCAS": atomic.cas,
    "atomicInc": atomic.inc, "atomicDec": atomic.dec,
}


#: Functions that read bits as another type: what they take, and what they give.
_BIT_CASTS = {
    "__float_as_int": ("float32", "int32"), "__float_as_uint": ("float32", "uint32"),
    "__int_as_float": ("int32", "float32"), "__uint_as_float": ("uint32", "float32"),
    "__double_as_longlong": ("float64", "int64"),
    "__longlong_as_double": ("int64", "float64"),
    "__half_as_short": ("float16", "int16"), "__half_as_ushort": ("float16", "uint16"),
    "__short_as_half": ("int16", "float16"), "__ushort_as_half": ("uint16", "float16"),
}

#: Functions that convert numbers: what they take, how they round, what they give.
_CONVERSIONS = {
    "__half2float": ("float16", "{x}", "float32"),
    **{f"__float2half{end}": ("float32", "{x}", "float16") for end in ("", "_rn")},
    **{f"__{a}2{b}_{mode}": (taken, how, result)
       for a, taken in (("float", "float32"), ("double", "float64"))
       for b, result in (("int", "int32"), ("uint", "uint32"), ("ll", "int64"),
                         ("ull", "uint64"))
       for mode, how in (("rn", "rint({x})"), ("rz", "{x}"), ("rd", "floor({x})"),
                         ("ru", "ceil({x})"))},
    **{f"__{a}2{b}_rn": (taken, "{x}", result)
       for a, taken in (("int", "int32"), ("uint", "uint32"), ("ll", "int64"),
                        ("ull", "uint64"))
       for b, result in (("float", "float32"), ("double", "float64"))},
    "__double2float_rn": ("float64", "{x}", "float32"),
}

#: Functions that have no meaning in a body, with the way out.
REFUSED: Mapping[str, str] = {
    "printf": "printf() gives no value here; call it in a statement of its own",
    "assert": "assert() stops no kernel here; leave it out, or store the condition "
              "into an output",
    **{n: f"{n}() needs the threads of a block, of which a body knows nothing; use "
          "nf.rawkernel" for n in (
              "__syncthreads", "__syncwarp", "__shfl_sync", "__shfl_down_sync",
              "__shfl_up_sync", "__shfl_xor_sync", "__ballot_sync", "__activemask",
              "__any_sync", "__all_sync", "__threadfence")},
}


def limit(what: str, dtype: np.dtype) -> Any:
    """The value of a function of ``std::numeric_limits``; None if there is none."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return {"max": info.max, "min": info.min, "lowest": info.min}.get(what)
    if dtype.kind != "f":
        return None
    return {"max": np.finfo(dtype).max, "lowest": np.finfo(dtype).min,
            "min": np.finfo(dtype).tiny, "epsilon": np.finfo(dtype).eps,
            "infinity": np.inf, "quiet_NaN": np.nan}.get(what)


def _rule(name: str, op: Op) -> str:
    """The rule of an operation; intrinsics begin with two underscores."""
    return "float32" if name.startswith("__") else \
        "bool" if op.boolean else _RULES.get(name, "float")


@lru_cache(maxsize=1)
def function_table() -> Mapping[str, CFunction]:
    """Every function by its name in C."""
    found = {name: CFunction(Operation(op.name), op.arity, _rule(name, op))
             for op in OPS.values() for name in op.c}
    found |= {name: CFunction(f := parse(written), len(f.params))
              for name, written in (("tgamma", gamma), ("remainder", remainder))}
    defined: dict[str, Function] = {}
    for name, text in {**_DEFINED, **SPECIAL, **BESSEL}.items():
        function = defined[name] = parse_definition(text, **defined)
        if not name.startswith("_"):
            found[name] = CFunction(function, len(function.params))
    found |= {f"{n}f": replace(f, rule="float32") for n, f in found.items()
              if f.rule == "float"}
    found |= {n: replace(found[plain], rule="float32")
              for n, plain in _INTRINSICS.items()}
    found |= {n: CFunction(f := parse_definition(text), len(f.params), "float64"
                           if n.startswith("__d") else "float32")
              for n, text in _FORMULAS.items()}
    found["signbit"] = CFunction(parse(signbit), 1, "bool")
    polar = parse_definition("def polar(r, t): return r * cos(t) + 1j * (r * sin(t))")
    found["polar"] = CFunction(polar, 2, "polar")
    parts = {"norm": "return x.real * x.real + x.imag * x.imag",
             "arg": "return atan2(x.imag, x.real)"}
    found |= {n: CFunction(parse_definition(f"def {n}(x): {t}"), 1, "part")
              for n, t in parts.items()}
    found |= {name: CFunction(Operation("bits", result), 1, taken, np.dtype(result))
              for name, (taken, result) in _BIT_CASTS.items()}
    found |= {name: CFunction(_rounded(how), 1, taken, np.dtype(result))
              for name, (taken, how, result) in _CONVERSIONS.items()}
    found["__detach"] = CFunction(Operation("detach"), 1, "any")
    return found | _of_bits(32, "") | _of_bits(64, "ll") | _products()


def _rounded(how: str) -> Function:
    return parse_definition(f"def converted(x): return {how.format(x='x')}")


def _of_bits(width: int, suffix: str) -> dict[str, CFunction]:
    """Functions of the bits of a word: their number, the first, their order."""
    a, b, c = (int(digits * (width // 8), 16) for digits in ("55", "33", "0F"))
    shifts = [2**k for k in range(3, 6) if 2**k < width]
    count = [f"x = x - ((x >> 1) & {a})", f"x = (x & {b}) + ((x >> 2) & {b})",
             f"x = (x + (x >> 4)) & {c}", *(f"x = x + (x >> {k})" for k in shifts)]
    smear = [f"x = x | (x >> {k})" for k in (1, 2, 4, *shifts)]
    swap = [f"x = ((x >> {k}) & {m}) | ((x & {m}) << {k})"
            for k, m in ((1, a), (2, b), (4, c), *(
                (k, sum((2**k - 1) << at for at in range(0, width, 2 * k)))
                for k in shifts))]
    texts = {"__popc": [*count, "return x & 127"],
             "__clz": [*smear, *count, f"return {width} - (x & 127)"],
             "__ffs": ["zero = x == 0", "x = x ^ (x - 1)", *count,
                       "return 0 if zero else x & 127"],
             "__brev": [*swap, "return x"]}
    rule, int32 = f"uint{width}", np.dtype(np.int32)
    return {name + suffix: CFunction(
        parse_definition("\n    ".join([f"def {name[2:]}(x):", *lines])), 1, rule,
        np.dtype(rule) if name == "__brev" else int32)
            for name, lines in texts.items()}


def _products() -> dict[str, CFunction]:
    """The upper halves of products of words, by products of half words."""
    found = {}
    for width, name in ((32, "mulhi"), (64, "mul64hi")):
        half, low = width // 2, 2**(width // 2) - 1
        lines = [f"c, d = a >> {half}, b >> {half}",
                 f"u = c * (b & {low}) + ((a & {low}) * (b & {low}) >> {half})",
                 f"v = (a & {low}) * d + (u & {low})",
                 f"high = c * d + (u >> {half}) + (v >> {half})"]
        sign = width - 1
        for prefix, result, kind in (
                ("__u", "high", f"uint{width}"),
                ("__", f"high - (a >> {sign}) * b - (b >> {sign}) * a", f"int{width}")):
            text = "\n    ".join([f"def {name}(a, b):", *lines, f"return {result}"])
            found[prefix + name] = CFunction(
                parse_definition(text), 2, f"uint{width}", np.dtype(kind))
    return found
