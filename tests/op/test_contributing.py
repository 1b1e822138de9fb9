"""The ops that CONTRIBUTING shows, added as it says: they pass the suite as printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"

FAMILY = """
import numpy as np

import nbfused as nf
from nbfused.op import Case, elementwise, op, row, stage
from nbfused.scalar.language import names as nb
from nbfused.testing import checks, run

before = {{check.op for check in checks()}}

{ops}

added = {{check.op for check in checks()}} - before
failures = run("cpu", sorted(added))
assert not failures, failures
print(*sorted(added))
"""


@pytest.mark.variants
@pytest.mark.skipif(not CONTRIBUTING.exists(), reason="there is no checkout around")
def test_the_ops_of_contributing_pass_the_suite(tmp_path):
    ops = re.findall(r"```python\n(@op\(.*?)```", CONTRIBUTING.read_text(), re.S)
    program = tmp_path / "family.py"
    program.write_text(FAMILY.format(ops="\n\n".join(ops)))
    done = subprocess.run([sys.executable, program], capture_output=True, text=True,
                          timeout=200, check=False)
    assert done.stdout.split() == ["l2_normalize", "softsign"], done.stderr
