"""Random kernels whose threads count the places of what they store, and Python's.

The text of a kernel runs in plain Python as well.  In which order threads come is
open, so that what is compared is a sum over all places.
"""

from __future__ import annotations

import random

import numpy as np

from tests.kernels.threads.styles.plain import plainly

__all__ = ["SIZE", "THREADS", "Program", "given", "total"]

THREADS, SIZE = 24, 400
#: Expressions of a number: `v`, elements of arrays, a counter `k` inside of loops.
EXPRESSIONS = ("{e} * {e}", "{e} + 0.5 * {e}", "nf.sin({e})", "nf.exp(-{e} * {e})",
               "{e} / (1.5 + {e} * {e})", "max({e}, 0.3 * {e} - 0.1)")
CONDITIONS = ("x[i] > 0.0", "i % 3 == 1", "v * v > 0.5", "i < n + 4", "w[i % 4] < 0.2")


class Program:
    """Text of a kernel; equal seeds, equal texts."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = ["def k(x, w, count, out, far, n):"]
        self.names = ["v", "x[i]", "w[i % 4]"]
        self.depth, self.fresh = 1, 0
        shared_out = self.random.random() < 0.3
        if shared_out:  # threads take one element after the other
            self.line("while True:")
            self.depth += 1
            self.line("i = nf.atomic.add(count, 2, 1)")
            self.line("if i >= x.shape[0]:")
            self.line("    break")
        else:
            self.line("i = nf.grid(1)")
        self.line("v = x[i]")
        for _ in range(self.random.randint(2, 4)):
            self.statement(2)
        self.push()

    @property
    def text(self):
        return "\n".join(self.lines) + "\n"

    def line(self, text):
        self.lines.append("    " * self.depth + text)

    def expression(self, depth=2):
        if not depth or self.random.random() < 0.2:
            return self.random.choice([*self.names, "0.7"])
        text = self.random.choice(EXPRESSIONS)
        while "{e}" in text:
            text = text.replace("{e}", self.expression(depth - 1), 1)
        return f"({text})"

    def statement(self, depth):
        getattr(self, self.random.choice(
            ["push", "push", "assign", "change", "branch", "loop", "repeat"]
            if depth else ["push", "assign", "change"]))(depth)

    def inside(self, head, depth):
        self.line(head)
        self.depth += 1
        names = list(self.names)
        for _ in range(self.random.randint(1, 2)):
            self.statement(depth - 1)
        self.names = names
        self.depth -= 1

    def push(self, depth=0):
        """Store at a place that is counted, one name for it or none."""
        counter, array = self.random.choice([(0, "out"), (1, "far")])
        value = self.expression()
        place = f"nf.atomic.add(count, {counter}, 1)"
        if self.random.random() < 0.5:
            self.fresh += 1
            self.line(f"slot{self.fresh} = {place}")
            place = f"slot{self.fresh}"
        self.line(f"{array}[{place}] = {value}")

    def assign(self, depth):
        self.line(f"v = {self.expression()}")

    def change(self, depth):
        self.line(f"x[i] = 0.8 * {self.expression()}")

    def branch(self, depth):
        self.inside(f"if {self.random.choice(CONDITIONS)}:", depth)
        if self.random.random() < 0.5:
            self.inside("else:", depth)

    def loop(self, depth):
        count = self.random.choice(["2", "n", "i % 3"])
        self.inside(f"for _ in range({count}):", depth)

    def repeat(self, depth):
        """A loop that the values end."""
        self.fresh += 1
        name = f"r{self.fresh}"
        self.line(f"{name} = 0.3 + v * v")
        self.inside(f"while {name} < 1.2:", depth)
        self.line(f"    {name} = 1.4 * {name} + 0.1")


def given(seed):
    """The arrays `x` and `w`."""
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, THREADS), rng.uniform(-0.5, 0.5, 4)]


def total(pyfunc, x, w, n):
    """What plain Python gives for the sum that is compared, and the counts."""
    arguments = {"x": x, "w": w, "count": np.zeros(3, int), "out": np.zeros(SIZE),
                 "far": np.zeros(SIZE), "n": n}
    out, far, x, count = plainly(pyfunc, "out far x count", THREADS, arguments)
    assert count.max() <= SIZE
    return (out * out).sum() + far.sum() - (far ** 3).sum() + (x * x).sum(), count
