"""Branches: what both sides assign becomes one value, and ``and``, ``or``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

from ..ir.nodes import (
    EFFECTS,
    Block,
    Custom,
    For,
    Let,
    Literal,
    Statement,
    Value,
    While,
    literal,
    walk,
)
from ..source.structure import Local, Values, Vector, fill, locals_in, rebuild
from .jumps import RESULT
from .scope import Scope

__all__ = ["UNSET", "merge", "mismatch", "refuse_alias", "refuse_choice",
           "short_circuit", "split"]

#: Stands for a value that is never read.  Any type absorbs a bool in promotion.
UNSET = literal(False)

#: Besides effects and loads: what threads of a group have to do together.
_TOGETHER = frozenset({"buffer", "buffer_load", "buffer_store", "load", "shared",
                       "shuffle"})


def split(scope: Scope, s: ast.stmt, truth: Value, then: Callable[[], None],
          orelse: Callable[[], None]) -> None:
    """Write a branch: ``then()`` where `truth`, else ``orelse()``."""
    with scope.region() as (one_body, a):
        then()
    with scope.region() as (other_body, b):
        orelse()
    for one, other in ((a, b), (b, a)):
        if RESULT in one:  # not read where it is unset: a flag or the end says so
            other.setdefault(RESULT, _unset(one[RESULT]))
    for side, own in ((a, b), (b, a)):
        for name in side:  # a second name must not depend on the branch
            if name in own and side[name] is not own[name]:
                refuse_alias(scope, s, name, side)
    names = sorted(set(a) & set(b))
    pairs = {n: (a[n], b[n]) for n in names}
    merged = merge(scope, s, truth, (one_body, other_body), pairs)
    scope.env.clear()
    scope.env.update(zip(names, merged, strict=True))


def _unset(values: Values) -> Values:
    return rebuild(values, map(_unset, values)) if isinstance(values, tuple) else UNSET


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


def merge(scope: Scope, node: ast.AST, truth: Value,
          bodies: tuple[list[Statement], list[Statement]],
          pairs: Mapping[str, tuple[Values, Values]]) -> list[Values]:
    """Write an If whose branches are `bodies`; one value for each of the pairs."""
    results = _Merge()
    shapes = [_pair(scope, node, results, name, a, b) for name, (a, b) in pairs.items()]
    if not results.stems and not any(_guarded(b) for b in bodies):
        return shapes
    names = scope.emitter.branch(
        truth, Block(tuple(bodies[0]), tuple(results.then)),
        Block(tuple(bodies[1]), tuple(results.orelse)), results.stems)
    return [fill(shape, names) for shape in shapes]


def _pair(scope: Scope, node: ast.AST, results: _Merge, name: str, a: Values,
          b: Values) -> Values:
    """The merged value: a value, or the number of a result."""
    if a is b:  # also what makes it one local array under two names
        return a
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b) and \
            _kind(a) == _kind(b):
        return rebuild(a, [_pair(scope, node, results, name, x, y)
                           for x, y in zip(a, b, strict=True)])
    if isinstance(a, tuple) or isinstance(b, tuple):
        raise scope.error(node, mismatch(name, a, b))
    if a == b:
        return a
    refuse_choice(scope, node, name, a, b)
    return results.add(name, a, b)


def _guarded(body: Sequence[Statement]) -> bool:
    """True if `body` must not run where Python would not run it."""
    return any(isinstance(s, (Custom, For, While)) or (isinstance(s, Let) and
               (s.op in _TOGETHER or s.op in EFFECTS))
               for s in walk(Block(tuple(body), ())))


def refuse_choice(scope: Scope, node: ast.AST, name: str, *values: Values) -> None:
    """Refuse to choose at run time between what is no number."""
    if not all(isinstance(v, (str, Literal)) for v in values):
        odd = next(v for v in values if not isinstance(v, (str, Literal)))
        raise scope.error(node, f"{name!r} is {scope.describe(odd)} that depends on a "
                                "branch or loop; use each where it is meant, under a "
                                "name of its own")
    if any(scope.arrays.get(v) is not None for v in values if isinstance(v, str)):
        raise scope.error(node, f"{name!r} is an array that depends on a branch or "
                                "loop; write an access to each array")


def refuse_alias(scope: Scope, node: ast.AST, name: str, env: Mapping[str, Values],
                 changed: Sequence[Values] | None = None) -> None:
    """Refuse to change a local array that has another name in `env` as well.

    In Python both names would see the change; here each name has values of its own.
    So it is with an array in two places of one, if it may be among the `changed`.
    Nothing is changed any more after a return, and its caller sees no other name.
    """
    all_mine = list(locals_in(env[name])) if name != RESULT else []
    mine = set(map(id, all_mine))
    for part in all_mine if changed is None else changed:
        if sum(part is other for other in all_mine) > 1:
            raise scope.error(node, f"{name!r} has one local array or struct in two "
                                    "places, of which Python would change both; make "
                                    "each anew, as nf.local((2, 3)) and [[0.0]*3 for "
                                    "_ in range(2)] do, or a copy of it")
    for other, values in env.items() if mine else ():
        if other not in (name, RESULT) and mine & {id(v) for v in locals_in(values)}:
            kind, copy = ("local array", "list") if isinstance(
                env[name], Local) else ("struct", "dataclasses.replace")
            raise scope.error(node, f"{name!r} and {other!r} are the same {kind}; make "
                                    f"a copy before changing one, {other} = "
                                    f"{copy}({name})")


def mismatch(name: str, a: Values, b: Values) -> str:
    """The message about two branches that give values of different shape."""
    if name == RESULT:
        name = "return"
        if a == () or b == ():
            return ("some paths return a value and others do not; end every path "
                    "with a return")
    return (f"the branches give {name!r} as {_shape(a)} and as {_shape(b)}; "
            "make them the same")


def _kind(values: Values) -> str:
    return values.kind if isinstance(values, Vector) else ""


def _shape(values: Values) -> str:
    if not isinstance(values, tuple):
        return "one number"
    if isinstance(values, Vector):
        return f"a {values.kind}"
    return f"a tuple of {len(values)}" if values else "nothing"


def short_circuit(scope: Scope, op: ast.boolop, first: Value,
                  second: Callable[[], Value]) -> Value:
    """Parse ``first and second()``, or ``or``; branches only where it must."""
    emitter = scope.emitter
    truth = emitter.truth(first)
    if isinstance(truth, Literal):
        return second() if truth.value is isinstance(op, ast.And) else first
    with emitter.region() as body:
        other = second()
    if _guarded(body):
        run, skip = Block(tuple(body), (other,)), Block((), (first,))
        blocks = (run, skip) if isinstance(op, ast.And) else (skip, run)
        return emitter.branch(truth, *blocks, ("t",))[0]
    emitter.statements.extend(body)
    if emitter.is_bool(first) and emitter.is_bool(other):
        name = "logical_and" if isinstance(op, ast.And) else "logical_or"
        return emitter.emit(name, first, other)
    pair = (other, first) if isinstance(op, ast.And) else (first, other)
    return emitter.emit("select", truth, *pair)
