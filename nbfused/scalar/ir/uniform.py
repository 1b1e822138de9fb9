"""Uniformity analysis: values that all threads of a block have in common."""

from __future__ import annotations

from collections.abc import Iterable, Set

from .nodes import (
    Block,
    For,
    If,
    Let,
    Literal,
    Statement,
    Value,
    While,
    regions,
)

__all__ = ["OWN", "is_uniform", "uniform_names"]

#: What two threads may see differently even at equal operands.
OWN = frozenset({"load", "recall", "atomic", "shuffle", "store", "barrier", "buffer",
                 "buffer_load", "buffer_store", "buffer_add"})
#: The words of places that differ between threads of a block.
_APART = ("threadIdx", "laneid")


def uniform_names(block: Block, known: Iterable[str],
                  apart: Set[str] = frozenset()) -> set[str]:
    """Names in `block` that depend only on literals and the `known` names.

    None of those in `apart` is one, nor what depends on them.
    """
    found = set(known)
    _visit(block, found, apart)
    return found


def _apart(s: Let) -> bool:
    return s.op == "thread" and str(s.attr).startswith(_APART)


def _all(values: Iterable[Value], known: set[str]) -> bool:
    return all(isinstance(v, Literal) or v in known for v in values)


def _visit(block: Block, known: set[str], apart: Set[str]) -> None:
    for s in block.statements:
        match s:
            case Let():
                if s.op not in OWN and _all(s.args, known) and not _apart(s):
                    known.update(set(s.results) - apart)
            case If():
                _visit(s.then, known, apart)
                _visit(s.orelse, known, apart)
                if _all((s.condition,), known):
                    known.update(r for r, a, b in zip(
                        s.results, s.then.yields, s.orelse.yields, strict=True)
                        if r not in apart and _all((a, b), known))
            case For() | While():
                _loop(s, known, apart)


def _loop(s: For | While, known: set[str], apart: Set[str]) -> None:
    """Iterate to a fixed point: carried values stay uniform until contradicted."""
    before = frozenset(known)
    candidates = [_all((v,), known) and apart.isdisjoint((p, r))
                  for v, p, r in zip(s.inits, s.params, s.results, strict=True)]
    while True:
        trial = set(before) | {p for p, c in zip(s.params, candidates, strict=True)
                               if c}
        if isinstance(s, For) and s.index not in apart and _all((s.count,), trial):
            trial.add(s.index)
        for region in regions(s):
            _visit(region, trial, apart)
        kept = [c and _all((y,), trial) for c, y in
                zip(candidates, s.body.yields, strict=True)]
        if not _leaves_together(s, trial):
            kept = [False] * len(kept)
        if kept == candidates:
            break
        candidates = kept
    known.update(trial)
    known.update(r for r, c in zip(s.results, candidates, strict=True) if c)


def _leaves_together(s: For | While, known: set[str]) -> bool:
    ends = (s.count,) if isinstance(s, For) else s.condition.yields
    return _all(ends, known)


def is_uniform(s: Statement, known: set[str]) -> bool:
    """Whether a statement computes only uniform values."""
    if isinstance(s, Let):
        return bool(s.results) and known.issuperset(s.results)
    if not s.results or not known.issuperset(s.results):
        return False
    return all(is_uniform(x, known) for r in regions(s) for x in r.statements)
