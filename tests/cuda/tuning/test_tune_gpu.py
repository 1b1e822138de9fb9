"""Tuning on a device: real times, real kernels, graphs, the same bits."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

import nbfused as nf
from nbfused.backend import Call
from nbfused.config import config
from nbfused.cuda import CudaBackend
from nbfused.cuda.runtime.compile import Kernel
from nbfused.cuda.runtime.launch import Program
from nbfused.cuda.tuning import choices
from nbfused.cuda.tuning.tuner import Tuner

pytestmark = pytest.mark.cuda

SIZE = 1 << 20


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Nothing kept or shipped."""
    monkeypatch.setattr(choices, "_tables", {})
    monkeypatch.setattr(choices, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setattr(choices, "folder", lambda: tmp_path / "tuned")
    with config.override(autotune="1", deterministic=False, cache_disable=False):
        yield tmp_path


# --- planted variants


@dataclass(frozen=True)
class Planted:
    """A copy that reads every element so many times; `work` divides SIZE."""

    work: int
    threads: int = 256


def text(plan):
    name = f"planted_{plan.work}_{plan.threads}"
    return Kernel(name, f"""def {name}(x, y):
    i = i64(cuda.blockIdx.x)*{plan.threads} + i64(cuda.threadIdx.x)
    total = f32(0)
    for k in range({plan.work}):
        total += x[(i + 4099*k) % {SIZE}]
    y[i] = total/f32({plan.work})
""", ("*float32", "*float32"), plan.threads)


class Launcher:
    """Planted kernels and a tuner."""

    def __init__(self, planted):
        self.planted = planted
        self.programs = {plan: Program(text(plan)) for plan in planted}
        self.tuner = Tuner("planted", lambda call, device: self.planted,
                           lambda plan, device: self.programs[plan].function(device),
                           self.launch)

    def launch(self, plan, call, device):
        self.programs[plan].launch(device, call.stream, SIZE//plan.threads,
                                   call.pointers)


@pytest.mark.parametrize("order", [
    (1, 32, 1024), (1024, 32, 1), (32, 1, 1024)])
def test_the_fastest_of_planted_kernels(order):
    from nbfused.cuda.runtime.driver import device

    planted = tuple(map(Planted, order))
    x, y = (CudaBackend().from_host(np.ones(SIZE, np.float32), "cuda:0")
            for _ in range(2))
    call = Call((SIZE,), (x.pointer, y.pointer), ((1,), (1,)))
    launcher = Launcher(planted)
    assert launcher.tuner("key", call, device(0), 1) == Planted(1)
    (path,) = choices.kept_files()
    (choice,) = choices.read(path).choices.values()
    times = [choice.microseconds[str(Planted(w))] for w in (1, 32, 1024)]
    print(choices.as_text(path), times)  # shown by pytest -s
    assert times == sorted(times)
    np.testing.assert_array_equal(nf.to_numpy(y), np.ones(SIZE))


# --- the same bits


BITS = """
import hashlib, numpy as np, nbfused as nf
from nbfused import ops
random = np.random.default_rng(0)
def put(*shape, dtype=np.float32):
    return nf.array(random.standard_normal(shape).astype(dtype), device="cuda:0")
x = nf.Variable(put(1000, 1500), requires_grad=True)
w = nf.Variable(put(1500, 700), requires_grad=True)
y = ops.layer_norm(ops.softmax(x), put(1500), put(1500))
z = ops.swish(ops.matmul(y, w)).sum()
z.backward()
h = ops.matmul(put(600, 1024, dtype=np.float16), put(1024, 520, dtype=np.float16))
total = hashlib.sha256()
for array in (z, x.grad, w.grad, h, ops.sum(put(5000, 3000), axis=0)):
    array = array.data if isinstance(array, nf.Variable) else array
    total.update(np.ascontiguousarray(nf.to_numpy(array)).tobytes())
print(total.hexdigest())
"""


def test_the_same_bits_in_every_run(folder):
    def bits(**settings):
        done = subprocess.run(
            [sys.executable, "-c", BITS], capture_output=True, text=True, check=False,
            env={**os.environ, "NBFUSED_CACHE_DIR": str(folder), **settings})
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    first = bits(NBFUSED_DETERMINISTIC="1")
    bits(NBFUSED_AUTOTUNE="1")
    assert first == bits(NBFUSED_DETERMINISTIC="1")
    assert len(first) == len(hashlib.sha256().hexdigest())
