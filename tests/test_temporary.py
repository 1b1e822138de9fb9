"""Temporary folders of processes: made again, removed, left alone by children."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from nbfused.support import temporary


def test_folders_of_processes_that_were_killed_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(temporary.tempfile, "gettempdir", lambda: str(tmp_path))
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    names = {"old": f"nbfused_{child.pid}_abc", "young": f"nbfused_{child.pid}_def",
             "alive": f"nbfused_{os.getpid()}_ghi", "other": f"{child.pid}_jkl"}
    for kind, name in names.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "kernels.so").write_bytes(b"code")
        if kind != "young":
            os.utime(tmp_path / name, (0, 0))
    temporary._sweep.cache_clear()
    temporary._sweep(str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {
        names["young"], names["alive"], names["other"]}


def test_a_folder_of_this_process_is_made_again_where_it_is_gone():
    first = temporary.own_folder()
    assert temporary.own_folder() == first
    first.rmdir() if not any(first.iterdir()) else temporary.shutil.rmtree(first)
    assert temporary.own_folder() != first
    assert temporary.own_folder().is_dir()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_that_ends_leaves_its_parents_folder(tmp_path):
    program = ("import os, sys\n"
               "from nbfused.support import temporary\n"
               "made = temporary.own_folder()\n"
               "child = os.fork()\n"
               "if not child: sys.exit()\n"
               "os.waitpid(child, 0)\n"
               "print(made.is_dir(), made)\n")
    done = subprocess.run([sys.executable, "-c", program], check=True, text=True,
                          capture_output=True)
    there, made = done.stdout.split()
    assert there == "True"
    assert not os.path.exists(made)
