"""Kernels by value: from a program that no worker has, through cloudpickle."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import cloudpickle
import numpy as np
import pytest

import nbfused as nf

ROOT = Path(nf.__file__).parent.parent

#: What defines kernels in ``__main__``, sends them, and is gone when they are loaded.
PROGRAM = '''
from __future__ import annotations

import sys
from typing import NamedTuple

import cloudpickle
import numpy as np
import nbfused as nf

C = 2.0

def helper(x):
    total = 0.0
    for _ in range(3):
        total += C * x
    return total

@nf.func
def clipped(x):
    return min(max(x, -1.0), 1.0)

@clipped.defvjp
def straight_through(x, g):
    return g * (1.0 if clipped(x) == x else 0.5)

@nf.elementwise
def scaled(x):
    if x > 0:
        return helper(x) * clipped(x)
    return helper(x)

@nf.elementwise
def power(x, n: nf.literal = 2):
    y = 1.0
    for _ in nf.unroll(range(n)):
        y *= x
    return y

@power.defjvp
def _(x, n, dx):
    return 100.0 * n * dx

class Layer(NamedTuple):
    weight: nf.DiffView
    index: nf.View

@nf.rawkernel
def affine(layer: Layer, x: nf.DiffView, y: nf.DiffView):
    i = nf.grid(1)
    if i < y.shape[0]:
        y[i] = layer.weight[layer.index[i]] * x[i] * C

@nf.rawkernel(differentiable=True)
def ruled(x, y):
    i = nf.grid(1)
    if i < x.shape[0]:
        y[i] = C * x[i]

@ruled.defvjp
def _(x, y):
    i = nf.grid(1)
    if i < x.primal.shape[0]:
        x.derivative[i] += 10.0 * C * y.derivative[i]

@nf.reduction(combine="sum")
def squares(x):
    return C * x * x if x > 1 else 0.0

@nf.row
def below(x):
    @nf.stage("max")
    def largest(x):
        return x
    return C * (x - largest)

@nf.contraction("mk,kn->mn")
def product(acc, bias):
    return acc + bias if acc > 0 else bias

@nf.fuse
def fused(x):
    return np.sqrt(x * x + C)

@nf.custom_vjp
def custom(x):
    return x * C

custom.defvjp(lambda x: (x * C, ()), lambda _, g: (g * 7.0,))

def body(x):
    if x > 1:
        x = -x
    return C * x

def local():
    shift = 5.0
    @nf.elementwise
    def shifted(x):
        return x + shift if x > 0 else x
    return shifted

made = dict(
    scaled=scaled, power=power, affine=affine, ruled=ruled, squares=squares,
    below=below, product=product, fused=fused, custom=custom, local=local(),
    of_lambda=nf.elementwise(lambda x: x + C if x > 0 else x),
    special=nf.specialize(scaled, C=10.0), special_rule=nf.specialize(ruled, C=3.0),
    op=ruled.as_op(outputs={"y": "x"}, grid=lambda x, y: len(x), block=1),
    derivative=nf.derivative(scaled), renamed=nf.elementwise(body),
    kernel=nf.ElementwiseKernel("T x", "T y", body, "kernel"),
    text=nf.ElementwiseKernel("T x", "T y", "y = 2 * x", "text"),
    sum=nf.ReductionKernel("T x", "T y", body, "a + b", "y = a", "0", "sum"),
)
if len(sys.argv) > 2:  # what was used and compiled travels as well
    x = np.array([0.5, 2.0])
    for name in ("scaled", "fused", "custom", "squares", "kernel", "sum", "op"):
        made[name](x)
with open(sys.argv[1], "wb") as file:
    cloudpickle.dump(made, file)
'''


def run(*arguments: str, **options) -> None:
    done = subprocess.run([sys.executable, *arguments], text=True, capture_output=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT)}, **options)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module", params=["file", "used", "command line"])
def sent(request, tmp_path_factory):
    """What a worker has: the objects, loaded where the program is no more."""
    folder = tmp_path_factory.mktemp("sent")
    if request.param == "command line":
        run("-c", PROGRAM, "sent", cwd=folder)
    else:
        program = folder / "program.py"
        program.write_text(PROGRAM)
        run("program.py", "sent", *["used"] * (request.param == "used"), cwd=folder)
        program.unlink()
    return pickle.loads((folder / "sent").read_bytes())


X = np.array([0.5, 2.0, -1.5])


def test_elementwise_functions_with_their_rules(sent):
    clip = np.clip(X, -1, 1)
    expected = np.where(X > 0, 6 * X * clip, 6 * X)
    np.testing.assert_allclose(sent["scaled"](X), expected)
    slope = np.where(X > 0, 6 * clip + 6 * X * np.where(clip == X, 1, 0.5), 6)
    gradient = nf.grad(lambda x: sent["scaled"](x).sum())(X)
    np.testing.assert_allclose(gradient, slope)
    np.testing.assert_allclose(sent["derivative"](X, 1.0), slope)
    np.testing.assert_allclose(sent["special"](X), 5 * expected)
    np.testing.assert_allclose(sent["power"](X, 3), X**3)
    np.testing.assert_allclose(nf.grad(sent["power"])(2.0), 200.0)
    np.testing.assert_allclose(sent["local"](X), np.where(X > 0, X + 5, X))
    np.testing.assert_allclose(sent["of_lambda"](X), np.where(X > 0, X + 2, X))
    np.testing.assert_allclose(sent["renamed"](X), 2 * np.where(X > 1, -X, X))


@pytest.mark.parametrize(("name", "factor"), [("ruled", 2), ("special_rule", 3)])
def test_kernels_with_their_rules(sent, name, factor):
    kernel = sent[name]
    y, dx = np.zeros(3), np.zeros(3)
    kernel[1, 4](X, y)
    np.testing.assert_array_equal(y, factor * X)
    kernel.bwd[1, 4]((X, dx), (y, np.ones(3)))
    np.testing.assert_array_equal(dx, np.full(3, 10 * factor))


def test_annotations_of_kernels(sent):
    weight, dw, index = np.array([3.0, 5.0]), np.zeros(2), np.array([0, 1, 1])
    y, dx = np.zeros(3), np.zeros(3)
    sent["affine"][1, 4]((weight, index), X, y)
    np.testing.assert_array_equal(y, 2 * weight[index] * X)
    sent["affine"].bwd[1, 4](((weight, dw), index), (X, dx), (y, np.ones(3)))
    np.testing.assert_array_equal(dw, [2 * X[0], 2 * X[1] + 2 * X[2]])
    np.testing.assert_array_equal(dx, 2 * weight[index])


def test_other_ops_and_kernels(sent):
    np.testing.assert_allclose(sent["squares"](X), 8.0)
    np.testing.assert_allclose(sent["below"](X), 2 * (X - X.max()))
    a = np.array([[1.0, -2.0]])
    np.testing.assert_allclose(sent["product"](a, np.eye(2), 0.5), [[1.5, 0.5]])
    np.testing.assert_allclose(sent["fused"](X), np.sqrt(X * X + 2))
    np.testing.assert_allclose(nf.grad(lambda x: sent["custom"](x).sum())(X), 7.0)
    np.testing.assert_allclose(nf.grad(lambda x: sent["op"](x).sum())(X), 20.0)
    body = 2 * np.where(X > 1, -X, X)
    np.testing.assert_allclose(sent["kernel"](X), body)
    np.testing.assert_allclose(sent["sum"](X), body.sum())
    np.testing.assert_allclose(sent["text"](X), 2 * X)


def test_what_a_module_has_goes_by_name():
    for op in (nf.ops.exp, nf.ops.softmax):
        assert pickle.loads(cloudpickle.dumps(op)) is op
    assert pickle.loads(cloudpickle.dumps(doubled)) is doubled


def test_modules_that_are_registered_go_by_value():
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    try:
        again = pickle.loads(cloudpickle.dumps(doubled))
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    assert again is not doubled
    np.testing.assert_array_equal(again(X), 2 * X)


@nf.elementwise
def doubled(x):
    return 2 * x


@pytest.mark.parametrize("name", ["sort", "linalg.inv", "fft.rfft"])
def test_functions_of_numpy_go_by_name(name):
    function = attrgetter(name)(nf.ops)
    assert pickle.loads(pickle.dumps(function)) is function
