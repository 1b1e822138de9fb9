"""Random kernels of one block, and what they compute by threads of Python.

Barriers stand where all threads come: in branches and loops whose conditions are the
same for the block, and behind early returns.
"""

from __future__ import annotations

import random
import threading
from types import SimpleNamespace

THREADS = 6


class Program:
    """Text of a kernel ``k(x, y, n)``; equal seeds give equal texts."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines, self.count = [], 0
        self.own, self.uniform = ["t", "a"], ["n", "nf.blockDim.x"]
        self.returns = self.random.random() < 0.5
        self.write(0, "def k(x, y, n):")
        self.write(1, "t = nf.threadIdx.x", f"sh = nf.shared.array({THREADS}, 'int64')",
                   "sh[t] = x[t % 8]", "a = t * 3 + 1", "nf.syncthreads()")
        self.block(1, True)
        self.write(1, "nf.syncthreads()", "y[t] = a",
                   *(f"y[t] = (y[t] * 31 + {v}) & 65535" for v in self.own[2:]))

    @property
    def text(self):
        return "\n".join(self.lines) + "\n"

    def write(self, depth, *lines):
        self.lines += ["    " * depth + line for line in lines]

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def expression(self, shared=True, depth=0):
        kind = self.random.random()
        if depth > 1 or kind < 0.4:
            return self.random.choice([*self.own, *self.uniform, "2", "5"])
        inner = self.expression(shared, depth + 1)
        if kind < 0.5:
            return f"x[({inner}) % 8]"
        if kind < 0.65 and shared:
            return f"sh[({inner}) % {THREADS}]"
        operator = self.random.choice("+-*^&")
        return f"({inner} {operator} {self.expression(shared, depth + 1)})"

    def alike(self):
        """The same for all threads, 0 to 2."""
        return self.random.choice(["(n + 1) % 3", "x[3] % 3", "2",
                                   *(f"{u} % 3" for u in self.uniform)])

    def block(self, depth, alike):
        """Statements; `alike` says that all threads come here."""
        for _ in range(self.random.randint(1, 4)):
            self.random.choice([self.assign, self.exchange, self.leave, self.branch,
                                self.repeat, self.count_down])(depth, alike)

    def assign(self, depth, alike):
        name = self.random.choice(["a", self.name()])
        self.write(depth, f"{name} = ({self.expression()}) & 1023")
        self.own += [name] if name not in self.own else []

    def exchange(self, depth, alike):
        if alike:
            self.write(depth, "nf.syncthreads()",
                       f"sh[t] = ({self.expression(shared=False)}) & 1023",
                       "nf.syncthreads()")

    def leave(self, depth, alike):
        if depth == 1 and self.returns:
            self.write(1, f"if ({self.expression(shared=False)}) % 5 == 1:",
                       "    y[t] = -5", "    return")

    def inside(self, head, depth, alike, own=(), uniform=()):
        before = list(self.own), list(self.uniform)
        self.own += own
        self.uniform += uniform
        self.write(depth, head)
        self.block(depth + 1, alike) if depth < 4 else None
        self.write(depth + 1, "pass")
        self.own, self.uniform = before

    def branch(self, depth, alike):
        alike = alike and self.random.random() < 0.6
        condition = f"{self.alike()} > 0" if alike else f"({self.expression()}) % 2"
        self.inside(f"if {condition}:", depth, alike)
        if self.random.random() < 0.5:
            self.inside("else:", depth, alike)

    def repeat(self, depth, alike):
        alike = alike and self.random.random() < 0.7
        times = self.alike() if alike else f"({self.expression()}) & 3"
        self.inside(f"for {self.name()} in range({times}):", depth, alike)

    def count_down(self, depth, alike):
        if alike:
            name = self.name()
            self.write(depth, f"{name} = {self.alike()}")
            self.inside(f"while {name} > 0:", depth, True, uniform=[name])
            self.lines.insert(len(self.lines), "    " * (depth + 1) + f"{name} -= 1")


class Barrier:
    """Waits for all threads that are alive."""

    def __init__(self):
        self.changed = threading.Condition()
        self.alive, self.waiting, self.round = THREADS, 0, 0

    def __call__(self):
        with self.changed:
            mine = self.round
            self.waiting += 1
            self.release()
            while self.round == mine:
                assert self.changed.wait(20), "a thread never came"

    def leave(self):
        with self.changed:
            self.alive -= 1
            self.release()

    def release(self):
        if self.alive and self.waiting == self.alive:
            self.round, self.waiting = self.round + 1, 0
            self.changed.notify_all()


def reference(text, x, n):
    """What the block stores into `y`, by threads of Python."""
    y, shared, barrier, errors = [0]*THREADS, [0]*THREADS, Barrier(), []

    def run(t):
        names = {"nf": SimpleNamespace(
            threadIdx=SimpleNamespace(x=t), blockDim=SimpleNamespace(x=THREADS),
            syncthreads=barrier, shared=SimpleNamespace(array=lambda *_: shared))}
        exec(text, names)
        try:
            names["k"](x, y, n)
        except Exception as error:
            errors.append(error)
        barrier.leave()

    threads = [threading.Thread(target=run, args=(t,)) for t in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    return y
