"""The benchmarks run: every asv class once, on small sizes."""

import pytest

from benchmarks.__main__ import classes, main, runs


def test_every_benchmark_runs_and_measures_something(capsys):
    assert main(["--quick", "--match", "cpu|numpy"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = {line.partition(".")[0] for line in lines}
    assert names == {case.__name__ for case in classes()}
    assert all(float(line.split()[-2]) > 0 for line in lines)


@pytest.mark.cuda
def test_every_benchmark_runs_on_a_gpu(capsys):
    assert main(["--quick", "--match", "cuda"]) == 0
    assert "TrainStep.time_step" in capsys.readouterr().out


def test_match_selects():
    chosen = {case.__name__ for case, _ in runs(quick=True, wanted="LayerNorm")}
    assert chosen == {"LayerNorm"}
