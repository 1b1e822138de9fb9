"""``python -m benchmarks.peers --device cuda|cpu``: the table of nbfused and its peers.

Every library computes the same from the same inputs; an answer that is not that of
float64 within its dtype's rounding is not timed.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path

from ..clock import clock
from .libraries import available
from .table import Row, measure, text
from .workloads import workloads

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table, and write it where ``--json`` says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers",
                                     description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cpu")
    parser.add_argument("--only", default="", help="regular expression: layer_norm …")
    parser.add_argument("--peers", nargs="*", default=(), help="torch numpy …; all")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    given = parser.parse_args(argv)
    works = [w for w in workloads(given.device, given.quick)
             if re.search(given.only, f"{w.name} {w.dtype}")]
    rows: list[Row] = []
    for row in measure(works, available(given.peers), clock(given.device),
                       given.device):
        rows.append(row)
        print(text([row]) if len(rows) == 1 else text([row]).partition("\n")[2],
              flush=True)
        if given.json:
            given.json.write_text(json.dumps([r.record() for r in rows], indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
