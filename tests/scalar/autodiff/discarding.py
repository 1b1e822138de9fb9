"""Random programs with singular values that are computed and not used.

``python -m tests.scalar.autodiff.discarding --programs 2000``: reverse mode gives what
forward mode gives, wherever that is finite.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field, replace
from unittest import mock

import numpy as np

from nbfused.scalar.autodiff import preferences
from nbfused.scalar.autodiff.differentiate import jvp, vjp
from nbfused.scalar.autodiff.preferences import preferring
from nbfused.scalar.ir.nodes import Function
from nbfused.scalar.parse.functions import parse
from tests.scalar.autodiff.fuzzer import TINY, points, run
from tests.scalar.autodiff.random_programs import Program, compiled

#: Infinite or NaN, or with such a derivative, where `{0}` is 0.
SINGULAR = ("1.0/({0})", "log({0})", "({0})**0.5", "({0})**-1", "cbrt({0})",
            "asin(1.0 + ({0}))", "acosh(1.0 + ({0}))", "y % ({0})", "rsqrt({0})",
            "exp(1000.0 + ({0}))", "({0})**-0.5*a", "atanh(1.0 - ({0}))", "lgamma({0})")


class Discarding(Program):
    """Now and then a variable is singular, and then perhaps replaced."""

    def statement(self, indent: int, depth: int, loop: bool) -> None:
        if self.random.random() < 0.65:
            return super().statement(indent, depth, loop)
        r = self.random
        self.write(indent, f"w = {self.singular()}")
        return r.choice((self.replaced, self.selected, self.branched, self.looped,
                         self.unused))(indent)

    def singular(self) -> str:
        """At 0, or where an expression is."""
        r = self.random
        e = self.expression(1)
        zero = r.choice((f"({e} - {e})", f"({e} - {e})", f"x*{e}", "(x - y)",
                         *(f"({i} - 1)*{e}" for i in self.indices)))
        return r.choice(SINGULAR).format(f"1.0*{zero}")

    def truth(self) -> str:
        return self.random.choice((self.condition(), "x > 0.0", "k > 2", "x != y"))

    def replaced(self, indent: int) -> None:
        self.write(indent, f"if {self.truth()}:")
        self.write(indent + 1, f"w = 0.3*{self.expression()}")
        self.used(indent)

    def selected(self, indent: int) -> None:
        self.write(indent, f"w = where({self.truth()}, w*{self.number()}, "
                           f"{self.expression()})")
        self.used(indent)

    def branched(self, indent: int) -> None:
        self.write(indent, f"u = tanh(w + {self.number()})")
        self.write(indent, f"if {self.truth()}:")
        self.write(indent + 1, f"{self.random.choice('abc')} += 0.2*u")
        if self.random.random() < 0.5:
            self.write(indent, f"if {self.truth()}:")
            self.write(indent + 1, f"{self.random.choice('abc')} += 0.1*w*u")

    def looped(self, indent: int) -> None:
        """The last value is not used, or none is."""
        r = self.random
        self.loops += 1
        index = f"i{self.loops}"
        self.write(indent, f"w = {self.expression()}")
        self.write(indent, f"for {index} in range({r.choice(('n', '2', '3'))}):")
        self.write(indent + 1, f"{r.choice('abc')} += 0.1*tanh(w)")
        self.indices.append(index)
        if r.random() < 0.5:
            self.write(indent + 1, f"if {self.truth()}:")
            self.write(indent + 2, f"w = {self.singular()}")
        else:
            self.write(indent + 1, f"w = {self.singular()}")
        self.indices.pop()

    def unused(self, indent: int) -> None:
        self.write(indent, f"u, w = pair(w, {self.expression()})")
        self.used(indent)

    def used(self, indent: int) -> None:
        r = self.random
        self.write(indent, f"{r.choice('abc')} {r.choice(('=', '+='))} tanh(w)")


@dataclass
class Outcome:
    """Points that were compared, those that were left out, and what was wrong."""

    points: int = 0
    skipped: int = 0
    wrong: list[str] = field(default_factory=list)

    def compare(self, mode: str, got: np.ndarray, expected: np.ndarray) -> None:
        """Where the expected numbers are finite."""
        usable = np.isfinite(expected).all(axis=0)
        close = np.isclose(got, expected, rtol=1e-6, atol=1e-9*_scale(expected))
        bad = np.flatnonzero(usable & ~close.all(axis=0))
        self.points += usable.size
        self.skipped += int(usable.size - usable.sum())
        if bad.size:
            self.wrong.append(f"{mode}: point {bad[0]}: got {got[:, bad[0]]}, "
                              f"forward mode {expected[:, bad[0]]}")


def _scale(values: np.ndarray) -> float:
    return 1 + float(np.max(np.abs(values), where=np.isfinite(values), initial=0))


def check(seed: int) -> Outcome:
    """Compare the derivatives of a program by every mode with those in forward mode."""
    outcome = Outcome()
    text = Discarding(seed).text()
    with mock.patch.dict(preferences.PREFERENCES, TINY), np.errstate(all="ignore"):
        f = preferring(parse(compiled(text, f"discarding {seed}")),
                       [*TINY][seed % 3 == 2])
        _first(f, seed, outcome)
        _second(f, seed, outcome)
    if outcome.wrong:
        outcome.wrong = [f"program {seed}\n{text}", *outcome.wrong]
    return outcome


def _places(seed: int) -> tuple[np.ndarray, ...]:
    """As the fuzzer's points, some of them at 0 and on the diagonal."""
    x, y, *rest = points(seed)
    x[::3] = 0.0
    y[1::4] = x[1::4]
    return x, y, *rest


