"""A tiny evaluator of the IR on Python numbers: the oracle of the parser's tests."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nbfused.scalar.ir.nodes import (
    Block,
    For,
    Function,
    If,
    Let,
    Literal,
    Value,
    While,
)
from nbfused.scalar.language.vocabulary import OPS

PYTHON: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul,
    "div": operator.truediv, "floordiv": operator.floordiv, "mod": operator.mod,
    "pow": operator.pow, "powi": operator.pow, "neg": operator.neg,
    "pos": operator.pos, "abs": abs, "max": max, "min": min, "lt": operator.lt,
    "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq,
    "ne": operator.ne, "and": operator.and_, "or": operator.or_, "xor": operator.xor,
    "invert": operator.invert, "lshift": operator.lshift, "rshift": operator.rshift,
    "logical_and": lambda a, b: bool(a) and bool(b),
    "logical_or": lambda a, b: bool(a) or bool(b), "logical_not": operator.not_,
    "select": lambda c, a, b: a if c else b, "rint": round, "detach": lambda a: a,
    "id": lambda a: a,
}
CASTS = {"int": int, "float": float, "bool": bool}


class Evaluation:
    """Values of names; raw arrays are dicts from index tuples to numbers."""

    def __init__(self, env: dict[str, Any]) -> None:
        self.env = env

    def get(self, value: Value) -> Any:
        return value.value if isinstance(value, Literal) else self.env[value]

    def block(self, block: Block) -> list[Any]:
        for statement in block.statements:
            self.run(statement)
        return [self.get(y) for y in block.yields]

    def run(self, s: Any) -> None:
        match s:
            case Let():
                self.env.update(zip(s.results, self.let(s), strict=True))
            case If():
                taken = s.then if self.get(s.condition) else s.orelse
                assert isinstance(self.get(s.condition), (bool, np.bool_))
                self.env.update(zip(s.results, self.block(taken), strict=True))
            case For():
                self.loop(s, iter(range(self.get(s.count))))
            case While():
                self.loop(s, None)

    def loop(self, s: Any, indices: Any) -> None:
        state = [self.get(v) for v in s.inits]
        while True:
            self.env.update(zip(s.params, state, strict=True))
            if indices is None:
                if not self.block(s.condition)[0]:
                    break
            else:
                index = next(indices, None)
                if index is None:
                    break
                self.env[s.index] = index
            state = self.block(s.body)
        self.env.update(zip(s.results, state, strict=True))

    def let(self, s: Let) -> list[Any]:
        args = [self.get(a) for a in s.args]
        if s.op == "load":
            return [args[0][tuple(args[1:])]]
        if s.op == "atomic_add":
            args[0][tuple(args[1:-1])] += args[-1]
            return []
        if s.op == "store":
            args[0][tuple(args[1:-1])] = args[-1]
            return []
        if s.op == "index":
            return [int(args[0])]
        if s.op == "extent":
            return [args[0].shape[int(s.attr or 0)]]
        if s.op == "cast":
            return [CASTS.get(s.attr or "", np.dtype(s.attr or "V").type)(args[0])]
        if s.op in PYTHON:
            return [PYTHON[s.op](*args)]
        return [getattr(math, s.op, OPS[s.op])(*args)]


def evaluate(function: Function, *args: Any,
             free: Mapping[str, Any] | None = None) -> Any:
    """What `function` returns; a single result by itself, as Python does."""
    env = {**(free or {}), **dict(zip(function.params, args, strict=True))}
    results = Evaluation(env).block(function.body)
    return results[0] if len(results) == 1 else tuple(results)
