"""The tables of recorded results: the newest figure of each row, and every loss."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks import record, report
from benchmarks.peers.table import Row

ROOT = Path(report.__file__).parents[1]
BYTES = "bench_workloads.Bytes.track_time"
SWISH, SUM = "'cpu: swish 10 M, float32'", "'cpu: sum of 100 M, float32'"


def keep(folder, commit, date, values, version="1"):
    """Write a file as asv does."""
    (folder/"small").mkdir(exist_ok=True)
    (folder/"benchmarks.json").write_text(json.dumps({BYTES: {"version": "1"},
                                                      "version": 2}))
    (folder/"small"/"machine.json").write_text("{}")
    (folder/"small"/f"{commit}-existing-py3.12.json").write_text(json.dumps({
        "commit_hash": commit*5, "date": 1000*date, "params": {"machine": "small"},
        "results": {BYTES: [values, [[SWISH, SUM]], version],
                    "gone.Bench.track_x": [[1.0], [], "1"]}}))


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    monkeypatch.setattr(report.figures, "__defaults__", (tmp_path,))
    return tmp_path


def test_the_newest_figure_of_each_row_is_shown(results):
    keep(results, "b0000000", 86_400, [100.0, 20.0])
    keep(results, "a0000000", 2*86_400, [50.0, float("nan")])
    lines = report.table("bytes", "small").splitlines()
    assert lines[2:] == [
        "| swish 10 M, float32 | 4000.0 | 0.0200 | a0000000, 1970-01-03 |",
        "| sum of 100 M, float32 | 8000.0 | 0.0500 | b0000000, 1970-01-02 |"]


def test_figures_of_another_version_are_not(results):
    keep(results, "a0000000", 1, [100.0, None], version="2")
    assert report.figures() == []
    assert report.table("bytes", "small") == "Nothing is recorded."


def test_losses_come_first_and_stand_out(tmp_path):
    rows = [Row("good", "float32", {"nbfused": 1e-6, "torch": 2e-6}),
            Row("bad", "float32", {"nbfused": 2e-6, "torch": 1e-6, "jax": 3e-6}),
            Row("alone", "float32", {"nbfused": 1e-6}),
            Row("copy", "float32", {"nbfused": 1e-6}, bar=0.9, work=8e5, unit="B",
                ceiling=1e12, against="ceiling")]
    (tmp_path/"m-cuda.json").write_text(json.dumps(
        [{**row.record(), "commit": "0123456789", "date": 0} for row in rows]))
    assert report._peers("m", "cuda", tmp_path).splitlines()[2:] == [
        "| bad, float32 | 2.0 | torch | 1.0 | **0.500** | 1.00 "
        "| 01234567, 1970-01-01 |",
        "| copy, float32 | 1.0 | – | – | **0.800** | 0.90 of a copy "
        "| 01234567, 1970-01-01 |",
        "| good, float32 | 1.0 | torch | 2.0 | 2.000 | 1.00 | 01234567, 1970-01-01 |"]
    assert "--device cpu --table FILE" in report._peers("m", "cpu", tmp_path)


def test_a_table_is_kept_with_its_peers(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "HERE", tmp_path)
    monkeypatch.setattr(record, "_date", {"old": 1, "new": 2}.get)
    first, second = ({"name": name, "dtype": "float32"} for name in ("a", "b"))
    record._keep_peers("m-cpu", [{**first, "ratio": 1.0}, second], "old")
    record._keep_peers("m-cpu", [{**first, "ratio": 2.0}], "new")
    kept = json.loads((tmp_path/"tables"/"m-cpu.json").read_text())
    assert [(row.get("ratio"), row["commit"], row["date"]) for row in kept] == [
        (2.0, "new", 2), (None, "old", 1)]


def test_a_table_of_another_device_is_refused(tmp_path, capsys):
    """All its rows but those of one name were dropped without a word."""
    table = tmp_path/"table.json"
    table.write_text(json.dumps([{"name": "sum of 100 M", "dtype": "float32",
                                  "unit": "B", "work": 4e8,
                                  "seconds": {"nbfused": 1e-2}}]))
    with pytest.raises(SystemExit):
        record.main(["m", "--table", str(table), "--device", "cuda"])
    assert "'cuda: sum of 100 M, float32' is no workload, and 1 of 1" \
        in capsys.readouterr().err


@pytest.mark.parametrize("name", report.TABLES)
def test_what_is_recorded_has_tables(name):
    for machine in ("h200", "cpu-2-cores"):
        lines = report.table(name, machine).splitlines()
        assert len(lines) == 1 or len({line.count(" | ") for line in lines[2:]}) == 1
    assert "softmax" in report.table("bytes", "h200")


def test_each_row_of_a_machine_is_its_own():
    """One of the CPU's tables was kept as a GPU's."""
    assert not [f for f in report.figures() if f.machine == "cpu-2-cores"
                and f.params[0].startswith("cuda: ")]


def test_the_page_names_tables_that_exist():
    page = ROOT/"docs/performance.md"
    if not page.exists():
        pytest.skip("the documents are not installed")
    named = re.findall(r"^```\{measured\} (\S+) (\S+)\n```$", page.read_text(), re.M)
    assert len(named) == page.read_text().count("{measured}") > 0
    assert {name for name, _ in named} == {*report.TABLES}
    assert all(report.table(name, machine) for name, machine in named)


@pytest.mark.parametrize(("name", "machine"), [("bytes", "none"), ("none", "h200")])
def test_other_tables_are_refused(name, machine):
    with pytest.raises(KeyError, match="expected one of bytes, products"):
        report.table(name, machine)


def test_they_are_printed(capsys):
    assert report.main(["products", "--machine", "h200"]) == 0
    assert capsys.readouterr().out.startswith("## h200: products\n\n| work |")
    with pytest.raises(SystemExit):
        report.main(["none"])
    assert "tables none: expected bytes" in capsys.readouterr().err
