"""Passes that change no value: common subexpressions, dead code."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from .ir import (
    EFFECTS,
    Block,
    For,
    Function,
    If,
    Let,
    Statement,
    Value,
    While,
    names,
    operands,
    walk,
)

__all__ = ["clean", "has_effects", "live"]

T = TypeVar("T")

#: What an operation is known by: its name, its operands, its attribute.
Key = tuple[str, tuple[Value, ...], str | None]

#: Results that may differ between two calls with the same arguments.
IMPURE = EFFECTS | {"load"}


def clean(function: Function) -> Function:
    """Merge equal subexpressions, then drop what no result needs."""
    body = _merge(function.body, {}, {})
    return replace(function, body=live(body))


def has_effects(block: Block) -> bool:
    """Whether `block` does anything besides yielding values."""
    return any(isinstance(s, Let) and s.op in EFFECTS for s in walk(block))


def _merge(block: Block, seen: dict[Key, str], alias: dict[str, Value]) -> Block:
    """`seen` maps an expression to the name that holds it, in this scope or outside."""

    def value(v: Value) -> Value:
        return alias.get(v, v) if isinstance(v, str) else v

    def values(vs: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(value(v) for v in vs)

    def inside(b: Block) -> Block:
        return _merge(b, dict(seen), alias)

    out: list[Statement] = []
    for s in block.statements:
        match s:
            case Let():
                s = replace(s, args=values(s.args))
                key = (s.op, s.args, s.attr)
                if s.op == "id":
                    alias[s.results[0]] = s.args[0]
                    continue
                if s.op not in IMPURE and key in seen:
                    alias[s.results[0]] = seen[key]
                    continue
                if s.op not in IMPURE:
                    seen[key] = s.results[0]
            case If():
                s = If(s.results, value(s.condition), inside(s.then), inside(s.orelse))
            case For():
                s = replace(s, count=value(s.count), inits=values(s.inits),
                            body=inside(s.body))
            case While():
                s = replace(s, inits=values(s.inits), condition=inside(s.condition),
                            body=inside(s.body))
        out.append(s)
    return Block(tuple(out), values(block.yields))


def live(block: Block) -> Block:
    """`block` without the statements and carried values that nothing reads."""
    return _live(block, set())[0]


def _live(block: Block, wanted: set[str]) -> tuple[Block, set[str]]:
    """The live block and the names it reads; `wanted` are read by whoever holds it."""
    wanted = wanted | names(block.yields)
    out: list[Statement] = []
    for s in reversed(block.statements):
        kept = _live_statement(s, wanted)
        if kept is not None:
            out.append(kept)
    return Block(tuple(reversed(out)), block.yields), wanted


def _live_statement(s: Statement, wanted: set[str]) -> Statement | None:
    """What is live of a statement; adds to `wanted` what that reads."""
    match s:
        case Let():
            if not (set(s.results) & wanted or s.op in EFFECTS):
                return None
            wanted |= names(s.args)
            return s
        case If():
            return _live_if(s, wanted)
    return _live_loop(s, wanted)


def _live_if(s: If, wanted: set[str]) -> If | None:
    keep = [k for k, r in enumerate(s.results) if r in wanted]
    if not keep and not (has_effects(s.then) or has_effects(s.orelse)):
        return None
    branches = []
    for block in (s.then, s.orelse):
        pruned, reads = _live(
            Block(block.statements, tuple(block.yields[k] for k in keep)), set())
        branches.append(pruned)
        wanted |= reads
    wanted |= names((s.condition,))
    return If(tuple(s.results[k] for k in keep), s.condition, *branches)


def _live_loop(s: For | While, wanted: set[str]) -> For | While | None:
    keep = {k for k, r in enumerate(s.results) if r in wanted}
    if not keep and not has_effects(s.body):
        return None
    while True:  # a carried value is live if a live one is computed from it
        body, reads = _live(Block(s.body.statements, tuple(
            s.body.yields[k] for k in sorted(keep))), set())
        if isinstance(s, While):
            condition, more = _live(s.condition, set())
            reads |= more
        grown = keep | {k for k, p in enumerate(s.params) if p in reads}
        if grown == keep:
            break
        keep = grown

    def pick(xs: tuple[T, ...]) -> tuple[T, ...]:
        return tuple(xs[k] for k in sorted(keep))

    results, params, inits = pick(s.results), pick(s.params), pick(s.inits)
    if isinstance(s, While):
        s = While(results, params, inits, condition, body)
    else:
        s = For(results, s.index, s.count, params, inits, body)
    wanted |= reads | names(operands(s))
    return s
