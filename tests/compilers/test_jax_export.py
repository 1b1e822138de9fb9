"""Programs of JAX with our calls, exported, saved and run in other processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.errors import UnsupportedError

jax = pytest.importorskip("jax")
pytest.importorskip("flatbuffers")  # by which JAX saves programs
export = pytest.importorskip("jax.export")
jnp = jax.numpy

ROOT = Path(nf.__file__).parent.parent
CHECKS = [export.DisabledSafetyCheck.custom_call("nbfused")]
X = np.linspace(-2, 2, 20, dtype=np.float32).reshape(5, 4)
LOAD = """\
import sys, numpy as np
{imports}
jax.config.update("jax_platforms", "cpu")
program = jax.export.deserialize(bytearray(open(sys.argv[1], "rb").read()))
x = np.load(sys.argv[2])
np.savez(sys.argv[3], program.call(x), jax.grad(lambda x: program.call(x).sum())(x))
"""


@nf.fuse
def fused(x, n=0.25):
    y = np.tanh(x*(n + n))
    return y - y.mean(axis=-1, keepdims=True)


def model(x):
    return ops.softmax(fused(ops.swish(x), 0.25))


def plain(x):
    y = jnp.tanh(jax.nn.silu(x)*0.5)
    return jax.nn.softmax(y - y.mean(-1, keepdims=True))


@pytest.fixture
def saved(tmp_path):
    np.save(tmp_path / "x.npy", X)
    with jax.default_device(jax.devices("cpu")[0]):
        program = export.export(jax.jit(model), platforms=["cpu"],
                                disabled_checks=CHECKS)(X)
    (tmp_path / "program").write_bytes(program.serialize(vjp_order=1))
    return tmp_path


def other_process(folder, imports, **environment):
    return subprocess.run(
        [sys.executable, "-c", LOAD.format(imports=imports),
         *(str(folder / n) for n in ("program", "x.npy", "y.npz"))],
        capture_output=True, text=True, timeout=180, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment})


@pytest.mark.parametrize("imports", ["import jax, jax.export, nbfused",
                                     "import nbfused, jax, jax.export"])
def test_another_process_that_shares_the_cache_runs_it(saved, imports):
    done = other_process(saved, imports, NBFUSED_CACHE_DIR=str(nf.cache.folder()))
    assert done.returncode == 0, done.stderr
    found = np.load(saved / "y.npz")
    np.testing.assert_allclose(found["arr_0"], plain(X), atol=1e-6)
    np.testing.assert_allclose(found["arr_1"], jax.grad(
        lambda x: plain(x).sum())(X), atol=1e-6)


def test_another_process_that_does_not_says_what_is_missing(saved, tmp_path):
    done = other_process(saved, "import jax, jax.export, nbfused",
                         NBFUSED_CACHE_DIR=str(tmp_path / "other"))
    assert done.returncode != 0
    assert "UnknownOperationError" in done.stderr
    assert "share NBFUSED_CACHE_DIR" in done.stderr


def test_equal_programs_have_one_number():
    def number(function, value):
        text = jax.jit(lambda x: function(x, value)).lower(X).as_text()
        (found,) = re.findall(r"call = (\d+) : i64", text)
        return found

    @nf.fuse(kernel_name="scaled")
    def scaled(x, n):
        return np.tanh(x*(n + 1.5)) - x

    @nf.fuse(kernel_name="scaled")
    def same(y, n):
        return np.tanh(y*(n + 1.5)) - y

    @nf.fuse(kernel_name="scaled")
    def other(x, n):
        return np.tanh(x*(n - 1.5)) - x

    assert number(same, 2.0) == number(scaled, 2.0)
    assert len({number(scaled, 2.0), number(scaled, 2.5), number(other, 2.0)}) == 3


@pytest.mark.parametrize("function", [ops.swish, fused], ids=["an op", "fused"])
def test_extents_that_are_open_are_refused(function):
    rows, = export.symbolic_shape("rows")
    with pytest.raises(UnsupportedError, match=r"rows.*export the program once"):
        export.export(jax.jit(function), disabled_checks=CHECKS)(
            jax.ShapeDtypeStruct((rows, 4), jnp.float32))
