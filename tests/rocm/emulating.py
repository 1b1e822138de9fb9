"""Python in a process of its own, where the settings are read anew."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbfused

ROOT = Path(nbfused.__file__).parent.parent


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `code`; what it said, and how it ended."""
    kept = {name: value for name, value in os.environ.items()
            if name not in ("NBFUSED_BACKEND", "NBFUSED_TEST_BACKEND")}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        timeout=300, cwd=ROOT, env={**kept, "PYTHONPATH": str(ROOT), **environment})


def emulating(code: str, **environment: str) -> str:
    """What `code` prints where devices are emulated; it must succeed."""
    done = python(code, **{"NBFUSED_ROCM_EMULATE": "1", "NBFUSED_BACKEND": "rocm",
                           **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout
