"""What asks for values while a function is traced, and what is another each time."""

from __future__ import annotations

import datetime
import gc
import math
import random
import time

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, NbFusedPerformanceWarning

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore:fuse.*decorated again")]

X = np.random.default_rng(0).normal(size=4) ** 2 + 1


def caught(x):
    try:
        v = float(x[0])
    except TypeError:
        v = 1.0
    return x * v


ASKING = {
    "float(": lambda x: x * float(x[0]),
    "int(": lambda x: x * int(x[0]),
    "bool(": lambda x: x * bool(x[0]),
    "if x": lambda x: x if x[0] > 0 else -x,
    "math.sqrt": lambda x: x * math.sqrt(x[0]),
    "item()": lambda x: x * x[0].item(),
    "tolist()": lambda x: x * x.tolist()[0],
    "print(x)": lambda x: print(x),
    "print([x])": lambda x: print([x]),
    "repr(x)": lambda x: x * len(repr(x)),
    "%s": lambda x: x * len("%s" % x),  # noqa: UP031
    "f'{": lambda x: x * len(f'{x[0]:.3f}'),
    "in [": lambda x: x * 2 if x[0] in [1.0, 2.0] else x,
    "max(x": lambda x: max(x) * x,
    "sorted(x": lambda x: sorted(x)[0] * x,
    "any(x": lambda x: x if any(x) else -x,
    "range(int": lambda x: x * len(range(int(x[0]))),
    "v = float": caught,
}


@pytest.mark.parametrize("asking", ASKING)
@pytest.mark.parametrize("kind", ["numpy", "torch", "inside"])
def test_values_are_refused_with_the_line(asking, kind, capsys):
    function, x = ASKING[asking], X
    if kind == "torch":
        x = pytest.importorskip("torch").tensor(X)
    run = function if kind != "inside" else nf.grad(lambda t: (function(t) * t).sum())
    with pytest.raises(KernelTypeError) as error:
        nf.fuse(lambda x: run(x))(x)
    _, source, place = str(error.value).splitlines()
    assert asking in source
    assert "test_values_asked.py:" in place
    assert not capsys.readouterr().out


def test_asarray_of_an_order_is_refused_with_the_line():
    with pytest.raises(KernelTypeError, match=r"array needs(.|\n)*np\.asarray\(x"):
        nf.fuse(lambda x: x * np.asarray(x, order="C")[0])(X)


@pytest.mark.parametrize("name", ["strides", "flags", "ctypes", "base"])
def test_attributes_of_arrays_are_refused(name):
    with pytest.raises(KernelTypeError, match=name):
        nf.fuse(lambda x: x * (2 if getattr(x, name, None) else 3))(X)


def test_numbers_as_keys_are_refused():
    with pytest.raises(KernelTypeError, match="a dictionary"):
        nf.fuse(lambda x, n: x * {1: 2}.get(n, 3))(X, 1.0)


def test_types_are_those_of_what_is_passed():
    torch = pytest.importorskip("torch")
    for function, *args in (
            (lambda x: x * 2 if isinstance(x, np.ndarray) else x * 3, X),
            (lambda x: x * 2 if isinstance(x * 2, np.ndarray) else x * 3, X),
            (lambda x: x * 2 if isinstance(x.sum(), np.ndarray) else x * 3, X),
            (lambda x: x * 2 if isinstance(x.sum(), float) else x * 3, X),
            (lambda x: x * 2 if type(x) is np.ndarray else x * 3, X),
            (lambda x, n: x * 2 if isinstance(n, float) else x * 3, X, 1.0),
            (lambda x, n: x * 2 if isinstance(n, float) else x * 3, X, 1),
            (lambda x, n: x * 2 if type(n) in (int, float) else x * 3, X, 1),
            (lambda x, n: x * 2 if np.isscalar(n) else x * 3, X, 1.0),
            (lambda x: x * 2 if torch.is_tensor(x) else x * 3, torch.tensor(X)),
            (lambda x: x * 2 if isinstance(x, torch.Tensor) else x * 3,
             torch.tensor(X))):
        np.testing.assert_allclose(nf.fuse(function)(*args), function(*args))


GENERATOR = np.random.default_rng(0)
DRAW = GENERATOR.normal



def _read():
    with open(__file__) as file:
        return float(file.seek(0))


CHANGING = {
    "random": lambda x: x * random.random(),
    "gauss": lambda x: x * random.gauss(0, 1),
    "numpy.random": lambda x: x * np.random.normal(),  # noqa: NPY002
    "a generator": lambda x: x * GENERATOR.normal(),
    "its method": lambda x: x * DRAW(),
    "a new generator": lambda x: x * np.random.default_rng().normal(),
    "time": lambda x: x * time.perf_counter(),
    "now": lambda x: x * datetime.datetime.now().microsecond,
    "a file": lambda x: x * (_read() + time.perf_counter()),
    "torch": lambda x: x * __import__("torch").rand(1).item(),
}


@pytest.mark.parametrize("name", CHANGING)
def test_what_changes_is_traced_at_each_call(name):
    if name == "torch":
        pytest.importorskip("torch")
    fused = nf.fuse(CHANGING[name])
    with pytest.warns(NbFusedPerformanceWarning, match="traced at each call"):
        found = [float(fused(X)[0])]
    found += [float(fused(X)[0]) for _ in range(4)]
    assert len(set(found)) > 3


def test_seeds_give_what_they_give_without_fuse():
    def noisy(x):
        return np.sort(x * 2) * np.random.normal()  # noqa: NPY002

    fused = nf.fuse(noisy)
    with pytest.warns(NbFusedPerformanceWarning):
        fused(X)
    found = []
    for run in (fused, noisy):
        np.random.seed(3)  # noqa: NPY002
        found.append([float(run(X)[0]) for _ in range(3)])
    assert found[0] == pytest.approx(found[1])


def test_what_is_seeded_inside_is_constant():
    fused = nf.fuse(lambda x: x * np.random.default_rng(3).normal())
    expected = X * np.random.default_rng(3).normal()
    for _ in range(3):
        np.testing.assert_allclose(fused(X), expected)
    assert fused.cache_info().misses == 1


@pytest.mark.filterwarnings("error")
def test_what_others_do_while_garbage_is_collected():
    """Hypothesis, for one, takes the time in a callback of the collector."""
    def callback(phase, info):
        time.perf_counter()

    def collecting(x):
        gc.collect()
        return x * 2

    gc.callbacks.append(callback)
    try:
        np.testing.assert_array_equal(nf.fuse(collecting)(np.ones(3)), 2.0)
    finally:
        gc.callbacks.remove(callback)
