"""`fuse`: what is traced, in how many launches it runs, what it refuses."""

from __future__ import annotations

import doctest
import importlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import (
    ShapeError,
)

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore:fuse.*decorated again")]

X = np.random.default_rng(0).normal(size=(3, 4)).astype("f4")
Y = np.random.default_rng(1).normal(size=4).astype("f4")
ROOT = str(Path(nf.__file__).parents[1])
SCALE = 2.0
WEIGHT = np.array([1.0, 2.0, 3.0, 4.0], "f4")


def launches(call):
    with nf.trace_launches() as found:
        call()
    return [launch.kind for launch in found]


def check(function, *arguments, count=None):
    """Fused and unfused agree, in `count` launches."""
    fused = nf.fuse(function)
    with nf.trace_launches() as found:
        results = fused(*arguments)
    expected = function(*arguments)
    single = not isinstance(expected, tuple)
    for r, e in zip((results,) if single else results,
                    (expected,) if single else expected, strict=True):
        r, e = (nf.to_numpy(v.data) if isinstance(v, nf.Variable) else np.asarray(v)
                for v in (r, e))
        assert (r.dtype, r.shape) == (e.dtype, e.shape)
        np.testing.assert_allclose(r, e, rtol=2e-5, atol=1e-6)
    if count is not None:
        assert len(found) == count, found
    return fused


@pytest.mark.parametrize("function", [
    lambda x, y: np.where((x > 0) & ~(y > 1), x, np.minimum(y, 0.5)),
    lambda x, y: np.exp(-x * x) * 2 + y ** 2 - 1 / (abs(x) + 1),
    lambda x, y: np.clip(x, -0.5, 0.5) // 0.25 % 3,
    lambda x, y: (x.astype("f8") - y, x * 0 + 1, -y),
    lambda x, y: nf.ops.swish(x) + nf.sigmoid(y) + nf.ops.gelu(x),
    lambda x, y: np.full_like(x, 3) + np.zeros_like(y) + np.ones_like(x),
    lambda x, y: sum((x * k + y for k in range(6)), 0),
    lambda x, y: np.maximum(x, y, dtype="f8") + np.copy(y),
])
def test_elementwise_is_one_launch_for_each_shape(function):
    check(function, X, Y, count=2 if isinstance(function(X, Y), tuple) else 1)


@pytest.mark.parametrize(("function", "count"), [
    (lambda x, y: np.mean(x * y, axis=0), 1),
    (lambda x, y: np.sqrt((x * x).sum(1)) * 2 + 1, 1),
    (lambda x, y: ((x + y).max(1), (x + y).sum(1), (x * y).mean(1)), 1),
    (lambda x, y: (x.sum(), (x > 0).sum(), x.astype("i1").max()), 2),
    (lambda x, y: (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True), 1),
    (lambda x, y: (x - x.mean(0)) / x.std(0), 2),
    (lambda x, y: np.var(x - y, axis=0) + 1, 1),
    (lambda x, y: np.all(x > y, axis=1) | np.any(x < -1, axis=1), 3),
    (lambda x, y: (x * -1).argmax(1) + 1, 1),
    (lambda x, y: np.add.reduce(x * y), 1),
    (lambda x, y: nf.ops.logsumexp(x * 2, axis=1), 1),
    (lambda x, y: x.sum() + y.sum(), 3),
    (lambda x, y: np.amax(x, axis=0) - np.amin(x, axis=0), 1),
])
def test_reductions_take_what_is_around_them(function, count):
    check(function, X, Y, count=count)


def test_arrays_without_dimensions():
    check(lambda x, y: (x.sum() * y, (x + y).max(), y - x), np.array(3.0), Y)


@pytest.mark.parametrize(("function", "count"), [
    (lambda x, y: x.T[1:, ::-1] * 2, 1),
    (lambda x, y: (x * 2).reshape(-1)[:4] + y, 2),
    (lambda x, y: np.swapaxes(x, 0, 1) + np.moveaxis(x, 0, 1), 1),
    (lambda x, y: x[0][1] + x[1] + y[0] + x[1][0] + x, 1),
    (lambda x, y: np.concatenate([x, x * 2]) + y, 1),
    (lambda x, y: nf.ops.softmax(x * 2, axis=0) + y, 3),
    (lambda x, y: np.maximum(x @ x.T + 1, 0).T * 2, 2),
    (lambda x, y: (x @ y, np.tanh(np.dot(x, y) + x[:, 0] * 2)), 1),
])
def test_what_does_not_compose_is_split(function, count):
    check(function, X, Y, count=count)


def layer_norm(x, weight, eps):
    mean = x.mean(-1, keepdims=True)
    centred = x - mean
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * weight + 1, mean, variance * 2


def softmax(x, weight, scale):
    e = np.exp((x - x.max(-1, keepdims=True)) * scale)
    return e / e.sum(-1, keepdims=True) * weight, e


