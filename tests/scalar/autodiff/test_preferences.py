"""What loops record: both preferences give one gradient, and say what they take."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import DefinitionError, KernelTypeError
from nbfused.scalar.autodiff.differentiate import vjp
from nbfused.scalar.autodiff.preferences import preferring
from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.ir.nodes import Let, walk
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.typing.types import specialize
from tests.refusal import refused
from tests.variants import sampled, sampled_together

#: Around a warp, around what is recorded at once, and far beyond.
COUNTS = (0, 1, 31, 32, 33, 64, 1025, 5000)
PREFERENCES = ("checkpoint", "recompute")


def dynamic(x, n):
    y = 1.0
    for i in range(n):
        y = y * (1.0 + x / ((i + 1.0) * (i + 1.0))) + x / (i + 2.0)
    return y


def static(x, n: nf.literal):
    y = 1.0
    for i in range(n):
        y = y * (1.0 + x / ((i + 1.0) * (i + 1.0))) + x / (i + 2.0)
    return y


def nested(x, n):
    y = 1.0
    for i in range(n):
        z = y
        for j in range(i % 3):
            z = z * x + 0.5 / (j + 1.0)
        y = y + z * x / ((i + 1.0) * (i + 1.0))
    return y


def around(x, n):
    y, k = 1.0, 0
    while k < n:
        y = y * (1.0 + x / ((k + 1.0) * (k + 1.0)))
        k += 1
        if y > 1e6:
            break
    return y


def slope(function, x, n):
    """By a complex step: exact, and without a derivative of ours."""
    return function(x + 1e-30j, n).imag / 1e-30


def slope_around(x, n):
    """`around` in real numbers and tangents, as complex ones have no order."""
    y, dy = 1.0, 0.0
    for k in range(n):
        factor = 1.0 + x / (k + 1.0)**2
        y, dy = y * factor, dy * factor + y / (k + 1.0)**2
    return dy


@pytest.mark.parametrize(("function", "prefer"), sampled_together(
    product([dynamic, nested, around], PREFERENCES),
    *product([dynamic, around], PREFERENCES), (nested, "recompute")))
def test_gradients_of_dynamic_loops(function, prefer, device):
    op = nf.elementwise(prefer=prefer)(function)
    x = np.linspace(0.3, 0.7, len(COUNTS))
    v = nf.Variable(nf.array(x, device=device), requires_grad=True)
    op(v, nf.array(np.array(COUNTS), device=device)).sum().backward()
    expected = [slope_around(a, n) if function is around else slope(function, a, n)
                for a, n in zip(x, COUNTS, strict=True)]
    np.testing.assert_allclose(nf.to_numpy(v.grad), expected, rtol=1e-11)


@pytest.mark.parametrize("n", sampled(COUNTS, *COUNTS[:6]))
def test_gradients_of_static_loops(n):
    for prefer in PREFERENCES:
        function = preferring(parse(static, parameters={"n": n}), prefer)
        gradient = vjp(function, (True,), (True,))
        np.testing.assert_allclose(evaluate(gradient, 0.4, 1.0)[0],
                                   slope(static, 0.4, n), rtol=1e-11)


@pytest.mark.parametrize("prefer", PREFERENCES)
@pytest.mark.parametrize("n", sampled([31, 64, 1025], 64, 1025))
def test_gradients_of_static_loops_that_run(n, prefer, device):
    op = nf.elementwise(prefer=prefer)(static)
    v = nf.Variable(nf.array([0.4], device=device), requires_grad=True)
    op(v, n).sum().backward()
    np.testing.assert_allclose(nf.to_numpy(v.grad), slope(static, 0.4, n), rtol=1e-11)


def raised(x, y, n):
    i = nf.grid(1)
    if i < x.shape[0]:
        p = 1.0
        for k in range(n[i]):
            p = p * (1.0 + x[i] / ((k + 1.0) * (k + 1.0))) + x[i] / (k + 2.0)
        y[i] = p


@pytest.mark.parametrize("prefer", PREFERENCES)
def test_gradients_of_kernels(prefer, device):
    kernel = nf.rawkernel(differentiable=True, prefer=prefer)(raised)
    at = np.linspace(0.3, 0.7, len(COUNTS))
    x, n = nf.array(at, device=device), nf.array(np.array(COUNTS), device=device)
    y, dx, dy = (nf.full(x.shape, k, device=device) for k in (0.0, 0.0, 1.0))
    kernel.bwd[1, 32]((x, dx), (y, dy), n)
    expected = [slope(dynamic, a, k) for a, k in zip(at, COUNTS, strict=True)]
    np.testing.assert_allclose(nf.to_numpy(dx), expected, rtol=1e-11)


# What it takes ------------------------------------------------------------------------


def reserved(function, *types):
    """The bytes of the buffers of a derivative, which they tell themselves."""
    typed = specialize(function, tuple(map(np.dtype, types)))
    return sum(int(s.args[0].text) * typed.dtypes[s.results[0]].itemsize
               for s in walk(typed.function.body)
               if isinstance(s, Let) and s.op == "buffer")


@pytest.mark.parametrize("function", [dynamic, nested, around])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_report_is_what_the_derivative_reserves(function, dtype):
    report = nf.elementwise(function).checkpoint_bytes(dtype, "int64")
    for prefer in PREFERENCES:
        op = nf.elementwise(prefer=prefer)(function)
        assert op.checkpoint_bytes(dtype, "int64") == report
        assert report[prefer] == reserved(
            vjp(op.function, (True, False), (True,)), dtype, "int64", dtype)
    assert 0 < report["recompute"] < report["checkpoint"]


@pytest.mark.parametrize("prefer", PREFERENCES)
def test_the_report_is_what_ptx_reserves(prefer):
    pytest.importorskip("numba_cuda")
    @nf.elementwise(prefer=prefer)
    def power(x, n):
        y = 1.0
        for _ in range(int(n)):
            y *= x
        return y

    text = nf.derivative(power).source("ptx")
    (size,) = re.findall(r"\.local [^;]*__local_depot\d+\[(\d+)\]", text)
    assert int(size) == power.checkpoint_bytes("float32", "float32")[prefer]


@pytest.mark.parametrize("prefer", PREFERENCES)
def test_the_report_of_kernels(prefer):
    kernel = nf.rawkernel(differentiable=True, prefer=prefer)(raised)
    x, n = np.ones(3), np.ones(3, int)
    report = kernel.checkpoint_bytes(x, x, n)
    bwd = vjp(preferring(parse(raised), prefer), (True, True, False), (), False,
              ("x", "y", "n"))
    assert report[prefer] == reserved(bwd, "f8", "f8", "i8", "f8", "f8")
    assert report["recompute"] < report["checkpoint"]
    with refused(KernelTypeError, "checkpoint_bytes", "give arguments"):
        nf.rawkernel(raised).checkpoint_bytes()
    kernel.defvjp(raised)
    assert kernel.checkpoint_bytes(x, x, n) == {"checkpoint": 0, "recompute": 0}


def test_numbers_have_no_records():
    op = nf.elementwise(dynamic)
    assert op.checkpoint_bytes("int64", int) == {"checkpoint": 0, "recompute": 0}
    assert op.checkpoint_bytes("float32", int)["checkpoint"] == 2 * 32 * 4


def test_the_report_takes_a_dtype_for_each_parameter():
    with refused(KernelTypeError, "checkpoint_bytes", "x, n", "got 1"):
        nf.elementwise(dynamic).checkpoint_bytes("float32")
    for wrong in ("foo", np.ones(3)):
        with refused(KernelTypeError, "n: ", "is no dtype"):
            nf.elementwise(dynamic).checkpoint_bytes("float32", wrong)


# Where it goes ------------------------------------------------------------------------


def recorded(op):
    """The entries of the first buffer of the derivative."""
    made = nf.derivative(op).function
    return next(int(s.args[0].text) for s in walk(made.body)
                if isinstance(s, Let) and s.op == "buffer")


def test_a_preference_goes_along_with_its_function():
    inner = nf.func(prefer="recompute")(dynamic)
    plain = nf.func(dynamic)

    @nf.elementwise
    def calls(x, n):
        return 2.0 * inner(x, n)

    @nf.elementwise(prefer="recompute")
    def asks(x, n):
        return 2.0 * plain(x, n)

    @nf.elementwise(prefer="checkpoint")
    def keeps(x, n):
        return inner(x, n)

    assert recorded(plain) == 32
    assert recorded(inner) == recorded(calls) == recorded(asks) == recorded(keeps) == 8
    assert recorded(nf.specialize(specialized, ROUNDS=3)) == 8
    assert recorded(nf.elementwise(nf.func(prefer="recompute")(dynamic).pyfunc)) == 32


ROUNDS = 2


@nf.elementwise(prefer="recompute")
def specialized(x, n):
    y = x
    for _ in range(n * ROUNDS):
        y = y * x
    return y


def test_a_preference_goes_along_with_arguments_that_are_no_numbers():
    @nf.func(prefer="recompute")
    def inner(pair, n):
        y = pair[0]
        for _ in range(n):
            y = y * pair[1]
        return y

    @nf.elementwise
    def calls(x, n):
        return inner((x, x), n)

    assert recorded(calls) == 8


def test_a_preference_goes_along_with_rules_and_higher_derivatives():
    inner = nf.func(prefer="recompute")(dynamic)

    @inner.defvjp
    def rule(x, n, g):
        y = 1.0
        for _ in range(n):
            y = y * x
        return y * g, 0.0

    @nf.elementwise
    def calls(x, n):
        return inner(x, n)

    gradient = vjp(calls.function, (True, False), (True,))
    again = vjp(gradient, (True, False, False), (True, False)[:len(gradient.results)])
    assert reserved(again, "f8", "i8", "f8", "f8") == 2 * 8 * 8


def test_a_preference_is_part_of_keys():
    specs = {nf.elementwise(prefer=p)(dynamic).spec(("element", "element"))
             for p in (None, *PREFERENCES)}
    assert len(specs) == 3


@pytest.mark.parametrize("decorate", [nf.elementwise, nf.func, nf.rawkernel])
@pytest.mark.parametrize("prefer", ["memory", "", 3, ["recompute"], True])
def test_other_preferences_are_refused(decorate, prefer):
    with refused(DefinitionError, "dynamic", "'prefer'", "'checkpoint' or 'recompute'",
                 repr(prefer)):
        decorate(prefer=prefer)(dynamic)
