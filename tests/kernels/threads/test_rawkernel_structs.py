"""Operations of kernels that take structs and tuples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import NotDifferentiableError
from tests.refusal import refused

X, W = np.array([0.5, 2.0, -1.5]), np.array([3.0, -1.0, 0.5])


class Layer(NamedTuple):
    w: nf.DiffView
    rest: Any


@dataclass(frozen=True)
class Model:
    w: nf.DiffView
    rest: Any


@nf.rawkernel(differentiable=True)
def cubes(x, p, y):
    i = nf.grid(1)
    if i < x.shape[0]:
        y[i] = p.rest[1] * x[i] * p.w[i] * p.w[i] * p.rest[0][i]


FORMS = {
    "dict": lambda w, v: {"w": w, "rest": (v, 2.0)},
    "namedtuple": lambda w, v: Layer(w, (v, 2.0)),
    "dataclass": lambda w, v: Model(w, (v, 2.0)),
    "nested": lambda w, v: Layer(w, Layer(v, 2.0)),
}


def operation(like="p.w", **options):
    return cubes.as_op(outputs={"y": like}, block=4, **{"grid": 1, **options})


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_values_and_gradients(form, device):
    x, w, v = (nf.Variable(nf.array(a, device=device), requires_grad=True)
               for a in (X, W, X + 1))
    y = operation()(x, form(w, v))
    np.testing.assert_allclose(nf.to_numpy(y.data), 2 * X * W * W * (X + 1))
    y.sum().backward()
    for variable, slope in ((x, 2 * W * W * (X + 1)), (w, 4 * X * W * (X + 1)),
                            (v, 2 * X * W * W)):
        np.testing.assert_allclose(nf.to_numpy(variable.grad), slope)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_second_derivatives(form, device):
    op = operation()
    nf.testing.gradcheck(lambda x, w, v: op(x, form(w, v)), [X, W, X + 1], order=2,
                         place=lambda a: nf.array(a, device=device))


def test_rules_see_what_was_passed(device):
    seen = []

    def grid(x, p, y):
        seen.append((type(p), p.rest[1], p.w.shape))
        return 1

    op = operation(lambda x, p: (p.w.shape, p.w.dtype), grid=grid)
    w = nf.Variable(nf.array(W, device=device), requires_grad=True)
    x = nf.array(X, device=device)
    op(x, Layer(w, (x, 2.0))).sum().backward()
    assert seen == [(Layer, 2.0, (3,))] * 2
    np.testing.assert_allclose(nf.to_numpy(w.grad), 4 * X * X * W)


def test_what_is_refused_is_named():
    class Plain(NamedTuple):
        w: nf.View
        rest: Any

    kernel = nf.rawkernel(cubes.pyfunc)
    op = kernel.as_op(outputs={"y": "x"}, grid=1, block=4)
    w = nf.Variable(W, requires_grad=True)
    with refused(NotDifferentiableError, "'p.w' requires a gradient",
                 "differentiable=True"):
        op(X, Plain(w, (X, 2.0))).sum().backward()
    with refused(NotDifferentiableError, "writes to 'y', an array", "Variable(y)"):
        cubes[1, 4](X, Layer(w, (X, 2.0)), X.copy())
    with refused(nf.errors.KernelTypeError, "no argument is an array"):
        operation()(1.0, {"w": 2.0, "rest": (1.0, 2.0)})


def test_in_a_fused_function(device):
    op = operation()
    x, w = nf.array(X, device=device), nf.array(W, device=device)
    fused = nf.fuse(lambda x, w: op(x, {"w": w, "rest": (x, 2.0)}) + 1.0)
    with pytest.warns(nf.errors.NbFusedPerformanceWarning):
        found = fused(x, w)
    np.testing.assert_allclose(nf.to_numpy(found), 2 * X * X * W * W + 1)


@nf.rawkernel(differentiable=True)
def weighed(parts, x, y):
    i = nf.grid(1)
    if i < x.shape[0]:
        y[i] = parts[0][i] * x[i] + parts[1][i]


@pytest.mark.parametrize("kind", [tuple, list])
def test_tuples_and_lists_of_arrays_have_derivatives(kind, device):
    """Also where none of their arrays has one: two arrays are no pair then."""
    a, b, x, y, da, db, g = (nf.array(np.full(3, float(k)), device=device)
                             for k in range(1, 8))
    weighed[1, 4](kind((a, b)), x, y)
    assert nf.to_numpy(y).tolist() == [1*3 + 2] * 3
    weighed.bwd[1, 4](kind(((a, da), (b, db))), x, (y, g))
    assert nf.to_numpy(da).tolist() == [5 + 7*3] * 3
    assert nf.to_numpy(db).tolist() == [6 + 7] * 3
    op = weighed.as_op(outputs={"y": "x"}, grid=1, block=4)
    v, w = (nf.Variable(t, requires_grad=True) for t in (x, a))
    op(kind((a, b)), v).sum().backward()
    assert nf.to_numpy(v.grad).tolist() == [1.0] * 3
    op(kind((w, b)), x).sum().backward()
    assert nf.to_numpy(w.grad).tolist() == [3.0] * 3
