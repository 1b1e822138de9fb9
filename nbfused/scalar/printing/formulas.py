"""Operations that no single function of Numba gives, in the scalar language.

They are written out just before printing, on typed functions, so that both backends
compute the same.  sin, cos and tan are here because libdevice computes those of
float32 partly in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.build import Builder
from ..ir.clean import clean
from ..ir.nodes import (
    Block,
    For,
    Function,
    If,
    Let,
    Literal,
    Statement,
    Value,
    While,
    defined,
    rename,
    walk,
)
from ..language.names import copysign, floor, fmod, isinf, select, sqrt, trunc
from ..language.vocabulary import OPS
from .rewrite import rewritten
from .trigonometry import cosine, sine, tangent  # noqa: F401  # which rows name

if TYPE_CHECKING:
    from ..typing.types import Typed

__all__ = ["FORMULAS", "expand"]

inf = np.inf


def remainder(a: Any, b: Any) -> Any:
    """``a % b`` with the sign of `b`, as NumPy's and Python's."""
    r = fmod(a, b)
    shifted = select((r < 0.0) != (b < 0.0), r + b, r)
    return select(r == 0.0, copysign(0.0, b), shifted)


def floor_divide(a: Any, b: Any) -> Any:
    """``a // b``, after ``npy_divmod``: the remainder decides, not the quotient."""
    r = fmod(a, b)
    opposite = (r < 0.0) != (b < 0.0)
    q = (a - r)/b
    q = select((r != 0.0) & opposite, q - 1.0, q)
    whole = floor(q)
    whole = select(q - whole > 0.5, whole + 1.0, whole)
    whole = select(q == 0.0, copysign(0.0, a/b), whole)
    return select(b == 0.0, a/b, whole)


def truncated_divide(a: Any, b: Any) -> Any:
    """``trunc(a / b)``: the quotient of integers in C."""
    return trunc(a/b)


def hypotenuse(a: Any, b: Any) -> Any:
    """``sqrt(a*a + b*b)``: inf beside NaN is inf, as C has it.

    libdevice's in float64 rounds the largest double up to inf.
    """
    a, b = abs(a), abs(b)
    large = select(a > b, a, b)
    ratio = select(a > b, b, a)/select(large == 0.0, 1.0, large)
    scaled = large*sqrt(1.0 + ratio*ratio)
    return select(isinf(a) | isinf(b), inf, scaled)


def integer_power(a: Any, n: Any) -> Any:
    """``a**n`` by repeated squaring, 0 for a negative `n`."""
    result = 1 if n >= 0 else 0
    while n > 0:
        result = result*(a if n & 1 else 1)
        a = a*a
        n = n >> 1
    return result


FORMULAS: dict[tuple[str, str], Callable[..., Any]] = {
    (name, dtype): globals()[formula] for name, op in OPS.items()
    for dtypes, formula in op.formulas for dtype in dtypes}


@cache
def _formula(op: str, dtypes: tuple[np.dtype, ...]) -> Typed:
    from ..parse.functions import parse
    from ..typing.types import specialize

    return specialize(parse(FORMULAS[op, dtypes[0].name]), dtypes)


def expand(typed: Typed, calls: Mapping[tuple[str, str], str]) -> Typed:
    """`typed` with formulas in place of the operations that have one.

    An operation in `calls` is left as it is, and so is a power with a known exponent.
    """
    known = typed.__dict__.get("_expanded")  # kernels print one function many times
    if known is None or known[0] is not calls:
        known = typed.__dict__["_expanded"] = calls, _expanded(typed, calls)
    found: Typed = known[1]
    return found


def _expanded(typed: Typed, calls: Mapping[tuple[str, str], str]) -> Typed:
    typed = rewritten(typed, calls)
    expansion = _Expansion(typed, calls)
    if not any(expansion.applies(s) for s in walk(typed.function.body)):
        return typed
    body = expansion.block(typed.function.body)
    function = clean(replace(typed.function, body=body))
    return replace(typed, function=function, dtypes=expansion.dtypes)


class _Expansion:
    """The walk behind `expand`; `dtypes` grows by the formulas' names."""

    def __init__(self, typed: Typed, calls: Mapping[tuple[str, str], str]) -> None:
        self.dtypes, self.calls = dict(typed.dtypes), calls
        f: Function = typed.function
        self.builder = Builder({*f.params, *defined(f.body)})
        self.alias: dict[str, Value] = {}

    def dtype(self, v: Value) -> np.dtype:
        return np.dtype(v.kind) if isinstance(v, Literal) else self.dtypes[v]

    def applies(self, s: Statement) -> bool:
        if not isinstance(s, Let) or not s.args or (
                s.op == "powi" and isinstance(s.args[1], Literal)):
            return False
        key = (s.op, self.dtype(s.args[0]).name)
        return key in FORMULAS and key not in self.calls

    def block(self, block: Block) -> Block:
        with self.builder.region() as statements:
            for s in block.statements:
                self.statement(s)
        return Block(tuple(statements), self.values(block.yields))

    def values(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(self.alias.get(v, v) if isinstance(v, str) else v for v in values)

    def statement(self, s: Statement) -> None:
        match s:
            case Let():
                s = replace(s, args=self.values(s.args))
                if self.applies(s):
                    return self.formula(s)
            case If():
                (condition,) = self.values((s.condition,))
                s = replace(s, condition=condition, then=self.block(s.then),
                            orelse=self.block(s.orelse))
            case For():
                (count,) = self.values((s.count,))
                s = replace(s, count=count, inits=self.values(s.inits),
                            body=self.block(s.body))
            case While():
                s = replace(s, inits=self.values(s.inits), body=self.block(s.body),
                            condition=self.block(s.condition))
        self.builder.statements.append(s)
        return None

    def formula(self, s: Let) -> None:
        """Copy the formula's statements here, and expand what they hold."""
        typed = _formula(s.op, tuple(self.dtype(v) for v in s.args))
        f = typed.function

        def fresh(name: str) -> str:
            new = self.builder.fresh(name)
            self.dtypes[new] = typed.dtypes[name]
            return new

        body = rename(f.body, dict(zip(f.params, s.args, strict=True)), fresh)
        for inner in body.statements:
            self.statement(inner)
        (self.alias[s.results[0]],) = self.values(body.yields)
