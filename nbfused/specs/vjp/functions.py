"""Small scalar functions that derivatives are assembled from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from ...errors import NotDifferentiableError
from ...scalar.ir.build import Builder, inline
from ...scalar.ir.clean import clean
from ...scalar.ir.nodes import (
    Block,
    Function,
    Let,
    Value,
    literal,
    rewrite,
    used_params,
    walk,
)
from ..raw import WRITES

__all__ = ["adding", "compose", "identity", "is_param", "is_zero", "pick", "reading",
           "total", "trim"]


@lru_cache(maxsize=64)
def identity(arity: int = 1) -> Function:
    """A function that returns its parameters."""
    params = tuple(f"x{k}" for k in range(arity))
    return Function("identity", params, Block((), params))


def compose(name: str, params: Sequence[str],
            build: Callable[[Builder], tuple[Value, ...]]) -> Function:
    """The function of `params` whose results ``build(builder)`` returns."""
    builder = Builder(set(params))
    results = build(builder)
    return clean(Function(name, tuple(params),
                          Block(tuple(builder.statements), results)))


def pick(function: Function, which: Sequence[int]) -> Function:
    """The same function with some of its results only."""
    body = Block(function.body.statements, tuple(function.results[k] for k in which))
    origin = function.origin and replace(function.origin, wanted=tuple(
        function.origin.wanted[k] for k in which))
    return clean(replace(function, body=body, origin=origin))


def trim(function: Function) -> tuple[Function, tuple[bool, ...]]:
    """`function` without its unused parameters, and which ones it keeps."""
    used = used_params(function)
    params = tuple(p for p, u in zip(function.params, used, strict=True) if u)
    return replace(function, params=params), used


@lru_cache(maxsize=256)
def adding(function: Function) -> Function:
    """The same with every store an addition.

    To arrays of zeros these are the same where nothing is stored twice, which threads
    that run in any order must not do anyway; and an addition has a derivative.
    """
    written = {str(s.args[0]) for s in walk(function.body)
               if isinstance(s, Let) and s.op == "store"}
    if not written:
        return function
    for s in walk(function.body):
        if isinstance(s, Let) and s.op == "load" and s.args[0] in written:
            raise NotDifferentiableError(
                f"{function.name} reads what it stores in '{s.args[0]}' (line {s.line})"
                "; use a variable for it, and store at the end")

    def added(s: Let) -> tuple[Let]:
        return (replace(s, op="atomic_add") if s.op == "store" else s,)

    return replace(function, body=rewrite(function.body, added))


@lru_cache(maxsize=256)
def reading(function: Function, arrays: frozenset[str]) -> Function:
    """The same that changes none of `arrays`.

    The rule of a function takes what was stored away from the cotangents, as a kernel
    does; those of a Map are somebody else's, and each element is stored once.
    """
    def kept(s: Let) -> tuple[Let, ...]:
        if s.op not in WRITES or s.args[0] not in arrays:
            return (s,)
        values = 2 if s.attr == "cas" else 1
        at = s.args[:len(s.args) - values]
        return (replace(s, op="load", args=at, attr=None),) if s.results else ()

    inlined = inline(function)
    changed = any(isinstance(s, Let) and s.op in WRITES and s.args[0] in arrays
                  for s in walk(inlined.body))
    return replace(inlined, body=rewrite(inlined.body, kept)) if changed else function


def is_zero(value: Value) -> bool:
    """Whether a derivative vanishes identically."""
    return value == literal(0.0)


def is_param(function: Function, result: int, param: str) -> bool:
    """Whether a result is just one of the parameters."""
    return function.results[result] == param


def total(name: str, terms: Sequence[tuple[Function, int]]) -> Function:
    """The sum of results of functions whose parameters are wired by name."""
    params = tuple(dict.fromkeys(p for f, _ in terms for p in f.params))

    def build(b: Builder) -> tuple[Value, ...]:
        result: Value = literal(0.0)
        for f, k in terms:
            result = b.add(result, b.call(f, *f.params)[k])
        return (result,)

    return trim(compose(name, params, build))[0]
