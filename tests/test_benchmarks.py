"""The benchmarks run: every asv class once, on small sizes."""

import pytest

from benchmarks.__main__ import classes, main, runs
from benchmarks.bench_rocm import missing
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
