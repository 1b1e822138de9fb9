"""Checks one program in every way its flavor has, and makes a failing one small."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.fuzz.derivatives import check_derivatives
from tests.fuzz.flavors import FLAVORS
from tests.fuzz.generator import draw
from tests.fuzz.program import Program, Statement
from tests.fuzz.rounding import run
from tests.fuzz.values import Outcome, Reference, check_refusal, check_values
from tests.fuzz.ways import WAYS, torch

__all__ = ["check", "report", "shrunk"]


def check(name: str, program: Program) -> Outcome:
    """Everything that is compared for a program of the flavor called `name`."""
    flavor, outcome = FLAVORS[name], Outcome()
    ways = [w for w in WAYS if w != "tensors" or (flavor.tensors and torch)]
    if flavor.refused:
        found = run(program)
        if isinstance(found.error, NameError):
            raise found.error
        for way in ("fused", "eager"):
            check_refusal(program, way, found, outcome)
        return outcome
    reference = Reference(program)
    if reference.run.error is not None:
        raise reference.run.error
    later = Reference(program.later)
    for way in ways:
        check_values(way, reference, later, outcome)
    if flavor.orders and not outcome.wrong:
        check_derivatives(program, flavor.orders, flavor.dtypes == ("f8",), outcome)
    return outcome


def shrunk(name: str, program: Program, kinds: set[tuple[str, ...]]) -> Program:
    """A smaller program that fails in one of the same ways."""
    def fails(candidate: Program) -> bool:
        try:
            return bool(check(name, candidate).kinds & kinds)
        except Exception:
            return False  # NumPy does not run it

    while True:
        smaller = next(filter(fails, _smaller(program)), None)
        if smaller is None:
            return program
        program = smaller


def _smaller(program: Program) -> Iterator[Program]:
    """Programs with something less."""
    for k in range(len(program.results) if len(program.results) > 1 else 0):
        yield _without(program, "results", k)
    for k in reversed(range(len(program.statements))):
        yield _without(program, "statements", k)
    for k in reversed(range(len(program.arguments))):
        yield _without(program, "arguments", k)
    for k, statement in enumerate(program.statements):
        for part in _parts(statement):
            yield replace(program, statements=(
                *program.statements[:k], part, *program.statements[k + 1:]))
    names = [a.name for a in program.arguments] + [
        s.text.split(" = ")[0] for s in program.statements if " = " in s.text]
    for k, result in enumerate(program.results):
        for n in names:
            if n.isidentifier() and (len(n), n) < (len(result), result):
                yield replace(program, results=(
                    *program.results[:k], n, *program.results[k + 1:]))


def _without(program: Program, what: str, k: int) -> Program:
    items = getattr(program, what)
    return replace(program, **{what: (*items[:k], *items[k + 1:])})


def _parts(statement: Statement) -> Iterator[Statement]:
    """The branches of a compound statement."""
    lines = statement.text.splitlines()
    starts = [k for k, line in enumerate(lines) if not line.startswith(" ")]
    if len(lines) > 1:
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            yield replace(statement,
                          text=textwrap.dedent("\n".join(lines[start + 1:end])))


def report(seed: int, shrink: Callable[..., Program] | None = shrunk,
           ) -> tuple[Outcome, str]:
    """Check the program of a seed; its outcome, and the text about a failure."""
    name, program = draw(seed)
    outcome = check(name, program)
    if not outcome.wrong:
        return outcome, ""
    if shrink is not None:
        program = shrink(name, program, outcome.kinds)
        outcome = check(name, program)
    return outcome, "\n".join([f"# program {seed}, {name}", program.reproduction,
                               *(f"# {line}" for text in outcome.wrong
                                 for line in text.splitlines())])
