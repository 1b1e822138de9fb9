"""Random kernels of vectors, matrices, quaternions and structs, and Python's threads.

The text of a kernel runs in plain Python as well, thread after thread, on arrays whose
elements are the same classes.  Threads keep to elements of their own, or add.
"""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

import nbfused as nf
from nbfused.scalar.language import composite

THREADS = 3
#: The kinds of values, and the expressions that give one; a letter is a value of that
#: kind: n(umber), v(ec3), w (vec2), m(atrix), q(uaternion).
EXPRESSIONS = {
    "n": ["{n} + {n}", "{n} * {n}", "0.5 * {n} - 0.25", "nf.sin({n})", "nf.tanh({n})",
          "nf.dot({v}, {v})", "nf.length({v} + nf.vec3(3.0))", "{v}.y", "{w}.x * {w}.y",
          "nf.determinant({m})", "{m}[1, 2]", "{q}.w", "nf.dot({q}, {q})",
          "{n} / ({n} * {n} + 2.0)", "{v}[2]", "nf.exp(-({n}) * ({n}))"],
    "v": ["{v} + {v}", "{v} - {n} * {v}", "{v} * {v}", "-{v}", "nf.cross({v}, {v})",
          "nf.normalize({v} + nf.vec3(0.0, 4.0, 0.0))", "{m} @ {v}", "{v} @ {m}",
          "{m}[1]", "nf.vec3({w}.x, {n}, {w}.y)", "{v}.zxy", "nf.sin({v})",
          "nf.rotate({q}, {v})", "{v} / (1.0 + {n} * {n})", "nf.vec3({n})"],
    "w": ["{v}.xz", "{w} + {w}", "{n} * {w}", "nf.vec2({n}, {n})", "nf.cos({w})"],
    "m": ["{m} + {m}", "0.3 * ({m} @ {m})", "nf.transpose({m})", "nf.outer({v}, {v})",
          "nf.inverse(0.1 * {m} + nf.diagonal(nf.vec3(3.0)))", "nf.diagonal({v})",
          "nf.matrix_from_rows({v}, {v}, {v})", "nf.quat_to_matrix({q})"],
    "q": ["{q} * {q}", "nf.normalize({q} + nf.quat(0.0, 0.0, 0.0, 5.0))",
          "nf.conjugate({q})", "0.5 * {q} + {q}",
          "nf.quat_from_axis_angle(nf.normalize({v} + nf.vec3(0.0, 4.0, 0.0)), {n})"],
}
#: The class of each kind; a field that a variable of that kind is changed in.
FIELDS = {"v": "xyz", "w": "xy", "q": "xyzw"}


class Particle(NamedTuple):
    place: nf.vec3
    turn: nf.quat
    mass: float


#: What is stored to: in the kernel, the kind, and in plain Python.
TARGETS = [("x[t]", "v", "x", ""), ("x[t].y", "n", "x", "y"), ("m[t]", "m", "m", ""),
           ("p[t].place", "v", "p.place", ""), ("p[t].turn", "q", "p.turn", ""),
           ("p[t].mass", "n", "p.mass", ""), ("p[t].turn.z", "n", "p.turn", "z"),
           ("m[t][1, 2]", "n", "m", "m12"), ("s[t]", "n", "s", "")]


HEAD = """\
def k(x: nf.DiffView[nf.vec3], m: nf.DiffView[nf.mat33], p: nf.DiffView[Particle],
      s: nf.DiffView, total: nf.DiffView[nf.vec3], n):
    t = nf.grid(1)
"""


