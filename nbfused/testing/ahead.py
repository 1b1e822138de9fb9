"""``python -m nbfused rocm``: compile the built-in ops' kernels ahead of time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile

import nbfused.cache as cache

from ..config import config
from ..errors import SettingError
from ..rocm.build.ahead import RecordingDevice, batches, build_all
from ..rocm.build.report import Resources, as_table, resources
from ..rocm.build.toolchain import EMULATION, find
from ..rocm.runtime.device import device
from ..support.dtypes import DTYPES
from ..support.progress import progress
from .recorded import rocm_kernels

__all__ = ["build", "report"]


def build(archs: Sequence[str] | None, dtypes: Sequence[str] | None,
          ops: Sequence[str] | None, output: str | None, jobs: int | None,
          check: bool) -> int:
    """Compile the kernels of ops for some architectures into the cache.

    Returns
    -------
    int
        The exit status: 1 if the compiler refused a kernel or, under `check`, where
        registers spill.
    """
    with ExitStack() as stack:
        if output is not None:
            stack.enter_context(config.override(cache_dir=output))
        _check_folder(cache.folder())
        _check("--arch", [a for a in archs or () if not a.isidentifier()], "gfx90a")
        _check("--dtypes", [d for d in dtypes or () if d not in (*DTYPES, "all")],
               "float32, or all")
        targets, recorder = _targets(archs)
        kernels = rocm_kernels(recorder, dtypes, ops, large=recorder.arch != EMULATION)
        print(f"{len(kernels)} kernels for {', '.join(targets)}, to {cache.folder()}")
        with progress("building", len(batches(kernels))) as advance:
            errors = build_all(kernels, targets, lambda number, total, part: advance(
                f"{len(part)} kernels: {part[0].skeleton}"), jobs)
        for error in {error.log: error for error in errors}.values():
            print(error)
        found = [r for r in _cached() if r.arch in targets]
        print(_summary(found), end="")
        return int(bool(errors) or (check and _spilling(found)))


def _check(option: str, wrong: Sequence[str], example: str) -> None:
    if wrong:
        raise SettingError(
            f"{option}: {', '.join(map(repr, wrong))} names nothing to build for; "
            f"expected names such as {example}")


def _check_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise SettingError(f"--output: {folder} keeps no kernels ({error}); expected a "
                           "folder that can be written to") from error


def _targets(archs: Sequence[str] | None) -> tuple[tuple[str, ...], RecordingDevice]:
    """Targets to compile for, and devices that stand in for them."""
    if find().name == EMULATION:
        return (EMULATION,), RecordingDevice.like(device(0))
    if archs:
        return tuple(archs), RecordingDevice(archs[0])
    if config.rocm_arch is not None:
        return tuple(config.rocm_arch.replace(" ", "").split(",")), RecordingDevice()
    try:
        return device(0).archs, RecordingDevice.like(device(0))
    except ImportError as error:  # BackendNotAvailableError is one
        raise SettingError(
            f"--arch: there is no device to ask ({error}); say what to build for, such "
            "as --arch gfx90a,gfx1030") from error


def report(libraries: Sequence[str], check: bool) -> int:
    """Print the registers and memory that each compiled kernel needs.

    Returns
    -------
    int
        The exit status: under `check` 1 where registers spill, or nothing is there.
    """
    try:
        found = _cached() if not libraries else [
            r for path in libraries for r in resources(Path(path))]
    except (OSError, ValueError) as error:
        raise SettingError(f"no report: {error}; name libraries of kernels") from error
    if not found:
        print("no kernels for AMD devices in "
              f"{', '.join(libraries) or cache.folder()}; make some: "
              "python -m nbfused rocm build --arch gfx90a")
        return int(check)
    print(as_table(found))
    print(_summary(found), end="")
    return int(check and _spilling(found))


def _cached() -> list[Resources]:
    found = {r for path in cache.libraries() for r in resources(path)}
    return sorted(found, key=lambda r: (r.arch, r.name))


def _spilling(found: Sequence[Resources]) -> bool:
    return any(r.spills for r in found)


def _summary(found: Sequence[Resources]) -> str:
    """Lines of the report: one for each architecture and each spilling kernel."""
    lines = []
    for arch in sorted({r.arch for r in found}):
        alike = [r for r in found if r.arch == arch]
        lines.append(
            f"{arch}: {len(alike)} kernels, waves of "
            f"{', '.join(sorted({str(r.wave) for r in alike}))}; at most "
            f"{max(r.vgprs for r in alike)} VGPRs, {max(r.lds for r in alike)} bytes "
            f"of LDS, {max(r.scratch for r in alike)} of scratch; "
            f"{sum(bool(r.spills) for r in alike)} spill")
        lines += [f"  {r.name}: {r.spills} spills" for r in alike if r.spills]
    return "".join(f"{line}\n" for line in lines)
