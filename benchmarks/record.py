"""``python -m benchmarks.record MACHINE``: run asv and keep results in ``results``.

For machines on which asv cannot build environments.  What is written names the
machine and the commit as they are given here, and nothing of the computer: no host,
no folder.  ``asv publish`` and ``asv preview`` show it.  ``--table`` keeps what
``python -m benchmarks.peers --json`` has measured by the same clock, instead of
measuring it again: our times for asv, and all libraries' in ``tables``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

__all__ = ["main"]

HERE = Path(__file__).parent
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks asked for, and keep their results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.record",
                                     description=__doc__)
    parser.add_argument("machine", help="its name in the results: h200, cpu-2-cores …")
    parser.add_argument("--bench", default=".", help="benchmarks to run: a regular "
                        "expression such as track_; default: all")
    parser.add_argument("--commit", help="that the results are kept for; default: HEAD")
    parser.add_argument("--about", default="", help="the CPU or GPU, for the pages")
    parser.add_argument("--table", type=Path, help="keep this file of python -m "
                        "benchmarks.peers --json, and run nothing")
    parser.add_argument("--device", default="cuda", help="cpu or cuda: of the table")
    parser.add_argument("--python", default=_PYTHON, help="3.12 …: of the table")
    given = parser.parse_args(argv)
    if Path(given.machine).name != given.machine or given.machine == "..":
        parser.error(f"machine {given.machine!r}: expected a name, that of a folder")
    if given.commit:
        try:
            _git("rev-parse", "--verify", f"{given.commit}^{{commit}}")
        except subprocess.CalledProcessError:
            parser.error(f"--commit {given.commit}: git knows no such commit")
    if given.table:
        commit = _git("rev-parse", given.commit or "HEAD")
        try:
            rows = json.loads(given.table.read_text())
        except (OSError, ValueError) as error:
            parser.error(f"--table {given.table}: {error}; expected what python -m "
                         "benchmarks.peers --json has written")
        times = dict(_times(rows, given.device))
        if unknown := sorted(name for benchmark, name in times
                             if name not in _known()[benchmark]["params"][0]):
            parser.error(f"--table {given.table}: {unknown[0]} is no workload, and "
                         f"{len(unknown)} of {len(times)} rows are none; --device says "
                         "on which device the table was measured")
        _keep(_machine(given.machine, given.about, ""), given.python, commit, times)
        _keep_peers(f"{given.machine}-{given.device}", rows, commit)
        return 0
    head = _git("rev-parse", "HEAD")
    status = _asv(given.machine, given.about, given.bench, head)
    commit = given.commit or head
    for path in (HERE/"results"/given.machine).glob(f"{head[:8]}-existing*.json"):
        _clean(path, _git("rev-parse", commit) if commit == head else commit)
    return status


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, text=True, capture_output=True,
                          cwd=HERE).stdout.strip()


def _machine(machine: str, about: str, processors: str) -> dict[str, str]:
    return {"machine": machine, "os": platform.system(), "arch": platform.machine(),
            "cpu": about, "num_cpu": processors, "ram": ""}


def _asv(machine: str, about: str, bench: str, commit: str) -> int:
    """Run asv with the given machine description; its exit status."""
    known = {machine: _machine(machine, about, str(os.cpu_count())), "version": 1}
    with tempfile.TemporaryDirectory() as home:
        (Path(home)/".asv-machine.json").write_text(json.dumps(known))
        return subprocess.run(
            [sys.executable, "-m", "asv", "--config", HERE/"asv.conf.json", "run",
             "-E", f"existing:{sys.executable}", "--set-commit-hash", commit,
             "--machine", machine, "--bench", bench, "--launch-method", "forkserver"],
            env={**os.environ, "HOME": home, "ASV_PYTHONPATH": str(HERE.parent)},
        ).returncode


def _clean(path: Path, commit: str) -> None:
    """Rename result files by Python's version and `commit`."""
    found: dict[str, Any] = json.loads(path.read_text())
    found.update(commit_hash=commit, env_name=f"existing-py{_PYTHON}", python=_PYTHON)
    found["params"]["python"] = _PYTHON
    path.unlink()
    _write(path.parent, found)


def _write(folder: Path, found: dict[str, Any]) -> None:
    """Merge results with those of the same commit from another run."""
    path = folder/f"{found['commit_hash'][:8]}-{found['env_name']}.json"
    if path.exists():
        kept = json.loads(path.read_text())
        found["results"] = {**kept["results"], **found["results"]}
        # A table's columns are the first of asv's.
        found["result_columns"] = max(kept["result_columns"], found["result_columns"],
                                      key=len)
    path.write_text(json.dumps(found))


#: The benchmark that has a table's rows with work of this unit.
_BENCHMARKS = {"B": "bench_workloads.Bytes.track_time",
               "FLOP": "bench_workloads.Products.track_time"}


def _times(rows: Sequence[dict[str, Any]], device: str,
           ) -> Iterator[tuple[tuple[str, str], float]]:
    """Our times in a table, by asv's benchmark and parameter names.

    In picoseconds for a byte or FLOP: asv takes what grows for a loss.
    """
    for row in rows:
        if row["unit"] in _BENCHMARKS and row["seconds"].get("nbfused"):
            name = repr(f"{device}: {row['name']}, {row['dtype']}")
            yield ((_BENCHMARKS[row["unit"]], name),
                   1e12*row["seconds"]["nbfused"]/row["work"])


def _known() -> dict[str, Any]:
    """The benchmarks that a run of asv has listed, with their parameters."""
    return json.loads((HERE/"results"/"benchmarks.json").read_text())


def _date(commit: str) -> int:
    """The time of a commit, in asv's milliseconds."""
    return 1000*int(_git("show", "-s", "--format=%ct", commit))


def _keep_peers(name: str, rows: Sequence[dict[str, Any]], commit: str) -> None:
    """Merge a table, with what its peers took, with the one that is kept."""
    path = HERE/"tables"/f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    kept = json.loads(path.read_text()) if path.exists() else []
    merged = {(row["name"], row["dtype"]): row for row in kept}
    merged |= {(row["name"], row["dtype"]): {**row, "commit": commit,
                                             "date": _date(commit)} for row in rows}
    path.write_text(json.dumps([*merged.values()], indent=1) + "\n")


def _keep(machine: dict[str, str], python: str, commit: str,
          times: dict[tuple[str, str], float]) -> None:
    """Write times in asv's format, after a run of asv has listed all benchmarks."""
    known, results = _known(), {}
    for benchmark in {b for b, _ in times}:
        about = known[benchmark]
        found = [times.get((benchmark, name), float("nan"))
                 for name in about["params"][0]]
        results[benchmark] = [found, about["params"], about["version"]]
    folder = HERE/"results"/machine["machine"]
    folder.mkdir(parents=True, exist_ok=True)
    entry = folder/"machine.json"
    if entry.exists():  # a run of asv has counted processors, a table has not
        counted = json.loads(entry.read_text())["num_cpu"]
        machine = {**machine, "num_cpu": counted}
    entry.write_text(json.dumps({**machine, "version": 1}, indent=4))
    _write(folder, {
        "commit_hash": commit, "env_name": f"existing-py{python}",
        "date": _date(commit),
        "params": {**machine, "python": python}, "python": python, "requirements": {},
        "env_vars": {}, "result_columns": ["result", "params", "version"],
        "results": results, "durations": {}, "version": 2})


if __name__ == "__main__":
    raise SystemExit(main())
