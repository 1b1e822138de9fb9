"""``python -m benchmarks.programs``: whole programs by nbfused and its peers.

Everybody starts from the same numbers; a way whose values, or gradients, are not those
of float64 is not timed, and one that fails does not stop the others.  What is timed is
wall time, the host's work included: many steps, then a wait.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path

from ..__main__ import pattern
from .measure import first_call, in_processes, measure
from .programs import PROGRAMS
from .ways import WAYS

__all__ = ["main"]

#: Ways that compile, whose first calls are timed in processes of their own.
COMPILING = ("nbfused", "torch.compile", "jax")


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables."""
    given = _parser().parse_args(argv)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    programs = [p for p in PROGRAMS[given.device] if given.only.search(p.name)]
    if given.first:
        print(*(first_call(p, given.device, given.first) for p in programs))
        return 0
    found = {}
    for program in programs:
        print(program.name, flush=True)
        times, ways = measure(program, given.device, given.ways)
        for name, value in sorted(times.items(), key=lambda item: item[1]):
            best = times.get("torch", value) / value
            print(f"  {name:30} {value*1e6:10.1f} us   {best:6.2f} x torch eager")
        starts = {}
        if given.processes and given.processes.search(program.name):
            for name in COMPILING:
                starts[name] = in_processes(program.name, given.device, name)
                print(f"  {name:30} first call, nothing cached {starts[name][0]:6.2f} "
                      f"s, in a second process {starts[name][1]:6.2f} s", flush=True)
        found[program.name] = {
            "seconds": times, "starts": starts,
            "first": {w.name: w.first for w in ways},
            "peak": {w.name: w.peak for w in ways}}
        if given.json:
            given.json.write_text(json.dumps(found, indent=1))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.programs",
                                     description=__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--only", default="", type=pattern,
                        help="regular expression: gpt …")
    parser.add_argument("--ways", nargs="*", default=(), choices=tuple(WAYS),
                        help="only these")
    parser.add_argument("--processes", type=pattern, help="programs whose first calls "
                        "are also timed in processes of their own")
    parser.add_argument("--first", choices=tuple(WAYS),
                        help="print the seconds of the first step of a way, no more")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
