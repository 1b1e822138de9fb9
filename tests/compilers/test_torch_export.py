"""Exported programs, saved and loaded, in this process and in others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.errors import UnknownOperationError

torch = pytest.importorskip("torch")

ROOT = Path(nf.__file__).parent.parent


@nf.elementwise
def doubled(x):
    return 2.0 * x


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, 12).reshape(4, 3))

    def forward(self, x):
        return ops.softmax(ops.linear(doubled(x), self.weight, activation="gelu"))


X = torch.linspace(-2, 2, 20).reshape(5, 4)
LOAD = """\
import sys, torch, nbfused
program = torch.export.load(sys.argv[1])
torch.save(program.module()(torch.load(sys.argv[2])), sys.argv[3])
"""


@pytest.fixture
def program():
    rows = torch.export.Dim("rows")
    return torch.export.export(Model(), (X,), dynamic_shapes={"x": {0: rows}})


def other_process(folder, **environment):
    return subprocess.run(
        [sys.executable, "-c", LOAD, *(str(folder / n) for n in (
            "model.pt2", "x.pt", "y.pt"))],
        capture_output=True, text=True, timeout=180, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment})


def test_operations_that_are_first_called_in_an_export():
    """PyTorch replaces Python's max meanwhile, which their functions call."""
    @nf.elementwise
    def limited(x):
        return max(min(x, 0.25), -0.25) + abs(round(x))

    class Limited(torch.nn.Module):
        def forward(self, x):
            return limited(x)

    found = torch.export.export(Limited(), (X,), strict=False).module()(X)
    torch.testing.assert_close(found, X.clamp(-0.25, 0.25) + X.round().abs())


@pytest.mark.parametrize("strict", [True, False])
def test_an_exported_program_has_one_node_for_each_operation(strict):
    found = torch.export.export(Model(), (X,), strict=strict)
    names = [str(n.target) for n in found.graph.nodes if n.op == "call_function"]
    assert [n.split(".")[0] for n in names] == ["nbfused"] * 3
    torch.testing.assert_close(found.module()(X), Model()(X))


def test_it_is_differentiated(program):
    model, copy = Model(), program.module()
    for m in (model, copy):
        m(X).square().sum().backward()
    torch.testing.assert_close(copy.weight.grad, model.weight.grad)


def test_another_process_that_shares_the_cache_runs_it(program, tmp_path):
    torch.export.save(program, tmp_path / "model.pt2")
    x = torch.linspace(-1, 1, 28).reshape(7, 4)
    torch.save(x, tmp_path / "x.pt")
    done = other_process(tmp_path, NBFUSED_CACHE_DIR=str(nf.cache.folder()))
    assert done.returncode == 0, done.stderr
    torch.testing.assert_close(torch.load(tmp_path / "y.pt"), Model()(x).detach())


def test_another_process_that_does_not_says_what_is_missing(program, tmp_path):
    torch.export.save(program, tmp_path / "model.pt2")
    torch.save(X, tmp_path / "x.pt")
    done = other_process(tmp_path, NBFUSED_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode != 0
    assert "is not known in this process" in done.stderr
    assert "NBFUSED_CACHE_DIR" in done.stderr


def test_names_of_operations_that_nobody_has_made():
    ops.swish(X)
    torch.export.export(Model(), (X,))
    with pytest.raises(UnknownOperationError, match=r"torch\.ops\.nbfused\.swish_01"):
        torch.ops.nbfused.swish_0123456789abcdef  # noqa: B018
    assert not hasattr(torch.ops.nbfused, "swish")


def test_equal_operations_have_one_name():
    def name(function):
        graph = torch.export.export(type("M", (torch.nn.Module,), {
            "forward": lambda self, x: function(x)})(), (X,)).graph
        return next(str(n.target) for n in graph.nodes if n.op == "call_function")

    other = nf.elementwise(lambda x: 3.0 * x)
    again = nf.elementwise(doubled.pyfunc)
    assert name(again) == name(doubled) != name(other)
    assert np.allclose(again(X.numpy()), 2 * X.numpy())
