"""Activity analysis: the values of a function that depend differentiably on others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from ...errors import NotDifferentiableError
from ..ir.build import Builder
from ..ir.clean import has_effects
from ..ir.nodes import (
    WRITES,
    Block,
    Custom,
    For,
    Function,
    If,
    Let,
    Literal,
    Statement,
    Value,
    While,
    defined,
    names,
    regions,
    rewrite,
    walk,
)
from ..language.vocabulary import OPS
from ..parse.functions import parse_expression
from ..typing.lowering import definition

__all__ = ["active_names", "bounded", "change", "differentiable", "linear", "partials",
           "refuse"]

#: Casts to these have no influence on a derivative.
INTEGRAL = {"int", "bool", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64))}


def refuse(function: Function, line: int, text: str) -> NotDifferentiableError:
    """An error that says where."""
    where = f"{function.pyfile}:{line}: " if function.pyfile else \
        f"line {line}: " if line else ""
    return NotDifferentiableError(f"{where}{function.name}: {text}")


@lru_cache(maxsize=4096)
def _partial(op: str, operand: int) -> Function | None:
    """The partial derivative of `op` as function of a, b, …, y; None if it is zero."""
    table = OPS[op].partials
    text = table[operand] if operand < len(table) else None
    if text is None:
        return None
    params = "abcd"[:OPS[op].arity]
    return parse_expression(text, (*params, "y"))


def partials(s: Let) -> list[tuple[str, Function]]:
    """The operands of `s` that have influence, with their partial derivatives."""
    if s.op not in OPS or linear(s):
        return []
    found = ((a, _partial(s.op, k)) for k, a in enumerate(s.args))
    return [(a, p) for a, p in found if p is not None and isinstance(a, str)]


def change(s: Let) -> str:
    """The way that changes of complex operands enter the result's: `Op.change`."""
    return OPS[s.op].change if s.op in OPS else ""


@lru_cache(maxsize=4096)
def bounded(partial: Function) -> bool:
    """Whether a value is one of finitely many numbers, whatever the operands are."""
    table = {r: s for s in walk(partial.body) for r in s.results}
    return all(_bounded(v, table) for v in partial.results)


def _bounded(v: Value, table: Mapping[str, Statement]) -> bool:
    if isinstance(v, Literal):
        return math.isfinite(v.value.real)
    s = table.get(v)
    if isinstance(s, Let) and s.op == "select":
        return all(_bounded(a, table) for a in s.args[1:])
    if isinstance(s, If):
        k = s.results.index(v)
        return all(_bounded(b.yields[k], table) for b in (s.then, s.orelse))
    return False


def linear(s: Let) -> tuple[Value, ...]:
    """The operand that `s` passes through unchanged, for the ops that only do that."""
    passes = s.op in ("id", "shuffle") or (s.op == "cast" and s.attr not in INTEGRAL)
    return s.args[:1] if passes else ()


def differentiable(function: Function, wanted: set[str]) -> tuple[Function, set[str]]:
    """`function` without active operations that have a definition but no partials.

    Also its names that depend on those in `wanted`, as `active_names`.
    """
    active = active_names(function, wanted)
    if not any(isinstance(s, Let) and _written_out(s) and active.intersection(s.results)
               for s in walk(function.body)):
        return function, active
    b = Builder({*function.params, *defined(function.body)})

    def change(s: Let) -> list[Statement]:
        if not (_written_out(s) and active.intersection(s.results)):
            return [s]
        with b.region() as statements:
            (value,) = b.call(definition(s.op), *s.args)
        return [*statements, Let(s.results, "id", (value,), None, s.line)]

    written = replace(function, body=rewrite(function.body, change))
    return differentiable(written, wanted)


def _written_out(s: Let) -> bool:
    """Whether `s` is differentiated through its definition."""
    return s.op in OPS and not OPS[s.op].partials and OPS[s.op].definition is not None


def active_names(function: Function, wanted: set[str]) -> set[str]:
    """Names whose value depends differentiably on the names in `wanted`.

    Memory is active, as one, if anything active is stored in it.
    """
    walk_ = _Activity(function, set(wanted))
    before = -1
    while before != len(walk_.active):
        before = len(walk_.active)
        walk_.block(function.body)
    return walk_.active


class _Activity:
    """One walk; it is repeated until it finds nothing more.

    `bits` are integers made of the bits of active values.  They have no derivative, and
    what is made a number of them again would have none.
    """

    def __init__(self, function: Function, active: set[str]) -> None:
        self.function, self.active = function, active
        self.bits: set[str] = set()
        self.local = {r for s in walk(function.body) if isinstance(s, Let)
                      and s.op in ("buffer", "shared") for r in s.results}

    def any(self, values: tuple[Value, ...]) -> bool:
        return any(isinstance(v, str) and v in self.active for v in values)

    def block(self, block: Block) -> None:
        for s in block.statements:
            for region in regions(s):
                self.block(region)
            self.statement(s)

    def statement(self, s: Statement) -> None:
        match s:
            case Let():
                self.let(s)
            case Custom():
                ruled = s.vjp is not None and has_effects(s.vjp.body)
                if ruled or self.active.intersection(names(s.args)):
                    self.active |= set(s.results)
                    self.active |= self.local & names(s.args)  # which it may store to
            case If():
                for r, *ys in zip(s.results, s.then.yields, s.orelse.yields,
                                  strict=True):
                    if self.any(tuple(ys)):
                        self.active.add(r)
                    self.bits |= {r} if self.bits.intersection(ys) else set()
            case For() | While():
                for p, init, y, r in zip(s.params, s.inits, s.body.yields, s.results,
                                         strict=True):
                    if self.any((init, y)):
                        self.active |= {p, r}
                    self.bits |= {p, r} if self.bits.intersection((init, y)) else set()

    def let(self, s: Let) -> None:
        self.follow_bits(s)
        if self.any(self.depends(s)):
            self.active |= set(s.results)
            if s.op in WRITES and s.args[0] in self.local:
                self.active.add(str(s.args[0]))

    def follow_bits(self, s: Let) -> None:
        """Note integers of bits; refuse a number that is made of them."""
        taken = s.args[1:] if s.op == "select" else s.args
        if s.op in OPS and OPS[s.op].boolean:
            return
        if s.op == "bits" and self.any(taken):
            self.bits |= set(s.results)
        elif self.bits.intersection(taken):
            if s.op in ("bits", "cast") and str(s.attr).startswith(("float", "bfloat")):
                raise refuse(self.function, s.line, (
                    "a number is made of the bits of another, and its derivative would "
                    "be zero; write it by arithmetic (abs, copysign, ldexp), or give "
                    "the function a derivative"))
            self.bits |= set(s.results)

    def depends(self, s: Let) -> tuple[Value, ...]:
        """The operands on which the result, or what is stored, depends."""
        if s.op in ("load", "buffer_load", "recall"):
            return s.args[:1]
        if s.op == "select":
            return s.args[1:]
        if s.op in WRITES:
            return (s.args[0], s.args[-1]) if s.results else s.args[-1:]
        if _written_out(s):
            return s.args
        return linear(s) or tuple(a for a, _ in partials(s))
