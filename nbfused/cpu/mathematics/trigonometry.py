"""sin, cos and tan for arguments of any size, as functions of whole vectors.

Near 0 a multiple of pi/2 is subtracted in three parts by fused multiply-adds (Cody and
Waite).  Far from it the argument, an integer times a power of two, is multiplied with
those bits of 2/pi that are no whole turns (Payne and Hanek): in integers, lane by lane,
where a vector has such a lane.  A loop cannot be vectorised around that branch, so the
vectoriser is told of functions of vectors (LLVM's "vector function ABI") that it may
call instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import ir

from ...support.records import record
from .formats import DOUBLE, constant, format_of, horner, product, two_sum
from .number import Number, bits, fma, fma_is_fast, real, select

__all__ = ["call_trigonometric"]

#: Bytes of the vectors that there are functions of.
_WIDTHS = (16, 32, 64)

#: Bits of the table of 2/pi, and zeros that it begins with.
_BITS, _ZEROS = 1344, 64

_I64 = ir.IntType(64)


@record(frozen=True)
class _Coefficients:
    r"""Polynomials in r**2 for \|r\| <= pi/4, highest degree first: Chebyshev fits."""

    near: float  # arguments that three parts of pi/2 do for
    parts: tuple[float, float, float]  # pi/2
    sin: tuple[float, ...]  # (sin(r)/r - 1)/r**2
    cos: tuple[float, ...]  # (cos(r) - 1 + r**2/2)/r**4
    tan: tuple[float, ...]  # (tan(r)/r - 1)/r**2


_SINGLES = _Coefficients(
    2.0**15, (1.5707963705062866, -4.371139000186241e-08, -1.7151245100058819e-15),
    (2.7249864658196823e-06, -0.00019840086263779024, 0.008333331873837132,
     -0.16666666663853044),
    (-2.73009081705482e-07, 2.480059998355139e-05, -0.0013888887671288145,
     0.04166666666431933),
    (0.0038439722398158744, 0.0011839185951118656, 0.00996302535558701,
     0.02162087691570402, 0.05399449654363585, 0.13333230799601858,
     0.3333333398050103))

_DOUBLES = _Coefficients(
    2.0**27, (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33),
    (1.591810123167728e-10, -2.5051131455447428e-08, 2.755731610068312e-06,
     -0.0001984126983675497, 0.008333333333330946, -0.16666666666666666),
    (-1.1382614869434128e-11, 2.087614602470193e-09, -2.7557317270560385e-07,
     2.4801587298763433e-05, -0.0013888888888887395, 0.041666666666666664),
    (8.4872853977141e-06, -1.833169823906272e-05, 3.654645824603198e-05,
     -1.1046556992740058e-05, 5.561124272292848e-05, 8.99738179014065e-05,
     0.0002412302318213227, 0.0005895746779513982, 0.0014559028934120557,
     0.003592120963192623, 0.008863236004747537, 0.021869488517019687,
     0.05396825396865669, 0.13333333333333, 0.3333333333333333))


@record(frozen=True)
class _Reduced:
    """An argument without quarter turns: ``r + low``, and how many, in the last bits.

    `low` is what `r` is rounded by.
    """

    r: Number
    low: Number
    quadrant: Number


def _near(x: Number) -> _Reduced:
    """Reduce an argument that is not large."""
    form, parts = format_of(x), _coefficients(x).parts
    shifted = fma(x, constant(x, 2.0/math.pi), form.round)
    negative = form.round - shifted
    first = fma(negative, constant(x, parts[0]), x)  # exact
    part = negative*parts[1]
    total, lost = two_sum(first, part)
    lost = lost + fma(negative, constant(x, parts[1]), -part)
    lost = fma(negative, constant(x, parts[2]), lost)
    r = total + lost
    return _Reduced(r, (total - r) + lost, bits(shifted))


def _far(x: Number) -> _Reduced:
    """Reduce a large float64, in integers; infinity gives NaN."""
    b, form = x.builder, DOUBLE
    word = bits(x)
    exponent = (word >> form.mantissa) & (2*form.bias + 1)
    whole = (word & ((1 << form.mantissa) - 1)) | (1 << form.mantissa)
    turns = _turns(whole, exponent - (form.bias + form.mantissa) + _ZEROS)
    top = Number(b, turns[0])
    quadrant = ((top + (1 << 61)) >> 62) & 3
    rest = top - (quadrant << 62)
    parts = [(rest >> 32).converted(x.type)*2.0**-30]
    scale = 2.0**-62
    for part in (rest, Number(b, b.lshr(turns[1], _I64(32))), Number(b, turns[1]),
                 Number(b, b.lshr(turns[2], _I64(32)))):
        parts.append((part & 0xFFFFFFFF).converted(x.type)*scale)
        scale *= 2.0**-32
    r, low = parts[0], constant(x, 0.0)
    for part in parts[1:]:
        r, lost = two_sum(r, part)
        low = low + lost
    half_pi = constant(x, _DOUBLES.parts[0])
    turned = r*half_pi
    low = fma(r, constant(x, _DOUBLES.parts[1]), low*half_pi) + product(r, half_pi)[1]
    turned = select(x.abs() < math.inf, turned, math.nan)
    negative = x < 0.0
    return _Reduced(select(negative, -turned, turned), select(negative, -low, low),
                    select(negative, 0 - quadrant, quadrant))


def _turns(whole: Number, first: Number) -> list[Any]:
    """A fraction of a turn in 192 bits: `whole` times 2/pi/4 from bit `first` on."""
    b = whole.builder
    table, wide = _table(b.module), ir.IntType(128)
    shift = b.and_(first.value, _I64(63))
    at = b.lshr(first.value, _I64(6))
    words = [b.load(b.gep(table, [_I64(0), b.add(at, _I64(k))])) for k in range(4)]
    fshl = b.module.globals.get("llvm.fshl.i64") or ir.Function(
        b.module, ir.FunctionType(_I64, [_I64]*3), "llvm.fshl.i64")
    window = [b.call(fshl, [words[k], words[k + 1], shift]) for k in range(3)]
    factor, carry, found = b.zext(whole.value, wide), wide(0), []
    for word in reversed(window):
        total = b.add(b.mul(factor, b.zext(word, wide)), carry)
        found.append(b.trunc(total, _I64))
        carry = b.lshr(total, wide(64))
    return found[::-1]


def _coefficients(x: Number) -> _Coefficients:
    return _DOUBLES if format_of(x) is DOUBLE else _SINGLES


@cache
def _words() -> tuple[int, ...]:
    """Bits of 2/pi/4 after `_ZEROS` zeros, in words, from Machin's formula for pi."""
    one = 1 << _BITS + 64

    def inverse_tangent(n: int) -> int:
        term, total, k = one//n, 0, 1
        while term:
            total += term//k if k % 4 == 1 else -(term//k)
            term //= n*n
            k += 2
        return total

    pi = 4*(4*inverse_tangent(5) - inverse_tangent(239))
    found = (one << _BITS - _ZEROS)//(2*pi)
    return tuple(found >> at & (1 << 64) - 1 for at in range(_BITS - 64, -1, -64))


