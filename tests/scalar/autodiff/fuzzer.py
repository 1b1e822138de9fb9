"""Derivatives of random programs, both modes, two orders, against differences.

``python -m tests.scalar.autodiff.fuzzer --programs 2000 [--first 0] [--device cuda
--every 1]``
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from unittest import mock

import numpy as np

import nbfused as nf
from nbfused.dispatch import execute
from nbfused.scalar.autodiff import preferences
from nbfused.scalar.autodiff.differentiate import jvp, vjp
from nbfused.scalar.autodiff.preferences import Sizes, preferring
from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.ir.nodes import Function
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.typing.types import specialize
from nbfused.specs import Map
from tests.scalar.autodiff.random_programs import Program, compiled

#: Checkpoints so small that a handful of iterations needs every level of them.
TINY = {"checkpoint": Sizes(exact=3, slots=2, hinted=4),
        "recompute": Sizes(exact=1, slots=1, hinted=1)}
COUNTS = (0, 1, 2, 3, 5, 9)
STEP = 3e-5
Arrays = tuple[np.ndarray, ...]


@dataclass
class Outcome:
    """What was compared, what was left out, and what was wrong."""

    points: int = 0
    skipped: int = 0
    wrong: list[str] = field(default_factory=list)

    def compare(self, what: str, got: np.ndarray, expected: np.ndarray,
                usable: np.ndarray) -> None:
        """Note the points at which `got` differs."""
        close = np.isclose(got, expected, rtol=2e-4, atol=2e-5)
        if not np.all(close | ~usable):
            bad = np.flatnonzero(~close & usable)
            self.wrong.append(f"{what}: point {bad[0]}: got {got[bad[0]]!r}, "
                              f"expected {expected[bad[0]]!r}")


def points(seed: int) -> Arrays:
    """x, y, n; a direction, and seeds of the cotangents."""
    rng = np.random.default_rng(seed)
    n = np.repeat(COUNTS, 2)
    return (*rng.uniform(-1.5, 1.5, (2, n.size)), n,
            *rng.uniform(-1, 1, (4, n.size)))


def run(function: Function, *args: np.ndarray) -> np.ndarray:
    """Every result at every point."""
    return np.stack([np.broadcast_to(r, args[0].shape) for r in evaluate(
        function, *args)])


def difference(function: Function, at: Arrays, along: Arrays,
               step: float) -> np.ndarray:
    """The central difference of every result, along a direction."""
    pair = [run(function, *(a + s*step*d if d.any() else a for a, d in zip(
        at, along, strict=True))) for s in (1.0, -1.0)]
    return (pair[0] - pair[1])/(2*step)


def differences(function: Function, at: Arrays,
                along: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """As `difference`, and where it does not depend on the step: no kink is near."""
    with np.errstate(all="ignore"):
        wide = difference(function, at, along, STEP)
        narrow = difference(function, at, along, STEP/7)
        smooth = np.isclose(wide, narrow, rtol=1e-4, atol=1e-5) & (abs(wide) < 1e4)
    return narrow, smooth


def overflows(program: Callable[..., object], x: np.ndarray, y: np.ndarray,
              n: np.ndarray) -> np.ndarray:
    """Where a value on the way is beyond float64, so that its derivative is, too."""
    found = np.zeros(x.shape, bool)
    for k, at in enumerate(zip(x, y, n, strict=True)):
        with np.errstate(over="raise"):
            try:
                program(at[0], at[1], int(at[2]))
            except FloatingPointError:
                found[k] = True
    return found


def check(seed: int, device: str = "", orders: int = 2) -> Outcome:
    """Compare every derivative of a program with differences, and with a device's."""
    outcome = Outcome()
    text = Program(seed).text()
    try:
        with mock.patch.dict(preferences.PREFERENCES, TINY):
            program = compiled(text, str(seed))
            f = preferring(parse(program), [*TINY][seed % 3 == 2])
            finite = ~overflows(program, *points(seed)[:3])
            _check(f, seed, device, orders, finite, outcome)
    except Exception as error:
        outcome.wrong.append(f"{type(error).__name__}: {error}")
    if outcome.wrong:
        outcome.wrong = [f"program {seed}\n{text}", *outcome.wrong]
    return outcome


