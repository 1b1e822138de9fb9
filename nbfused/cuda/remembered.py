"""What was found out for keys that may never come again."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

__all__ = ["Remembered"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Remembered(dict[K, V]):
    """A dictionary that forgets everything where it would become too large.

    Parameters
    ----------
    most
        Entries at most.
    """

    def __init__(self, most: int = 1024) -> None:
        super().__init__()
        self._most = most

    def remember(self, key: K, value: V) -> V:
        """Keep a value; gives it back."""
        if len(self) >= self._most:
            self.clear()
        self[key] = value
        return value
