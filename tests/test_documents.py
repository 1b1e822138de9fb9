"""The Python in the documents runs: the blocks of each are one program."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import nbfused as nf

ROOT = Path(nf.__file__).parents[1]
DOCUMENTS = [path for path in (*ROOT.glob("README.md"), *(ROOT / "docs").glob("*.md"))
             if "```python" in path.read_text()]


@pytest.mark.skipif(not DOCUMENTS, reason="the documents are not installed")
@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_the_program_in_a_document_runs(path, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL)
    program = tmp_path / f"{path.stem}.py"  # a file: kernels are parsed from it
    program.write_text("\n".join(blocks))
    with nf.use_backend("cpu"):
        runpy.run_path(str(program))