def _table(module: Any) -> Any:
    """The table of `_words` as a constant of the module."""
    name = "nbfused.quarters"
    if name in module.globals:
        return module.globals[name]
    kind = ir.ArrayType(_I64, len(_words()))
    table = ir.GlobalVariable(module, kind, name)
    table.initializer = ir.Constant(kind, [_I64(word) for word in _words()])
    table.global_constant, table.linkage = True, "linkonce_odr"
    return table


# The functions ------------------------------------------------------------------------


def _sine(x: Number, reduced: _Reduced, quarters: int = 0) -> Number:
    """The sine of a reduced argument and so many quarter turns."""
    r, form = reduced.r, _coefficients(x)
    z = r*r
    s = fma(r*z, horner(form.sin, z), r) + reduced.low
    half = z*0.5
    c = 1.0 - half
    rest = ((1.0 - c) - half) - r*reduced.low
    c = c + fma(z*z, horner(form.cos, z), rest)
    turn = reduced.quadrant + quarters
    y = select((turn & 1).equals(0), s, c)
    sign = (turn & 2) << (30 if form is _SINGLES else 62)
    return real(bits(y) ^ sign)


def sin(x: Number, reduced: _Reduced) -> Number:
    """The sine."""
    return select(x.equals(0.0), x, _sine(x, reduced))


