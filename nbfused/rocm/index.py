"""Which library holds which kernel, where several were built at once.

One note in the cache for each target: compiler, flags and architecture.  Kernels built
one by one are found without it.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Mapping
from functools import lru_cache

import nbfused.cache as cache

from ..config import config

__all__ = ["add", "read"]


def read(target: str) -> Mapping[str, str]:
    """For each symbol the cache's key of its library; read once by each process."""
    return _read(target, str(cache.folder()), config.cache_disable)


@lru_cache(maxsize=16)
def _read(target: str, folder: str, disabled: bool) -> Mapping[str, str]:
    return {} if disabled else _stored(target)


def _stored(target: str) -> dict[str, str]:
    data = cache.noted(_key(target))
    return {} if data is None else json.loads(data)


def _key(target: str) -> str:
    return cache.digest("rocm index", target)


def add(target: str, libraries: Mapping[str, str]) -> None:
    """Note in which library the kernels are, besides what is known already."""
    cache.folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(cache.folder() / "rocm.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be adding, too
        known = _stored(target)
        data = json.dumps({**known, **libraries}).encode()
        cache.note(_key(target), data)
    _read.cache_clear()
