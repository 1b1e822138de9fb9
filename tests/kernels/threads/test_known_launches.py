"""Launches like those before take what was decided then, and nothing else."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

import nbfused as nf
from nbfused.config import config
from nbfused.errors import (
    InplaceModificationError,
    KernelTypeError,
    NotDifferentiableError,
    RangeError,
    ReadOnlyError,
)
from nbfused.kernels.threads import known_launches


@pytest.fixture
def scale():
    @nf.rawkernel
    def scale(x, y, c):
        i = nf.grid(1)
        if i < x.shape[0]:
            y[i] = c * x[i]

    return scale


def known(kernel):
    return sum(len(reader.launches) for reader in kernel._known._readers.values())


def test_addresses_and_numbers_are_new_in_each_launch(scale):
    for k in range(4):
        x, y = np.arange(5.0) + k, np.zeros(5)
        scale[1, 8](x, y, k + 0.5)
        np.testing.assert_array_equal(y, (k + 0.5)*x)
    assert known(scale) == 1


def test_arrays_whose_library_has_no_text_are_described(scale, monkeypatch):
    own = known_launches.reading_of
    monkeypatch.setattr(known_launches, "reading_of",
                        lambda kind, number: own(kind, number) if number else None)
    for x in (np.arange(5.0), np.arange(5.0) + 1, np.arange(10.0)[::2]):
        y = np.zeros(5)
        scale[1, 8](x, y, 2.5)
        np.testing.assert_array_equal(y, 2.5*x)
    assert known(scale) == 2
    with pytest.raises(KernelTypeError, match="x: dtype"):
        scale[1, 8](np.zeros(5, "M8[s]"), y, 2.5)


def test_structs_are_looked_at_each_time():
    @nf.rawkernel
    def add(p, y):
        i = nf.grid(1)
        y[i] = p[i].a + p[i].b

    p = np.zeros(3, [("a", "f8"), ("b", "f8")])
    for k in range(3):
        p["a"], p["b"], y = k, 2*k, np.zeros(3)
        add[1, 3](p, y)
        assert y.tolist() == [3*k]*3
    assert known(add) == 0


@pytest.mark.parametrize("change", [
    lambda x, y, c: (x.astype(np.float32), y, c), lambda x, y, c: (x[:3], y[:3], c),
    lambda x, y, c: (x[::2], y[:3], c), lambda x, y, c: (x, y, 2),
    lambda x, y, c: (x, y, np.float32(2)), lambda x, y, c: (x, y, True)])
def test_other_types_and_layouts_are_decided_anew(scale, change):
    arguments = np.arange(5.0), np.zeros(5), 1.5
    scale[1, 8](*arguments)
    x, y, c = change(*arguments)
    scale[1, 8](x, y, c)
    np.testing.assert_array_equal(y, c*x)
    assert known(scale) == 2


def test_what_was_refused_is_refused(scale):
    x, y = np.arange(5.0), np.zeros(5)
    scale[1, 8](x, y, 1.5)
    y.flags.writeable = False
    with pytest.raises(ReadOnlyError, match="'y'"):
        scale[1, 8](x, y, 1.5)
    with pytest.raises(RangeError, match="64 bits"):
        scale[1, 8](x, x.copy(), 2**64)
    with pytest.raises(RangeError, match="block"):
        scale[1, 2048](x, x.copy(), 1.5)
    with pytest.raises(KernelTypeError, match="grid"):
        scale[1.0, 8](x, x.copy(), 1.5)
    with pytest.raises(KernelTypeError, match="block"):
        scale[(1,), (8.0,)](x, x.copy(), 1.5)


def test_variables_are_recorded_or_refused_as_before():
    @nf.rawkernel(differentiable=True)
    def double(x, y):
        i = nf.grid(1)
        if i < x.shape[0]:
            y[i] = 2 * x[i]

    double[1, 8](np.arange(3.0), np.zeros(3))
    x, y = nf.Variable(np.arange(3.0), requires_grad=True), nf.Variable(np.zeros(3))
    double[1, 8](x, y)
    (y*y).sum().backward()
    np.testing.assert_array_equal(x.grad, 8*np.arange(3.0))


def test_tensors_that_require_a_gradient_are_refused(scale):
    torch = pytest.importorskip("torch")
    x, y = torch.arange(3.0), torch.zeros(3)
    scale[1, 8](x, y, 2.0)
    scale[1, 8](x, y, 3.0)
    assert y.tolist() == [0, 3, 6]
    with pytest.raises(NotDifferentiableError, match="'x'"):
        scale[1, 8](x.requires_grad_(), y, 2.0)


def test_frozen_numbers_are_told_apart_by_their_text():
    @nf.rawkernel
    def scaled(n: nf.literal, x, c: nf.literal, y, s):
        i = nf.grid(1)
        v = x[i]
        for _ in nf.unroll(range(n)):
            v = 2 * v
        y[i] = math.copysign(v, c) * s

    for n, c, s in ((1, 0.0, 1.5), (1, 0.0, 2.5), (1, -0.0, 2.5), (2, -0.0, 2.5),
                    (2, 0.0, 0.5), (1, 0.0, 1.5)):
        x, y = np.arange(2.0), np.zeros(2)
        scaled[1, 2](n, x, c, y, s)
        np.testing.assert_array_equal(y, math.copysign(2.0**n, c)*x*s)
    assert known(scaled) == 4


def test_what_is_written_beside_frozen_numbers_is_noticed():
    @nf.rawkernel
    def doubled(n: nf.literal, x, y):
        y[nf.grid(1)] = n * x[nf.grid(1)]

    x, y = np.arange(3.0), np.ones(3)
    doubled[1, 3](2, x, y)
    v = nf.Variable(y, requires_grad=True)
    loss = (v*v).sum()
    doubled[1, 3](2, x, y)
    with pytest.raises(InplaceModificationError):
        loss.backward()


def test_a_saved_array_that_is_written_again_is_noticed(scale):
    x, y = np.arange(3.0), np.ones(3)
    scale[1, 8](x, y, 1.0)
    v = nf.Variable(y, requires_grad=True)
    loss = (v*v).sum()
    scale[1, 8](x, y, 1.0)
    with pytest.raises(InplaceModificationError):
        loss.backward()


def test_debugging_looks_at_every_launch(scale):
    x, y = np.arange(3.0), np.ones(4)
    for _ in range(2):
        scale[1, 8](x, y[:3], 1.0)
        scale[1, 8](x[:2], y[:2], 1.0)
    with config.override(debug=True), pytest.raises(RangeError, match="axis 0"):
        scale[1, 8](x, y[:2], 1.0)


def test_no_threads_are_no_launch(scale):
    for _ in range(2):
        scale.launch(np.ones(0), np.ones(0), 1.0, dim=0)
    assert known(scale) == 0


def test_a_launch_is_a_few_calls_of_python(scale):
    """A first launch is some 300; this is what keeps a repeated one cheap."""
    x, y = np.arange(5.0), np.zeros(5)
    launch = scale[1, 8]
    launch(x, y, 1.5)
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        launch(x, y, 2.5)
    finally:
        sys.setprofile(None)
    assert calls <= 22
