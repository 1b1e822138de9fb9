"""The benchmarks run: every asv class once, on small sizes."""

import json
import logging

import pytest

from benchmarks.__main__ import classes, main, runs
from benchmarks.bench_rocm import missing
from benchmarks.peers import __main__ as peers
from benchmarks.peers.words import of_nbfused
from benchmarks.peers.workloads import workloads
from nbfused.config import config


def test_every_benchmark_runs_and_measures_something(capsys):
    assert main(["--quick", "--match", "cpu|numpy"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = {line.partition(".")[0] for line in lines}
    assert names == {case.__name__ for case in classes()} - {"HipAgainstNumba"}
    assert all(float(line.split()[-2]) > 0 for line in lines)


@pytest.mark.cuda
def test_every_benchmark_runs_on_a_gpu(capsys):
    assert main(["--quick", "--match", "cuda"]) == 0
    assert "TrainStep.time_step" in capsys.readouterr().out


@pytest.mark.cuda
@pytest.mark.rocm
def test_hip_runs_against_numba(capsys):
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    assert main(["--quick", "--match", "HipAgainstNumba"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3*4
    assert all(float(line.split()[-2]) > 0 for line in lines)


def test_what_cannot_run_here_says_why(capsys, monkeypatch):
    monkeypatch.setattr(config, "rocm_emulate", "1")
    assert main(["--quick", "--match", "HipAgainstNumba.*swish"]) == 0
    assert "skipped: " in capsys.readouterr().out


def test_match_selects():
    chosen = {case.__name__ for case, _ in runs(quick=True, wanted="LayerNorm")}
    assert chosen == {"LayerNorm"}


def test_the_table_of_peers_checks_what_it_times(tmp_path, caplog, monkeypatch):
    table = tmp_path / "table.json"
    words = ["--quick", "--peers", "numpy", "--json", str(table), "--only"]
    assert peers.main([*words, "l2norm|sum of|matmul 20"]) == 0
    rows = json.loads(table.read_text())
    assert {"l2norm, axis 0", "sum of 0 M", "matmul 20^3"} <= {r["name"] for r in rows}
    assert all(r["seconds"]["nbfused"] > 0 and r["best"][0] == "numpy" for r in rows)
    monkeypatch.setitem(of_nbfused.FAMILIES, "sum", lambda x: x[0])
    with caplog.at_level(logging.WARNING):
        peers.main([*words, "sum of"])
    assert "nbfused, sum of 0 M: result 0 is off" in caplog.text
    assert json.loads(table.read_text())[0]["ratio"] is None


def test_the_quick_table_has_every_family():
    quick = {w.family for w in workloads("cpu", quick=True)}
    assert {w.family for d in ("cpu", "cuda") for w in workloads(d)} == quick
    assert quick == set(of_nbfused.FAMILIES)
