"""Loops and jumps against Python's own execution."""

from __future__ import annotations

import importlib.util
import random

import pytest

from nbfused.errors import ScalarSyntaxError
from nbfused.scalar.ir.nodes import For, If, While, literal, walk
from nbfused.scalar.parse.functions import parse
from tests.scalar.evaluation import evaluate
from tests.scalar.parse.programs import PRELUDE, Program
from tests.variants import sampled


def triangle(n):
    total = 0
    for i in range(n):
        total += i
    return total


def polynomial(n):
    p, q = 1, (0, 1)
    for k in range(n, -n, -2):
        p, q = p * k + q[0], (q[1], p)
    return p, q[0]


def loop_variable(n):
    i = 9
    for i in range(2, n):  # noqa: B007 - it is read afterwards
        pass
    return i


def first_divisor(n):
    for d in range(2, n):
        if n % d == 0:
            break
    else_value = n
    d = 0
    for d in range(2, n):
        if n % d == 0:
            else_value = d
            break
    return else_value, d


def odd_sum(n):
    total = 0
    for i in range(n):
        if i % 2 == 0:
            continue
        total += i
    return total


def collatz(n):
    if n < 1:
        return -1
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def forever(n):
    k = 0
    while True:
        k += 1
        if k * k > n:
            return k, n


def found_in_nest(n):
    count = 0
    for i in range(n):
        for j in range(i):
            count += 1
            if i * j == 12:
                return i, j, count
            if j > 4:
                break
        if count > 100:
            break
    return 0, 0, count


def static(n):
    total = n
    for k in range(10, 0, -3):
        total += k
    for _ in range(5, 2):
        total = 0
    return total


def rebound(n):
    stop = n
    total = 0
    for i in range(stop):
        stop = 0
        i = i + 10
        total += i
    return total, stop


@pytest.mark.parametrize("pyfunc", [
    triangle, polynomial, loop_variable, odd_sum, collatz, forever,
    found_in_nest, static, rebound,
], ids=lambda f: f.__name__)
def test_loops(pyfunc):
    function = parse(pyfunc)
    for n in range(-2, 12):
        assert evaluate(function, n) == pyfunc(n)


def test_loop_variable_after_a_break():
    function = parse(first_divisor)
    for n in range(3, 30):
        assert evaluate(function, n) == first_divisor(n)


def test_loops_keep_their_kind():
    assert [type(s) for s in walk(parse(triangle).body)].count(For) == 1
    (while_,) = [s for s in walk(parse(collatz).body) if isinstance(s, While)]
    assert len(while_.params) == 2
    assert not [s for s in walk(parse(odd_sum).body) if isinstance(s, While)]


def test_static_trip_counts_are_numbers():
    counts = [s.count for s in walk(parse(static).body) if isinstance(s, For)]
    assert counts == [literal(4), literal(0)]


def test_a_branch_that_returns_copies_nothing():
    def guards(x):
        if x < 0:
            return 0
        if x < 1:
            return 1
        if x < 2:
            return 2
        return x * x * x

    function = parse(guards)
    assert [type(s) for s in walk(function.body)].count(If) == 3
    products = [s for s in walk(function.body) if getattr(s, "op", "") == "mul"]
    assert len(products) == 2


def test_too_many_paths():
    text = "def f(x):\n" + "".join(
        f"    if x > {k}:\n        if x < {-k}: return {k}\n" for k in range(30))
    with pytest.raises(ScalarSyntaxError, match="too many early exits"):
        parse(module(text + "    return x\n").f)


#: Each generated module is a file of its own, as the source is read from it.
FILES = 0


@pytest.fixture(autouse=True)
def _folder(tmp_path):
    global FOLDER
    FOLDER = tmp_path


def module(text):
    """Import a module that consists of `text`."""
    global FILES
    FILES += 1
    path = FOLDER / f"generated_{FILES}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.mark.parametrize("seed", sampled(range(0, 200, 50), 0, 50))
def test_random_programs(seed):
    seeds = range(seed, seed + 50)
    programs = module(PRELUDE + "".join(Program(s).text(f"f{s}") for s in seeds))
    for s in seeds:
        pyfunc = getattr(programs, f"f{s}")
        function = parse(pyfunc)
        r = random.Random(s)
        for _ in range(10):
            x = r.choice([r.uniform(-3, 3), float(r.randint(-2, 2))])
            args = x, r.uniform(-3, 3), r.randint(-1, 5)
            assert evaluate(function, *args) == pyfunc(*args), f"seed {s}, {args}"
