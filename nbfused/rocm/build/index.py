"""The index of kernels in libraries that hold several.

One note in the cache for each target: compiler, flags and architecture.  Kernels built
one by one are found without it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import lru_cache

import nbfused.cache as cache

from ...cache.files import locked
from ...config import config, logger

__all__ = ["add", "read"]

_log = logger("cache")


def read(target: str) -> Mapping[str, str]:
    """The cache's key of each symbol's library; read once by each process."""
    return _read(target, str(cache.folder()), config.cache_disable)


@lru_cache(maxsize=16)
def _read(target: str, folder: str, disabled: bool) -> Mapping[str, str]:
    return {} if disabled else _stored(target)


def _stored(target: str) -> dict[str, str]:
    return cache.noted(_key(target), _parsed) or {}


def _parsed(data: bytes) -> dict[str, str]:
    return {str(name): str(library) for name, library in json.loads(data).items()}


def _key(target: str) -> str:
    return cache.digest("rocm index", target)


def add(target: str, libraries: Mapping[str, str]) -> None:
    """Note in which library the kernels are, besides what is known already."""
    with _alone():
        known = _stored(target)
        data = json.dumps({**known, **libraries}).encode()
        cache.note(_key(target), data)
    _read.cache_clear()


@contextmanager
def _alone() -> Iterator[None]:
    """Other processes that add to an index wait, where there is writing at all."""
    with ExitStack() as stack:
        if not config.cache_disable:
            try:
                stack.enter_context(locked(cache.folder() / "rocm.lock"))
            except OSError as error:
                _log.warning("cannot lock %s: %s", cache.folder(), error)
        yield
