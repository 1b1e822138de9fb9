"""``python -m benchmarks.sample``: random workloads beside other libraries.

For finding holes, not a list to tune to.  The answers are checked against float64; one
of ours that is wrong, or refused, is printed and makes the exit status 1.  A ratio is
the best peer's time over ours.  ``--check`` checks smaller cells too, and times none.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nbfused.support.progress import progress

from .__main__ import pattern
from .clock import Clock, clock
from .peers import ahead
from .peers.__main__ import unusable
from .peers.draw import draw
from .peers.libraries import Library, available
from .peers.measure import Lost, compare, fault_of
from .peers.table import Row, text
from .peers.workload import Workload

__all__ = ["main", "quantiles"]

#: Libraries that the samples on each device are compared with.
PEERS = {"cuda": ("torch", "torch.compile"),
         "cpu": ("torch", "torch.compile", "numpy", "jax")}
#: Of so many cells one is compiled by PyTorch, which takes seconds.
COMPILED = 5
#: Turns, and the share of the usual number of calls: many cells say more than many
#: calls of one.
TURNS, SHARE = 6, 0.3
#: Cells that are printed in the end.
WORST = 20

_OURS = "nbfused"

Task = tuple[Workload, list[Library]]


def main(argv: Sequence[str] | None = None) -> int:
    """Draw, check and time cells; print quantiles and the worst ones."""
    parser = _parser()
    given = parser.parse_args(argv)
    if given.json and not given.json.parent.is_dir():
        parser.error(f"--json {given.json}: there is no such folder")
    if (missing := unusable(given.device)) is not None:
        print(missing, file=sys.stderr)
        return 2
    logging.basicConfig(format="%(message)s")
    tasks = _tasks(given)
    if not tasks:
        parser.error(f"--only {given.only.pattern}: no cell of seed {given.seed} has "
                     "such a name; without it all are run")
    if given.check:
        return _check(tasks, given.device)
    ahead.build(tasks, given.device, given.jobs)
    rows: list[Row] = []
    faults: list[str] = []
    try:
        for row in _rows(tasks, given.device, faults):
            rows.append(row)
            if given.json:
                given.json.write_text(json.dumps(
                    [r.record() for r in rows], indent=1))
    except Lost as why:
        faults.append(str(why))
    print(_report(rows, faults, given.seed))
    return 1 if faults else 0


def _tasks(given: argparse.Namespace) -> list[Task]:
    """The cells of a seed with their libraries."""
    libraries = available(given.device, PEERS[given.device])
    eager = [x for x in libraries if x.name != "torch.compile"]
    drawn = [draw(np.random.default_rng((given.seed, k)), given.device,
                  small=given.check) for k in range(given.count)]
    return [(work, libraries if k % COMPILED == 0 else eager)
            for k, work in enumerate(drawn)
            if given.only.search(f"{work.name} {work.dtype}")]


def _check(tasks: Sequence[Task], device: str) -> int:
    """Print what is wrong with our answers; 1 if anything is."""
    checked, faults = 0, []
    with progress("cells", len(tasks)) as advance:
        for work, libraries in tasks:
            ours = next(x for x in libraries if x.name == _OURS)
            with suppress(NotImplementedError):  # nothing to check it with
                if (fault := fault_of(ours, work, device)) is not None:
                    faults.append(f"wrong: {work.name} {work.dtype}: {fault}")
                checked += 1
            advance(work.name)
    print("\n".join([f"{checked} cells of {len(tasks)} checked", *faults]))
    return 1 if faults else 0


def _rows(tasks: Sequence[Task], device: str, faults: list[str]) -> Iterator[Row]:
    """Measure the cells; what is wrong with ours is added to `faults`."""
    timer = clock(device)
    with progress("cells", len(tasks)) as advance:
        for work, libraries in tasks:
            row, fault = _cell(work, libraries, timer, device)
            if fault:
                faults.append(f"{work.name} {work.dtype}: {fault}")
            if row is not None:
                yield row
            advance(work.name)


def _cell(work: Workload, libraries: Sequence[Library], timer: Clock, device: str,
          ) -> tuple[Row | None, str | None]:
    """Measure a cell; what is wrong with our answer."""
    try:
        found = compare(work, libraries, timer, device, TURNS, SHARE)
    except NotImplementedError:  # nothing to check it with
        return None, None
    seconds = {name: _seconds(samples, device)
               for name, samples in found.samples.items() if samples}
    row = Row(work.name, work.dtype, dict(seconds), work=work.work, unit=work.unit)
    return row, found.faults.get(_OURS)


def _seconds(samples: Sequence[float], device: str) -> float:
    """The least time on a cpu, which others may use too; the median of a GPU's."""
    return min(samples) if device == "cpu" else statistics.median(samples)


def quantiles(ratios: Sequence[float]) -> dict[str, float]:
    """Median, tenth percentile and least of some ratios."""
    return {"median": float(np.median(ratios)), "10 %": float(
        np.quantile(ratios, 0.1)), "least": float(np.min(ratios))}


def _report(rows: Sequence[Row], faults: Sequence[str], seed: int) -> str:
    """The worst cells, the quantiles, and what is wrong."""
    timed = sorted((r for r in rows if r.ratio is not None), key=_ratio)
    width = max((len(r.name) for r in timed[:WORST]), default=0)
    lines = [text([replace(r, name=r.name.ljust(width)) for r in timed[:WORST]])]
    if timed:
        found = quantiles([_ratio(r) for r in timed])
        lines.append(f"seed {seed}: {len(timed)} cells of {len(rows)}; " + ", ".join(
            f"{name} {value:.2f}" for name, value in found.items()))
    return "\n".join([*lines, *(f"wrong: {fault}" for fault in faults)])


def _ratio(row: Row) -> Any:
    return row.ratio


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sample",
                                     description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=200, help="cells to draw")
    parser.add_argument("--check", action="store_true", help="check the answers, of "
                        "smaller cells too, and time nothing")
    parser.add_argument("--only", default="", type=pattern,
                        help="regular expression: measure these cells of the seed only")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--jobs", type=int, help="processes that compile kernels "
                        "before anything is timed; default: by cores and cells")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
