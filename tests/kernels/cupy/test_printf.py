"""``printf`` of C bodies writes what the C library does, once for each element."""

from __future__ import annotations

import ctypes
import sys

import numpy as np
import pytest

import nbfused as nf
from nbfused.kernels import ElementwiseKernel

X = np.array([-1.5, 0.0, 1e10, 2 / 3])
C_TYPES = {"f8": ctypes.c_double, "i4": ctypes.c_int, "u4": ctypes.c_uint,
           "i8": ctypes.c_longlong, "u8": ctypes.c_ulonglong}

#: A conversion, the value in C, and the type and value that the C library is given.
CONVERSIONS = [
    ("%d", "(int)i - 2", "i4", lambda k: k - 2),
    ("%5i|%-5d|%+d", "k8", "i4", lambda k: 100 - k),
    ("%05d", "(short)(i - 2)", "i4", lambda k: k - 2),
    ("%u", "(unsigned)i - 2u", "u4", lambda k: (k - 2) % 2**32),
    ("%ld", "i - 2", "i8", lambda k: k - 2),
    ("%lld", "i * 10000000000", "i8", lambda k: k * 10**10),
    ("%llu", "(unsigned long long)i - 2", "u8", lambda k: (k - 2) % 2**64),
    ("%x", "(unsigned)i + 255u", "u4", lambda k: k + 255),
    ("%#lX", "i + 255", "i8", lambda k: k + 255),
    ("%o", "(unsigned)i + 8u", "u4", lambda k: k + 8),
    ("%hhd", "(int)i + 300", "i4", lambda k: k + 44),
    ("%c", "'a' + (char)i", "i4", lambda k: 97 + k),
    ("%f", "x", "f8", lambda k: X[k]),
    ("%10.3f|", "(float)x", "f8", lambda k: float(np.float32(X[k]))),
    ("%-12.2e|", "x", "f8", lambda k: X[k]),
    ("%g", "x", "f8", lambda k: X[k]),
    ("%+.4G", "x", "f8", lambda k: X[k]),
    ("%d", "x > 0", "i4", lambda k: int(X[k] > 0)),
]


def by_the_c_library(text, kind, value):
    buffer = ctypes.create_string_buffer(200)
    values = [C_TYPES[kind](value)] * (text.count("%") - 2 * text.count("%%"))
    ctypes.CDLL(None).snprintf(buffer, 200, text.replace("hh", "").encode(), *values)
    return buffer.value.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="the C library has no such name")
def test_every_conversion(device, capfd):
    lines, expected = [], []
    for text, value, _, _ in CONVERSIONS:
        given = value.replace("k8", "100 - (signed char)i")
        count = text.count("%")
        lines.append(f'printf("{text}\\n"{f", {given}" * count});')
    kernel = ElementwiseKernel("T x", "T y", "y = x;\n" + "\n".join(lines), "shown")
    for k in range(4):
        expected += [by_the_c_library(t, kind, f(k)) for t, _, kind, f in CONVERSIONS]
    kernel(nf.array(X, device=device))
    nf.synchronize()
    assert sorted(capfd.readouterr().out.splitlines()) == sorted(expected)


def test_texts(device, capfd):
    kernel = ElementwiseKernel("T x", "T y", r'''
        y = x;
        printf("50%% of \"%s\"|%5s|%-4.2s|\t\x41\102\\" " and on\n", "a%b",
                           "cd", "efg");
        for (int k = 0; k < 2; k++) printf("%d,", k);''', "texts")
    found = nf.to_numpy(kernel(nf.array(np.ones(1), device=device)))
    np.testing.assert_array_equal(found, [1])
    assert capfd.readouterr().out == '50% of "a%b"|   cd|ef  |\tAB\\ and on\n0,1,'


def test_functions_print_and_derivatives_do_not(device, capfd):
    kernel = ElementwiseKernel("T x", "T y", """
        T s = x;
        for (int k = 0; k < 2; k++) { s = square(s); if (s > 5) printf("[%g]", s); }
        y = s;""", "shown", preamble="""
        __device__ double square(double a) { printf("<%.1f>", a); return a * a; }""")
    x = nf.Variable(nf.array(np.array([2.0]), device=device), requires_grad=True)
    y = kernel(x)
    nf.synchronize()
    once = "<2.0><4.0>[16]"
    assert capfd.readouterr().out == once
    y.sum().backward()
    np.testing.assert_array_equal(nf.to_numpy(x.grad), [32])
    assert capfd.readouterr().out == ""
    nf.jvp(kernel, (np.full(1, 2.0),), (np.ones(1),))
    assert capfd.readouterr().out == once
    source = [str(kernel.source(kind)) for kind in ("vjp", "jvp", "ptx", "hip")]
    assert ["print" in s.lower() for s in source] == [False, False, True, True]
    assert "vprintf" in source[2]


def test_a_kernel_that_prints_is_run_once_in_a_program(capfd):
    kernel = ElementwiseKernel("T x", "T y", 'y = 2 * x; printf("%g ", x);', "once")

    @nf.fuse
    def twice(x):
        y = kernel(x)
        return y + 1, y * 3

    a, b = twice(np.array([1.0, 2.0]))
    np.testing.assert_array_equal((a, b), ([3, 5], [6, 12]))
    assert capfd.readouterr().out == "1 2 "


def test_the_interpreter_prints(capsys):
    from nbfused.scalar.cparse import Parameter, parse_c
    from nbfused.scalar.ir.interpret import evaluate

    f64 = np.dtype(np.float64)
    function = parse_c('if (x > 1) printf("%lld %.1f%%\\n", 7LL, x); y = x;', "k",
                       (Parameter("x", f64), Parameter("y", f64, written=True)))
    evaluate(function, np.array([0.5, 2.0, 3.0]), 0.0)
    assert capsys.readouterr().out == "7 2.0%\n7 3.0%\n"
