"""``python -m benchmarks.record MACHINE``: asv in this Python, kept under ``results``.

For machines on which asv cannot build environments.  What is written names the
machine and the commit as they are given here, and nothing of the computer: no host,
no folder.  ``asv publish`` and ``asv preview`` show it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["main"]

HERE = Path(__file__).parent


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks that are asked for, and keep their results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.record",
                                     description=__doc__)
    parser.add_argument("machine", help="its name in the results: h200, cpu-2-cores …")
    parser.add_argument("--bench", default=".", help="regular expression: track_ …")
    parser.add_argument("--commit", help="what the results are of; default: HEAD")
    parser.add_argument("--about", default="", help="CPU or GPU, for the pages")
    given = parser.parse_args(argv)
    head = _git("rev-parse", "HEAD")
    status = _asv(given.machine, given.about, given.bench, head)
    commit = given.commit or head
    for path in (HERE/"results"/given.machine).glob(f"{head[:8]}-existing*.json"):
        _clean(path, _git("rev-parse", commit) if commit == head else commit)
    return status


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, text=True, capture_output=True,
                          cwd=HERE).stdout.strip()


def _asv(machine: str, about: str, bench: str, commit: str) -> int:
    """Its exit status; what it knows of the computer is what is said here."""
    known = {machine: {
        "machine": machine, "os": platform.system(), "arch": platform.machine(),
        "cpu": about, "num_cpu": str(os.cpu_count()), "ram": ""}, "version": 1}
    with tempfile.TemporaryDirectory() as home:
        (Path(home)/".asv-machine.json").write_text(json.dumps(known))
        return subprocess.run(
            [sys.executable, "-m", "asv", "--config", HERE/"asv.conf.json", "run",
             "-E", f"existing:{sys.executable}", "--set-commit-hash", commit,
             "--machine", machine, "--bench", bench, "--launch-method", "forkserver"],
            env={**os.environ, "HOME": home, "ASV_PYTHONPATH": str(HERE.parent)},
        ).returncode


def _clean(path: Path, commit: str) -> None:
    """Name the results by Python's version and by `commit`."""
    name = f"existing-py{sys.version_info.major}.{sys.version_info.minor}"
    found: dict[str, Any] = json.loads(path.read_text())
    found.update(commit_hash=commit, env_name=name,
                 python=f"{sys.version_info.major}.{sys.version_info.minor}")
    found["params"]["python"] = found["python"]
    path.unlink()
    (path.parent/f"{commit[:8]}-{name}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    raise SystemExit(main())
