"""Compares a way of running a program with NumPy: values, changes, memory, errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nbfused.errors import NbFusedError
from tests.fuzz.flavors import WRITES
from tests.fuzz.program import Program
from tests.fuzz.refusals import words_for
from tests.fuzz.rounding import Run, expected
from tests.fuzz.ways import WAYS, Way, quietly, to_numpy

__all__ = ["Outcome", "Reference", "check_refusal", "check_values"]

#: How many spreads, and units of eps, a value may be off.
_ALLOWED = 4.0
#: Classes by which errors of NumPy and of nbfused are caught.  An index of the wrong
#: type is a TypeError, as of Python's lists.
_CLASSES = (TypeError, ValueError, IndexError, OverflowError, AttributeError,
            ZeroDivisionError)


@dataclass
class Outcome:
    """What was found wrong, each line beginning with the way and the kind of fault.

    Attributes
    ----------
    counts
        How often each way was compared, or refused as it should.
    """

    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def note(self, way: str, kind: str, detail: str) -> None:
        """One fault."""
        self.wrong.append(f"{way}: {kind}: {detail}")

    @property
    def kinds(self) -> set[tuple[str, ...]]:
        """Ways and kinds of the faults."""
        return {tuple(line.split(": ")[:2]) for line in self.wrong}


@dataclass
class Reference:
    """What NumPy gives, and how far rounding carries it."""

    program: Program

    def __post_init__(self) -> None:
        self.run, *spreads = expected(self.program)
        self.results, self.arguments = spreads
        self._wide: tuple[list[Any], list[Any]] | None = None

    @property
    def steady(self) -> bool:
        """Whether rounding decides nothing, and leaves most digits."""
        return self.run.error is None and all(
            np.all(s <= (np.asarray(x).dtype.kind in "fc") * 0.03 * np.abs(x))
            for x, s in zip(self.run.results, self.results, strict=True))

    def pairs(self, what: str) -> Iterator[tuple[Any, Any, float]]:
        """NumPy's value, its spread, and the largest spread that many runs have."""
        for k, x in enumerate(getattr(self.run, what)):
            yield x, getattr(self, what)[k], lambda k=k: self._most(what, k)

    def _most(self, what: str, k: int) -> float:
        if self._wide is None:
            _, *self._wide = expected(self.program, runs=40)
        return float(np.max(self._wide[what == "arguments"][k], initial=0.0))


def check_values(way: str, reference: Reference, later: Reference,
                 outcome: Outcome) -> None:
    """Run twice, the second time from the cache, then with other numbers; compare."""
    program, how = reference.program, WAYS[way]
    turns = {"": reference, ", second call": reference, ", other numbers": later}
    with quietly():
        call = how.made(program)
        for turn, compared in turns.items():
            if turn and not compared.steady:
                continue
            given = [how.pass_(x) for x in compared.program.values()]
            try:
                found = call(*given)
            except Exception as error:
                if how.refuses_it(program, error):
                    outcome.counts[f"{way}, refused"] += 1
                else:
                    outcome.note(f"{way}{turn}", type(error).__name__, str(error))
                return
            found, given = ([to_numpy(x) for x in xs] for xs in (found, given))
            _compare(found, given, f"{way}{turn}", how, compared, outcome)
            if outcome.wrong:
                return
    outcome.counts[way] += 1


def _compare(found: Sequence[Any], given: Sequence[Any], way: str, how: Way,
             reference: Reference, outcome: Outcome) -> None:
    for what, got in (("results", found), ("arguments", given)):
        for k, (y, (x, spread, most)) in enumerate(zip(got, reference.pairs(what),
                                                       strict=True)):
            fault = difference(x, y, spread, most, how.as_numpy)
            if fault:
                outcome.note(way, *fault(f"{what[:-1]} {k}"))
    pairs = [(a, b) for a in range(len(found)) for b in range(a + 1,
             len(found) + len(given))]
    # NumPy's ravel copies what is not contiguous, ours what cannot be viewed.
    ours, theirs = [*found, *given], [*reference.run.results, *reference.run.arguments]
    features = reference.program.features
    for a, b in pairs if how.as_numpy and "ravel" not in features else ():
        fault = _memory(ours[a], ours[b], theirs[a], theirs[b])
        # A view of an argument that is changed is one of its new value, made apart.
        if fault and not (fault.startswith("does") and features & WRITES):
            outcome.note(way, "memory", f"result {a} {fault} {_name(b, len(found))}")


