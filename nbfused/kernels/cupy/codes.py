"""The texts that a kernel has run, as CuPy's kernels show them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["CachedCodes"]


class CachedCodes:
    """A kernel that remembers what ran for the dtypes of its inputs."""

    def __init__(self) -> None:
        self._codes: dict[tuple[np.dtype, ...], str] = {}

    @property
    def cached_codes(self) -> dict[tuple[np.dtype, ...], str]:
        """The text that ran for the input dtypes of each call so far."""
        return dict(self._codes)

    @property
    def cached_code(self) -> str:
        """The first of `cached_codes`; empty before the first call."""
        return next(iter(self._codes.values()), "")

    def _keep_code(self, dtypes: tuple[np.dtype, ...], text: Callable[[], str]) -> None:
        """Remember the text for some dtypes, which `text` gives the first time."""
        if dtypes not in self._codes:
            self._codes[dtypes] = text()
