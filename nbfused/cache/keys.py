"""Cache keys: hashes of everything that an artefact depends on."""

from __future__ import annotations

import hashlib
import os
import sys
from functools import lru_cache
from importlib.util import find_spec

from ..version import __version__

__all__ = ["digest", "file_name"]


@lru_cache(maxsize=1)
def _toolchain() -> tuple[str, ...]:
    """Versions of the packages that compile generated text."""
    installed = _installed()
    return (f"nbfused {__version__}", *(
        f"{name} {installed.get(name.replace('-', '_')) or _version(name)}"
        for name in ("numba", "llvmlite", "numba-cuda")))


def _installed() -> dict[str, str]:
    """Package versions read from folder names, without importing `importlib.metadata`.

    That import alone takes 20 ms: benchmarks/notes/host.md#cold-start.

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
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


def digest(*parts: str | bytes) -> str:
    """The cache key of `parts` and of the compilers' versions.

    Parts are told apart: ``digest("ab", "c") != digest("a", "bc")``.

    Examples
    --------
    >>> import nbfused as nf
    >>> nf.cache.digest("source", "sm_90") == nf.cache.digest("source", "sm_90")
    True
    """
    total = hashlib.sha256()
    for part in (*_toolchain(), *parts):
        data = _bytes(part)
        kind = b"s" if isinstance(part, str) else b"b"
        total.update(kind + len(data).to_bytes(8, "little") + data)
    return total.hexdigest()


def file_name(key: bytes | str) -> str:
    """The file name of a key: a digest itself, or a hash of other text."""
    if isinstance(key, str) and len(key) == 64 and set(key) <= set("0123456789abcdef"):
        return key
    return hashlib.sha256(_bytes(key)).hexdigest()


def _bytes(part: str | bytes) -> bytes:
    """The bytes of any text: names of files may have what is no Unicode."""
    return part.encode(errors="surrogatepass") if isinstance(part, str) else part