def _name(k: int, results: int) -> str:
    return f"result {k}" if k < results else f"argument {k - results}"


def _memory(a: Any, b: Any, x: Any, y: Any) -> str:
    """How two of our values share memory otherwise than NumPy's."""
    if not all(isinstance(v, np.ndarray) and v.ndim for v in (a, b, x, y)):
        return ""  # NumPy makes scalars of views without dimensions
    ours, theirs = np.shares_memory(a, b), np.shares_memory(x, y)
    if ours == theirs:
        return ""
    return "shares memory with" if ours else "does not share memory with"


def difference(x: Any, y: Any, spread: Any, most: Any, dtypes: bool = True) -> Any:
    """What is wrong with `y`, where NumPy has `x`; None if nothing is."""
    x, y = np.asarray(x), np.asarray(y)
    if dtypes and x.dtype != y.dtype:
        return lambda name: ("dtype", f"{name} is {y.dtype}, not {x.dtype}")
    if x.shape != y.shape:
        return lambda name: ("shape", f"{name} is {y.shape}, not {x.shape}")
    if _near(x, y, spread) or (x.dtype.kind in "fc" and _near(x, y, most())):
        return None
    return lambda name: ("value", f"{name} is\n{y!r}, not\n{x!r}")


def _near(x: np.ndarray, y: np.ndarray, spread: Any) -> bool:
    if x.dtype.kind not in "fc":
        return bool(np.array_equal(x, y))
    eps, tiny = (float(getattr(np.finfo(x.dtype), n)) for n in (
        "eps", "smallest_subnormal"))
    wide, got = x.astype(np.complex128), y.astype(np.complex128)
    allowed = _ALLOWED * (spread + eps * np.abs(np.where(np.isfinite(x), x, 0)) + tiny)
    same = (got == wide) | (np.isnan(x) & np.isnan(y))
    return bool(np.all(same | (np.isfinite(x) & (np.abs(got - wide) <= allowed))))


def check_refusal(program: Program, way: str, run: Run, outcome: Outcome) -> None:
    """Where NumPy raises, the same class of error; else NumPy's values, or ours."""
    how = WAYS[way]
    with quietly():
        try:
            how.made(program)(*[how.pass_(x) for x in program.values()])
        except Exception as error:
            if not how.refuses_it(program, error):
                _judge(program, way, error, run.error, outcome)
        else:
            if run.error is not None:
                outcome.note(way, "accepted", f"NumPy raises {run.error!r}")
    outcome.counts[f"{way}, error"] += 1


def _judge(program: Program, way: str, error: Exception, theirs: Exception | None,
           outcome: Outcome) -> None:
    if theirs is None:
        missing = [w for w in words_for(program.statements[-1].text)
                   if w not in str(error)]
        # Python's protocols say themselves which types met: a plain TypeError.
        if missing or not (isinstance(error, NbFusedError) or type(error) is TypeError):
            outcome.note(way, "refusal", f"{error!r}, without {missing}")
        return
    shared = [c for c in _CLASSES if isinstance(error, c) and isinstance(theirs, c)] \
        or (isinstance(error, TypeError) and type(theirs) is IndexError)
    own = isinstance(error, (NbFusedError, np.exceptions.AxisError)) or type(
        error) in (type(theirs), TypeError)
    if not shared or not own:
        outcome.note(way, "error", f"{error!r}, where NumPy raises {theirs!r}")
