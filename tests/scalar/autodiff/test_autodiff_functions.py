"""Functions that derivatives must get right: both modes, two orders, every dtype."""

from __future__ import annotations

import re
from functools import cache
from itertools import product
from types import FunctionType, SimpleNamespace

import ml_dtypes  # noqa: F401  (NumPy knows bfloat16 by name)
import numpy as np
import pytest
from mpmath import mp

import nbfused as nf
from nbfused.cpu.text.intrinsics import INTRINSICS
from nbfused.scalar.autodiff.differentiate import checkpoint_bytes, jvp, vjp
from nbfused.scalar.autodiff.preferences import preferring
from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.printing.numba import CUDA_CALLS, statements
from nbfused.scalar.typing.types import specialize
from tests.scalar.autodiff import autodiff_functions as functions
from tests.scalar.kernels import compiled
from tests.variants import sampled, sampled_together

#: Values of the floating arguments, and the integer argument if there is one.
CASES = {
    "swish": [(-2.0,), (0.0,), (3.0,)],
    "stable_silu": [(-40.0,), (0.7,), (40.0,)],
    "gelu_tanh": [(-1.5,), (0.0,), (2.0,)],
    "gelu_erf": [(-1.5,), (0.0,), (2.0,)],
    "softplus": [(-100.0,), (0.3,), (100.0,)],
    "newton_for": [(0.3,), (2.0,), (9.0,)],
    "newton_while": [(0.3,), (2.0,), (9.0,)],
    "dynamic": [(1.3, 0.8, n) for n in (0, 1, 32, 33, 1025)],
    "piecewise": [(-1.0, 0.5), (-1.0, -3.0), (-1.0, -1.5), (2.0, 0.5), (0.5, 2.0),
                  (4.0, 2.0)],
    "sphere_trace": [(-3.0, 0.1, 1.0), (-2.0, 0.3, 0.7)],
    "horner": [(0.7, 0.3, 1.2, n) for n in (0, 1, 7, 40)] + [(0.7, 0.3, 120.0, 5)],
    "triangular": [(0.4, 0.3, n) for n in (0, 1, 2, 9)],
    "nested_calls": [(0.3,), (-0.5,)],
    "safe_branch": [(2.0,), (-1.0,)],
    "powers": [(-1.5,), (2.0,)],
    "product": [(0.4, n) for n in (0, 1, 31, 65, 1030)],
    "around": [(0.4, 1.3, n) for n in (0, 1, 40)],
    "local_array": [(0.4, 1.3, n) for n in (0, 1, 6)],
    "early": [(0.3, 1.1), (1.9, 0.9), (0.3, 0.1)],
    "captured": [(0.3, 1.1), (-1.0, 0.5)],
}
#: Of a derivative that mpmath takes ten seconds for: "product" has as many iterations.
LATE = ("dynamic", 4)
POINTS = [pytest.param(name, point, id=f"{name}-{k}",
                       marks=[pytest.mark.variants] if (name, k) == LATE else [])
          for name, points in CASES.items() for k, point in enumerate(points)]
MP = SimpleNamespace(**{n: getattr(mp, n) for n in (
    "exp", "tanh", "erf", "log", "log1p", "sqrt", "sin")})


def exact(name):
    """The same function on mpmath's numbers."""
    scope = {**vars(functions), "math": MP, "local": lambda n: [mp.mpf(0)]*n}
    for key, f in vars(functions).items():
        if isinstance(f, FunctionType) and f.__module__ == functions.__name__:
            scope[key] = FunctionType(f.__code__, scope)
    return scope[name]


def split(point):
    """The floating arguments and the integers."""
    floats = tuple(v for v in point if isinstance(v, float))
    return floats, point[len(floats):]


@cache
def reference(name, point, order):
    """All partial derivatives of an order, to 15 digits."""
    floats, integers = split(point)
    f = exact(name)
    orders = sorted({tuple(np.bincount(w, minlength=len(floats))) for w in
                     product(range(len(floats)), repeat=order)}, reverse=True)
    with mp.workdps(40):
        return {o: float(mp.diff(lambda *v: f(*v, *integers), floats,
                                 tuple(int(k) for k in o))) for o in orders}


@cache
def derivatives(name):
    """The primal, its gradient, the gradient's pullback."""
    f = parse(getattr(functions, name))
    floats, integers = split(CASES[name][0])
    wrt = (True,)*len(floats) + (False,)*len(integers)
    gradient = vjp(f, wrt, (True,))
    second = vjp(gradient, (*wrt, False), (True,)*len(floats))
    return f, gradient, second, jvp(f, wrt), jvp(gradient, (*wrt, False))


def units(count):
    return np.eye(count)


