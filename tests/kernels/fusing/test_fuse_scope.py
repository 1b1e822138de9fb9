"""`fuse`: what a function reads besides its arguments, and may change."""

from __future__ import annotations

import functools
import types

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import NbFusedPerformanceWarning

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore:fuse.*decorated again")]

X = np.random.default_rng(0).normal(size=(3, 4)).astype("f4")
Y = np.random.default_rng(1).normal(size=4).astype("f4")
SCALE = 2.0
WEIGHT = np.array([1.0, 2.0, 3.0, 4.0], "f4")


def test_constants_are_defaults_and_what_is_no_number():
    @nf.fuse
    def f(x, axis=(0,), how="sum", factor=2):
        return getattr(x * range(5)[factor], how)(axis)

    np.testing.assert_allclose(f(X), (X * 2).sum(0), rtol=1e-5)
    np.testing.assert_allclose(f(X, axis=(1,), how="max"), (X * 2).max(1))
    assert f.cache_info().misses == 2


def test_a_constant_that_changes_traces_anew(monkeypatch):
    def scaled(x):
        return x * SCALE

    fused = nf.fuse(lambda x: scaled(x) + 1)
    np.testing.assert_allclose(fused(X), X * 2 + 1, rtol=1e-6)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    np.testing.assert_allclose(fused(X), X * 3 + 1, rtol=1e-6)
    assert fused.cache_info().misses == 2


def _module():
    made = types.ModuleType("made")
    exec("K = 2.0\ndef f(x): return x * K\ndef g(x): return f(x)\nclass C:\n"
         "    @staticmethod\n    def s(x): return x * K\n"
         "def scaled(x): return x * scaled.by\nscaled.by = 2.0", made.__dict__)
    return made


@pytest.mark.parametrize(("call", "changes"), [
    (lambda m, x: m.f(x), {"K": 5.0, "f": lambda x: x + 9}),
    (lambda m, x: m.g(x), {"K": 6.0, "f": lambda x: x + 11}),
    (lambda m, x: m.C.s(x), {"K": 7.0, "C.s": lambda x: x + 13}),
    (lambda m, x: m.scaled(x), {"scaled.by": 3.0, "scaled": lambda x: x - 1})])
def test_functions_of_modules_that_change_are_traced_anew(call, changes):
    """Also what they read, and what they have for attributes."""
    made = _module()
    fused = nf.fuse({
        "f": lambda x: made.f(x), "g": lambda x: made.g(x), "s": lambda x: made.C.s(x),
        "scaled": lambda x: made.scaled(x)}[call.__code__.co_names[-1]])
    np.testing.assert_array_equal(fused(X), call(made, X))
    for name, value in changes.items():
        *path, last = name.split(".")
        setattr(functools.reduce(getattr, path, made), last, value)
        np.testing.assert_array_equal(fused(X), call(made, X))
        np.testing.assert_array_equal(fused(X), call(made, X))
    assert fused.cache_info().hits == 2


def test_an_attribute_of_a_function_that_changes_traces_anew():
    def scaled(x):
        return x * scaled.by

    scaled.by = 2.0
    for fused in (nf.fuse(scaled), nf.fuse(lambda x: scaled(x))):
        for by in (3.0, 4.0, 3.0):
            scaled.by = by
            np.testing.assert_array_equal(fused(X), X * np.float32(by))


def test_an_array_that_is_no_argument_is_read_at_each_call(monkeypatch):
    fused = nf.fuse(lambda x: x * WEIGHT + float(WEIGHT.sum()))
    with pytest.warns(NbFusedPerformanceWarning, match="WEIGHT"):
        found = fused(X)
    np.testing.assert_allclose(found, X * WEIGHT + float(WEIGHT.sum()), rtol=1e-5)
    monkeypatch.setitem(globals(), "WEIGHT", WEIGHT * 10)
    np.testing.assert_allclose(fused(X), fused.function(X), rtol=1e-5)
    assert fused.cache_info().currsize == 0


def test_a_constant_that_only_an_inner_function_reads(monkeypatch):
    fused = nf.fuse(lambda x: (lambda v: v * SCALE)(x))
    assert fused(np.ones(2)).tolist() == [SCALE] * 2
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert fused(np.ones(2)).tolist() == [3.0] * 2


def test_a_method_reads_its_object_at_each_call():
    class Model:
        scale = 2.0

        @nf.fuse
        def __call__(self, x):
            return x * self.scale

    model = Model()
    np.testing.assert_array_equal(model(X), X * 2)
    model.scale = 3.0
    np.testing.assert_array_equal(model(X), X * 3)


class Settings:
    scale = 2.0

    def __call__(self, x):
        return x * self.factor

    def scaled(self, x):
        return x * self.factor


def test_members_of_classes_and_modules_may_change(monkeypatch):
    module = types.ModuleType("settings")
    module.inner, module.offset = Settings, (1.0, 2.0)
    fused = nf.fuse(
        lambda x: x * Settings.scale + module.inner.scale * module.offset[0])
    for scale, offset in ((2.0, 1.0), (5.0, 1.0), (5.0, 3.0)):
        monkeypatch.setattr(Settings, "scale", scale)
        module.offset = (offset, 0.0)
        np.testing.assert_allclose(fused(Y), Y * scale + scale * offset, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:fuse.*may be another")
@pytest.mark.parametrize("function", [
    lambda s: s, lambda s: s.scaled, lambda s: functools.partial(Settings.scaled, s)])
def test_what_a_method_is_bound_to_may_change(function):
    settings = Settings()
    fused = nf.fuse(function(settings))
    for settings.factor in (2.0, 3.0):
        np.testing.assert_allclose(fused(Y), Y * settings.factor)
