"""``python -m nbfused``: what is installed, the cache of kernels, the demo."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import metadata
from typing import Any

from . import cache
from .config import PREFIX, config
from .registry import BackendInfo, Backends, backends
from .version import __version__

__all__ = ["info", "main"]

_PACKAGES = (
    "numpy", "numba", "llvmlite", "ml_dtypes", "numba-cuda", "cuda-core",
    "cuda-bindings", "torch", "jax",
)
# CuPy's wheels are named after the toolkit that they were built for.
_CUPY = ("cupy", "cupy-cuda12x", "cupy-cuda13x", "cupy-rocm-7-0")


def info() -> dict[str, Any]:
    """Gather what a report of a bug needs, in types that JSON has.

    Returns
    -------
    dict
        ``versions``, ``platform``, ``backends`` (name → available, enabled, why,
        devices), ``cache`` and ``environment`` (the variables that are set).
    """
    stored = cache.stats()
    return {
        "versions": _versions(),
        "platform": f"{platform.system()} {platform.machine()}, "
                    f"{os.cpu_count()} processors",
        "backends": {name: asdict(record) for name, record in backends().items()},
        "cache": {"folder": stored.folder, "entries": stored.entries,
                  "bytes": stored.bytes, "limit": config.cache_size},
        "environment": {name: value for name, value in sorted(os.environ.items())
                        if name.startswith(PREFIX)},
    }


def _versions() -> dict[str, str | None]:
    """Versions from the packages' metadata: nothing is imported."""
    versions: dict[str, str | None] = {
        "nbfused": __version__, "python": platform.python_version()}
    versions.update((name, _version(name)) for name in _PACKAGES)
    cupy = (_version(name) for name in _CUPY)
    versions["cupy"] = next((version for version in cupy if version), None)
    return versions


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _show(gathered: dict[str, Any]) -> str:
    versions = [f"  {name:14}{version or 'not installed'}"
                for name, version in gathered["versions"].items()]
    found = Backends((name, BackendInfo(**record))
                     for name, record in gathered["backends"].items())
    stored = gathered["cache"]
    variables = [f"  {name}={value}" for name, value
                 in gathered["environment"].items()] or ["  none set"]
    return "\n".join([
        "versions", *versions,
        "platform", f"  {gathered['platform']}",
        "backends", *(f"  {line}" for line in repr(found).splitlines()),
        "cache", f"  {stored['folder']}",
        f"  {stored['entries']} kernels, {_size(stored['bytes'])} of "
        f"{_size(stored['limit'])}",
        "environment", *variables,
    ])


def _size(count: int) -> str:
    amount, units = float(count), ["bytes", "KiB", "MiB", "GiB"]
    while amount >= 1024 and len(units) > 1:
        amount, units = amount / 1024, units[1:]
    return f"{amount:.0f} {units[0]}" if units[0] == "bytes" else (
        f"{amount:.1f} {units[0]}")


def _run_info(arguments: argparse.Namespace) -> int:
    gathered = info()
    print(json.dumps(gathered, indent=2) if arguments.json else _show(gathered))
    return 0


def _run_cache(arguments: argparse.Namespace) -> int:
    if arguments.action == "clear":
        print(f"removed {cache.clear()} kernels from {cache.folder()}")
    else:
        stored = cache.stats()
        print(f"{stored.entries} kernels, {_size(stored.bytes)} in {stored.folder}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m nbfused", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    report = commands.add_parser("info", help="versions, backends, devices, cache")
    report.add_argument("--json", action="store_true", help="for programs")
    report.set_defaults(run=_run_info)
    stored = commands.add_parser("cache", help="the compiled kernels on disk")
    stored.add_argument("action", choices=("stats", "clear"))
    stored.set_defaults(run=_run_cache)
    commands.add_parser("demo", help="train a network on handwritten digits",
                        add_help=False)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; ``info`` if none is given.

    Returns
    -------
    int
        The exit status.
    """
    words = list(sys.argv[1:] if argv is None else argv) or ["info"]
    try:
        status = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read has what it wanted, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


def _run(words: list[str]) -> int:
    if words[0] == "demo":
        from .demo import main as demo  # has requirements of its own, and its options

        return demo(words[1:])
    arguments = _parser().parse_args(words)
    run: Callable[[argparse.Namespace], int] = arguments.run
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