@pytest.mark.parametrize(("name", "point"), POINTS)
def test_interpreted(name, point):
    f, gradient, second, forward, onward = derivatives(name)
    floats, _ = split(point)
    count = len(floats)
    (value,) = reference(name, point, 0).values()
    np.testing.assert_allclose(evaluate(f, *point)[0], value, rtol=1e-12, atol=1e-14)
    first, curves = reference(name, point, 1), reference(name, point, 2)
    slopes = [first[tuple(int(v) for v in u)] for u in units(count)]
    np.testing.assert_allclose(evaluate(gradient, *point, 1.0), slopes, rtol=1e-9,
                               atol=1e-12)
    for k, u in enumerate(units(count)):
        np.testing.assert_allclose(evaluate(forward, *point, *u)[1], slopes[k],
                                   rtol=1e-9, atol=1e-12)
        row = [curves[tuple(int(a + b) for a, b in zip(u, w, strict=True))]
               for w in units(count)]
        for hessian in (evaluate(second, *point, 1.0, *u),
                        evaluate(onward, *point, 1.0, *u)[count:]):
            np.testing.assert_allclose(hessian, row, rtol=1e-7, atol=1e-9)


#: A function of each form: a formula, branches, loops that end in several ways, calls,
#: a local array.
FORMS = ("swish", "newton_while", "dynamic", "piecewise", "nested_calls", "early",
         "local_array")


#: Of which the second derivative is no long text.
SHORT = ("swish", "piecewise", "nested_calls")
MADE = ("f", "gradient", "second")


@pytest.mark.parametrize(("name", "made"), sampled_together(
    product(CASES, MADE), *product(FORMS[:-2], MADE[1:2]), *product(SHORT, MADE[2:]),
    *product(FORMS[-2:], MADE[:1])))
def test_compiled(name, made):
    """Kernels equal the interpreter, all points at once."""
    columns = [np.array(c) for c in zip(*CASES[name], strict=True)]
    f = derivatives(name)[MADE.index(made)]
    floats, _ = split(CASES[name][0])
    seeds = np.random.default_rng(0).normal(size=(1 + len(floats), len(columns[0])))
    inputs = [*columns, *seeds][:len(f.params)]
    dtypes = [a.dtype for a in inputs]
    typed = specialize(f, tuple(dtypes))
    got = compiled({made: typed}, dtypes, **INTRINSICS)(*inputs)[made]
    for a, b in zip(got, evaluate(f, *inputs), strict=True):
        np.testing.assert_allclose(a, np.broadcast_to(b, a.shape), rtol=1e-9,
                                   atol=1e-12)


#: Not in 16 bits: the tolerance of a loop, powers beyond the range.
PRECISE = {"newton_while", "sphere_trace", "dynamic", "product"}
TOLERANCES = {"float32": 2e-4, "float16": 2e-2, "bfloat16": 0.1}
FEW = "swish", "piecewise", "local_array", "captured"


NARROW = [(n, d) for n in CASES for d in TOLERANCES
          if n not in PRECISE and (d == "float32" or n in FEW)]


@pytest.mark.parametrize("case", sampled(
    NARROW, *(c for c in NARROW if c[0] in FEW[:2] and c[1] != "float16")),
                         ids="-".join)
def test_gradient_of_narrow_types(case):
    name, dtype = case
    op = nf.elementwise(getattr(functions, name))
    floats, _ = split(CASES[name][0])
    points = [p for p in CASES[name] if all(abs(v) < 50 for v in p)]
    columns = [np.array(c) for c in zip(*points, strict=True)]
    rounded = [c.astype(dtype) for c in columns[:len(floats)]]
    wide = [c.astype(float) for c in rounded]
    rest = columns[len(floats):]

    def total(*args):
        return nf.ops.sum(op(*args, *rest))

    which = tuple(range(len(floats)))
    found = nf.grad(total, argnums=which)(*rounded)
    expected = evaluate(derivatives(name)[1], *wide, *rest, np.ones(len(points)))
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == np.dtype(dtype)
        np.testing.assert_allclose(np.asarray(a, float), np.broadcast_to(b, a.shape),
                                   rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])


#: A float32 sine is a long formula on CUDA, and these have several in nested loops.
LONG = {"triangular", "sphere_trace"}
#: These take a minute or more, and half of one.
SLOW = {"local_array", "early"}


@pytest.mark.parametrize("name", sampled(
    [n for n in CASES if n not in LONG], *(n for n in FORMS if n not in SLOW)))