def _first(f: Function, seed: int, outcome: Outcome) -> None:
    x, y, n, _, _, *g = _places(seed)
    count = len(f.results)
    one, zero = np.ones_like(x), np.zeros_like(x)
    forward = jvp(f, (True, True, False))
    slopes = [sum(t*s for t, s in zip(run(forward, x, y, n, *d)[count:], g,
                                      strict=False))
              for d in ((one, zero), (zero, one))]
    found = run(vjp(f, (True, True, False), (True,)*count), x, y, n, *g[:count])
    outcome.compare("vjp", found, np.stack(slopes))


def _second(f: Function, seed: int, outcome: Outcome) -> None:
    x, y, n, dx, dy, *g = _places(seed)
    count = len(f.results)
    g = g[:count]
    wrt, rest = (True, True, False), (False,)*count
    one, zero = np.ones_like(x), np.zeros_like(x)
    forward, reverse = jvp(f, wrt), vjp(f, wrt, (True,)*count)
    twice = jvp(forward, (*wrt, False, False))
    curves = np.stack([sum(t*s for t, s in zip(run(
        twice, x, y, n, dx, dy, *d)[3*count:], g, strict=True))
        for d in ((one, zero), (zero, one))])
    plain = vjp.__wrapped__(replace(reverse, origin=None), wrt + rest, (True, True))
    back = vjp(forward, (*wrt, False, False), rest + (True,)*count)
    outcome.compare("vjp of vjp", run(vjp(reverse, wrt + rest, (True, True)),
                                      x, y, n, *g, dx, dy), curves)
    outcome.compare("reverse of reverse", run(plain, x, y, n, *g, dx, dy), curves)
    outcome.compare("jvp of vjp", run(jvp(reverse, wrt + rest), x, y, n, *g, dx,
                                      dy)[2:], curves)
    outcome.compare("vjp of jvp", run(back, x, y, n, dx, dy, *g), curves)


def main() -> int:
    """Check many programs; the exit status says whether any was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    total = Outcome()
    for seed in range(options.first, options.first + options.programs):
        found = check(seed)
        total.points += found.points
        total.skipped += found.skipped
        if found.wrong:
            total.wrong.append(found.wrong[0])
            print("\n".join(found.wrong), flush=True)
    print(f"{options.programs} programs, {total.points} points, {total.skipped} "
          f"skipped, {len(total.wrong)} programs wrong")
    return bool(total.wrong)


if __name__ == "__main__":
    sys.exit(main())
