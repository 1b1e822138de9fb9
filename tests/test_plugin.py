"""A backend from outside passes the suite; a deliberately wrong one fails it."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import nbfused as nf
from nbfused import testing
from nbfused.registry.plugins import entry_points
from nbfused.registry.selection import Registry
from nbfused.testing.user_kernels import KERNELS
from tests.plugin import nbfused_interpreter
from tests.plugin.nbfused_interpreter import InterpreterBackend


@pytest.fixture
def interpreter():
    with nf.use_backend(InterpreterBackend()):
        yield


@pytest.mark.parametrize("op", sorted({c.op for c in testing.checks()}))
def test_the_interpreter_passes(op, interpreter):
    assert testing.run("cpu", [op]) == []


def test_a_row_adds_up_all_of_its_results(interpreter):
    @nf.fuse
    def scaled(x):
        y = nf.ops.softmax(x) * 2
        return y, np.sum(y)

    x = np.random.default_rng(0).normal(size=(3, 5))
    np.testing.assert_allclose(scaled(x)[1], 6.0)
    assert "1 launches of 3 operations" in str(scaled.explain(x))


@pytest.mark.parametrize("check", [
    k for k in KERNELS if not k.devices and "raw" not in k.name], ids=str)
def test_the_interpreter_runs_kernels_of_users(check, interpreter):
    check("cpu")


def test_it_is_found_by_its_entry_point(monkeypatch):
    point = metadata.EntryPoint(
        "interpreter", "tests.plugin.nbfused_interpreter:InterpreterBackend",
        "nbfused.backends")
    monkeypatch.setattr(metadata, "entry_points",
                        lambda group: metadata.EntryPoints([point]).select(group=group))
    registry = Registry({}, entry_points)
    registry.enable("interpreter")
    assert registry.backend_for("cpu").name == "interpreter"


class Canary(InterpreterBackend):
    """Right except for one planted fault."""

    def __init__(self, fault):
        super().__init__()
        self.fault = fault

    def build(self, spec, signature):
        launch = super().build(spec, signature)

        def wrong(call):
            self.fault(call)
            launch(call)

        return wrong


def last_element_forgotten(call):
    call.shape = (*call.shape[:-1], max(call.shape[-1] - 1, 0))


def strides_ignored(call):
    dense = [1]
    for extent in call.shape[:0:-1]:
        dense.insert(0, dense[0] * extent)
    call.strides = tuple(  # only where that stays inside the array
        tuple(dense) if len(s) == len(dense) and min(s, default=0) > 0 else s
        for s in call.strides)


@pytest.mark.parametrize("fault", [last_element_forgotten, strides_ignored])
@pytest.mark.parametrize("op", ["swish", "sum", "softmax", "layer_norm"])
def test_a_wrong_backend_fails(fault, op):
    with nf.use_backend(Canary(fault)):
        assert testing.run("cpu", [op]) != []


def test_a_slightly_wrong_backend_fails(monkeypatch):
    store = nbfused_interpreter.store
    monkeypatch.setattr(
        nbfused_interpreter, "store", lambda out, value, drop=():
        store(out, np.asarray(value) * (1 + 1e-4), drop))
    with nf.use_backend(InterpreterBackend()):
        assert testing.run("cpu", ["swish"]) != []


PLUGIN = """
from tests.plugin.nbfused_interpreter import InterpreterBackend

class Right(InterpreterBackend):
    name = "right"

class Wrong(InterpreterBackend):
    name = "wrong"

    def build(self, spec, signature):
        launch = super().build(spec, signature)

        def last_element_forgotten(call):
            call.shape = (*call.shape[:-1], max(call.shape[-1] - 1, 0))
            launch(call)

        return last_element_forgotten
"""


@pytest.mark.parametrize(("name", "code", "said"), [
    ("right", 0, " passed"), ("wrong", 1, " failed"),
    ("wring", 4, "NBFUSED_TEST_BACKEND=wring: no backend is called wring; expected")])
def test_the_suite_runs_on_an_installed_plugin_by_its_name(name, code, said, tmp_path):
    """CONTRIBUTING's ``NBFUSED_TEST_BACKEND=name``."""
    (tmp_path / "own_backends.py").write_text(PLUGIN)
    installed = tmp_path / "own_backends-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Name: own-backends\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(
        "[nbfused.backends]\nright = own_backends:Right\nwrong = own_backends:Wrong\n")
    root = Path(__file__).parents[1]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", "swish-value or sum-value",
         "tests/test_conformance.py"], cwd=root, text=True, capture_output=True,
        check=False, env={**environment, "NBFUSED_TEST_BACKEND": name,
                          "PYTHONPATH": os.pathsep.join([str(tmp_path), str(root)])})
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout + done.stderr