def test_float32_derivatives_need_no_float64_on_cuda(name):
    numba_cuda = pytest.importorskip("numba.cuda")
    from numba import types

    from nbfused.cuda.isa.intrinsics import namespace

    gradient = derivatives(name)[1]
    _, integers = split(CASES[name][0])
    count = len(gradient.params)
    at = [k == count - 2 and bool(integers) for k in range(count)]
    typed = specialize(gradient, tuple(np.dtype("i4" if i else "f4") for i in at))
    arguments = {p: f"counts[{k}]" if i else f"source[{k}]"
                 for k, (p, i) in enumerate(zip(gradient.params, at, strict=True))}
    outs = [f"out{k}" for k in range(len(gradient.results))]
    lines = statements(typed, arguments, outs, prefix="v_", calls=CUDA_CALLS)
    lines += [f"target[{k}] = {o}" for k, o in enumerate(outs)]
    scope = dict(namespace((9, 0)))
    exec("\n    ".join(["def kernel(source, counts, target):", *lines]), scope)
    floats, ints = types.CPointer(types.float32), types.CPointer(types.int32)
    text, _ = numba_cuda.compile(scope["kernel"], types.void(floats, ints, floats),
                                 device=False, abi="numba", cc=(9, 0), output="ptx")
    assert not [line for line in text.splitlines() if re.search(r"\.f64\b", line)]


def test_ties_share():
    """Conventions of the vocabulary hold inside functions too."""
    def f(x):
        return max(x, 0.0) + 2*abs(x) + 4*min(x, 0.0)

    gradient = vjp(parse(f), (True,), (True,))
    assert float(evaluate(gradient, 0.0, 1.0)[0]) == 0.5 + 0.0 + 2.0


def test_untaken_side_gives_no_nan():
    gradient = vjp(parse(functions.safe_branch), (True,), (True,))
    np.testing.assert_array_equal(
        evaluate(gradient, np.array([0.0, -1.0, 4.0]), np.ones(3))[0], [0, 0, 0.25])


def test_powers_at_zero():
    gradient = vjp(parse(functions.powers), (True,), (True,))
    np.testing.assert_allclose(evaluate(gradient, 0.0, 1.0)[0], -2 + 0.5/np.sqrt(3))


def test_norm_of_zero():
    def norm(x, y):
        return nf.sqrt(x*x + y*y)

    gradient = vjp(parse(norm), (True, True), (True,))
    np.testing.assert_array_equal(evaluate(gradient, 0.0, 0.0, 1.0), [0, 0])


def test_detached_values_are_constants():
    def f(x, n):
        s = 0.0
        for _ in range(n):
            s += nf.detach(x*x)*x
        return s

    gradient = vjp(parse(f), (True, False), (True,))
    assert float(evaluate(gradient, 3.0, 2, 1.0)[0]) == 18.0


@pytest.mark.parametrize("name", sampled(
    ["dynamic", "early", "around", "triangular"], "dynamic", "around"))
def test_third_order(name):
    f = parse(getattr(functions, name))
    point = CASES[name][2]
    _, integers = split(point)
    still = (False,)*len(integers)
    d = vjp(f, (True, False, *still), (True,))
    d = jvp(d, (True, False, *still, False))
    third = vjp(d, (True, False, *still, False, False), (False, True))
    expected = reference(name, point, 3)[3, 0]
    np.testing.assert_allclose(evaluate(third, *point, 1.0, 1.0, 1.0)[0], expected,
                               rtol=1e-6, atol=1e-12)
    wrt, d = (True, False, *still), f
    for order in range(3):
        d = vjp(d, wrt + (False,)*order, (True,))
    np.testing.assert_allclose(evaluate(d, *point, 1.0, 1.0, 1.0)[0], expected,
                               rtol=1e-6, atol=1e-12)


def test_memory_is_bounded():
    """However many iterations: two levels of 32 entries, or few of 8."""
    f = parse(functions.product)
    types = (np.dtype(np.float32), np.dtype(np.int32))
    assert checkpoint_bytes(f, (True, False), types) == {
        "checkpoint": 2*32*4, "recompute": 2*8*4}


def test_loops_that_need_no_state_record_nothing():
    def f(x, n):
        s = 0.0
        for i in range(n):
            s += x*i
        return s

    types = (np.dtype(np.float64), np.dtype(np.int64))
    assert checkpoint_bytes(parse(f), (True, False), types)["checkpoint"] == 0


@pytest.mark.parametrize("prefer", sampled(["checkpoint", "recompute"], "recompute"))
def test_many_iterations(prefer):
    """100,000 factors: the derivative of the logarithm is a sum."""
    product = preferring(parse(functions.product), prefer)
    gradient = vjp(product, (True, False), (True,))
    typed = specialize(gradient, tuple(map(np.dtype, ("f8", "i8", "f8"))))
    run = compiled({"d": typed}, [np.dtype(t) for t in ("f8", "i8", "f8")],
                   **INTRINSICS)
    x, n = 0.4, 100_000 if prefer == "checkpoint" else 3000
    squares = (np.arange(n) + 1.0)**2
    expected = np.prod(1 + x/squares)*np.sum(1/(squares + x))
    got = run(np.array([x]), np.array([n]), np.array([1.0]))["d"][0]
    np.testing.assert_allclose(got, expected, rtol=1e-10)
