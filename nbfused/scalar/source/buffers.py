"""Names that generated derivatives use, so that their text can be pasted back.

A buffer is memory of one thread, where a derivative keeps what it needs on the way
back.  Functions written by hand use `nbfused.local`.
"""

from __future__ import annotations

from typing import Any

from .static import LocalList

__all__ = ["buffer", "count"]


class _Buffer:
    """``b = buffer(n)``, then ``b[i]``, ``b[i] = x``; ``buffer(n, True)`` is zero."""

    def __call__(self, size: int, zeros: bool = False) -> LocalList:
        """In plain Python, a list."""
        return LocalList([0] * size)


class _Count:
    """An integer in the dtype of indices."""

    def __call__(self, n: Any) -> Any:
        """In plain Python, `n`."""
        return n


buffer, count = _Buffer(), _Count()