@pytest.mark.parametrize("function", [layer_norm, softmax])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_reductions_along_the_last_axis_are_a_row(function, dtype):
    x, w = X.astype(dtype), Y.astype(dtype)
    check(function, x, w, 0.5)
    assert launches(lambda: nf.fuse(function)(x, w, 0.5)) == ["Row"]

    def gradients(call):
        given = [nf.Variable(v.astype("f8"), requires_grad=True) for v in (x, w)]
        sum((r * r * r).sum() for r in call(*given, 0.5)).backward()
        return [v.grad for v in given]

    for f, e in zip(gradients(nf.fuse(function)), gradients(function), strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-9, atol=1e-12)


def test_numbers_are_passed_by_value():
    fused = check(lambda x, s, n: x * s ** n + np.exp(s), X, 0.5, 2, count=1)
    for s, n in ((0.25, 3), (1.5, 4)):
        np.testing.assert_allclose(fused(X, s, n), fused.function(X, s, n), rtol=1e-5)
    assert fused.cache_info()[:2] == (2, 1)


@pytest.mark.parametrize("number", [2, True, 0.5, np.float64(0.5), np.int16(3)])
@pytest.mark.parametrize("dtype", ["f4", "f2", "i1", "?"])
def test_numbers_promote_as_in_numpy(number, dtype):
    check(lambda x, s: (x * s + np.sqrt(s * 2), s * 2 + x), X.astype(dtype), number)


def test_a_seed_is_a_number_like_others():
    fused = nf.fuse(lambda x, seed: nf.ops.dropout(x * 2, 0.5, seed) + 1)
    for seed in (3, 4, 5):
        with nf.trace_launches() as found:
            r = fused(X, seed)
        np.testing.assert_allclose(r, nf.ops.dropout(X * 2, 0.5, seed) + 1, rtol=1e-6)
        assert len(found) == 1
    assert fused.cache_info()[:2] == (2, 1)


def test_a_number_whose_type_depends_on_its_value():
    fused = nf.fuse(lambda x, n: x * 2 ** n)
    for n in (2, -1, 3):  # 2 ** -1 is a float
        found, expected = fused(np.arange(3), n), np.arange(3) * 2 ** n
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_arguments_in_containers_and_results_in_them():
    def layer(p, x, scale=1.0):
        hidden = x * p["w"] + p["b"][0]
        return {"out": hidden * scale, "parts": [hidden.sum(0), None, "name"]}

    fused = nf.fuse(layer)
    p = {"w": Y, "b": (np.float32(3), "tanh")}
    found, expected = fused(p, X, scale=2.0), layer(p, X, scale=2.0)
    np.testing.assert_allclose(found["out"], expected["out"], rtol=1e-6)
    np.testing.assert_allclose(found["parts"][0], expected["parts"][0], rtol=1e-6)
    assert found["parts"][1:] == [None, "name"]


def test_a_shape_that_was_looked_at_ties_the_trace_to_it():
    fused = nf.fuse(lambda x: x / x.shape[0])
    for n in (2, 3, 2):
        np.testing.assert_allclose(fused(np.ones(n)), np.full(n, 1 / n))
    assert fused.cache_info()[:2] == (1, 2)


def test_broadcasting_is_part_of_the_key():
    fused = nf.fuse(lambda x, y: (x + y, (x * y).sum(0)))
    for a, b in (((3, 4), (3, 4)), ((5, 2), (5, 2)), ((3, 4), (1, 4)), ((4, 4), (1, 4)),
                 ((0, 4), (1, 4))):
        x, y = np.ones(a), np.full(b, 2.0)
        for found, expected in zip(fused(x, y), fused.function(x, y), strict=True):
            np.testing.assert_array_equal(found, expected)
    with pytest.raises(ShapeError, match="do not broadcast"):
        fused(np.ones((3, 4)), np.ones((2, 4)))


def test_fused_functions_nest():
    inner = nf.fuse(lambda x: x * 2 + 1)
    outer = nf.fuse(lambda x: inner(x) * inner(x + 1))
    with nf.trace_launches() as found:
        np.testing.assert_allclose(outer(X), (2 * X + 1) * (2 * X + 3), rtol=1e-5)
    assert len(found) == 1


def test_transforms_of_fused_functions():
    fused = nf.fuse(lambda x: np.sum(x * x * x))
    x = Y.astype("f8")
    np.testing.assert_allclose(nf.grad(fused)(x), 3 * x * x)
    value, tangent = nf.jvp(fused, (x,), (np.ones(4),))
    np.testing.assert_allclose(value, (x ** 3).sum())
    np.testing.assert_allclose(tangent, (3 * x * x).sum())


def test_nothing_runs_for_what_is_not_returned():
    assert launches(lambda: nf.fuse(lambda x, y: (x.sum(), y)[1])(X, Y)) == []


