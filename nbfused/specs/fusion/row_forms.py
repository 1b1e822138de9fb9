"""Stages that need less than a pass of their own over the row, told by their functions.

A stage whose elements are neutral in all columns but one is its element there, and a
sum of ``exp(f(x) - top)`` can be taken together with `top`, the largest ``f(x)``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from ...scalar.ir.clean import clean
from ...scalar.ir.nodes import Block, Function, If, Let, Literal, Statement, Value
from ...scalar.parse.functions import parse_definition
from ...scalar.typing.types import Typed
from ...support.records import record
from ..pointwise import pointwise
from ..row import TypedRow, TypedStage
from ..vjp.functions import trim

__all__ = ["Online", "online", "points"]


def points(row: TypedRow) -> dict[int, Typed]:
    """The stages for which one column's element counts, and that column's number.

    The element is ``f(x) if index == column else neutral``, so the combined value is
    that of ``f(x)`` at the column, or neutral if there is no such column.
    """
    alike = {"size", *(n for n, k in zip(row.inputs, row.kinds, strict=True)
                       if k in ("row", "scalar")),
             *(n for s in row.stages for n in s.names)}
    found = {k: _column(s, alike) for k, s in enumerate(row.stages)}
    return {k: column for k, column in found.items() if column is not None}


def _column(stage: TypedStage, alike: Collection[str]) -> Typed | None:
    """The one column that counts, computed from names that all elements share."""
    typed, made = stage.element, _made(stage.element.function)
    if len(stage.identity) != 1:
        return None
    choice = made.get(typed.function.results[0])
    match choice:
        case Let(op="select", args=(condition, _, other)):
            pass
        case If(results=(_,), condition=condition, orelse=Block(yields=(other,))):
            pass
        case _:
            return None
    equal = made.get(condition)
    if not (_same_number(other, stage.identity[0]) and isinstance(equal, Let)
            and equal.op == "eq" and "index" in equal.args):
        return None
    column = next((v for v in equal.args if v != "index"), "index")
    if _dtype(typed, column) != np.int64:
        return None
    function = replace(typed.function, body=Block(typed.function.body.statements,
                                                  (column,)), origin=None)
    function = trim(clean(function))[0]
    if not set(function.params) <= set(alike):
        return None
    return replace(typed, function=function, results=(np.dtype(np.int64),))


def _made(function: Function) -> dict[Value, Statement]:
    """The statement that makes each name, loops and branches left out."""
    return {r: s for s in function.body.statements for r in s.results}


def _dtype(typed: Typed, v: Value) -> np.dtype:
    return np.dtype(v.kind) if isinstance(v, Literal) else typed.dtypes[v]


def _same_number(v: Value, number: Literal) -> bool:
    return isinstance(v, Literal) and v.value == number.value


# --- a maximum and a sum in one pass


@record(frozen=True)
class Online:
    """A maximum, and the stage that sums ``exp(f(x) - top)``, in one pass.

    The sum of the elements so far is relative to the largest so far.

    Attributes
    ----------
    top, total
        The positions of the two stages.
    merge
        ``(top, total)`` of some elements and of others, to those of all.
    shift
        What multiplies a sum relative to the first parameter for one relative to the
        second.
    base
        What the elements may be taken relative to where this is the largest so far:
        where all are -inf none counts yet, and ``-inf - -inf`` is NaN.
    finish
        ``(top, total, size)`` of the row to the total: of a row of -inf only it is NaN.

    Notes
    -----
    Milakov, Gimelshein 2018, arXiv:1805.02867.
    """

    top: int
    total: int
    merge: Typed
    shift: Typed
    base: Typed
    finish: Typed


_SHIFT = parse_definition(
    "def shift(old, new): return 1.0 if old == new else exp(old - new)")
_BASE = parse_definition("def base(top): return 0.0 if top == -inf else top")
_FINISH = parse_definition("""
def finish(top, total, size):
    return nan if top == -inf and size > 0 else total
""")
_MERGE = parse_definition("""
def merge(a, sum_a, b, sum_b):
    top = max(a, b)
    at_a = 1.0 if a == top else exp(a - top)
    at_b = 1.0 if b == top else exp(b - top)
    return top, sum_a * at_a + sum_b * at_b
""")


def online(row: TypedRow) -> tuple[Online, ...]:
    """The pairs of stages that one pass suffices for; no stage is in two."""
    found: dict[int, Online] = {}
    for total, stage in enumerate(row.stages):
        top = _relative_to(row, stage)
        if top is not None and top not in found:
            (d,) = stage.state
            found[top] = Online(
                top, total, pointwise(_MERGE, (d,)*4), pointwise(_SHIFT, (d,)*2),
                pointwise(_BASE, (d,)),
                pointwise(_FINISH, (d, d, np.dtype(np.int64))))
    return tuple(found.values())


def _relative_to(row: TypedRow, stage: TypedStage) -> int | None:
    """The stage with the largest ``f(x)``, if this one sums ``exp(f(x) - top)``."""
    typed, made = stage.element, _made(stage.element.function)
    if _combines(stage) != "add":
        return None
    power = made.get(typed.function.results[0])
    if not (isinstance(power, Let) and power.op == "exp"):
        return None
    below = made.get(power.args[0])
    if not (isinstance(below, Let) and below.op == "sub"):
        return None
    value, top = below.args
    for k, s in enumerate(row.stages):
        if s.names == (top,) and _combines(s) == "max" \
                and s.post.function.results == s.post.function.params[:1] \
                and s.state == stage.state and s.state[0].kind == "f" \
                and _dtype(typed, value) == s.state[0] \
                and _tree(typed, value) == _tree(s.element,
                                                 s.element.function.results[0]):
            return k
    return None


def _combines(stage: TypedStage) -> str | None:
    """The operation that merges two states of one part."""
    function = stage.merge.function
    match function.body.statements:
        case (Let(results=results, op=op, args=function.params),) \
                if results == function.results:
            return op
    return None


def _tree(typed: Typed, v: Value) -> object:
    """The expression of a value in parameters; unlike any other if by branches."""
    if isinstance(v, Literal):
        return v
    s = _made(typed.function).get(v)
    if s is None:
        return v, typed.dtypes[v]
    if not isinstance(s, Let) or len(s.results) != 1:
        return object()
    return s.op, s.attr, typed.dtypes[v], tuple(_tree(typed, a) for a in s.args)


