"""Statements of the scalar language, from a Python syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from .closures import Closure
from .ir import Let, Literal, Value
from .jumps import RESULT, Loop, TooManyPaths, assigned, normalise
from .loops import UNSET, Loops
from .structure import Values, leaves, rebuild
from .words import ALLOWED, words

__all__ = ["Statements"]


class Statements(Loops):
    """The statements of one function.

    Attributes
    ----------
    skipped
        Functions inside the function that the environment gives a meaning.
    """

    skipped: frozenset[str] = frozenset()

    def function(self, node: ast.FunctionDef | ast.Lambda) -> Values:
        """Write the function; its results, a tree."""
        if isinstance(node, ast.Lambda):
            body: list[ast.stmt] = [ast.copy_location(ast.Return(node.body), node.body)]
        else:
            body = node.body
        try:
            normal = normalise(body)
        except TooManyPaths:
            raise self.error(node, "too many early exits inside one another; join the "
                                   "conditions or split the function") from None
        self.assigned = assigned(normal) - self.skipped
        self.run(normal)
        return self.env[RESULT]

    def flat(self, node: ast.AST, results: Values) -> list[Any]:
        """The results of a function that is no part of another."""
        for r in results if isinstance(results, tuple) else ():
            if isinstance(r, tuple):
                raise self.error(node, "a returned tuple must not hold a tuple; "
                                       "return a flat one")
        return [self.number(node, r) for r in leaves(results)]

    def run(self, body: Sequence[ast.stmt]) -> None:
        """Write the statements `body`."""
        for s in body:
            self.emitter.line = s.lineno
            handler = _STATEMENTS.get(type(s))
            if handler is None:
                raise self.error(s, f"{words(s)} is not part of the scalar language. "
                                    f"{ALLOWED}")
            handler(self, s)

    def assign(self, s: ast.Assign) -> None:
        """``a = b = value``."""
        first = s.targets[0]
        stem = first.id if isinstance(first, ast.Name) else "t"
        values = self.values(s.value, stem)
        if values == () and stem != RESULT:
            raise self.error(s, "the call gives no result to assign")
        for target in s.targets:
            self.bind(target, values)

    def annotated(self, s: ast.AnnAssign) -> None:
        """``a: type = value``; the annotation says nothing."""
        if s.value is not None:
            self.assign(ast.copy_location(ast.Assign([s.target], s.value), s))

    def augmented(self, s: ast.AugAssign) -> None:
        """``a += value``; an index is computed once."""
        target = s.target
        if isinstance(target, ast.Subscript):
            place = self.place(target)
            old = self.number(target, place.load())
            place.store(self.operate(s, old, self.value(s.value), "t"))
            return
        if not isinstance(target, ast.Name):
            raise self.error(s, _NO_STORE)
        read = ast.copy_location(ast.Name(target.id, ast.Load()), target)
        old = self.value(read)
        self.bind(target, self.operate(s, old, self.value(s.value), target.id))

    def bind(self, target: ast.expr, values: Values) -> None:
        """Assign `values` to a name, an element, or a tuple of these."""
        if isinstance(target, ast.Name):
            self.env[target.id] = values
            return
        if isinstance(target, ast.Subscript):
            self.place(target).store(values)
            return
        if not isinstance(target, (ast.Tuple, ast.List)):
            raise self.error(target, _NO_STORE)
        names = target.elts
        if not isinstance(values, tuple) or len(values) != len(names):
            got = f"tuple of {len(values)}" if isinstance(values, tuple) else "number"
            raise self.error(target, f"cannot unpack a {got} into {len(names)} names")
        for part, value in zip(names, values, strict=True):
            self.bind(part, value)

    def expression(self, s: ast.Expr) -> None:
        """A call for its effects, or a docstring."""
        if isinstance(s.value, ast.Constant):  # a docstring
            return
        found = self.values(s.value)
        last = self.emitter.statements[-1:]
        if last and isinstance(last[0], Let) and last[0].op == "atomic" and \
                last[0].attr == "add" and last[0].results == (found,):
            # Nobody reads the old value, so that the addition has a derivative.
            self.emitter.statements[-1] = replace(last[0], results=(), op="atomic_add",
                                                  attr=None)

    def nothing(self, s: ast.Pass) -> None:
        """``pass``."""

    def inner(self, s: ast.FunctionDef) -> None:
        """A function inside, unless the environment gives its name a meaning."""
        if s.name not in self.skipped:
            self.env[s.name] = Closure(s.name, s, self, self.defaults(s))

    def closure(self, node: ast.Lambda, stem: str) -> Values:
        """A lambda."""
        return Closure("lambda", node, self, self.defaults(node))

    def defaults(self, node: ast.FunctionDef | ast.Lambda) -> dict[str, Values]:
        """The defaults of a function inside, computed where it is defined."""
        a = node.args
        names = [p.arg for p in (*a.posonlyargs, *a.args)]
        pairs = [*zip(reversed(names), reversed(a.defaults), strict=False),
                 *((p.arg, d) for p, d in zip(a.kwonlyargs, a.kw_defaults, strict=True)
                   if d is not None)]
        return {name: self.values(d) for name, d in pairs}

    def conditional(self, s: ast.If) -> None:
        """``if``: a branch, unless it is known which."""
        truth = self.condition(s.test)
        if isinstance(truth, Literal):
            return self.run(s.body if truth.value else s.orelse)
        return self.split(s, truth, partial(self.run, s.body),
                          partial(self.run, s.orelse))

    def split(self, s: ast.stmt, truth: Value, then: Callable[[], None],
              orelse: Callable[[], None]) -> None:
        """A branch: ``then()`` where `truth`, else ``orelse()``."""
        with self.branch() as (one_body, a):
            then()
        with self.branch() as (other_body, b):
            orelse()
        for one, other in ((a, b), (b, a)):
            if RESULT in one:  # not read where it is unset: a flag or the end says so
                other.setdefault(RESULT, _unset(one[RESULT]))
        for side, own in ((a, b), (b, a)):
            for name in side:  # a second name must not depend on the branch
                if name in own and side[name] is not own[name]:
                    self.unshared(s, name, side)
        names = sorted(set(a) & set(b))
        pairs = {n: (a[n], b[n]) for n in names}
        merged = self.merge(s, truth, (one_body, other_body), pairs)
        self.env.clear()
        self.env.update(zip(names, merged, strict=True))

    def mismatch(self, name: str, a: Values, b: Values) -> str:
        """What to say of branches that differ in shape."""
        if name == RESULT:
            name = "return"
            if a == () or b == ():
                return ("some paths return a value and others do not; end every path "
                        "with a return")
        return super().mismatch(name, a, b)


def _unset(values: Values) -> Values:
    return rebuild(values, map(_unset, values)) if isinstance(values, tuple) else UNSET


_NO_STORE = "only names, elements v[i], and tuples of these are assigned"

_STATEMENTS: dict[type[ast.stmt], Callable[..., None]] = {
    ast.Assign: Statements.assign, ast.AnnAssign: Statements.annotated,
    ast.AugAssign: Statements.augmented, ast.Expr: Statements.expression,
    ast.Pass: Statements.nothing, ast.If: Statements.conditional,
    ast.FunctionDef: Statements.inner, Loop: Loops.loop,
}
