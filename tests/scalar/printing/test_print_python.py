"""Text of the scalar language, parsed again: the same values."""

from __future__ import annotations

import linecache
import math
from itertools import count

import numpy as np
import pytest

import nbfused as nf
from nbfused.scalar.autodiff.differentiate import jvp, vjp
from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.printing.python import python_text
from nbfused.scalar.source.static import local
from nbfused.scalar.source.structure import Array

_files = (f"<printed {k}>" for k in count())


def pasted(text, **parameters):
    """The function of a text, as if it stood in a file."""
    file, scope = next(_files), {"nf": nf, "np": np}
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    exec(compile(text, file, "exec"), scope)
    name = text[4:text.index("(")]
    return parse(scope[name], **parameters)


def polynomial(x, y):
    return 3 * x**2 - y / (1 + x * x) + (x - y) * (-x), x // 2 % 3, -x**3


def calls(x, y):
    return (math.exp(-x) + nf.sigmoid(y) * max(x, y, 2.0), np.hypot(x, y),
            abs(min(x, -y)), nf.digamma(3 + x * x), float(x) + int(y))


def logic(x, y):
    a = (x > y and y > 0) or x < -1
    return (1.0 if a else -x), not a, x != y, (x if x else y), 0 < x < 2


def branches(x, y):
    if x > y:
        x = x * y
        z = x + 1
    elif y > 1:
        z = y
    else:
        return x, 0.5
    return x + z, z


def loops(x, y):
    total, last = 0.0, x
    for i in range(4):
        for j in range(i):
            total += last * j
        last = last * 0.5 + y
    return total, last


def early(x, y):
    for i in range(10):
        x = x * 1.5 + 0.1
        if abs(x) > 5:
            return x, i
    while y < 20:
        y = y + x * x + 1
        if y > 15 and x < 1:
            break
    return x, y


def arrays(x, y):
    v = local(3)
    for i in range(5):
        v[i % 3] += x * i
    return v[0] + v[1] * y, v[2]


def special(x, y):
    return x + np.inf, np.nan, 1e300 * y, -0.0 * x, True, np.float32(x) * 2


def reserved(np, max):
    nf = np + max
    return nf * 2, max


PROGRAMS = [polynomial, calls, logic, branches, loops, early, arrays, special, reserved]
X = np.array([-2.0, -0.5, 0.0, 0.75, 1.0, 3.0])
Y = np.array([0.5, -0.5, 2.0, 1.25, 1.0, 0.25])


@pytest.mark.parametrize("pyfunc", PROGRAMS, ids=lambda f: f.__name__)
def test_the_text_computes_the_same(pyfunc):
    function = parse(pyfunc)
    again = pasted(python_text(function))
    for a, b in zip(evaluate(function, X, Y), evaluate(again, X, Y), strict=True):
        np.testing.assert_array_equal(a, b)
        assert np.asarray(a).dtype == np.asarray(b).dtype


@pytest.mark.parametrize("pyfunc", [polynomial, branches, loops, early, arrays],
                         ids=lambda f: f.__name__)
def test_derivatives_too(pyfunc):
    function = parse(pyfunc)
    g = [np.full(X.shape, 1.0 + k) for k in range(len(function.results))]
    for derivative, args in (
            (vjp(function, (True, True), (True,) * len(g)), (X, Y, *g)),
            (jvp(function, (True, True)), (X, Y, *np.ones((2, len(X)))))):
        again = pasted(python_text(derivative))
        for a, b in zip(evaluate(derivative, *args), evaluate(again, *args),
                        strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-14)


def kernel(a, b, n):
    i = nf.grid(1)
    s = nf.shared.array((4, 2), "float32")
    s[nf.threadIdx.x % 4, 0] = a[i, 0]
    nf.syncthreads()
    if i < n:
        b[i] = s[0, 0] + a.load_once(i, 1) + b.shape[0]
        b[0] += nf.shfl_xor_sync(0xffffffff, a[i, 0], 1)
        b.store_once(i, nf.atomic.cas(b, i, 0, 1))
        nf.atomic.and_(a, (i, 0), 3)
        nf.atomic.add(b, i, 2.0)
        nf.syncwarp()


def test_kernels():
    parameters = {"a": Array(2), "b": Array(1)}
    function = parse(kernel, parameters=parameters)
    text = python_text(function)
    assert pasted(text, parameters=parameters).body == pasted(python_text(pasted(
        text, parameters=parameters)), parameters=parameters).body
    for words in ("nf.shared.array((4, 2,), \"float32\")", "nf.syncthreads()",
                  "nf.atomic.cas(b, (", "b.store_once(", "a.load_once(", "b.shape[0]",
                  "nf.shfl_xor_sync(0xffffffff, ", "nf.atomic_add(b, "):
        assert words in text


def test_it_reads_well():
    assert python_text(parse(branches)) == """\
def branches(x, y):
    if x > y:
        x_1 = x * y
        z_1 = x_1 + 1
        result_3, result_4 = x_1 + z_1, z_1
    elif y > 1:
        result_3, result_4 = x + y, y
    else:
        result_3, result_4 = x, 0.5
    return result_3, result_4
"""
