"""Passes that change no value: common subexpressions, dead code."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from .nodes import (
    BUFFER_WRITES,
    EFFECTS,
    Block,
    Custom,
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

__all__ = ["clean", "has_effects", "live", "live_reads"]

T = TypeVar("T")

#: What an operation is known by: its name, its operands, its attribute.
Key = tuple[str, tuple[Value, ...], str | None]

#: Results that may differ between two calls with the same arguments.
IMPURE = EFFECTS | BUFFER_WRITES | {"load", "buffer", "buffer_load", "shared",
                                    "shuffle"}


def clean(function: Function) -> Function:
    """Merge equal subexpressions, then drop what no result needs."""
    body = _merge(function.body, {}, {})
    return replace(function, body=live(body))


def has_effects(block: Block) -> bool:
    """True if `block` does more than yield values and fill buffers."""
    return any(_has_effect(s) for s in walk(block))


def _has_effect(s: Statement) -> bool:
    if isinstance(s, Custom):
        return has_effects(s.function.body)
    return isinstance(s, Let) and s.op in EFFECTS


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
            case Custom():
                s = replace(s, args=values(s.args))
        out.append(s)
    return Block(tuple(out), values(block.yields))


def live(block: Block) -> Block:
    """`block` without the statements and carried values that nothing reads."""
    return live_reads(block)[0]


def live_reads(block: Block) -> tuple[Block, set[str]]:
    """The live block, and the names that it reads from outside (and some of its own).

    A buffer that nothing live loads from is dead, and so is what fills it; one of the
    surrounding block's is not.
    """
    own = {s.results[0] for s in walk(block) if isinstance(s, Let) and s.op == "buffer"}
    pass_ = _Liveness(own)
    while True:
        found, reads = pass_.block(block, set())
        loaded = {str(s.args[0]) for s in walk(found)
                  if isinstance(s, Let) and s.op == "buffer_load"}
        if not loaded & pass_.dead:
            return found, reads
        pass_.dead -= loaded


class _Liveness:
    """One walk backwards; what is written to buffers in `dead` is dropped."""

    def __init__(self, dead: set[str]) -> None:
        self.dead = dead

    def block(self, block: Block, wanted: set[str]) -> tuple[Block, set[str]]:
        """The live block and what it reads; `wanted` are read by who holds it."""
        wanted = wanted | names(block.yields)
        out: list[Statement] = []
        for s in reversed(block.statements):
            kept = self.statement(s, wanted)
            if kept is not None:
                out.append(kept)
        return Block(tuple(reversed(out)), block.yields), wanted

    def matters(self, s: Statement) -> bool:
        """True if `s` has an effect that somebody may see."""
        if isinstance(s, Let) and s.op in BUFFER_WRITES:
            return s.args[0] not in self.dead
        return _has_effect(s)

    def has_effects(self, block: Block) -> bool:
        """True if anything in `block` matters."""
        return any(self.matters(s) for s in walk(block))

    def statement(self, s: Statement, wanted: set[str]) -> Statement | None:
        """The live part of a statement; adds to `wanted` the names that it reads."""
        match s:
            case Let() | Custom():
                if not (set(s.results) & wanted or self.matters(s)):
                    return None
                wanted |= names(s.args)
                return s
            case If():
                return self.branch(s, wanted)
        return self.loop(s, wanted)

    def branch(self, s: If, wanted: set[str]) -> If | None:
        """The results that are read, and what the branches need for them."""
        keep = [k for k, r in enumerate(s.results) if r in wanted]
        if not keep and not (self.has_effects(s.then) or self.has_effects(s.orelse)):
            return None
        branches = []
        for block in (s.then, s.orelse):
            pruned, reads = self.block(
                Block(block.statements, tuple(block.yields[k] for k in keep)), set())
            branches.append(pruned)
            wanted |= reads
        wanted |= names((s.condition,))
        return If(tuple(s.results[k] for k in keep), s.condition, *branches)

    def loop(self, s: For | While, wanted: set[str]) -> For | While | None:
        """A carried value is live if a live one is computed from it."""
        keep = {k for k, r in enumerate(s.results) if r in wanted}
        if not keep and not self.has_effects(s.body):
            return None
        while True:
            body, reads = self.block(Block(s.body.statements, tuple(
                s.body.yields[k] for k in sorted(keep))), set())
            if isinstance(s, While):
                condition, more = self.block(s.condition, set())
                reads |= more
            grown = keep | {k for k, p in enumerate(s.params) if p in reads}
            if grown == keep:
                break
            keep = grown

        def pick(xs: tuple[T, ...]) -> tuple[T, ...]:
            return tuple(xs[k] for k in sorted(keep))

        s = replace(s, results=pick(s.results), params=pick(s.params),
                    inits=pick(s.inits), body=body)
        if isinstance(s, While):
            s = replace(s, condition=condition)
        wanted |= reads | names(operands(s))
        return s
