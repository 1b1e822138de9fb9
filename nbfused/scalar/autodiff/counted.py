"""Loops as derivatives see them: counted, and without what counts along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from ...support.records import record
from ..ir.build import Builder
from ..ir.clean import live, live_reads
from ..ir.nodes import Block, For, If, Let, Literal, Statement, Value, While, literal
from .repeated import quiet

__all__ = ["bound", "closed", "counted", "counting", "keep_results"]


@record(frozen=True)
class _Progression:
    """A carried integer that is ``start + step*index`` in every iteration."""

    position: int
    start: Literal
    step: Literal


def counting(b: Builder, s: While) -> While:
    """`s` with one more carried value, the last: the number of iterations."""
    param, more, result = b.fresh("trip"), b.fresh("trip"), b.fresh("trips")
    step = Let((more,), "add", (param, literal(1)))
    body = Block((*s.body.statements, step), (*s.body.yields, more))
    return replace(s, results=(*s.results, result), params=(*s.params, param),
                   inits=(*s.inits, literal(0)), body=body)


def counted(b: Builder, s: For | While, count: Value) -> For:
    """The loop as a For; what only counts along is computed from the index."""
    index = s.index if isinstance(s, For) else b.fresh("index")
    found = {p.position: p for p in _progressions(s)}
    with b.region() as head:
        for k, p in found.items():
            ahead = index if p.step == literal(1) else b.let("mul", index, p.step)
            value = ahead if p.start == literal(0) else b.let("add", p.start, ahead)
            head.append(Let((s.params[k],), "id", (value,)))
    rest = [k for k in range(len(s.params)) if k not in found]
    return _pick(For(s.results, index, count, s.params, s.inits, Block(
        (*head, *s.body.statements), s.body.yields), s.max_iters, s.prefer), rest)


def _pick(s: For, which: Sequence[int]) -> For:
    """`s` with some of its carried values."""
    yields = tuple(s.body.yields[k] for k in which)
    return replace(s, results=tuple(s.results[k] for k in which),
                   params=tuple(s.params[k] for k in which),
                   inits=tuple(s.inits[k] for k in which),
                   body=Block(s.body.statements, yields))


def closed(s: For, wanted: Set[str]) -> For:
    """`s` without effects, with the values that the `wanted` params depend on."""
    body = quiet(s.body)
    while True:
        which = [k for k, p in enumerate(s.params) if p in wanted]
        part = _pick(replace(s, body=body), which)
        pruned, reads = live_reads(part.body)
        if not reads.intersection(s.params) - wanted:
            return replace(part, body=pruned)
        wanted = wanted | reads.intersection(s.params)


def keep_results(s: For | While, wanted: set[str]) -> For | While:
    """`s` with the carried values that `wanted` results, or effects, depend on."""
    results = tuple(r for r in s.results if r in wanted)
    for kept in live(Block((s,), results)).statements:
        assert isinstance(kept, (For, While))
        return kept
    return replace(s, results=(), params=(), inits=(), body=Block((), ()))


def _progressions(s: For | While) -> list[_Progression]:
    """The carried values that only count."""
    steps = {let.results[0]: let for let in s.body.statements
             if isinstance(let, Let) and let.op == "add"}
    found = []
    for k, (p, init, y) in enumerate(zip(s.params, s.inits, s.body.yields,
                                         strict=True)):
        args = steps[y].args if isinstance(y, str) and y in steps else ()
        step = _integer([a for a in args if a != p])
        if p in args and step and _integer([init]):
            assert isinstance(init, Literal)
            found.append(_Progression(k, init, step))
    return found


def _integer(values: list[Value]) -> Literal | None:
    (value,) = values if len(values) == 1 else (None,)
    return value if isinstance(value, Literal) and value.kind == "int" else None


def bound(s: For | While, bounds: Mapping[str, int]) -> int | None:
    """The largest number of iterations; None if it is not known."""
    if isinstance(s, For):
        return _limit(s.count, bounds)
    from_zero = {s.params[p.position] for p in _progressions(s)
                 if p.start == literal(0) and p.step == literal(1)}
    table = {r: t for t in s.condition.statements for r in t.results}
    limits = [_limit(args[1], bounds) for args in _comparisons(
        s.condition.yields[0], table) if args[0] in from_zero]
    return min((n for n in limits if n is not None), default=None)


def _limit(value: Value, bounds: Mapping[str, int]) -> int | None:
    if isinstance(value, Literal):
        return max(int(value.value.real), 0)
    return bounds.get(value)


def _comparisons(v: Value, table: Mapping[str, Statement]) -> list[tuple[Value, ...]]:
    """The operands of every ``a < b`` that must hold for `v` to be true."""
    s = table.get(v) if isinstance(v, str) else None
    if isinstance(s, Let) and s.op == "logical_and":
        return [c for a in s.args for c in _comparisons(a, table)]
    if isinstance(s, Let) and s.op == "lt":
        return [s.args]
    if isinstance(s, If):
        k = s.results.index(str(v))
        if s.orelse.yields[k] == literal(False):
            inner = {**table, **{r: t for t in s.then.statements for r in t.results}}
            return [*_comparisons(s.condition, table),
                    *_comparisons(s.then.yields[k], inner)]
    return []
