"""PTX to machine code: which ptxas serves, and what happens without one."""

from __future__ import annotations

import os
import re
import stat
import sys
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from nbfused.config import config
from nbfused.cuda.runtime import assemble
from nbfused.cuda.runtime.assemble import DRIVER, Assembly, target_version
from nbfused.errors import CompileError
from tests.cuda.recorded import needs_compiler

PTX = """.version 9.4
.target sm_90
.address_size 64
.visible .entry nothing()
{
  ret;
}
"""


@pytest.mark.parametrize(("cuda", "want"), [
    ((12, 0), "8.0"), ((12, 5), "8.5"), ((12, 9), "8.8"), ((13, 0), "9.0"),
    ((13, 4), "9.4"), ((14, 0), "9.4")])
def test_ptx_is_no_newer_than_the_driver(cuda, want):
    code = "//\n.version 9.4\n.target sm_90\nbody .version 9.9"
    assert target_version(code, cuda) == code.replace("9.4", want)


def test_older_ptx_is_left_alone():
    code = ".version 8.0\n.target sm_90\n"
    assert target_version(code, (13, 0)) == code


def test_code_is_kept_as_it_was():
    for code in (Assembly(PTX), Assembly(PTX, b"\x7fELF\n\0 1", (13, 0))):
        assert Assembly.unpacked("nothing", code.packed()) == code


@pytest.mark.parametrize("data", [
    b"", b"13 0\n", b"13 0 x\n" + PTX.encode(), Assembly(PTX).packed()[:40],
    Assembly(PTX.replace("nothing", "nothing_else")).packed(),
    Assembly(PTX, b"\xff", (13, 0)).packed().replace(b" 1\n", b" 0\n")])
def test_what_is_no_code_of_the_kernel_is_not_taken_from_the_cache(data):
    with pytest.raises(ValueError):  # noqa: PT011 - the cache tells of them alike
        Assembly.unpacked("nothing", data)


@contextmanager
def on_machine(monkeypatch, *versions):
    """A machine with a ptxas of each version."""
    monkeypatch.setattr(assemble, "installed", lambda: tuple(
        (version, "/cuda-{}.{}/ptxas".format(*version)) for version in versions))
    ran = []
    monkeypatch.setattr(assemble, "_run",
                        lambda path, ptx, target: ran.append((path, ptx)) or b"code")
    yield ran


@pytest.mark.parametrize(("versions", "cuda", "expected"), [
    ([(12, 8), (13, 0)], (13, 0), (13, 0)),
    ([(13, 1), (13, 0), (13, 2)], (13, 1), (13, 1)),  # the newest that can be loaded
    ([(13, 1)], (13, 0), None), ([(12, 9)], (13, 0), None), ([], (13, 0), None)])
def test_a_ptxas_of_the_drivers_major_version_and_no_newer_serves(
        monkeypatch, versions, cuda, expected):
    with on_machine(monkeypatch, *versions) as ran:
        code = assemble.assemble(PTX, "nothing", "sm_90", cuda, None)
        assert assemble.assemble(PTX, "nothing", "sm_90", cuda, DRIVER) == Assembly(PTX)
    assert code == (Assembly(PTX, b"code", expected) if expected else Assembly(PTX))
    assert [path for path, _ in ran] == (
        ["/cuda-{}.{}/ptxas".format(*expected)] if expected else [])
    assert all(ptx == target_version(PTX, expected) for _, ptx in ran)


def installed_at(folder, does):
    """The path of a ptxas of CUDA 13.0, a script."""
    path = folder / "ptxas"
    path.write_text(f"""#!/bin/sh
[ "$1" = --version ] && exec echo "Cuda compilation tools, release 13.0, V13.0.88"
{does}
""")
    path.chmod(stat.S_IRWXU)
    return str(path)


@pytest.mark.parametrize("does", [
    "echo 'ptxas fatal: unknown architecture'; exit 255", "kill -9 $$", "exit 0"])
def test_a_ptxas_that_fails_leaves_the_kernel_to_the_driver(tmp_path, does):
    path = installed_at(tmp_path, does)
    code = assemble.assemble(PTX, "nothing", "sm_999", (13, 0), path)
    assert code == Assembly(PTX)


def test_folders_of_processes_that_were_killed_are_told_from_others(tmp_path):
    (tmp_path / "with space").mkdir()
    path = installed_at(tmp_path / "with space", 'echo "$3" > "$3"')
    code = assemble.assemble(PTX, "nothing", "sm_90", (13, 0), path)
    folder = Path(code.machine.decode()).parent
    assert re.fullmatch(rf"nbfused_{os.getpid()}_\w+", folder.name)  # as they are swept
    assert not folder.exists()


@pytest.mark.parametrize("path", ["/nowhere/ptxas", "/bin/true", "/"])
def test_a_ptxas_of_the_settings_that_does_not_run_is_named(path):
    with pytest.raises(CompileError, match=rf"NBFUSED_PTXAS={path}: .*'driver', or un"):
        assemble.assemble(PTX, "nothing", "sm_90", (13, 0), path)
    with pytest.raises(Exception, match=r"config\.ptxas"):
        config.ptxas = 3


def test_packages_that_something_stands_in_for_have_no_ptxas(monkeypatch):
    for package in ("torch", "triton"):
        monkeypatch.setitem(sys.modules, package, ModuleType(package))
        assert not list(assemble._folders(package))
    assert not list(assemble._folders("no_such_package"))


def test_a_relative_path_is_that_of_this_process(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for given, expected in (("bin/ptxas", str(tmp_path / "bin/ptxas")),
                            ("ptxas", "ptxas"), (DRIVER, DRIVER), (None, None)):
        with config.override(ptxas=given):
            assert assemble.asked() == expected


def test_an_installed_ptxas_assembles():
    needs_compiler()
    if not assemble.installed():
        pytest.skip("no ptxas is installed")
    version, path = max(assemble.installed())
    code = assemble.assemble(PTX, "nothing", "sm_90", version, path)
    assert code.machine.startswith(b"\x7fELF")
    assert code.cuda == version
