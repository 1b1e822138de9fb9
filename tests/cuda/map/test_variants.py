"""Map's candidates: each of them is right at every extent, and each compiles."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.cuda.map.launcher import MapLauncher
from nbfused.cuda.runtime import binding as bound
from nbfused.cuda.tuning import choices
from nbfused.cuda.tuning.tuner import Tuner
from nbfused.support.dtypes import BFLOAT16
from tests.cuda.recorded import assembled, recording, registers

COUNT = 6
SIZES = (0, 1, 7, 8, 255, 1000, 1024, 4096, 8192, 12345, 100_003)


def forced(monkeypatch, number):
    """Take the candidate of this number; the texts of those that were taken."""
    taken = []

    def choose(self, key, call, device, outputs):
        found = self._candidates(call, device)
        taken.append(str(found[number % len(found)]))
        return found[number % len(found)]

    monkeypatch.setattr(Tuner, "__call__", choose)
    monkeypatch.setattr(bound.Bindable, "bind", lambda self, call: None)
    return taken


def test_candidates_differ_and_do_not_spill(monkeypatch):
    with recording() as kernels:
        for number in range(COUNT):
            with monkeypatch.context() as patch:
                taken = forced(patch, number)
                ops.swish(np.ones(4096 + 64*number, np.float32))  # a layout of its own
                assert len(taken) == 1
    assert len(kernels) == 5  # as many as there are for float32
    for kernel in kernels.values():
        _, said = assembled(kernel)
        assert said is None or registers(said)[1] == 0


@pytest.mark.cuda
@pytest.mark.parametrize("number", range(COUNT))
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_every_candidate(monkeypatch, number, dtype):
    taken = forced(monkeypatch, number)
    # No other test has launched it: the number is part of the function.
    multiply = nf.elementwise(lambda x, y: x*y*number)
    for size in SIZES:
        x, y = (np.random.default_rng(k).standard_normal(size).astype(dtype)
                for k in (0, 1))
        a, b = (nf.array(v, device="cuda") for v in (x, y))
        got = nf.to_numpy(multiply(a, b)).astype(np.float64)
        want = x.astype(np.float64)*y.astype(np.float64)*number
        np.testing.assert_allclose(got, want, rtol=8*np.finfo(dtype).eps,
                                   atol=8*np.finfo(dtype).eps)
    assert len(taken) == len(SIZES) - 1  # of 0 elements nothing is made


@pytest.mark.cuda
def test_tuning_a_map(tmp_path, monkeypatch):
    monkeypatch.setattr(choices, "_tables", {})
    monkeypatch.setattr(choices, "folder", lambda: tmp_path)
    launched, launch = [], MapLauncher._launch

    def noted(self, text, call, where):
        launched.append(str(text))
        launch(self, text, call, where)

    monkeypatch.setattr(MapLauncher, "_launch", noted)
    x = nf.array(np.ones(3_000_001, np.float32), device="cuda")
    y = nf.array(np.zeros(3_000_001, np.float32), device="cuda")
    with nf.config.override(autotune="1"):
        ops.softplus(x, out=y)
        assert len(set(launched)) == 5
        launched.clear()
        ops.softplus(x, out=y)
    assert len(launched) == 1
    np.testing.assert_allclose(nf.to_numpy(y), np.log1p(np.e), rtol=1e-6)
    (path,) = choices.kept_files()
    print(choices.as_text(path))  # shown by pytest -s


@pytest.mark.cuda
@pytest.mark.parametrize("shape", [(256, 256), (300, 512), (257, 2*259), (256, 3, 320)])
@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16])
def test_halves_that_lie_across(shape, dtype):
    """Whole tiles in pairs, edges singly; a broadcast operand and one of float32."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(np.float32).astype(dtype)
    turned = nf.array(x.T.copy(), device="cuda").T
    y, row, z = (nf.array(v, device="cuda") for v in (
        x, x[..., :1, :], x.astype(np.float32)))
    wide = x.astype(np.float32)
    for other, want in ((y, wide + wide), (row, wide + wide[..., :1, :]),
                        (z, wide + wide)):
        got = nf.to_numpy(ops.add(turned, other)).astype(np.float32)
        np.testing.assert_allclose(got, want, rtol=2.0**-7, atol=1e-6)
