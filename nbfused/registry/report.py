"""The report for bugs: installed versions, backends, devices, cache."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

from .. import cache
from ..config import PREFIX, config
from ..version import __version__
from .backends import backends
from .info import BackendInfo, Backends

__all__ = ["as_text", "info", "readable_size", "show_config", "versions"]

_PACKAGES = (
    "numpy", "numba", "llvmlite", "ml_dtypes", "numba-cuda", "cuda-core",
    "cuda-bindings", "torch", "jax",
)
# CuPy's wheels are named after the toolkit that they were built for.
_CUPY = ("cupy", "cupy-cuda12x", "cupy-cuda13x", "cupy-rocm-7-0")


def info() -> dict[str, Any]:
    """Collect the report as types that JSON has.

    Returns
    -------
    dict
        ``versions``, ``platform``, ``backends`` (name → available, enabled, why,
        devices), ``cache`` and ``environment`` (the variables that are set).
    """
    stored = cache.stats()
    return {
        "versions": versions(),
        "platform": f"{platform.system()} {platform.machine()}, "
                    f"{os.cpu_count()} processors",
        "backends": {name: record._asdict() for name, record in backends().items()},
        "cache": {"folder": stored.folder, "entries": stored.entries,
                  "bytes": stored.bytes, "limit": config.cache_size},
        "environment": {name: value for name, value in sorted(os.environ.items())
                        if name.startswith(PREFIX)},
    }


def versions() -> dict[str, str | None]:
    """Versions of nbfused and related packages; None if not installed.

    They come from the packages' metadata: nothing is imported.

    Examples
    --------
    >>> import nbfused as nf
    >>> nf.versions()["nbfused"] == nf.__version__
    True
    """
    found: dict[str, str | None] = {
        "nbfused": __version__, "python": platform.python_version()}
    found.update((name, _version(name)) for name in _PACKAGES)
    cupy = (_version(name) for name in _CUPY)
    found["cupy"] = next((version for version in cupy if version), None)
    return found


def show_config() -> None:
    """Print the report, as ``python -m nbfused info``."""
    print(as_text(info()))


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def as_text(gathered: dict[str, Any]) -> str:
    """Format the report of `info` for reading."""
    installed = [f"  {name:14}{version or 'not installed'}"
                 for name, version in gathered["versions"].items()]
    found = Backends((name, BackendInfo(**record))
                     for name, record in gathered["backends"].items())
    stored = gathered["cache"]
    variables = [f"  {name}={value}" for name, value
                 in gathered["environment"].items()] or ["  none set"]
    return "\n".join([
        "versions", *installed,
        "platform", f"  {gathered['platform']}",
        "backends", *(f"  {line}" for line in repr(found).splitlines()),
        "cache", f"  {stored['folder']}",
        f"  {stored['entries']} kernels, {readable_size(stored['bytes'])} of "
        f"{readable_size(stored['limit'])}",
        "environment", *variables,
    ])


def readable_size(count: int) -> str:
    """Format a number of bytes with a suitable unit: ``1.5 MiB``."""
    amount, units = float(count), ["bytes", "KiB", "MiB", "GiB"]
    while amount >= 1024 and len(units) > 1:
        amount, units = amount / 1024, units[1:]
    return f"{amount:.0f} {units[0]}" if units[0] == "bytes" else (
        f"{amount:.1f} {units[0]}")
