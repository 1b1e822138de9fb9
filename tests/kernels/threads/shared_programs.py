"""Random kernels of one block that pass floating numbers through shared memory.

Barriers stand where all threads come, or all that have not left; shuffles where all
threads come, and they read lanes that the block has: CUDA leaves open what others hold.
"""

from __future__ import annotations

import random

from tests.kernels.threads import block_programs

THREADS = 8
#: Of a number: `{e}` is one, `{c}` an integer.
EXPRESSIONS = ("{e} * {e}", "{e} - 0.5 * {e}", "nf.sin({e})", "nf.tanh({e}) * {e}",
               "{e} / (1.5 + {e} * {e})", "max({e}, 0.3 * {e} - 0.1)")
CONDITIONS = ("x[t] > 0.0", "t % 2 == 1", "a > 0.2", "t < n")
#: Of a number `{v}`; `{c}` is an integer from 0 to 5.
SHUFFLES = ("nf.shfl_sync(ALL, {v}, {c})", "nf.shfl_sync(ALL, {v}, (t + {c}) % 8)",
            "nf.shfl_sync(ALL, {v}, n, width=4)", "nf.shfl_xor_sync(ALL, {v}, {c})",
            "nf.shfl_up_sync(ALL, {v}, {c})", "nf.shfl_up_sync(ALL, {v}, n)",
            "nf.shfl_up_sync(ALL, {v}, t % 3, width=4)",
            "nf.shfl_down_sync(ALL, {v}, {c}, width=8)",
            "nf.shfl_down_sync(ALL, {v}, 1, width=2)",
            "nf.shfl_down_sync(ALL, {v}, min({c}, 7 - t))")


class Program(block_programs.Program):
    """Text of a kernel ``k(x, y, n)``; equal seeds give equal texts."""

    def __init__(self, seed):
        self.random, self.count = random.Random(seed), 0
        self.own, self.lines = ["a", "x[t]"], []
        self.left, self.looped = False, False
        self.write(0, "def k(x, y, n):")
        self.write(1, "t = nf.threadIdx.x",
                   f"sh = nf.shared.array({THREADS}, 'float64')",
                   "sums = nf.shared.array((2, 4), 'float64')",
                   "sh[t] = x[t]", "sums[t % 2, t // 2] = x[t] * 0.5",
                   "a = x[t] * x[(t + 1) % 8]", "nf.syncthreads()")
        self.block(1, True)
        self.write(1, f"y[t] = a * {self.number()} + {self.number()}")

    def number(self, shared=True, depth=2):
        kind = self.random.random()
        if not depth or kind < 0.3:
            return self.random.choice([*self.own, "0.7"])
        if kind < 0.5 and shared:
            return self.random.choice([f"sh[(t + {self.random.randint(0, 5)}) % 8]",
                                       "sh[3]", "sums[t % 2, (t + n) % 4]"])
        text = self.random.choice(EXPRESSIONS)
        while "{e}" in text:
            text = text.replace("{e}", self.number(shared, depth - 1), 1)
        return f"({text})"

    def block(self, depth, alike):
        """Statements; `alike` says that all threads come here."""
        for _ in range(self.random.randint(2, 4)):
            self.random.choice([self.assign, self.exchange, self.add, self.shuffle,
                                self.leave, self.branch, self.repeat])(depth, alike)

    def assign(self, depth, alike):
        name = self.random.choice(["a", self.name()])
        self.write(depth, f"{name} = {self.number()}")
        self.own += [name] if name not in self.own else []

    def exchange(self, depth, alike):
        """A new element for each thread, or for some; one may be changed in place."""
        if not alike:
            return
        value = self.random.choice([self.number(shared=False),
                                    f"sh[t] * {self.number(shared=False)}"])
        condition = self.random.choice(["", "", f"if {CONDITIONS[1]}: "])
        self.write(depth, "nf.syncthreads()", f"{condition}sh[t] = {value}",
                   "nf.syncthreads()")

    def add(self, depth, alike):
        if alike:
            self.write(depth, "nf.syncthreads()",
                       f"nf.atomic.add(sums, (0, t % 4), {self.number(shared=False)})",
                       "nf.syncthreads()")

    def shuffle(self, depth, alike):
        if alike and not self.left:
            text = self.random.choice(SHUFFLES).format(
                v=self.number(), c=self.random.randint(0, 5))
            self.write(depth, f"a = a + {text}")

    def leave(self, depth, alike):
        """Some threads leave; loops with barriers may not come after that."""
        if depth == 1 and self.random.random() < 0.3:
            self.write(1, f"if {self.random.choice(CONDITIONS)}:",
                       f"    y[t] = {self.number(shared=False)}", "    return")
            self.left = True

    def inside(self, head, depth, alike):
        before = list(self.own)
        self.write(depth, head)
        self.block(depth + 1, alike) if depth < 3 else None
        self.write(depth + 1, "pass")
        self.own = before

    def branch(self, depth, alike):
        alike = alike and self.random.random() < 0.6
        self.inside("if n % 3 > 0:" if alike else
                    f"if {self.random.choice(CONDITIONS)}:", depth, alike)
        if self.random.random() < 0.5:
            self.inside("else:", depth, alike)

    def repeat(self, depth, alike):
        alike = alike and not self.left and self.random.random() < 0.7
        name = self.name()
        self.inside(f"for {name} in range({'n % 4' if alike else 't % 3'}):", depth,
                    alike)
