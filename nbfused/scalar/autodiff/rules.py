"""The derivative rules of `Custom` calls: the one that is given, or its transpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from ...errors import NotDifferentiableError
from ..ir.build import ONE, ZERO, Builder, is_number
from ..ir.clean import clean, has_effects
from ..ir.nodes import (
    Block,
    Custom,
    Function,
    Value,
    array_args,
    literal,
    walk,
    with_regions,
)

__all__ = ["has_rule", "jvp_rule", "numbers", "real_linear", "vjp_rule"]


def has_rule(s: Custom) -> bool:
    """Whether the call has a rule; without, the function itself is differentiated."""
    return s.vjp is not None or s.jvp is not None


def numbers(s: Custom) -> list[Value]:
    """The arguments that are no raw arrays: those with a cotangent or a tangent."""
    return [a for a, raw in zip(s.args, array_args(s), strict=True) if not raw]


def vjp_rule(s: Custom) -> Function:
    """``(*args, *cotangents)`` to the cotangents of `numbers`."""
    if s.vjp is not None:
        return _tied(s.vjp, s.vjp, s.jvp)
    assert s.jvp is not None
    return _transposed(s, _tied(s.jvp, s.vjp, s.jvp), "jvp", "vjp", len(numbers(s)))


def jvp_rule(s: Custom) -> Function:
    """``(*args, *tangents)``, of `numbers` or of all, to the results' tangents."""
    if s.jvp is not None:
        return _tied(s.jvp, s.vjp, s.jvp)
    assert s.vjp is not None
    return _transposed(s, _tied(s.vjp, s.vjp, s.jvp), "vjp", "jvp", len(s.results))


def real_linear(s: Custom) -> Custom:
    """The call with both rules, where one may be linear over the real numbers only.

    One that takes a part or the conjugate is; nothing is added where arrays are taken.
    """
    given, outputs = (s.vjp, len(s.results)) if s.jvp is None else (
        s.jvp, len(numbers(s)))
    if not has_rule(s) or (s.vjp is not None and s.jvp is not None) \
            or given is None or has_effects(given.body) or any(array_args(s)):
        return s
    made = _transpose(_tied(given, s.vjp, s.jvp), len(s.args), outputs, True)
    return replace(s, jvp=made) if s.jvp is None else replace(s, vjp=made)


@lru_cache(maxsize=1024)
def _tied(rule: Function, vjp: Function | None, jvp: Function | None) -> Function:
    """`rule`, whose calls of its own function are differentiated by the same rules.

    One level at a time, since no record can contain itself.
    """
    def visit(block: Block) -> Block:
        return replace(block, statements=tuple(
            replace(s, vjp=vjp, jvp=jvp, recursive=False)
            if isinstance(s, Custom) and s.recursive else with_regions(s, visit)
            for s in block.statements))

    recursive = any(isinstance(s, Custom) and s.recursive for s in walk(rule.body))
    return replace(rule, body=visit(rule.body)) if recursive else rule


def _transposed(s: Custom, rule: Function, given: str, wanted: str,
                outputs: int) -> Function:
    if has_effects(rule.body) or any(array_args(s)):
        where = f"{s.function.pyfile}: " if s.function.pyfile else ""
        raise NotDifferentiableError(
            f"{where}{s.function.name}, called in line {s.line}, takes arrays and has "
            f"a {given} rule only; give it a {wanted} rule as well")
    return _transpose(rule, len(s.args), outputs)


@lru_cache(maxsize=1024)
def _transpose(rule: Function, arity: int, outputs: int,
               conjugates: bool = False) -> Function:
    """`rule` is linear in the parameters after `arity`: its rows become columns.

    With `conjugates` over the real numbers: what it makes of a change is that times one
    number and its conjugate times another.
    """
    b = Builder(rule.params)
    args = [b.fresh(p) for p in rule.params[:arity]]
    given = [b.fresh("g") for _ in rule.results]
    yields: list[Value] = []
    for k in range(outputs):
        column = _column(b, rule, args, k, outputs, ONE)
        other = _column(b, rule, args, k, outputs, literal(1j)) if conjugates else ()
        total: Value = ZERO
        for g, d in zip(given, column, strict=True):
            total = b.add(total, b.mul(g, d))
        yields.append(_halved(b, given, column, other) if conjugates else total)
    return clean(Function(f"{rule.name}_transposed", (*args, *given),
                          Block(tuple(b.statements), tuple(yields))))


def _column(b: Builder, rule: Function, args: Sequence[Value], k: int, outputs: int,
            unit: Value) -> tuple[Value, ...]:
    """The results of `rule` for `unit` in place `k`."""
    return b.call(rule, *args, *(unit if j == k else ZERO for j in range(outputs)))


def _halved(b: Builder, given: Sequence[Value], of_one: Sequence[Value],
            of_i: Sequence[Value]) -> Value:
    """The cotangent of what gives `of_one` for a change 1 and `of_i` for one of 1j."""
    total: Value = ZERO
    for g, one, i in zip(given, of_one, of_i, strict=True):
        turned = b.mul(literal(-0.5j), b.mul(g, i))
        half = b.mul(literal(0.5), b.mul(g, one))
        total = b.add(total, b.add(half, turned))
        mirrored = b.add(half, b.mul(literal(-1.0), turned))
        if not is_number(mirrored, 0):
            total = b.add(total, b.let("conj", mirrored))
    return total
