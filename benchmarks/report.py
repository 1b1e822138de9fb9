"""``python -m benchmarks.report``: the recorded results as tables in Markdown.

The documentation's page on performance is made of these, when it is built.  The newest
result of each row is shown, with its commit; nothing is left out because it is slow.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .peers.workloads import workloads

__all__ = ["TABLES", "Figure", "figures", "main", "table"]

HERE = Path(__file__).parent
RESULTS, PEERS = HERE/"results", HERE/"tables"

#: Bytes or FLOP of a call, by the names that workloads have in asv.
_WORK = {f"{device}: {w.name}, {w.dtype}": w.work
         for device in ("cpu", "cuda") for w in workloads(device)}


@dataclass(frozen=True)
class Figure:
    """One measured number: of a benchmark, for given parameters, at a commit."""

    machine: str
    benchmark: str
    params: tuple[str, ...]
    value: float
    commit: str
    date: int

    @property
    def day(self) -> str:
        """The commit's date, ``2026-11-22``."""
        return _day(self.date)


def _day(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds/1000, UTC).date().isoformat()


def figures(folder: Path = RESULTS) -> list[Figure]:
    """The newest figure for each machine, benchmark and parameters.

    Figures of other versions of a benchmark are left out, as asv leaves them out.
    """
    known = json.loads((folder/"benchmarks.json").read_text())
    found: dict[tuple[str, str, tuple[str, ...]], Figure] = {}
    for path in sorted(folder.glob("*/*-*.json")):
        for f in _of_file(json.loads(path.read_text()), known):
            key = f.machine, f.benchmark, f.params
            if key not in found or found[key].date <= f.date:
                found[key] = f
    return sorted(found.values(), key=lambda f: (f.machine, f.benchmark))


def _of_file(run: dict[str, Any], known: dict[str, Any]) -> Iterator[Figure]:
    """The figures of a file of asv's; NaN and null are none."""
    for name, (values, params, version, *_) in run["results"].items():
        if name not in known or known[name]["version"] != version:
            continue
        for given, value in zip(itertools.product(*params), values or (), strict=False):
            if value is not None and not math.isnan(value):
                yield Figure(run["params"]["machine"], name,
                             tuple(p.strip("'\"") for p in given), value,
                             run["commit_hash"][:8], run["date"])


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return "Nothing is recorded."
    rule = ["---", *["---:"]*(len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def _rates(machine: str, benchmark: str, unit: str) -> str:
    """Times and rates of the workloads whose work is bytes, or FLOP."""
    rows = []
    for f in figures():
        if (f.machine, f.benchmark) == (machine, benchmark) and f.params[0] in _WORK:
            seconds = f.value*1e-12*_WORK[f.params[0]]
            rows.append((f.params[0].partition(": ")[2], f"{seconds*1e6:.1f}",
                         f"{1/f.value:#.3g}".strip("."), f"{f.commit}, {f.day}"))
    return _markdown(("work", "µs", unit, "commit"), rows)


def _over(machine: str, benchmarks: dict[str, str]) -> str:
    """Our time over another's, slowest first: above 1 nbfused is slower."""
    found = [f for f in figures()
             if f.machine == machine and f.benchmark in benchmarks]
    rows = [(f"{benchmarks[f.benchmark]}: {', '.join(f.params)}", f"{f.value:.2f}",
             f"{f.commit}, {f.day}") for f in sorted(found, key=lambda f: -f.value)]
    return _markdown(("what", "our time over theirs", "commit"), rows)


_BY_HAND = {"bench_user.UserKernel.track_time_over_reference": "kernel"}
_LAUNCHES = {
    "bench_launch.LaunchBesideTheirs.track_out": "into `out=`",
    "bench_launch.LaunchBesideTheirs.track_new": "allocating",
    "bench_launch.LaunchBesideTheirs.track_forward_backward": "with the gradient",
}


def _starts(machine: str) -> str:
    """Seconds of a process's first steps."""
    rows = [(", ".join(f.params), f"{1e3*f.value:.0f}", f"{f.commit}, {f.day}")
            for f in figures() if f.machine == machine
            and f.benchmark == "bench_cold.Cold.track_seconds"]
    return _markdown(("device, step", "ms", "commit"), rows)


def _peers(machine: str, device: str, folder: Path = PEERS) -> str:
    """The rows that `benchmarks.record` kept, those below their bars first."""
    path = folder/f"{machine}-{device}.json"
    if not path.exists():
        return (f"No table of {device} is kept for {machine}: `python -m "
                f"benchmarks.record {machine} --device {device} --table FILE` keeps "
                "one.")
    rows = [row for row in json.loads(path.read_text()) if row["ratio"] is not None]
    rows.sort(key=lambda row: row["ratio"]/row["bar"])
    return _markdown(("work", "µs", "best other", "its µs", "ratio", "aim", "commit"), [
        (f"{r['name']}, {r['dtype']}", _micro(r["seconds"].get("nbfused")),
         *((r["best"][0], _micro(r["best"][1])) if r["best"] else ("–", "–")),
         f"{r['ratio']:.3f}" if r["ratio"] >= r["bar"] else f"**{r['ratio']:.3f}**",
         f"{r['bar']:.2f}{' of a copy'*(r['against'] == 'ceiling')}",
         f"{r['commit'][:8]}, {_day(r['date'])}") for r in rows])


def _micro(seconds: float | None) -> str:
    return "–" if seconds is None else f"{1e6*seconds:.1f}"


#: The tables, by their names: each is made of a machine's name.
TABLES: dict[str, Callable[[str], str]] = {
    "bytes": lambda m: _rates(m, "bench_workloads.Bytes.track_time", "TB/s"),
    "products": lambda m: _rates(m, "bench_workloads.Products.track_time", "TFLOP/s"),
    "by_hand": lambda m: _over(m, _BY_HAND),
    "launches": lambda m: _over(m, _LAUNCHES),
    "starts": _starts,
    "peers_cpu": lambda m: _peers(m, "cpu"),
    "peers_cuda": lambda m: _peers(m, "cuda"),
}


def table(name: str, machine: str) -> str:
    """A table in Markdown.

    Raises
    ------
    KeyError
        There is no such table, or no such machine.
    """
    machines = sorted(path.parent.name for path in RESULTS.glob("*/machine.json"))
    if name not in TABLES or machine not in machines:
        raise KeyError(f"table {name!r} of {machine!r}: expected one of "
                       f"{', '.join(TABLES)}, and of {', '.join(machines)}")
    return TABLES[name](machine)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables of all machines, or those that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report",
                                     description=__doc__)
    machines = sorted(path.parent.name for path in RESULTS.glob("*/machine.json"))
    parser.add_argument("tables", nargs="*", help=", ".join(TABLES))
    parser.add_argument("--machine", choices=machines, nargs="*", default=machines)
    given = parser.parse_args(argv)
    if unknown := set(given.tables).difference(TABLES):
        parser.error(f"tables {', '.join(sorted(unknown))}: expected "
                     f"{', '.join(TABLES)}")
    for machine in given.machine:
        for name in given.tables or TABLES:
            print(f"## {machine}: {name}\n\n{table(name, machine)}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
