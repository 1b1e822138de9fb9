"""Regions under construction: what they assign, and how that becomes one value."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from ..errors import ScalarSyntaxError
from .emit import Emitter
from .ir import (
    EFFECTS,
    Block,
    Custom,
    For,
    Let,
    Literal,
    Statement,
    Value,
    While,
    walk,
)
from .source import Source
from .structure import Values, fill, locals_in, rebuild

__all__ = ["Branches"]

#: Besides effects and loads: what threads of a group have to do together.
_TOGETHER = frozenset({"buffer", "buffer_load", "buffer_store", "load", "shared",
                       "shuffle"})


def _shape(values: Values) -> str:
    if not isinstance(values, tuple):
        return "one number"
    return f"a tuple of {len(values)}" if values else "nothing"


def _guarded(body: Sequence[Statement]) -> bool:
    """Whether `body` must not run where Python would not run it."""
    return any(isinstance(s, (Custom, For, While)) or (isinstance(s, Let) and
               (s.op in _TOGETHER or s.op in EFFECTS))
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
    arrays
        The rank of each SSA name that is an array, None where that is not known.
    """

    def __init__(self, source: Source, emitter: Emitter,
                 arrays: dict[str, int | None]) -> None:
        self.source, self.emitter, self.arrays = source, emitter, arrays
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
        if a is b:  # also what makes it one local array under two names
            return a
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            return rebuild(a, [self._pair(node, merge, name, x, y)
                               for x, y in zip(a, b, strict=True)])
        if isinstance(a, tuple) or isinstance(b, tuple):
            raise self.error(node, self.mismatch(name, a, b))
        if a == b:
            return a
        self.single(node, name, a, b)
        return merge.add(name, a, b)

    def single(self, node: ast.AST, name: str, *values: Values) -> None:
        """Refuse to choose at run time between what is no number."""
        if not all(isinstance(v, (str, Literal)) for v in values):
            raise self.error(node, f"{name!r} is a function that depends on a branch "
                                   "or loop; call each where it is meant")
        if any(self.arrays.get(v) is not None for v in values if isinstance(v, str)):
            raise self.error(node, f"{name!r} is an array that depends on a branch or "
                                   "loop; write an access to each array")

    def unshared(self, node: ast.AST, name: str, env: Mapping[str, Values]) -> None:
        """Refuse to change a local array that has another name in `env` as well.

        In Python both names would see the change; here each name has values of its own.
        """
        mine = {id(v) for v in locals_in(env[name])}
        for other, values in env.items() if mine else ():
            if other != name and mine & {id(v) for v in locals_in(values)}:
                raise self.error(node, f"{name!r} and {other!r} are the same local "
                                       f"array; make a copy before changing one, "
                                       f"{other} = list({name})")

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