def cos(x: Number, reduced: _Reduced) -> Number:
    """The cosine."""
    return _sine(x, reduced, 1)


def tan(x: Number, reduced: _Reduced) -> Number:
    """The tangent."""
    r = reduced.r
    z = r*r
    rest = fma(r*z, horner(_coefficients(x).tan, z), reduced.low*(z + 1.0))
    t = r + rest
    lost = (r - t) + rest
    inverse = -1.0/t
    # One step of Newton's: of the reciprocal of t + lost.
    error = fma(inverse, t, 1.0) + inverse*lost
    inverse = fma(error, inverse, inverse)
    y = select((reduced.quadrant & 1).equals(0), t, inverse)
    return select(x.equals(0.0), x, y)


_FUNCTIONS: dict[str, Callable[[Number, _Reduced], Number]] = {
    "sin": sin, "cos": cos, "tan": tan}


def call_trigonometric(name: str, x: Number) -> Number:
    """Call ``sin``, ``cos`` or ``tan``, alone or, in a loop, of a vector."""
    b, form = x.builder, format_of(x)
    size = 8 if form is DOUBLE else 4
    title = f"nbfused_{name}_f{8*size}"
    function = _scalar(b.module, name, title, x.type)
    known = [f"_ZGV_LLVM_N{width//size}v_{title}({title}_v{width//size})"
             for width in _WIDTHS]
    for width in _WIDTHS:
        _of_vector(b.module, name, title, ir.VectorType(x.type, width//size))
    call = b.call(function, [x.value])
    # llvmlite refuses the names of attributes that it does not know.
    set.add(call.attributes, f'"vector-function-abi-variant"="{",".join(known)}"')
    set.add(call.attributes, "nounwind")
    return Number(b, call)


def _begin(module: Any, title: str, kind: Any) -> tuple[Any, Any]:
    """A function that several modules may define, and its builder."""
    function = ir.Function(module, ir.FunctionType(kind, [kind]), title)
    function.linkage = "weak_odr"  # as no other module's text may call it yet
    set.add(function.attributes, "memory(none)")
    for word in ("noinline", "nounwind", "willreturn"):
        set.add(function.attributes, word)
    return function, ir.IRBuilder(function.append_basic_block("entry"))


def _scalar(module: Any, name: str, title: str, kind: Any) -> Any:
    """The function of one number."""
    if title in module.globals:
        return module.globals[title]
    function, b = _begin(module, title, kind)
    x = Number(b, function.args[0])
    near = x.abs() < _limit(x)
    with b.if_then(near.value, likely=True):
        b.ret(_FUNCTIONS[name](x, _near(x)).value)
    wide = x if format_of(x) is DOUBLE else x.converted(ir.DoubleType())
    result = _FUNCTIONS[name](wide, _far(wide))
    b.ret((result if wide is x else result.converted(kind)).value)
    return function


def _limit(x: Number) -> float:
    return _coefficients(x).near if fma_is_fast() else 0.0


def _of_vector(module: Any, name: str, title: str, kind: Any) -> None:
    """The function of a vector, which calls the other one for lanes that are far."""
    full = f"{title}_v{kind.count}"
    if full in module.globals:
        return
    function, b = _begin(module, full, kind)
    x = Number(b, function.args[0])
    result = _FUNCTIONS[name](x, _near(x)).value
    near = (x.abs() < _limit(x)).value
    word = ir.IntType(kind.count)
    all_near = b.icmp_unsigned("==", b.bitcast(near, word), word(-1))
    with b.if_then(all_near, likely=True):
        b.ret(result)
    scalar = module.globals[title]
    for lane in range(kind.count):
        at = ir.IntType(32)(lane)
        one = b.call(scalar, [b.extract_element(x.value, at)])
        result = b.insert_element(result, one, at)
    b.ret(result)
