"""Draws programs: each statement is kept if NumPy runs it and rounding does not decide.

A statement is drawn from the tables of `catalogue`, run with NumPy on what the program
has computed so far, and dropped where its values are too large, where rounding changes
a truth value or an index, or where NumPy refuses it.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.fuzz.arguments import argument_list
from tests.fuzz.catalogue import EXPRESSIONS, STATEMENTS, Row
from tests.fuzz.flavors import FLAVORS, WRITES, Flavor
from tests.fuzz.holes import HOLES, NoFit, operand_of
from tests.fuzz.oracles import ORACLES
from tests.fuzz.program import Program, Statement
from tests.fuzz.refusals import REFUSALS
from tests.fuzz.rounding import Run, run, spread

__all__ = ["Draft", "draw"]

_HOLE = re.compile(r"\{([^{}]+)\}")
_MOST = 1e3  # larger values are where rounding and overflow decide
_STATEMENTS, _TRIES = 10, 40
_ROUNDS = "rounds"  # not a feature: an operand that is computed, and rounded


def draw(seed: int) -> tuple[str, Program]:
    """The name of a flavor, and a program of it."""
    rng = np.random.default_rng(seed)
    names = [*FLAVORS]
    weights = np.array([FLAVORS[n].weight for n in names])
    name = names[rng.choice(len(names), p=weights / weights.sum())]
    return name, Draft(FLAVORS[name], rng).finish()


class Draft:
    """A program that grows, with the values that its names have at its end."""

    def __init__(self, flavor: Flavor, rng: np.random.Generator) -> None:
        self.flavor, self.rng = flavor, rng
        self.program = Program(argument_list(self))
        self.scope: dict[str, Any] = run(self.program).scope or {}
        self._names = 0

    def finish(self) -> Program:
        """Add statements, and choose results."""
        for _ in range(self.integer(2, _STATEMENTS)):
            self.grow(self.statement)
        if self.flavor.refused:
            self.grow(self.refusal)
        return replace(self.program, results=self.results())

    def results(self) -> tuple[str, ...]:
        """The last names, and some others; one may be there twice."""
        names = [n for n in self.scope if n.startswith("t")][-self.integer(1, 4):]
        if not names or self.chance(0.2):
            names.append(self.choose([*self.scope]))
        return tuple(names)

    # Random choices.

    def chance(self, p: float) -> bool:
        """True in a share `p` of all cases."""
        return bool(self.rng.random() < p)

    def integer(self, low: int, high: int) -> int:
        """At least `low`, below `high`."""
        return int(self.rng.integers(low, high))

    def choose(self, items: Sequence[Any]) -> Any:
        """One of the items."""
        if not len(items):
            raise NoFit
        return items[self.integer(0, len(items))]

    def sample(self, items: Iterable[Any], count: int) -> list[Any]:
        """Some of the items, in any order."""
        given = list(items)
        return [given[k] for k in self.rng.permutation(len(given))[:count]]

    # What is at hand.

    def arrays(self, kinds: str = "biufc", ndim: int = 0) -> list[tuple[str, Any]]:
        """Names with their arrays; the last ones several times."""
        found = [(n, x) for n, x in self.scope.items() if isinstance(
            x, (np.ndarray, np.generic)) and x.dtype.kind in kinds and x.ndim >= ndim]
        return found + found[-2:] * 2

    def numbers(self) -> list[str]:
        """Names of arguments that are numbers, or have no dimensions."""
        return [n for n, x in self.scope.items()
                if n.startswith("n") and not np.ndim(x)]

    def new_name(self) -> str:
        """One that is not taken."""
        self._names += 1
        return f"t{self._names}"

    @staticmethod
    def broadcast(x: Any, y: Any) -> bool:
        """Whether two arrays can stand beside one another."""
        try:
            np.broadcast_shapes(x.shape, y.shape)
        except ValueError:
            return False
        return True

    def evaluate(self, text: str) -> Any:
        """The value of an expression over the names."""
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = eval(text, {"np": np, "ops": ORACLES}, self.scope)
            except (TypeError, ValueError, IndexError, ArithmeticError) as error:
                raise NoFit from error
        return found if hasattr(found, "dtype") else np.asarray(found)

    # Statements.

    def rows(self, table: Sequence[Row]) -> Row:
        """A row that this flavor has, by weight."""
        flavor = self.flavor
        rows = [r for r in table if not r.features & flavor.without
                and (r.smooth or not flavor.smooth)
                and (flavor.table or "table" not in r.features)]
        weights = np.array([r.weight * (1 + flavor.table * ("table" in r.features))
                            for r in rows])
        return rows[self.rng.choice(len(rows), p=weights / weights.sum())]

    def expression(self, like: Any = None, depth: int = 0) -> tuple[str, Row]:
        """An expression; `like` is what it should broadcast with."""
        for _ in range(_TRIES):
            row = self.rows(EXPRESSIONS)
            try:
                text, features, exact = self.fill(row, depth=depth, like=like)
                found = self.evaluate(text)
            except NoFit:
                continue
            if like is None or self.broadcast(found, like):
                return text, replace(row, features=features, exact=exact)
        raise NoFit

    def operand(self, kinds: str, row: Row, like: Any, depth: int,
                first: bool) -> tuple[str, Any, frozenset[str]]:
        """A name, or sometimes an expression, of one of the `kinds`."""
        if depth < 2 and depth >= 0 and self.chance(0.12):
            text, inner = self.expression(like, depth + 1)
            value = self.evaluate(text)
            if self.flavor.orders and not _finite(value):
                raise NoFit  # where it is chosen away, forward and reverse mode differ
            if value.dtype.kind in kinds and (not first or value.ndim >= row.ndim):
                text, value = operand_of(f"({text})", value, row.domain if first else (
                    -np.inf, np.inf), self.evaluate)
                return text, value, inner.features | {_ROUNDS}
        found = self.arrays(kinds, row.ndim if first else 0)
        if "view" in row.features:  # NumPy copies its scalars; ours have memory
            found = [(n, x) for n, x in found if isinstance(x, np.ndarray)]
        if like is not None and "@" not in row.text and self.chance(0.85):
            found = [(n, x) for n, x in found if self.broadcast(x, like)]
        text, value = self.choose(found)
        if first and depth >= 0 and not self.flavor.special:
            text, value = operand_of(text, value, row.domain, self.evaluate)
        return text, value, frozenset()

    def fill(self, row: Row, depth: int, like: Any = None,
             ) -> tuple[str, frozenset[str], bool]:
        """The text of a row, its features, and whether it is exact.

        A `depth` below 0 is that of statements: ``{a}`` has to be a name.
        """
        features, exact = row.features, row.exact
        texts: dict[str, str] = {}
        a = None
        for hole, kinds in zip("ab", [*row.kinds.split(","), row.kinds], strict=False):
            if f"{{{hole}}}" in row.text:
                texts[hole], value, more = self.operand(
                    kinds, row, like if a is None else a, depth, hole == "a")
                features, exact = features | more, exact and _ROUNDS not in more
                a = value if a is None else a

        def text_of(match: re.Match[str]) -> str:
            nonlocal features, exact
            if match[1] not in ("e", "s"):
                return texts.get(match[1]) or str(HOLES[match[1]](self, a))
            text, more, sure = self.part(match[1], a)
            features, exact = features | more, exact and sure
            return text

        text = _HOLE.sub(text_of, row.text)
        return text, features - {_ROUNDS}, exact

    def part(self, hole: str, like: Any) -> tuple[str, frozenset[str], bool]:
        """An expression or a statement within another, as `fill` gives it."""
        if hole == "e":
            text, row = self.expression(like)
            return text, row.features, row.exact
        made = self.simple()
        return made.text, made.features, False

    def simple(self) -> Statement:
        """A statement of one line."""
        for _ in range(_TRIES):
            row = self.rows(STATEMENTS)
            if "{s}" not in row.text:
                try:
                    return Statement(*self.fill(row, depth=-1))
                except NoFit:
                    continue
        raise NoFit

    def statement(self) -> Statement:
        """Any statement."""
        row = self.rows(STATEMENTS)
        return Statement(*self.fill(row, depth=-1))

    def refusal(self) -> Statement:
        """A statement that is refused."""
        row = self.choose(REFUSALS)
        text, features, _ = self.fill(row, depth=-1)
        return Statement(text, features | {"refused"})

    def grow(self, make: Any) -> None:
        """Add one statement that NumPy runs."""
        for _ in range(_TRIES):
            try:
                statement = make()
            except NoFit:
                continue
            longer = self.program.plus(statement)
            if "refused" in statement.features:
                self.program = longer
                return
            found = run(longer)
            if found.error is None and self.tame(found) and not self.rebound(
                    statement, found) and self.stable(longer, found):
                self.program, self.scope = longer, dict(found.scope or {})
                return

    def tame(self, found: Run) -> bool:
        """Whether values are neither large nor many."""
        return all(np.size(x) <= 400 and (self.flavor.special or _finite(x))
                   for x in (found.scope or {}).values())

    def rebound(self, statement: Statement, found: Run) -> bool:
        """Whether it changes a scalar of NumPy's, which is not done in place.

        Ours is an array without dimensions: a second name for it sees the change, and
        neither its shape nor its dtype changes.
        """
        if statement.features.isdisjoint(WRITES):
            return False
        names = [n for n, x in self.scope.items() if isinstance(x, np.generic)]
        viewed = {s.text.split(" = ")[0] for s in self.program.statements
                  if "view" in s.features}
        changed = [n for n in names if self.scope[n] is not found.scope[n]]
        return any(self.scope[n].dtype != found.scope[n].dtype
                   or np.shape(found.scope[n]) or n in viewed or any(
                       self.scope[n] is self.scope[m] for m in self.scope if m != n)
                   for n in changed)

    def stable(self, program: Program, found: Run) -> bool:
        """Whether another rounding changes no truth value and no value by much."""
        for k in (101, 102):
            other = run(program, np.random.default_rng(k))
            if other.error is not None or other.scope is None or not all(
                    _alike(x, other.scope.get(n)) for n, x in (
                        found.scope or {}).items()):
                return False
        return True


def _finite(x: Any) -> bool:
    x = np.asarray(x)
    return x.dtype.kind not in "fc" or bool(
        np.all(np.isfinite(x)) and np.max(np.abs(x), initial=0.0) < _MOST)


def _alike(x: Any, y: Any) -> bool:
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype.kind not in "fc":
        return bool(np.array_equal(x, y))
    if not np.array_equal(np.isfinite(x), np.isfinite(y)):
        return False
    with np.errstate(all="ignore"):
        scale = np.max(np.abs(np.where(np.isfinite(x), x, 0)), initial=0.0)
        return bool(np.all(spread(x, [y]) <= 0.03 * (scale + 1e-3)))

