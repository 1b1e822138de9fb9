"""asv's verdicts on nbfused: which sign a loss has, and what counts as one."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import bench_workloads, record, where
from benchmarks.__main__ import classes

ROOT = Path(record.__file__).parents[1]
#: asv takes what grows for a loss: time, memory, launches, ratios to somebody's time.
SMALLER_IS_BETTER = {"s", "us", "MB", "launches", "ps/B", "ps/FLOP", "ps/B or ps/FLOP",
                     "x", "times theirs"}
TRACKED = [(case, name) for case in classes() for name in dir(case)
           if name.startswith("track_")]


@pytest.mark.parametrize(("case", "name"), TRACKED)
def test_every_tracked_number_has_a_unit_of_which_less_is_better(case, name):
    assert getattr(case, name).unit in SMALLER_IS_BETTER


class Slow:
    """A clock on which everything takes so long."""

    def __init__(self, seconds):
        self.seconds = lambda call: seconds


@pytest.mark.parametrize("unit", ["B", "FLOP"])
def test_what_takes_longer_has_a_larger_number(monkeypatch, unit):
    """It was a rate: asv called a gain of 15 % a loss."""
    case = {"B": bench_workloads.Bytes, "FLOP": bench_workloads.Products}[unit]
    work = SimpleNamespace(work=2e9, unit=unit)
    monkeypatch.setattr(bench_workloads, "call_of", lambda name: ("cpu", work, int))
    found = []
    for seconds in (1e-3, 1.3e-3):
        monkeypatch.setattr(bench_workloads, "clock", lambda device, s=seconds: Slow(s))
        found.append(case().track_time(bench_workloads._measured(["row"]), "row"))
        assert found[-1] == pytest.approx(seconds/2e9*1e12)
    assert found[1]/found[0] == pytest.approx(1.3)


def test_so_has_what_series_of_calls_take(monkeypatch):
    found = []
    for step in (0.001, 0.0013):
        times = iter(np.arange(99)*step)
        monkeypatch.setattr(where.time, "perf_counter", lambda times=times: next(times))
        found.append(where.picoseconds(int, 10**6))
        monkeypatch.undo()
    assert found[1]/found[0] == pytest.approx(1.3)


def test_so_has_a_row_of_the_table():
    rows = [{"name": "sum", "dtype": "float32", "unit": "B", "work": 1e9,
             "seconds": {"nbfused": s}} for s in (1e-3, 1.3e-3)]
    fast, slow = (dict(record._times([row], "cpu")) for row in rows)
    ((benchmark, _), value), = fast.items()
    assert (benchmark, value) == ("bench_workloads.Bytes.track_time",
                                  pytest.approx(1.0))
    assert list(slow.values()) == [pytest.approx(1.3)]


# --- the comparison of two commits


def options(text):
    """Those of ``asv continuous`` in a text."""
    command = re.search("asv .*continuous .*", re.sub(r"\\\n", " ", text))[0]
    found = dict(re.findall(r"--(bench|factor) (\S+)", command))
    found.update(re.findall(r"-a (rounds|repeat)=(\d+)", command))
    found["interleaved"] = "--interleave-rounds" in command
    return found


COMPARED = options((ROOT / "docs/performance.md").read_text())


def test_the_pull_requests_are_compared_as_the_documentation_says():
    assert COMPARED["interleaved"]
    assert COMPARED["bench"] == "time_"  # of tracked numbers there is one sample each
    assert options((ROOT / ".github/workflows/benchmark.yml").read_text()) == COMPARED


def samples(dice, typical):
    """What a noisy machine gives: rounds that are slower, and calls that are."""
    rounds = dice.lognormal(0.0, 0.12, (int(COMPARED["rounds"]), 1))
    calls = dice.lognormal(0.0, 0.05, (len(rounds), int(COMPARED["repeat"])))
    return (typical*rounds*calls).ravel().tolist()


def verdict(base, head, capsys):
    """(whether a loss is reported, whether a gain is), and the table."""
    pytest.importorskip("asv")
    from asv.commands.compare import Compare
    from asv_runner.statistics import compute_stats

    def results(rows):
        for name, values in rows.items():
            median, stats = compute_stats(values, 1)
            yield (name, [], [median], [stats], [values], "1", "machine", "env")

    status = Compare.print_table(
        SimpleNamespace(results_dir=str(record.HERE / "results"),
                        benchmark_dir=str(record.HERE)),
        "a"*40, "b"*40, factor=float(COMPARED["factor"]), split=False,
        resultset_1=results(base), resultset_2=results(head), machine="machine",
        only_changed=True, sort="ratio", use_stats=True, commit_names={})
    return status, capsys.readouterr().out


def test_five_runs_over_a_commit_that_changes_nothing_report_nothing(capsys):
    dice = np.random.default_rng(0)
    for _ in range(5):
        base, head = ({f"row{k}": samples(dice, 10.0**-(k % 5)) for k in range(30)}
                      for _ in range(2))
        assert verdict(base, head, capsys) == ((False, False), "")


@pytest.mark.parametrize(("factor", "wanted"), [
    (1.3, (True, False)), (1/1.3, (False, True))])
def test_thirty_percent_in_one_row_are_reported_with_their_sign(capsys, factor, wanted):
    dice = np.random.default_rng(1)
    base, head = ({f"row{k}": samples(dice, 1e-3) for k in range(5)} for _ in range(2))
    head["row3"] = [factor*s for s in head["row3"]]
    status, table = verdict(base, head, capsys)
    assert status == wanted
    assert "row3" in table
    assert not any(f"row{k}" in table for k in (0, 1, 2, 4))