def test_one_fused_function_serves_threads():
    fused = nf.fuse(lambda x, s: (x * s).sum(0))
    wrong = []

    def work(s):
        for n in (2, 3, 4):
            if not np.allclose(fused(np.ones((n, 2)), s), n * s):
                wrong.append((n, s))

    threads = [threading.Thread(target=work, args=(float(k),)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
def test_arrays_of_other_libraries_come_back(library):
    xp = pytest.importorskip(library)
    x = xp.asarray(X)
    found = nf.fuse(lambda x: (x * 2 + 1).sum(0))(x)
    assert type(found) is type(x)
    np.testing.assert_allclose(np.asarray(found), (X * 2 + 1).sum(0), rtol=1e-5)


def test_torch_keeps_its_gradient():
    torch = pytest.importorskip("torch")
    x = torch.tensor(X, requires_grad=True)
    nf.fuse(lambda x: (x * x + x).sum(-1))(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * X + 1, rtol=1e-5)


def test_functions_of_torch():
    torch = pytest.importorskip("torch")
    w = torch.tensor(Y)

    def f(x, y):
        z = torch.where(x > 0, torch.exp(-x), w * x) + torch.relu(y)
        return torch.sum(z, dim=-1), torch.softmax(z, -1), torch.mul(2, torch.sub(z, 1))

    x, y = torch.tensor(X), torch.tensor(Y)
    found = nf.fuse(f)(x, y)
    for r, e in zip(found, f(x, y), strict=True):
        assert (type(r), r.dtype, r.shape) == (type(e), e.dtype, e.shape)
        torch.testing.assert_close(r, e)
    for called in (lambda x: torch.max(x, 0).values, lambda x: torch.cumsum(x, 0) + 1):
        torch.testing.assert_close(nf.fuse(called)(x), called(x))


def test_source_and_repr():
    fused = nf.fuse(lambda x, y: (x * y).sum(-1), kernel_name="dot")
    fused(X, Y)
    assert "def dot(x, y):" in fused.source()
    assert "x * y" in fused.source()
    assert fused.source("vjp").count("def ") == 2
    assert repr(fused) == "<nbfused fuse dot(x, y)>"


@pytest.mark.parametrize(("name", "count"), [
    ("fuse", 3), ("fused", 5), ("calling.callback", 3)])
def test_the_examples_run(name, count):
    module = importlib.import_module(f"nbfused.kernels.fusing.{name}")
    report = doctest.testmod(module)
    assert (report.failed, report.attempted) == (0, count)


@pytest.mark.compiled
def test_a_second_process_compiles_nothing(tmp_path):
    code = ("import numpy as np, nbfused as nf\n"
            "@nf.fuse\n"
            "def f(x, y):\n"
            "    e = np.exp(x - x.max(-1, keepdims=True))\n"
            "    return e / e.sum(-1, keepdims=True), (x * y).sum(0), x + y, y * 2\n"
            "x = nf.Variable(np.ones((3, 4)), requires_grad=True)\n"
            "sum(r.sum() for r in f(x, np.ones(4))).backward()\n"
            "print(nf.cache.stats().compilations)")
    made = [int(subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300,
        check=True, env={**os.environ, "PYTHONPATH": ROOT, "PYTHONHASHSEED": seed,
                         "NBFUSED_CACHE_DIR": str(tmp_path)}).stdout)
        for seed in "12"]
    assert made[0] > 0
    assert made[1] == 0


@pytest.mark.parametrize(("function", "shared"), [
    (lambda x: (np.zeros_like(x), np.zeros_like(x)), False),
    (lambda x: (x @ x.T, x @ x.T), False), (lambda x: (x * 2, (x * 2).T), False),
    (lambda x: ((x * 2).detach(), x * 2), False),
    (lambda x: (lambda y: (y, y, x * 2))(x * 2), True),
    (lambda x: (lambda y: (x * 2, y, y))(x * 2), False),
    (lambda x: 2 * ((x * 2),), True), (lambda x: (lambda y: (y.T, y))(x * 2), True)])
def test_results_share_memory_where_those_of_the_function_do(function, shared):
    """Also where the same is computed once for several of them."""
    a, b, *others = nf.fuse(function)(nf.Variable(X))
    expected = function(nf.Variable(X))
    assert np.shares_memory(a.data, b.data) == shared
    for found, right in zip((a, b, *others), expected, strict=True):
        np.testing.assert_array_equal(found.data, right.data)


def test_a_result_is_apart_from_the_argument_that_it_is_stored_into():
    @nf.fuse
    def f(x):
        y = x + 1
        x[...] = y
        return y, y.T, x.T

    x = X.copy()
    y, transposed, view = f(x)
    assert (np.shares_memory(y, x), np.shares_memory(view, x)) == (False, True)
    assert np.shares_memory(transposed, y)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(transposed, x.T)


def test_the_source_of_what_was_not_called_says_what_to_do():
    fused = nf.fuse(lambda x: x * 2.0, kernel_name="twice")
    for kind in ("primal", "vjp"):
        assert fused.source(kind) == "# twice was not traced yet: call it first\n"
    fused(np.ones(3))
    assert "not traced" not in fused.source()
    assert "* 2.0" in fused.source()
