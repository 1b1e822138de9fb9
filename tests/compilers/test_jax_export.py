"""Programs of JAX with our calls, exported, saved and run in other processes."""

from __future__ import annotations

import os
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
LOAD = """\
import sys, numpy as np
{imports}
jax.config.update("jax_platforms", "cpu")
program = jax.export.deserialize(bytearray(open(sys.argv[1], "rb").read()))
x = np.load(sys.argv[2])
np.savez(sys.argv[3], program.call(x), jax.grad(lambda x: program.call(x).sum())(x))
"""


@nf.fuse
def fused(x):
    y = np.tanh(x*0.5)
    return y - y.mean(axis=-1, keepdims=True)


def model(x):
    return ops.softmax(fused(ops.swish(x)))


def plain(x):
    y = jnp.tanh(jax.nn.silu(x)*0.5)
    return jax.nn.softmax(y - y.mean(-1, keepdims=True))


@pytest.fixture
def saved(tmp_path):
    x = np.linspace(-2, 2, 20, dtype=np.float32).reshape(5, 4)
    np.save(tmp_path / "x.npy", x)
    with jax.default_device(jax.devices("cpu")[0]):
        program = export.export(jax.jit(model), platforms=["cpu"],
                                disabled_checks=CHECKS)(x)
    (tmp_path / "program").write_bytes(program.serialize(vjp_order=1))
    return tmp_path, x


def other_process(folder, imports, **environment):
    return subprocess.run(
        [sys.executable, "-c", LOAD.format(imports=imports),
         *(str(folder / n) for n in ("program", "x.npy", "y.npz"))],
        capture_output=True, text=True, timeout=180, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment})


@pytest.mark.parametrize("imports", ["import jax, jax.export, nbfused",
                                     "import nbfused, jax, jax.export"])
def test_another_process_that_shares_the_cache_runs_it(saved, imports):
    folder, x = saved
    done = other_process(folder, imports, NBFUSED_CACHE_DIR=str(nf.cache.folder()))
    assert done.returncode == 0, done.stderr
    found = np.load(folder / "y.npz")
    np.testing.assert_allclose(found["arr_0"], plain(x), atol=1e-6)
    np.testing.assert_allclose(found["arr_1"], jax.grad(
        lambda x: plain(x).sum())(x), atol=1e-6)


def test_another_process_that_does_not_says_what_is_missing(saved, tmp_path):
    folder, _ = saved
    done = other_process(folder, "import jax, jax.export, nbfused",
                         NBFUSED_CACHE_DIR=str(tmp_path / "other"))
    assert done.returncode != 0
    assert "UnknownOperationError" in done.stderr
    assert "share NBFUSED_CACHE_DIR" in done.stderr


def test_what_no_other_process_can_name_is_not_exported():
    @nf.fuse
    def scaled(x, n):
        return np.tanh(x*(n + 1.5))

    program = jax.jit(lambda x: scaled(x, 2.0))
    x = jnp.ones(3, jnp.float32)
    np.testing.assert_allclose(program(x), jnp.tanh(x*3.5), rtol=1e-6)
    found = export.export(program, disabled_checks=CHECKS)(x)
    np.testing.assert_allclose(found.call(x), jnp.tanh(x*3.5), rtol=1e-6)


@pytest.mark.parametrize("function", [ops.swish, fused], ids=["an op", "fused"])
def test_extents_that_are_open_are_refused(function):
    rows, = export.symbolic_shape("rows")
    with pytest.raises(UnsupportedError, match=r"rows.*export the program once"):
        export.export(jax.jit(function), disabled_checks=CHECKS)(
            jax.ShapeDtypeStruct((rows, 4), jnp.float32))
