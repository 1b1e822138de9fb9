"""Regions under construction: what they assign, and how that becomes one value."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..errors import ScalarSyntaxError
from .emit import Emitter
from .ir import EFFECTS, Block, For, Let, Literal, Statement, Value, While, walk
from .source import Source

__all__ = ["Branches", "Values", "fill", "leaves"]

#: A value, or a tuple of values and tuples.
Values = Any


def leaves(values: Values) -> list[Value]:
    """The single values in a tree of tuples, from left to right."""
    if not isinstance(values, tuple):
        return [values]
    return [leaf for v in values for leaf in leaves(v)]


def fill(shape: Values, results: Sequence[Value]) -> Values:
    """`shape` with every integer replaced by the result of that number."""
    if isinstance(shape, tuple):
        return tuple(fill(s, results) for s in shape)
    return results[shape] if isinstance(shape, int) else shape


def _shape(values: Values) -> str:
    if not isinstance(values, tuple):
        return "one number"
    return f"a tuple of {len(values)}" if values else "nothing"


def _guarded(body: Sequence[Statement]) -> bool:
    """Whether `body` must not run where Python would not run it."""
    return any(isinstance(s, (For, While)) or (isinstance(s, Let) and
               (s.op == "load" or s.op in EFFECTS))
               for s in walk(Block(tuple(body), ())))


class _Merge:
    """The results of an If: what each branch yields for them, and their names."""

    def __init__(self) -> None:
        self.then: list[Value] = []
        self.orelse: list[Value] = []
        self.stems: list[str] = []

    def add(self, stem: str, a: Value, b: Value) -> int:
        self.then.append(a)
        self.orelse.append(b)
        self.stems.append(stem)
        return len(self.stems) - 1


class Branches:
    """The variables of a function, the statements so far, and branches of both.

    Parameters
    ----------
    source
        For messages.
    emitter
        Where statements go.
    """

    def __init__(self, source: Source, emitter: Emitter) -> None:
        self.source, self.emitter = source, emitter
        self.env: dict[str, Values] = {}

    def error(self, where: ast.AST, message: str) -> ScalarSyntaxError:
        """An error at a node."""
        return self.source.error(where, message)

    @contextmanager
    def branch(self) -> Iterator[tuple[list[Statement], dict[str, Values]]]:
        """Statements and variables of a region, kept apart from the outer ones."""
        outer, self.env = self.env, dict(self.env)
        try:
            with self.emitter.region() as body:
                yield body, self.env
        finally:
            self.env = outer

    def merge(self, node: ast.AST, truth: Value,
              bodies: tuple[list[Statement], list[Statement]],
              pairs: Mapping[str, tuple[Values, Values]]) -> list[Values]:
        """An If whose branches are `bodies`; the pairs by name, each made one."""
        merge = _Merge()
        shapes = [self._pair(node, merge, name, a, b) for name, (a, b) in pairs.items()]
        if not merge.stems and not any(_guarded(b) for b in bodies):
            return shapes
        results = self.emitter.branch(
            truth, Block(tuple(bodies[0]), tuple(merge.then)),
            Block(tuple(bodies[1]), tuple(merge.orelse)), merge.stems)
        return [fill(shape, results) for shape in shapes]

    def _pair(self, node: ast.AST, merge: _Merge, name: str, a: Values,
              b: Values) -> Values:
        """Where the merged value is found: a value, or the number of a result."""
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            return tuple(self._pair(node, merge, name, x, y)
                         for x, y in zip(a, b, strict=True))
        if isinstance(a, tuple) or isinstance(b, tuple):
            raise self.error(node, self.mismatch(name, a, b))
        return a if a == b else merge.add(name, a, b)

    def mismatch(self, name: str, a: Values, b: Values) -> str:
        """What to say of two branches that give values of different shape."""
        return (f"the branches give {name!r} as {_shape(a)} and as {_shape(b)}; "
                "make them the same")

    def both(self, op: ast.boolop, first: Value, second: Callable[[], Value]) -> Value:
        """``first and second()``, or ``or``; branches only where it must."""
        truth = self.emitter.truth(first)
        if isinstance(truth, Literal):
            return second() if truth.value is isinstance(op, ast.And) else first
        with self.emitter.region() as body:
            other = second()
        if _guarded(body):
            return self._choose(op, truth, Block(tuple(body), (other,)), first)
        self.emitter.statements.extend(body)
        if self.emitter.is_bool(first) and self.emitter.is_bool(other):
            name = "logical_and" if isinstance(op, ast.And) else "logical_or"
            return self.emitter.emit(name, first, other)
        pair = (other, first) if isinstance(op, ast.And) else (first, other)
        return self.emitter.emit("select", truth, *pair)

    def _choose(self, op: ast.boolop, truth: Value, run: Block, first: Value) -> Value:
        """Run the second operand of ``and`` or ``or`` only where Python does."""
        skip = Block((), (first,))
        blocks = (run, skip) if isinstance(op, ast.And) else (skip, run)
        return self.emitter.branch(truth, *blocks, ("t",))[0]
