"""Random Python functions with every kind of jump, for comparing two executions."""

from __future__ import annotations

import random

NAMES = ("x", "y", "a", "b", "k")
RANGES = ("3", "n", "1, n", "n, 0, -1", "0, 5, 2", "4, n, -2")

#: What the generated functions call.
PRELUDE = """\
def g(p, q=2.0):
    if p > q: return p - q
    return p*0.25


"""


class Program:
    """The text of one function of x, y and the small integer n; it terminates."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.loops = 0

    def text(self, name: str) -> str:
        self.lines = [f"def {name}(x, y, n):", "    a = 1.0", "    b = x", "    k = 0"]
        for _ in range(self.random.randint(2, 6)):
            self.statement(1, 0, False)
        return "\n".join([*self.lines, f"    {self.result()}"]) + "\n\n\n"

    def expression(self, depth: int = 0) -> str:
        def e() -> str:
            return self.expression(depth + 1)

        r = self.random
        c = r.random()
        if depth > 2 or c < 0.3:
            return r.choice((*NAMES, "1", "2", "0.5", "-3"))
        if c < 0.6:
            return f"({e()} {r.choice('+-*')} {e()})*0.5"
        if c < 0.7:
            return f"({e()} if {self.condition(depth + 1)} else {e()})"
        if c < 0.8:
            return f"max({e()}, {e()})"
        if c < 0.87:
            return f"({e()} {r.choice(('and', 'or'))} {e()})"
        return f"g({e()}, q={e()})" if c < 0.93 else f"abs({e()})"

    def condition(self, depth: int = 0) -> str:
        def e() -> str:
            return self.expression(depth + 1)

        r = self.random
        c = r.random()
        if c < 0.5 or (depth > 2 and c < 0.9):
            return f"{e()} {r.choice(('<', '<=', '>', '>=', '==', '!='))} {e()}"
        if c < 0.6:
            return f"{e()} < {e()} < {e()}"
        if c < 0.8:
            pair = self.condition(depth + 1), self.condition(depth + 1)
            return f"({pair[0]} {r.choice(('and', 'or'))} {pair[1]})"
        return f"not ({self.condition(depth + 1)})" if c < 0.9 else e()

    def result(self) -> str:
        return f"return {self.expression()}, {self.expression()}"

    def block(self, indent: int, depth: int, loop: bool) -> None:
        for _ in range(self.random.randint(1, 3)):
            self.statement(indent, depth, loop)

    def statement(self, indent: int, depth: int, loop: bool) -> None:
        r = self.random
        c = r.random() * (0.35 if depth > 2 or len(self.lines) > 30 else 1.0)
        if c < 0.35:
            self.write(indent, self.assignment(c))
        elif c < 0.7:
            self.branch(indent, depth, loop)
        elif c < 0.86:
            self.loops += 1
            (self.for_loop if c < 0.8 else self.while_loop)(indent, depth)
        elif c < 0.94 and loop:
            self.write(indent, r.choice(("break", "continue")))
        else:
            self.write(indent, self.result() if c < 0.97 else "pass")

    def write(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def assignment(self, c: float) -> str:
        r = self.random
        if c < 0.25:
            return f"{r.choice('abk')} = {self.expression()}"
        if c < 0.3:
            return f"{r.choice('abk')} {r.choice('+-')}= {self.expression()}"
        return f"a, b = {self.expression()}, {self.expression()}"

    def branch(self, indent: int, depth: int, loop: bool) -> None:
        self.write(indent, f"if {self.condition()}:")
        self.block(indent + 1, depth + 1, loop)
        if self.random.random() < 0.3:
            self.write(indent, f"elif {self.condition()}:")
            self.block(indent + 1, depth + 1, loop)
        if self.random.random() < 0.5:
            self.write(indent, "else:")
            self.block(indent + 1, depth + 1, loop)

    def for_loop(self, indent: int, depth: int) -> None:
        r = self.random
        target = r.choice(("k", f"i{self.loops}"))
        self.write(indent, f"for {target} in range({r.choice(RANGES)}):")
        self.block(indent + 1, depth + 1, True)

    def while_loop(self, indent: int, depth: int) -> None:
        counter = f"j{self.loops}"
        bounded = self.random.random() < 0.5
        self.write(indent, f"{counter} = 0")
        self.write(indent, f"while {counter} < 4 and {self.condition()}:" if bounded
                   else "while True:")
        self.write(indent + 1, f"{counter} += 1")
        leave = self.random.choice(("break", self.result()))
        self.write(indent + 1, f"if {counter} > 4: {leave}")
        self.block(indent + 1, depth + 1, True)