class Program:
    """Text of a kernel, and of the same in plain Python; equal seeds, equal texts."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.kernel, self.python, self.count = [], [], 0
        self.known = {"n": ["s[t]", "p[t].mass", "float(n)"], "w": ["x[t].xy"],
                      "v": ["x[t]", "p[t].place", "x[t]"], "m": ["m[t]"],
                      "q": ["p[t].turn"]}
        self.block(1)
        self.add(1)

    @property
    def text(self):
        return HEAD + "\n".join(self.kernel) + "\n"

    @property
    def plain(self):
        return HEAD + "\n".join(self.python) + "\n"

    def write(self, depth, kernel, python=None):
        self.kernel.append("    " * depth + kernel)
        self.python.append("    " * depth + (python or kernel))

    def expression(self, kind, depth=0):
        if depth > 2 or self.random.random() < 0.35:
            return self.random.choice(self.known[kind])
        text, inner = self.random.choice(EXPRESSIONS[kind]), {}
        for letter in "nvwmq":
            while f"{{{letter}}}" in text:
                inner = f"({self.expression(letter, depth + 1)})"
                text = text.replace(f"{{{letter}}}", inner, 1)
        return text

    def block(self, depth):
        for _ in range(self.random.randint(2, 4)):
            self.random.choice([self.assign, self.assign, self.change, self.store,
                                self.store, self.add, self.repeat, self.branch])(depth)

    def assign(self, depth):
        kind = self.random.choice("nvwmq")
        name = f"{kind}{self.count}"
        self.count += 1
        self.write(depth, f"{name} = {self.expression(kind)}")
        self.known[kind] = [*self.known[kind], name]

    def own(self, kinds):
        return [n for k in kinds for n in self.known[k] if n[1:].isdigit()]

    def change(self, depth):
        """A component of a variable, or the whole of it."""
        names = self.own("vwqm")
        if not names:
            return
        name = self.random.choice(names)
        kind, value = name[0], self.expression("n")
        if kind == "m":
            i, j = self.random.randrange(3), self.random.randrange(3)
            self.write(depth, f"{name}[{i}, {j}] = {value}",
                       f"{name} = {name}._replace(m{i}{j}={value})")
        elif self.random.random() < 0.5:
            field = self.random.choice(FIELDS[kind])
            self.write(depth, f"{name}.{field} = {value}",
                       f"{name} = {name}._replace({field}={value})")
        else:
            self.write(depth, f"{name} += {self.expression(kind)}")

    def store(self, depth):
        """An element, a component of one, or a field; by a value, or changed by it."""
        target, kind, array, name = self.random.choice(TARGETS)
        value = f"0.5 * ({self.expression(kind)})"
        if self.random.random() < 0.3:
            self.write(depth, f"{target} += {value}",
                       f"{array}.put(t, {name!r}, {target} + {value})")
        else:
            self.write(depth, f"{target} = {value}",
                       f"{array}.put(t, {name!r}, {value})")

    def add(self, depth):
        value = self.expression("v")
        self.write(depth, f"nf.atomic.add(total, t % 2, {value})",
                   f"total.put(t % 2, '', total[t % 2] + {value})")

    def inside(self, head, depth):
        before = {k: list(v) for k, v in self.known.items()}
        self.write(depth, head)
        if depth < 3:
            self.block(depth + 1)
        self.write(depth + 1, "pass")
        self.known = before

    def repeat(self, depth):
        self.inside(f"for _ in range({self.random.choice(['2', 'n', 't'])}):", depth)

    def branch(self, depth):
        self.inside(f"if {self.random.choice(['t % 2', 'n > 1', 't > 0'])}:", depth)
        if self.random.random() < 0.5:
            self.inside("else:", depth)


# Plain Python -------------------------------------------------------------------------


class Elements:
    """An array whose elements are of a class, in plain Python; None: numbers."""

    def __init__(self, array, cls=None):
        self.array, self.cls = array, cls

    def __getitem__(self, i):
        return self.cls(*self.array[i].ravel().tolist()) if self.cls else \
            self.array[i].item()

    def put(self, i, name, value):
        """Store an element, or the component of that name."""
        if name:
            self.array[i].reshape(-1)[self.cls._fields.index(name)] = value
        else:
            self.array[i] = np.asarray(value)


class Structs:
    """An array of structs: an `Elements` for each field."""

    def __init__(self, **fields):
        self.fields = fields
        self.__dict__.update(fields)

    def __getitem__(self, i):
        return SimpleNamespace(**{n: f[i] for n, f in self.fields.items()})


def reference(program, arrays, n):
    """What the threads leave in copies of the arrays, one after the other."""
    x, m, place, turn, mass, s, total = found = [a.copy() for a in arrays]
    thread = SimpleNamespace(**{name: getattr(nf, name) for name in dir(nf) if name in (
        "atomic", *composite.__all__, "sin", "cos", "exp", "tanh")})
    names = {"nf": thread, "Particle": Particle}
    exec(program.plain.replace(HEAD, "def k(t, x, m, p, s, total, n):\n"), names)
    for t in range(THREADS):
        names["k"](t, Elements(x, nf.vec3), Elements(m, nf.mat33), Structs(
            place=Elements(place, nf.vec3), turn=Elements(turn, nf.quat),
            mass=Elements(mass)), Elements(s), Elements(total, nf.vec3), n)
    return found


def given(seed):
    """Arrays for a program: x, m, the fields of p, s and total."""
    rng = np.random.default_rng(seed)
    shapes = (THREADS, 3), (THREADS, 3, 3), (THREADS, 3), (THREADS, 4), (THREADS,), \
        (THREADS,), (2, 3)
    return [rng.uniform(-1, 1, shape) for shape in shapes]
