"""Random differentiable programs of the scalar language, as Python text."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from typing import Any

from nbfused.scalar.language.names import (
    acosh,
    asin,
    atanh,
    cbrt,
    exp,
    lgamma,
    log,
    rsqrt,
    select,
    sin,
    sqrt,
    tanh,
)
from nbfused.scalar.source.static import local

#: What the programs call, and a number that they capture.
PRELUDE = """\
def g(p, q):
    if p > q:
        return tanh(p - q)*q
    return p*0.25 + q*q*0.1


def pair(p, q):
    return tanh(p*q), p - 0.5*q


"""
NAMESPACE: dict[str, Any] = {
    "tanh": tanh, "sin": sin, "exp": exp, "sqrt": sqrt, "local": local, "W": 0.7,
    "acosh": acosh, "asin": asin, "atanh": atanh, "cbrt": cbrt, "lgamma": lgamma,
    "log": log, "rsqrt": rsqrt, "where": select}
VARIABLES = ("x", "y", "a", "b", "c")
RANGES = ("2", "3", "n", "n + 1", "1, n + 2", "n, 0, -1", "0, 2*n, 2", "k, k + n")


class Program:
    """The text of one function of the floats x and y and the integer n; it ends."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.loops = 0
        self.array = self.random.random() < 0.3
        self.indices: list[str] = []

    def text(self, name: str = "f") -> str:
        """The definition of ``f(x, y, n)``, which returns one number or two."""
        self.returns = self.random.choice((1, 1, 2))
        self.lines = [f"def {name}(x, y, n):", "    a = x", "    b = 0.5*y + 0.1",
                      "    c = 0.3", "    k = 1"]
        if self.array:
            self.write(1, "v = local(3)")
        for _ in range(self.random.randint(2, 5)):
            self.statement(1, 0, False)
        self.write(1, self.result())
        return PRELUDE + "\n".join(self.lines) + "\n"

    def write(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    # Expressions -------------------------------------------------------------------

    def number(self) -> str:
        """A leaf."""
        r = self.random
        if self.array and r.random() < 0.2:
            return f"v[{self.position()}]"
        if r.random() < 0.7:
            return r.choice(VARIABLES)
        return r.choice(("0.5", "2", "1.25", "-0.75", "W", "k", *self.indices))

    def position(self) -> str:
        return self.random.choice(("0", "1", "2", "k % 3"))

    def expression(self, depth: int = 0) -> str:
        """Bounded where its operands are of order one."""
        def e() -> str:
            return self.expression(depth + 1)

        if depth > 1 or self.random.random() < 0.2:
            return self.number()
        return self.random.choice((
            lambda: f"0.5*({e()} + {e()})", lambda: f"({e()} - 0.4*{e()})",
            lambda: f"tanh({e()}*{e()})", lambda: f"sin({e()})*{self.number()}",
            lambda: f"{e()}/(1.5 + ({e()})**2)", lambda: f"sqrt(1.0 + ({e()})**2)",
            lambda: f"exp(-({e()})**2)", lambda: f"max({e()}, {e()})",
            lambda: f"min({e()}, {e()})", lambda: f"abs({e()})",
            lambda: f"({e()} if {self.condition()} else {e()})",
            lambda: f"g({e()}, {e()})", lambda: f"tanh({e()})**3",
        ))()

    def condition(self) -> str:
        """A comparison of floats, of integers, or two of them."""
        r = self.random
        one = f"{self.number()} {r.choice('<>')} {self.number()}"
        c = r.random()
        if c < 0.6:
            return f"{self.number()}*{self.number()} {r.choice('<>')} 0.3"
        if c < 0.75:
            return f"k % 2 == {r.choice('01')}"
        return one if c < 0.85 else f"({one} {r.choice(('and', 'or'))} k > 2)"

    def result(self) -> str:
        return "return " + ", ".join(f"{self.expression()} + 0.1*a"
                                     for _ in range(self.returns))

    # Statements --------------------------------------------------------------------

    def block(self, indent: int, depth: int, loop: bool) -> None:
        for _ in range(self.random.randint(1, 3)):
            self.statement(indent, depth, loop)

    def statement(self, indent: int, depth: int, loop: bool) -> None:
        r = self.random
        c = r.random() * (0.45 if depth > 2 or len(self.lines) > 22 else 1.0)
        if c < 0.45:
            self.write(indent, self.assignment())
        elif c < 0.62:
            self.branch(indent, depth, loop)
        elif c < 0.8:
            self.for_loop(indent, depth)
        elif c < 0.92:
            self.while_loop(indent, depth)
        else:
            leave = ["break", "continue"] if loop else []
            self.write(indent, f"if {self.condition()}:")
            self.write(indent + 1, r.choice((*leave, self.result())))

    def assignment(self) -> str:
        r = self.random
        c = r.random()
        if self.array and c < 0.2:
            return f"v[{self.position()}] += 0.3*{self.expression()}"
        if c < 0.55:
            return f"{r.choice('abc')} = {self.expression()}"
        if c < 0.7:
            return f"{r.choice('abc')} += 0.2*{self.expression()}"
        if c < 0.8:
            return f"k += {r.choice('12')}"
        first, second = r.sample("abc", 2)
        if c < 0.9:
            return f"{first}, {second} = {second}, {self.expression()}"
        return f"{first}, {second} = pair({self.expression()}, {self.expression()})"

    def branch(self, indent: int, depth: int, loop: bool) -> None:
        self.write(indent, f"if {self.condition()}:")
        self.block(indent + 1, depth + 1, loop)
        if self.random.random() < 0.5:
            self.write(indent, "else:")
            self.block(indent + 1, depth + 1, loop)

    def for_loop(self, indent: int, depth: int) -> None:
        self.loops += 1
        index = f"i{self.loops}"
        self.write(indent, f"for {index} in range({self.random.choice(RANGES)}):")
        self.indices.append(index)
        self.block(indent + 1, depth + 1, True)
        self.indices.pop()

    def while_loop(self, indent: int, depth: int) -> None:
        """Counted, or until a float that the derivative flows through is small."""
        r = self.random
        self.loops += 1
        j = f"j{self.loops}"
        if r.random() < 0.5:
            self.write(indent, f"{j} = 0")
            test = r.choice((f"{j} < n", f"{j} < 4 and {self.condition()}"))
            self.write(indent, f"while {test}:")
            self.write(indent + 1, f"{j} += 1")
        else:
            self.write(indent, f"{j} = 1.0 + abs({self.number()})")
            self.write(indent, f"while {j} > 0.37:")
            self.write(indent + 1, f"{j} *= {r.choice(('0.55', '0.7'))}")
            self.write(indent + 1, f"a = tanh(a + 0.1*{j})")
        self.block(indent + 1, depth + 1, True)


def compiled(text: str, name: str) -> Callable[..., Any]:
    """The function ``f`` of `text`, whose source `inspect` finds."""
    pyfile = f"<random program {name}>"
    linecache.cache[pyfile] = (len(text), None, text.splitlines(True), pyfile)
    scope = dict(NAMESPACE)
    exec(compile(text, pyfile, "exec"), scope)
    found: Callable[..., Any] = scope["f"]
    return found
