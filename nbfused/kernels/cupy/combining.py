"""Combines of reduction kernels: a known one, or a function of the user's."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ...errors import DefinitionError
from ...op.reduction import narrow
from ...scalar.cparse import Parameter, parse_c_expression
from ...scalar.ir.build import Builder
from ...scalar.ir.nodes import Function, Literal, Value
from ...scalar.typing.types import compute_dtype
from ...specs import COMBINES, Combine
from ...specs.vjp.functions import compose, identity
from ...support.records import record

__all__ = ["Combining", "accumulator_dtype", "c_combining", "python_combining",
           "struct_combining"]

#: Spellings of what has a derivative and vectorised code.
_KNOWN = {
    "sum": ("a + b", "b + a"),
    "prod": ("a * b", "b * a"),
    "max": ("max(a, b)", "max(b, a)", "fmax(a, b)", "fmax(b, a)", "fmaxf(a, b)",
            "a > b ? a : b", "a < b ? b : a", "b > a ? b : a", "b < a ? a : b",
            "a >= b ? a : b", "a <= b ? b : a", "b >= a ? b : a", "b <= a ? a : b"),
    "min": ("min(a, b)", "min(b, a)", "fmin(a, b)", "fmin(b, a)", "fminf(a, b)",
            "a < b ? a : b", "a > b ? b : a", "b < a ? b : a", "b > a ? a : b",
            "a <= b ? a : b", "a >= b ? b : a", "b <= a ? b : a", "b >= a ? a : b"),
}
_NEUTRAL = {"sum": 0, "prod": 1, "max": -np.inf, "min": np.inf}


@record(frozen=True)
class Combining:
    """A combine, with the functions before it and after it.

    Attributes
    ----------
    combine
        Of the skeleton.
    dtype
        Of the state.
    before, after
        Functions of one value; None: nothing.
    """

    combine: Combine
    dtype: np.dtype
    before: Function | None = None
    after: Function | None = None


def accumulator_dtype(dtype: np.dtype) -> np.dtype:
    """The accumulator of `numpy.sum` for elements of `dtype`."""
    return np.add.reduce(np.zeros(0, dtype)).dtype if dtype.kind in "biu" else dtype


@lru_cache(maxsize=1024)
def c_combining(text: str, name: str, dtype: np.dtype, wide: bool,
                start: Any, types: tuple[tuple[str, np.dtype], ...],
                preamble: str) -> Combining:
    """The combine of an expression in `a` and `b`.

    Parameters
    ----------
    dtype
        Of the operands.
    wide
        Whether a sum or product of integers may use a wider dtype.
    start
        The neutral element, None for none.
    """
    merge = _merge(text, name, dtype, types, preamble)
    known = next((k for k, texts in _KNOWN.items() for t in texts
                  if (dtype.kind == "f" or not t.startswith("fm"))
                  and merge == _merge(t, name, dtype, types, preamble)), None)
    if known is None:
        return Combining(user_combine(merge, (start,), dtype), dtype)
    combine = COMBINES[known]
    if known in ("sum", "prod"):
        _check_neutral(name, known, start)
        state = accumulator_dtype(dtype) if wide else dtype
        return Combining(combine if wide else narrow(combine), state)
    bound = _neutral_element(known, dtype)
    before = _replace_nan(bound, dtype) if dtype.kind == "f" else None
    after = None if start is None or start == bound else \
        _include_identity(known, start, dtype)
    return Combining(combine, dtype, before, after)


def struct_combining(text: str, name: str, dtype: np.dtype, start: Function | None,
                     types: tuple[tuple[str, np.dtype], ...],
                     preamble: str) -> Combining:
    """The combine of an expression in two structs; `start` gives the neutral one."""
    merge = _merge(text, name, dtype, types, preamble)
    return Combining(_flagged_combine(merge, start), dtype)


def _check_neutral(name: str, known: str, start: Any) -> None:
    """Refuse an identity that is not neutral: every thread begins with it."""
    if start is not None and start != _NEUTRAL[known]:
        raise DefinitionError(f"{name}: 'identity' {start} is not neutral in a "
                              f"{known}; expected {_NEUTRAL[known]:g}. Add or multiply "
                              "by a number in post_map_expr")


def _merge(text: str, name: str, dtype: np.dtype,
           types: tuple[tuple[str, np.dtype], ...], preamble: str) -> Function:
    params = (Parameter("a", dtype), Parameter("b", dtype))
    return parse_c_expression(text, name, params, dtype, types, preamble)


def _neutral_element(known: str, dtype: np.dtype) -> Any:
    """The neutral element of max or min in `dtype`."""
    if dtype.kind == "f":
        return dtype.type(_NEUTRAL[known])
    if dtype.kind == "b":
        return known == "min"
    info = np.iinfo(dtype)
    return info.min if known == "max" else info.max


def _number(value: Any, dtype: np.dtype) -> Literal:
    """A number of the dtype that `dtype` is computed in."""
    kind = compute_dtype(dtype)
    return Literal(kind.name, repr(np.asarray(value).astype(kind).item()))


def _replace_nan(bound: Any, dtype: np.dtype) -> Function:
    """The map before C's fmax or fmin, which pass over a NaN: it gives `bound`."""

    def build(b: Builder) -> tuple[Value, ...]:
        return (b.let("select", b.let("isnan", "x"), _number(bound, dtype), "x"),)

    return compose("present", ("x",), build)


