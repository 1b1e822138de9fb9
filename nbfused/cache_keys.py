"""Keys of the cache: the hash of everything that an artefact depends on."""

from __future__ import annotations

import hashlib
import os
import sys
from functools import lru_cache
from importlib.util import find_spec

from .version import __version__

__all__ = ["digest", "file_name"]


@lru_cache(maxsize=1)
def _toolchain() -> tuple[str, ...]:
    """Versions of what turns generated text into machine code."""
    installed = _installed()
    return (f"nbfused {__version__}", *(
        f"{name} {installed.get(name.replace('-', '_')) or _version(name)}"
        for name in ("numba", "llvmlite", "numba-cuda")))


def _installed() -> dict[str, str]:
    """Versions of packages by their folders' names: a hundredth of what asking takes.

    ``numba_cuda-0.30.4.dist-info``: the name has no other hyphens.
    """
    found: dict[str, str] = {}
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:  # an archive, or nothing
            continue
        for name in names:
            if name.endswith(".dist-info"):
                package, _, version = name.removesuffix(".dist-info").partition("-")
                found.setdefault(package.lower(), version)
    return found


def _version(package: str) -> str:
    if find_spec(package.replace("-", "_")) is None:
        return "absent"
    from importlib import metadata  # 20 ms

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


def digest(*parts: str | bytes) -> str:
    """The key of an artefact that depends on `parts` and on the compilers' versions.

    Parts are told apart: ``digest("ab", "c") != digest("a", "bc")``.

    Examples
    --------
    >>> import nbfused as nf
    >>> nf.cache.digest("source", "sm_90") == nf.cache.digest("source", "sm_90")
    True
    """
    total = hashlib.sha256()
    for part in (*_toolchain(), *parts):
        data = part.encode() if isinstance(part, str) else part
        kind = b"s" if isinstance(part, str) else b"b"
        total.update(kind + len(data).to_bytes(8, "little") + data)
    return total.hexdigest()


def file_name(key: bytes | str) -> str:
    """Keys made by `digest` name their file; any other text or bytes is hashed."""
    if isinstance(key, str) and len(key) == 64 and set(key) <= set("0123456789abcdef"):
        return key
    return hashlib.sha256(key.encode() if isinstance(key, str) else key).hexdigest()
