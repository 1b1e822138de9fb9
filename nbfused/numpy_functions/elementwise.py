"""Functions of elements that are no ufuncs of NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import numpy as np

from ..arrays import dtype_of
from ..arrays.traced import Traced, TracedNumber
from ..autograd import Variable
from ..autograd.numpy_api.integers import loop_dtype
from ..autograd.numpy_api.ufuncs import loop_dtypes
from ..errors import KernelTypeError
from ..op.numbers import whole_number
from .base import (
    as_arrays,
    common_dtype,
    converted,
    copied,
    detached,
    floating,
    implements,
    is_value,
    ops,
    sequence,
    shape_of,
    stored,
    truth,
    vocabulary,
)
from .complex_parts import imag, real
from .library import native, without_gradient

__all__: list[str] = []


@implements("where")
def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """`x` where a condition holds, else `y`."""
    if x is None and y is None:
        from .indexing import nonzero
        return nonzero(condition)
    if x is None or y is None:
        raise KernelTypeError("numpy.where: one of 'x' and 'y' was given; expected "
                              "both, or none")
    return ops.where(condition, x, y)


@implements("clip")
def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *,
         min: Any = None, max: Any = None, dtype: Any = None) -> Any:
    """`a` limited to an interval; None leaves a side open."""
    if (min is not None or max is not None) and not (a_min is None and a_max is None):
        raise ValueError("numpy.clip: 'min' or 'max' beside 'a_min' and 'a_max', which "
                         "mean the same; leave one out")
    return ops.clip(a, a_min if min is None else min, a_max if max is None else max,
                    out=out, dtype=dtype)


@implements("nan_to_num")
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None,
               neginf: Any = None) -> Any:
    """`x` with NaN and infinities replaced by numbers."""
    if not copy:
        if not isinstance(x, (Variable, Traced)):
            raise KernelTypeError("numpy.nan_to_num: 'copy' is False, and the array "
                                  "is followed by its own library; take the result")
        changed: Any = x
        changed[...] = nan_to_num(x, True, nan, posinf, neginf)
        return x
    kind = dtype_of(x)
    if kind.kind == "c":
        first, second = (nan_to_num(part(x), True, nan, posinf, neginf)
                         for part in (real, imag))
        return ops.add(first, ops.multiply(second, 1j))
    if kind.kind not in "fV":
        return copied(x)
    limits = np.finfo(kind) if kind.kind == "f" else None
    high = (limits.max if limits else 3.3895314e38) if posinf is None else posinf
    low = (limits.min if limits else -3.3895314e38) if neginf is None else neginf
    found = ops.where(ops.equal(x, np.inf), float(high), x)
    found = ops.where(ops.equal(x, -np.inf), float(low), found)
    return ops.where(ops.isnan(x), nan, found)


@implements("select")
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """The choice of the first condition that holds."""
    conditions, choices = (sequence(x, "numpy.select") for x in (condlist, choicelist))
    if len(conditions) != len(choices) or not conditions:
        raise ValueError(f"numpy.select: {len(conditions)} conditions and "
                         f"{len(choices)} choices; expected as many, one at least")
    pairs = list(zip(conditions, choices, strict=True))
    kind = common_dtype([*choices, default])
    return reduce(lambda rest, pair: ops.where(*pair, rest, dtype=kind), pairs[::-1],
                  default)


@implements("choose")
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """The element of the choice that an index names."""
    given = as_arrays([_with_dtype(a), *sequence(choices, "numpy.choose")],
                      "numpy.choose")
    a, found = given[0], given[1:]
    if dtype_of(a).kind == "b":
        a = ops.astype(a, np.int64)
    if mode == "wrap":
        a = ops.remainder(a, len(found))
    elif mode == "clip":
        a = ops.clip(a, 0, len(found) - 1)
    elif mode != "raise":
        raise KernelTypeError(f"numpy.choose: mode {mode!r}, expected 'raise', 'wrap' "
                              "or 'clip'")
    shape = np.broadcast_shapes(*map(shape_of, (a, *found)))
    stacked = ops.stack([ops.broadcast_to(x, shape) for x in _alike(found)])
    from .indexing import take_along_axis
    index = ops.expand_dims(ops.broadcast_to(a, shape), 0)
    return stored(ops.squeeze(take_along_axis(stacked, index, 0), 0), out)


def _with_dtype(a: Any) -> Any:
    """Python's integers as NumPy's: beside choices they would take their dtype."""
    if isinstance(a, TracedNumber) and a.python in (bool, int):
        return a.computed(np.int64)
    return np.int64(a) if type(a) in (bool, int) else a


def _alike(arrays: list[Any]) -> list[Any]:
    """Arrays in their common dtype."""
    kind = np.result_type(*map(dtype_of, arrays))
    return [converted(x, kind) for x in arrays]


@implements("sinc")
def sinc(x: Any) -> Any:
    """``sin(pi x) / (pi x)``, 1 at 0."""
    return vocabulary("sinc", floating(x))


@implements("i0")
def i0(x: Any) -> Any:
    """The modified Bessel function of order 0."""
    return vocabulary("i0", floating(x))


@implements("deg2rad")
def deg2rad(x: Any) -> Any:
    """Degrees in radians."""
    return vocabulary("radians", x)


@implements("rad2deg")
def rad2deg(x: Any) -> Any:
    """Radians in degrees."""
    return vocabulary("degrees", x)


@implements("fabs")
def fabs(x: Any) -> Any:
    """The magnitude, floating."""
    if dtype_of(x).kind == "c":
        raise KernelTypeError(f"numpy.fabs: got complex numbers ({dtype_of(x)}), which "
                              "it does not take in NumPy either; use numpy.absolute")
    return ops.absolute(_in_loop(np.fabs, x))


def _in_loop(ufunc: np.ufunc, x: Any) -> Any:
    """`x` in the dtype that a ufunc computes in where all arguments are like it."""
    kind = dtype_of(x)
    return x if kind.kind == "V" else converted(x, loop_dtype(ufunc, kind))


@implements("float_power")
def float_power(x1: Any, x2: Any) -> Any:
    """Powers in float64 or complex128."""
    kinds = [dtype_of(x) if is_value(x) else np.result_type(type(x)) for x in (x1, x2)]
    kind = np.dtype(np.complex128 if any(k.kind == "c" for k in kinds) else np.float64)
    x1, x2 = (ops.astype(x, kind) if is_value(x) else kind.type(x).item()
              for x in (x1, x2))
    return ops.power(x1, x2)


@implements("logical_xor")
def logical_xor(x1: Any, x2: Any) -> Any:
    """Whether one of two elements is nonzero, not both."""
    first, second = (ops.not_equal(x, 0) if is_value(x) else bool(x) for x in (x1, x2))
    return ops.not_equal(first, second)


@implements("signbit")
def signbit(x: Any) -> Any:
    """Whether the sign is negative, of -0.0 as well."""
    kind = dtype_of(x)
    return ops.less(x, 0) if kind.kind in "biu" else ops.less(
        vocabulary("copysign", ops.ones_like(detached(x)), x), 0)



@implements("ldexp")
def ldexp(x1: Any, x2: Any) -> Any:
    """``x1 * 2**x2``, in three steps, so that only the result overflows.

    Computed in float64, which holds every power of two of smaller floats.
    """
    if type(x2) is not int and np.result_type(
            dtype_of(x2) if is_value(x2) else x2).kind not in "biu":
        raise KernelTypeError("numpy.ldexp: 'x2' is not an integer; use x1 * "
                              "numpy.exp2(x2)")
    kind = loop_dtypes(np.ldexp, (x1, x2))[0]
    x1 = converted(x1, np.float64) if is_value(x1) else np.float64(x1)
    n = ops.astype(x2, np.int64) if is_value(x2) else np.int64(
        whole_number(x2, "numpy.ldexp", "x2"))
    for factor in _powers_of_two(n):
        x1 = ops.multiply(x1, factor)
    return converted(x1, kind)


def _powers_of_two(n: Any) -> Iterator[Any]:
    """Factors of ``2**n`` that are normal numbers: one alone where `n` is in range.

    The first of a far smaller one leaves so much to the next that what it rounds is
    lost anyway (as in musl's ``scalbn``), so the result is rounded once.
    """
    where = np.where if isinstance(n, np.generic) else ops.where
    for _ in range(3):
        part = where(n < -1022, -969, where(n < 1024, n, 1023))
        yield np.exp2(part) if where is np.where else ops.exp2(
            ops.astype(part, np.float64))
        n = n - part


@implements("divmod")
def divmod(x1: Any, x2: Any) -> tuple[Any, Any]:
    """The quotient rounded down, and the remainder."""
    return ops.floor_divide(x1, x2), ops.remainder(x1, x2)


@implements("modf")
def modf(x: Any) -> tuple[Any, Any]:
    """The fraction and the integer part, both with the sign of `x`."""
    x = _in_loop(np.modf, x)
    whole = ops.trunc(x)
    rest = ops.where(ops.isinf(x), 0.0, ops.subtract(x, whole))
    return vocabulary("copysign", rest, x), whole


@implements("frexp")
def frexp(x: Any) -> tuple[Any, Any]:
    """A fraction in ``[0.5, 1)`` and a power of two; the fraction has a gradient."""
    x = _in_loop(np.frexp, x)
    _, exponent = _frexp(x)
    return ldexp(x, ops.negative(exponent)), exponent


_frexp = without_gradient("frexp", lambda x: tuple(native("frexp", x)(x)))


def _by_library(name: str) -> Callable[..., Any]:
    """A function of integers, or of bits, that has no derivative."""
    compute = without_gradient(name, lambda *xs: native(name, xs[0])(*xs))
    ufunc = getattr(np, name)

    def call(*args: Any) -> Any:
        found = as_arrays([
            converted(x, kind) if is_value(x) and not isinstance(x, TracedNumber) else x
            for x, kind in zip(args, loop_dtypes(ufunc, args), strict=False)],
            f"numpy.{name}")
        return compute(*map(detached, found))

    call.__name__ = call.__qualname__ = name
    return implements(name)(call)


nextafter, spacing, gcd, lcm, bitwise_count = map(
    _by_library, ("nextafter", "spacing", "gcd", "lcm", "bitwise_count"))


@implements("isposinf")
def isposinf(x: Any, out: Any = None) -> Any:
    """Whether an element is inf."""
    _check_ordered(x, "isposinf")
    return ops.equal(x, np.inf, out=out)


@implements("isneginf")
def isneginf(x: Any, out: Any = None) -> Any:
    """Whether an element is -inf."""
    _check_ordered(x, "isneginf")
    return ops.equal(x, -np.inf, out=out)


def _check_ordered(x: Any, name: str) -> None:
    if dtype_of(x).kind == "c":
        raise KernelTypeError(f"numpy.{name}: got complex numbers ({dtype_of(x)}), "
                              "whose infinities have no sign; take x.real or x.imag")


@implements("isclose")
def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8,
            equal_nan: bool = False) -> Any:
    """Whether elements are equal within a tolerance."""
    b = floating(b) if is_value(b) else b + 0.0
    near = ops.less_equal(ops.absolute(ops.subtract(a, b)), ops.add(
        atol, ops.multiply(rtol, ops.absolute(b))))
    finite = ops.isfinite(b) if is_value(b) else bool(np.isfinite(b))
    close = ops.logical_or(ops.equal(a, b), ops.logical_and(near, finite))
    if equal_nan:
        both = ops.logical_and(ops.not_equal(a, a), ops.not_equal(b, b)) if is_value(
            b) else ops.logical_and(ops.not_equal(a, a), bool(np.isnan(b)))
        close = ops.logical_or(close, both)
    return close


@implements("allclose")
def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8,
             equal_nan: bool = False) -> bool:
    """Whether all elements are equal within a tolerance."""
    return truth(ops.all(isclose(a, b, rtol, atol, equal_nan)), "allclose")


@implements("array_equal")
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Whether shapes and all elements are equal."""
    if shape_of(a1) != shape_of(a2):
        return False
    same = ops.equal(a1, a2)
    if equal_nan:
        same = ops.logical_or(same, ops.logical_and(ops.not_equal(a1, a1),
                                                    ops.not_equal(a2, a2)))
    return truth(ops.all(same), "array_equal")


@implements("array_equiv")
def array_equiv(a1: Any, a2: Any) -> bool:
    """Whether all elements are equal after broadcasting."""
    try:
        np.broadcast_shapes(shape_of(a1), shape_of(a2))
    except ValueError:
        return False
    return truth(ops.all(ops.equal(a1, a2)), "array_equiv")


@implements("fix")
def fix(x: Any, out: Any = None) -> Any:
    """Elements rounded toward zero."""
    return ops.trunc(x, out=out)


@implements("round", "around")
def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """Elements rounded to a number of decimals, halves to even."""
    decimals = whole_number(decimals, "numpy.round", "decimals")
    if dtype_of(a).kind in "iu" and decimals >= 0:
        return ops.positive(a, out=out)
    if dtype_of(a).kind == "b" and decimals:
        raise KernelTypeError(f"numpy.round: 'a' is bool, which has no decimals, got "
                              f"decimals={decimals}; leave it out, or round "
                              "a.astype(int)")
    if not decimals:
        return ops.rint(a, out=out)
    scale = 10.0 ** abs(decimals)
    first, last = (ops.multiply, ops.divide) if decimals > 0 else (
        ops.divide, ops.multiply)
    made = last(ops.rint(first(a, scale)), scale)
    if dtype_of(a).kind == "c":
        made = ops.where(ops.isfinite(a), made, _moved(a, decimals))
    return made if out is None and dtype_of(made) == dtype_of(a) else ops.astype(
        made, dtype_of(a), out=out)


def _moved(a: Any, decimals: int) -> Any:
    """Complex numbers rounded by addition, which leaves infinite parts alone."""
    by = [ops.where(ops.isfinite(x), ops.subtract(round(x, decimals), x), 0.0)
          for x in (real(a), imag(a))]
    return ops.add(a, ops.add(by[0], ops.multiply(by[1], 1j)))


@implements("unwrap")
def unwrap(p: Any, discont: Any = None, axis: int = -1, *,
           period: float = 6.283185307179586) -> Any:
    """Angles without jumps of more than half a period along an axis."""
    from .cumulative import cumsum, diff
    from .joining import concatenate
    from .shapes import swapaxes

    p = swapaxes(p, axis, -1)
    steps = diff(p)
    half = period / 2
    limit = half if discont is None else max(discont, half)
    inside = ops.subtract(ops.remainder(ops.add(steps, half), period), half)
    inside = ops.where(ops.logical_and(ops.equal(inside, -half), ops.greater(steps, 0)),
                       half, inside)
    jumps = ops.where(ops.less(ops.absolute(steps), limit), 0.0,
                      ops.subtract(inside, steps))
    first = ops.getitem(p, (..., slice(0, 1)))
    rest = ops.add(ops.getitem(p, (..., slice(1, None))), cumsum(jumps, -1))
    return swapaxes(concatenate([first, rest], -1), axis, -1)
