"""``python -m nbfused``."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import nbfused as nf
from nbfused import cache
from nbfused.__main__ import main
from nbfused.config import config
from nbfused.registry.report import info, show_config, versions
from nbfused.version import __version__


@pytest.fixture(autouse=True)
def folder(tmp_path):
    """A cache of its own, and no compiler for one of the backends."""
    with config.override(cache_dir=str(tmp_path), hipcc="/nowhere/hipcc",
                         rocm_emulate="0"):
        yield tmp_path


def test_info_for_programs(capsys, folder, monkeypatch):
    monkeypatch.setenv("NBFUSED_CACHE_SIZE", "3G")
    cache.put("kernel", b"code")
    assert main(["info", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["versions"]["nbfused"] == __version__
    assert found["versions"]["numpy"] == np.__version__
    assert {"cpu", "cuda", "rocm"} <= set(found["backends"])
    assert "/nowhere/hipcc" in found["backends"]["rocm"]["why"]
    assert (found["cache"]["folder"], found["cache"]["entries"]) == (str(folder), 1)
    assert found["environment"]["NBFUSED_CACHE_SIZE"] == "3G"


def test_info_for_people(capsys, folder):
    assert main(["info"]) == 0
    shown = capsys.readouterr().out
    for word in ("versions", "numba", "backends", "rocm  not available", str(folder)):
        assert word in shown


def test_no_command_means_info():
    run = subprocess.run([sys.executable, "-m", "nbfused"], capture_output=True,
                         text=True, check=True)
    assert run.stdout.startswith(f"versions\n  nbfused       {__version__}\n")


def test_a_reader_that_leaves_early_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    run = subprocess.run([sys.executable, "-m", "nbfused", "info"], stdout=writing,
                         stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (run.returncode, run.stderr) == (1, "")


def test_info_imports_no_library():
    code = ("import sys; from nbfused.registry.report import versions; versions();"
            "print([m for m in ('torch', 'jax', 'numba') if m in sys.modules])")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                         check=True)
    assert run.stdout.strip() == "[]"


def test_versions_of_what_is_absent_are_none(monkeypatch):
    monkeypatch.setattr("nbfused.registry.report._PACKAGES",
                        ("no-such-package-anywhere",))
    assert info()["versions"]["no-such-package-anywhere"] is None


def test_the_cache(capsys, folder):
    cache.put("a", bytes(3000))
    cache.put("b", bytes(100))
    assert main(["cache", "stats"]) == 0
    assert capsys.readouterr().out == f"2 kernels, 3.1 KiB in {folder}\n"
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == f"removed 2 kernels from {folder}\n"
    assert cache.stats().entries == 0


@pytest.mark.parametrize("words", [["nonsense"], ["cache"], ["cache", "burn"],
                                   ["rocm", "build", "--jobs", "0"]])
def test_wrong_words(words, capsys):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert "usage" in said
    assert "--jobs" not in words or "expected at least 1, got '0'" in said


def test_the_demo_refuses_as_the_other_commands_do(capsys):
    pytest.importorskip("rich")
    assert main(["demo", "--device", "cpu:1"]) == 2
    assert "names no device" in capsys.readouterr().err


def test_the_demo_gets_its_own_words(monkeypatch):
    given = []

    def demo(words):
        given.append(words)
        return 7

    module: Any = ModuleType("nbfused.demo")
    module.main = demo
    monkeypatch.setitem(sys.modules, "nbfused.demo", module)
    assert main(["demo", "--device", "cpu"]) == 7
    assert given == [["--device", "cpu"]]


def test_show_config_prints_what_the_command_does(capsys):
    show_config()
    shown = capsys.readouterr().out
    assert main(["info"]) == 0
    assert shown == capsys.readouterr().out
    assert versions() == info()["versions"]


def test_selftest(capsys):
    with nf.use_backend("cpu"):
        assert main(["selftest", "swish"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"cpu: \d+ checks, 0 failed", shown)
    assert "rocm: skipped" in shown


def test_selftest_of_an_op_that_is_not_there(capsys):
    with nf.use_backend("cpu"):
        assert main(["selftest", "nosuch"]) == 2
    assert "'nosuch' is no op" in capsys.readouterr().err


def test_selftest_fails_where_an_op_is_wrong(capsys, monkeypatch):
    monkeypatch.setattr(nf.ops.swish, "reference", lambda x, beta=1.0: x)
    with nf.use_backend("cpu"):
        assert main(["selftest", "swish"]) == 1
    shown = capsys.readouterr().out
    assert "cpu: swish-value-0-float32" in shown
    assert f"with nbfused {__version__}, python {platform.python_version()}" in shown
    assert "NBFUSED_CACHE_DISABLE=1 python -m nbfused selftest swish\n" in shown
    assert shown.endswith("python -m nbfused selftest swish\n"
                          "     python -m nbfused info\n")


def test_selftest_of_no_backend_is_no_success(capsys, monkeypatch):
    monkeypatch.setattr("nbfused.testing.selftest.backends", dict)
    assert main(["selftest"]) == 1
    assert capsys.readouterr().out.startswith("nothing was tested")
