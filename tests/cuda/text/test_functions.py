"""Statements that a kernel repeats are a function, which changes nothing else."""

import re
from collections import Counter

import ml_dtypes
import numpy as np
import pytest

import nbfused as nf
from nbfused.cuda.text import source
from nbfused.cuda.text.functions import function_of
from nbfused.cuda.text.source import Source
from tests.cuda.recorded import assembled, needs_compiler, recording, registers

rng = np.random.default_rng(0)


def run(function, arguments):
    """The results of a function's text."""
    names = {"math": __import__("math"), "f32": float, "pair": lambda a, b: (a, b)}
    exec("\n".join(function.text("f")), names)
    return names["f"](*arguments)


@pytest.mark.parametrize(("lines", "results", "given", "arguments", "expected"), [
    (["a = x + y", "b = a*x"], ["b"], ["x", "y"], [3, 4], 21),
    (["s = s + x", "s = s*2"], ["s"], ["s", "x"], [1, 5], 12),  # read, then set
    (["s += x - 1"], ["s"], ["s", "x"], [1, 5], 5),
    (["a, b, = pair(x, y)", "a, b = b, a"], ["a", "b"], ["x", "y"], [3, 4], (4, 3)),
    (["v = t[3] + t[1]"], ["v"], ["t[3]", "t[1]"], [3, 4], 7),
    (["t = pair(x, 1)", "v = t[0] + 1"], ["v"], ["x"], [3], 4),
    (["v = t[1]", "t = pair(v, 2)", "w = t[0]"], ["w"], ["t"], [(5, 6)], 6),
    (["v = x*2 + ((j + 8) + 3)"], ["v"], ["x", "((j + 8) + 3)"], [2, 11], 15),
    (["j = x*2", "v = (j + 8)"], ["v"], ["x"], [2], 12),
    (["if x < y:", "    a = x", "else:", "    a = y + math.inf"], ["a"], ["x", "y"],
     [1, 2], 1),
    (["a = f32(2.5) if x == y else -x"], ["a"], ["x", "y"], [2, 1], -2),
    (["a = z.real*2"], ["a"], ["z"], [3+1j], 6),
    (["k += 1", "if k == n:", "    k = 0", "    odd ^= 1"], ["k", "odd"],
     ["k", "n", "odd"], [2, 3, 0], (0, 1)),
    (["k += 1", "if k == n:", "    k = 0", "    odd ^= 1"], ["k", "odd"],
     ["k", "n", "odd"], [1, 3, 1], (2, 1)),
    (["p[1] = x", "p[x + 1] = 7", "a = p[0]"], ["a"], ["p", "x", "p[0]"],
     [[5, 6, 7, 8], 2, 5], 5),
])
def test_functions_compute_what_their_statements_do(lines, results, given, arguments,
                                                    expected):
    function, found = function_of(lines, results)
    assert list(found) == given
    assert run(function, arguments) == expected


def test_elements_of_a_tuple_are_one_argument():
    lines = ["a = t[9] + t[8]*x", "b = t[11] - u[1]"]
    function, given = function_of(lines, ["a", "b"], ["t", "none"])
    assert given == ("t[8:12]", "x", "u[1]")
    assert run(function, [(2, 3, 5, 7), 10, 4]) == (23, 3)
    later, given = function_of([line.replace("t[", "t[1") for line in lines],
                               ["a", "b"], ["t"])
    assert given[0] == "t[18:112]"
    assert later != function


def test_what_python_would_pass_in_a_list_stays_where_it_is():
    for count, found in ((30, True), (31, False)):
        lines = [f"a{k} = x{k}*2" for k in range(count)]
        assert (function_of(lines, ["a0"]) is not None) == found


def test_stores_reach_the_memory_of_the_caller():
    function, given = function_of(["p[1] = x"], [])
    assert given == ("x", "p") or given == ("p", "x")
    memory = [0, 0]
    assert run(function, [{"p": memory, "x": 3}[name] for name in given]) is None
    assert memory == [0, 3]


def test_sums_of_loops_stay_where_they_are():
    """The second turn reads what the first has set, under another name."""
    loop = ["k = 0", "while k < n:", "    s = s + k", "    k += 1"]
    assert function_of(loop, ["s"]) is None
    function, given = function_of(["s = 0", *loop], ["s"])
    assert given == ("n",)
    assert run(function, [4]) == 6