def _include_identity(known: str, start: Any, dtype: np.dtype) -> Function:
    """The function after a reduction in which the identity counts as a value."""
    return compose("started", ("x",), lambda b: (b.let(known, "x", _number(
        start, dtype)),))


def python_combining(reduce: Callable[..., Any] | Function, start: tuple[Any, ...],
                     dtype: np.dtype) -> Combining:
    """The combine of a function of two states, the parts of one first.

    `dtype` is that of a state of one part; those of several keep their own.
    """
    merge = reduce if isinstance(reduce, Function) else _parsed(reduce)
    count = len(merge.results)
    if len(merge.params) != 2 * count:
        raise DefinitionError(
            f"'reduce_expr' takes {len(merge.params)} values and gives {count}; it "
            "must take the parts of one state, then those of another, and give one")
    if len(start) != count:
        raise DefinitionError(f"'identity' has {len(start)} numbers, the state has "
                              f"{count} parts")
    if count == 1:
        for known, op in (("sum", "add"), ("prod", "mul"), ("max", "max"),
                          ("min", "min")):
            if _is_operation(merge, op) and known in ("sum", "prod"):
                _check_neutral("reduce_expr", known, start[0])
            if _is_operation(merge, op) and start[0] in (None, _NEUTRAL[known]):
                return Combining(COMBINES[known], accumulator_dtype(dtype) if known in (
                    "sum", "prod") else dtype)
    return Combining(user_combine(merge, start, dtype), dtype)


def _is_operation(merge: Function, op: str) -> bool:
    """True if a function is one operation of its two parameters."""
    statements = merge.body.statements
    return len(statements) == 1 and getattr(statements[0], "op", "") == op and \
        set(getattr(statements[0], "args", ())) == set(merge.params)


def _parsed(reduce: Callable[..., Any]) -> Function:
    from ...op.scalar import scalar_function

    return scalar_function(reduce, "reduce_expr")


def user_combine(merge: Function, start: tuple[Any, ...], dtype: np.dtype) -> Combine:
    """A combine from a function; without an identity a flag says if it has begun."""
    count = len(merge.results)
    if None in start:
        return _flagged_combine(merge)
    texts = tuple(_text(s, dtype) for s in start)
    if count == 1:
        return Combine(merge.name, identity(), merge, texts, identity())
    return Combine(merge.name, identity(count), merge, texts, identity(count))


def _text(start: Any, dtype: np.dtype) -> str:
    if isinstance(start, (bool, np.bool_)) or dtype.kind == "b":
        return "1" if start else "0"
    return repr(np.asarray(start).item())


def _flagged_combine(merge: Function, start: Function | None = None) -> Combine:
    """The combine without an identity: a flag in the state says if it has begun.

    Of nothing at all `start` gives the result.
    """
    count = len(merge.results)
    a, b, x = ([f"{s}{k}" for k in range(count)] for s in "abx")

    def merged(w: Builder) -> tuple[Value, ...]:
        both = w.let("logical_and", "has_a", "has_b")
        found = w.call(merge, *a, *b)
        one = [w.let("select", "has_a", p, q) for p, q in zip(a, b, strict=True)]
        return (*(w.let("select", both, m, o) for m, o in zip(found, one, strict=True)),
                w.let("logical_or", "has_a", "has_b"))

    lift = compose("lift", x, lambda w: (*x, Literal("bool", "True")))
    both = compose(merge.name, (*a, "has_a", *b, "has_b"), merged)

    def finished(w: Builder) -> tuple[Value, ...]:
        if start is None:
            return tuple(x)
        return tuple(w.let("select", "has", p, q) for p, q in zip(
            x, w.call(start), strict=True))

    finish = compose("finish", (*x, "has"), finished)
    return Combine(merge.name, lift, both, ("0",) * (count + 1), finish)
