"""``python -m benchmarks.peers``: print the table of nbfused and its peers.

Every library computes the same from the same inputs; an answer that is not that of
float64 within its dtype's rounding is not timed.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from ..__main__ import pattern
from ..clock import clock
from ..programs import __main__ as programs
from . import ahead, host
from .libraries import LIBRARIES, available
from .measure import Lost, measure
from .table import Row, text
from .workloads import workloads

__all__ = ["main", "unusable"]

#: What ``--only`` names the whole programs by, which have a table of their own.
PROGRAMS = "programs"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table, and write it where ``--json`` says."""
    parser = _parser()
    given = parser.parse_args(argv)
    if given.json and not given.json.parent.is_dir():
        parser.error(f"--json {given.json}: there is no such folder")
    known = sorted(library.name for _, library in LIBRARIES)
    if unknown := set(given.peers).difference(known):
        parser.error(f"--peers {' '.join(unknown)}: expected {', '.join(known)}")
    if (missing := unusable(given.device)) is not None:
        print(missing, file=sys.stderr)
        return 2
    logging.basicConfig(format="%(message)s")
    logging.getLogger("benchmarks").setLevel(logging.INFO)
    if given.only.pattern == PROGRAMS:
        return programs.main(["--device", given.device, "--processes", "",
                              *(("--json", str(given.json)) if given.json else ())])
    rows: list[Row] = []
    try:
        for row in _rows(given):
            rows.append(row)
            print(text([row], head=len(rows) == 1), flush=True)
            if given.json:
                given.json.write_text(json.dumps([r.record() for r in rows], indent=1))
    except Lost as why:
        print(why, file=sys.stderr)
        return 1
    if not rows:
        parser.error(f"--only {given.only.pattern}: no row has such a name; without it "
                     "all are measured")
    print(f"{len(rows)} rows, {sum(r.below for r in rows)} below their bars")
    return 0


def unusable(device: str) -> str | None:
    """The reason why nothing can be timed on a device, or None.  Hides further GPUs."""
    if device != "cuda":
        return None
    _one_gpu()
    return _missing()


def _one_gpu() -> None:
    """Hide all GPUs but the first, as JAX would take them all.

    Events would then be those of that one, where nothing runs.
    """
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    os.environ["CUDA_VISIBLE_DEVICES"] = seen.partition(",")[0]


def _missing() -> str | None:
    """The reason why nothing can be timed on a GPU, or None."""
    if find_spec("torch") is None:
        return "--device cuda needs PyTorch, which is not installed"
    import torch

    return None if torch.cuda.is_available() else \
        "--device cuda needs a PyTorch that sees an NVIDIA GPU; this one sees none"


def _rows(given: argparse.Namespace) -> Iterator[Row]:
    works = [w for w in workloads(given.device, given.quick)
             if given.only.search(f"{w.name} {w.dtype}")]
    libraries = available(given.device, given.peers)
    wanted = [h for h in host.measures(given.device) if given.only.search(h.name)]
    yield from host.rows(wanted, [x.name for x in libraries])
    if works:
        ahead.build([(work, libraries) for work in works], given.device, given.jobs)
        yield from measure(works, libraries, clock(given.device), given.device)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers",
                                     description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cpu")
    parser.add_argument("--only", default="", type=pattern,
                        help="regular expression: layer_norm …; or programs")
    parser.add_argument("--peers", nargs="*", default=(), help="torch numpy …; all")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--jobs", type=int, help="processes that compile kernels "
                        "before anything is timed; default: by cores and rows")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
