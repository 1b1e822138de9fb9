"""`loop_prep` declares what all elements share, and does no more."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import ScalarSyntaxError
from nbfused.kernels import ElementwiseKernel

X, R = np.arange(1.0, 4.0), np.arange(5.0)


def kernel(prep, body):
    return ElementwiseKernel("T x, raw T r", "T y", body, "k", loop_prep=prep)


@pytest.mark.parametrize(("prep", "body", "expected"), [
    ("int a = 3; a = a + 1; for (int q = 0; q < 3; q++) a += q;", "y = a", 7 + 0 * X),
    ("int a = 3", "{ int a = 7; y = a; } y += a * x", 7 + 3 * X),
    ("auto f = [](double t) { return t * 2; };", "y = f(x)", 2 * X),
    ("double v[2] = {1, 5};", "y = v[1] * x", 5 * X),
    ("const double* p = r + 2;", "y = p[0] + x", 2 + X),
    ("if (r[0] > 3) return; int a = 1;", "y = a", 1 + 0 * X),
    ("#define TWO(a) (2 * (a))\nconst T k { TWO(_ind.size()) }", "y = k", 6 + 0 * X),
    ("const T total = r[0] + r[1]; // a comment", "y = total * x;", X),
])
def test_what_elements_share(prep, body, expected, device):
    found = kernel(prep, body)(*(nf.array(a, device=device) for a in (X, R)))
    np.testing.assert_array_equal(nf.to_numpy(found), expected)


@pytest.mark.parametrize(("prep", "body", "where", "message"), [
    ("int a = 0;", "y = 1;\na++;", "body of k>, line 2", "'a' of loop_prep is changed"),
    ("double v[2] = {1, 5};", "v[0] = x;", "body of k>, line 1", "would be carried"),
    ("const double* p = r;", "p++;", "body of k>, line 1", "'p' of loop_prep"),
    ("int a;\nx = 2;", "y = a", "loop_prep of k>, line 2", "writes to 'x'"),
    ("int a;\n\ny = a;", "", "loop_prep of k>, line 3", "writes to 'y'"),
    ("int a = i;", "y = a", "loop_prep of k>, line 1", "i has no value there"),
    ("printf(\"a\");", "y = x", "loop_prep of k>, line 1", "once for each thread"),
    ("int a = b;", "y = x", "loop_prep of k>, line 1", "'b' is not declared"),
    ("int a = ;", "y = x", "loop_prep of k>, line 1", "cannot be read as C"),
])
def test_what_a_thread_would_carry(prep, body, where, message):
    with pytest.raises(ScalarSyntaxError, match=message) as caught:
        kernel(prep, body)(X, R)
    assert where in str(caught.value)
