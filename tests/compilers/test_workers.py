"""Kernels of a notebook in worker processes, which find them compiled."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import nbfused as nf

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

ROOT = Path(nf.__file__).parent.parent

#: The cells of a notebook.
CELLS = (
    """\
import cloudpickle
import numpy as np
import nbfused as nf
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
""",
    """\
scale = 3.0

@nf.elementwise
def scaled(x):
    return scale * x if x > 0 else -x

@nf.reduction(combine="sum")
def energy(x):
    return x * x

@nf.fuse
def fused(x):
    return energy(scaled(x) + 1.0, axis=-1)

def work(x):
    return fused(x), nf.grad(lambda t: energy(scaled(t)))(x)
""",
    """\
import os
from importlib import import_module

sent = cloudpickle.dumps(work)
run = import_module("work_in_worker").run
expected = work(np.linspace(-1, 1, 6).reshape(2, 3))
with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
    found = list(pool.map(run, [sent] * 4, [np.linspace(-1, 1, 6).reshape(2, 3)] * 4))
""",
    """\
for values, gradient, process, compilations in found:
    np.testing.assert_allclose(values, expected[0])
    np.testing.assert_allclose(gradient, expected[1])
    assert process != os.getpid()
    assert compilations == 0, compilations
print(len(found), "equal")
""",
)

#: What workers import: it unpickles what the notebook sends.
WORKER = """\
import os, pickle
import nbfused as nf

def run(sent, x):
    values, gradient = pickle.loads(sent)(x)
    return values, gradient, os.getpid(), nf.cache.stats().compilations
"""


def test_a_kernel_of_a_notebook_in_two_spawned_workers(tmp_path, monkeypatch):
    (tmp_path / "work_in_worker.py").write_text(WORKER)
    monkeypatch.setenv("NBFUSED_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(
        [str(tmp_path), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]))
    notebook = nbformat.v4.new_notebook(cells=[
        nbformat.v4.new_code_cell(text) for text in CELLS])
    nbclient.NotebookClient(notebook, timeout=180, kernel_name="python3").execute()
    assert notebook.cells[-1].outputs[0].text == "4 equal\n"