@pytest.mark.parametrize("line", [
    "s = cuda.shared.array(4, f32)", "cuda.syncthreads()", "printf('%d', x)",
    "for k in range(3):"])
def test_some_statements_stay_where_they_are(line):
    assert function_of(["a = x", line], ["a"]) is None


def alike(names):
    """Statements of two kernels' elements, under these names."""
    a, b = names
    return [f"{a}_0 = {b}*2", f"{a}_1 = {a}_0 + x", f"{a}_2 = {a}_1*{a}_0",
            f"{a}_3 = {a}_2 - 1", f"{a}_4 = {a}_3*{a}_3", f"{a}_5 = {a}_4 + {b}"]


@pytest.mark.parametrize(("times", "functions"), [(2, 0), (12, 1)])
def test_what_is_often_repeated_is_written_once(times, functions):
    out = Source("k")
    for k in range(times):
        with out.block("if x > 0:"), out.repeated([f"e{k}_5"]):
            out(*alike((f"e{k}", f"t[{k}]")))
    text = out.kernel(32).text
    assert text.count("def ") == 1 + functions
    assert text.count("*2\n") == (1 if functions else times)
    assert text.count("repeated0(t[") == times*functions


def test_functions_call_functions():
    out = Source("k")
    for part in range(6):
        with out.block("if x > 0:"), out.repeated(["total"], ["t"]):
            for k in range(4):
                with out.repeated([f"e{k}_5"]):
                    out(*alike((f"e{k}", f"t[{4*part + k}]")), *(
                        f"f{n} = x*{n}" for n in range(6)))
                out(f"total += e{k}_5")
    text = out.kernel(32).text
    assert text.count("def ") == 3
    assert text.count("= repeated0(") == 4
    assert re.findall(r"total = repeated1\(.*(t\[\d+:\d+\])", text) == [
        f"t[{k}:{k + 4}]" for k in range(0, 24, 4)]
    names = {}
    exec(text.split("def k(")[0], names)
    arguments = re.search(r"repeated1\((.*)\)\n", text[text.index("def k("):])[1]

    def value(x):
        s = 2*x
        s = (s + 3)*s - 1
        return s*s + x

    given = {"x": 3, "total": 5, "t": (1, 2, 3, 4)}
    assert names["repeated1"](*eval(f"({arguments})", {}, given)) == 5 + sum(
        map(value, (1, 2, 3, 4)))


def bfloat16(*shape):
    return rng.normal(size=shape).astype(ml_dtypes.bfloat16)


def adam():
    """A product whose epilogue updates a parameter and its moments."""
    x, g, p, m, v = bfloat16(256, 512), bfloat16(256, 1024), *(
        bfloat16(512, 1024) for _ in range(3))

    def step(x, g, p, m, v):
        nf.ops.adam_step(p, nf.ops.matmul(x.T, g), m, v, lr=0.1, step=2)

    nf.fuse(step)(x, g, p, m, v)


LAUNCHES = {
    "a product with Adam": adam,
    "a product with gelu": lambda: nf.ops.linear(
        bfloat16(1024, 512), bfloat16(512, 1024), bfloat16(1024), activation="gelu"),
    "sums of columns": lambda: nf.ops.var(bfloat16(4096, 4096), axis=0),
    "rows": lambda: nf.ops.log_softmax(bfloat16(64, 32000)),
    "a map": lambda: nf.ops.mish(rng.normal(size=1 << 16).astype("float16")),
}


def instructions(code):
    return Counter(re.findall(r"^\s+(?:@!?%p\d+ )?([a-z][\w.:]*)", code, re.M))


@pytest.mark.filterwarnings("ignore:fuse. step is decorated again")
@pytest.mark.parametrize("launch", LAUNCHES.values(), ids=LAUNCHES)
def test_kernels_have_the_same_instructions_with_functions(launch, monkeypatch):
    """Registers, and no spills, too."""
    needs_compiler()
    found = []
    for spared in (1 << 30, source.SPARED):
        monkeypatch.setattr(source, "SPARED", spared)
        with recording() as kernels:
            launch()
        found.append(max(kernels.values(), key=lambda k: len(k.text)))
    plain, short = found
    assert plain.text.count("def ") == 1 < short.text.count("def ")
    assert len(short.text) < len(plain.text)
    (a, said), (b, says) = (assembled(k) for k in found)
    assert instructions(a) == instructions(b)
    if said is not None:
        assert registers(said) == registers(says)
