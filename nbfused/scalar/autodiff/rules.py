"""The derivative rules of `Custom` calls: the one that is given, or its transpose."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ...errors import NotDifferentiableError
from ..ir.build import ONE, ZERO, Builder
from ..ir.clean import clean, has_effects
from ..ir.nodes import Block, Custom, Function, Value, array_args, walk, with_regions

__all__ = ["has_rule", "jvp_rule", "numbers", "vjp_rule"]


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
def _transpose(rule: Function, arity: int, outputs: int) -> Function:
    """`rule` is linear in the parameters after `arity`: its rows become columns."""
    b = Builder(rule.params)
    args = [b.fresh(p) for p in rule.params[:arity]]
    given = [b.fresh("g") for _ in rule.results]
    yields: list[Value] = []
    for k in range(outputs):
        unit = [ONE if j == k else ZERO for j in range(outputs)]
        total: Value = ZERO
        for g, d in zip(given, b.call(rule, *args, *unit), strict=True):
            total = b.add(total, b.mul(g, d))
        yields.append(total)
    return clean(Function(f"{rule.name}_transposed", (*args, *given),
                          Block(tuple(b.statements), tuple(yields))))