def _check(f: Function, seed: int, device: str, orders: int, finite: np.ndarray,
           outcome: Outcome) -> None:
    x, y, n, dx, dy, *g = points(seed)
    g = g[:len(f.results)]
    zero = np.zeros_like(x)
    wrt = (True, True, False)
    still = (zero,)*len(g)
    reverse = vjp(f, wrt, (True,)*len(g))
    forward = jvp(f, wrt)
    slopes, smooth = differences(f, (x, y, n), (dx, dy, 0*n))
    usable = smooth.all(axis=0) & finite
    gx, gy = run(reverse, x, y, n, *g)
    tangents = run(forward, x, y, n, dx, dy)[len(g):]
    outcome.compare("jvp", sum(t*s for t, s in zip(tangents, g, strict=True)),
                    sum(t*s for t, s in zip(slopes, g, strict=True)), usable)
    outcome.compare("vjp", gx*dx + gy*dy,
                    sum(t*s for t, s in zip(slopes, g, strict=True)), usable)
    printed(reverse, (x, y, n, *g), (gx, gy), device, outcome)
    outcome.points += x.size
    outcome.skipped += int(x.size - usable.sum())
    if orders == 1:
        return
    curves, bent = differences(reverse, (x, y, n, *g), (dx, dy, 0*n, *still))
    fine = usable & bent.all(axis=0)
    second(f, reverse, forward, (x, y, n), (dx, dy), tuple(g), curves, fine, outcome)


def second(f: Function, reverse: Function, forward: Function, at: Arrays,
           along: Arrays, g: Arrays, curves: np.ndarray, usable: np.ndarray,
           outcome: Outcome) -> None:
    """Hessian-vector products, in each of the four ways; one of them in two."""
    count = len(g)
    wrt, rest = (True, True, False), (False,)*count
    twice = vjp(reverse, wrt + rest, (True, True))
    found = run(twice, *at, *g, *along)
    plain = vjp.__wrapped__(replace(reverse, origin=None), wrt + rest, (True, True))
    slow = run(plain, *at, *g, *along)
    both = jvp(reverse, wrt + rest)
    onward = run(both, *at, *g, *along)[2:]
    back = vjp(forward, (*wrt, False, False), (False,)*count + (True,)*count)
    again = run(back, *at, *along, *g)
    further = run(jvp(forward, (*wrt, False, False)), *at, *along, *along)
    last = sum(t*s for t, s in zip(further[3*count:], g, strict=True))
    total = sum(c*d for c, d in zip(curves, along, strict=True))
    for k in (0, 1):
        outcome.compare(f"vjp of vjp, {k}", found[k], curves[k], usable)
        outcome.compare(f"reverse of reverse, {k}", slow[k], curves[k], usable)
        outcome.compare(f"jvp of vjp, {k}", onward[k], curves[k], usable)
        outcome.compare(f"vjp of jvp, {k}", again[k], curves[k], usable)
    outcome.compare("jvp of jvp", last, total, usable)


def printed(function: Function, args: Arrays, expected: Arrays, device: str,
            outcome: Outcome) -> None:
    """The typed function, and a kernel on `device`, give the same."""
    ways = {"typed": evaluate(specialize(function, tuple(a.dtype for a in args)),
                              *args)}
    if device:
        kernel = Map(function, ("element",)*len(args))
        found = execute(kernel, [nf.array(a, device=device) for a in args])
        ways[device] = tuple(nf.to_numpy(r) for r in found)
    for what, results in ways.items():
        for got, want in zip(results, expected, strict=True):
            outcome.compare(what, np.broadcast_to(got, want.shape), want,
                            np.isfinite(want))


def main(arguments: Sequence[str] | None = None) -> int:
    """Check many programs; the exit status says whether any was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--every", type=int, default=5,
                        help="one program in so many is compiled too")
    parser.add_argument("--orders", type=int, default=2, choices=(1, 2))
    options = parser.parse_args(arguments)
    total = Outcome()
    for seed in range(options.first, options.first + options.programs):
        compiled_too = seed % options.every == 0
        found = check(seed, options.device if compiled_too else "", options.orders)
        total.points += found.points
        total.skipped += found.skipped
        if found.wrong:
            total.wrong.append(found.wrong[0])
            print("\n".join(found.wrong), flush=True)
    print(f"{options.programs} programs, {total.points} points, {total.skipped} "
          f"skipped near kinks or overflow, {len(total.wrong)} programs wrong")
    return bool(total.wrong)


if __name__ == "__main__":
    sys.exit(main())
