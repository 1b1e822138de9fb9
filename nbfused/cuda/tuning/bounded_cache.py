"""A dictionary of bounded size, for keys that may never come again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

__all__ = ["BoundedCache"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(dict[K, V]):
    """A dictionary that forgets everything where it would become too large.

    Parameters
    ----------
    most
        Entries at most.
    """

    def __init__(self, most: int = 1024) -> None:
        super().__init__()
        self._most = most

    def find(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, made where it is not known."""
        try:
            return self[key]  # None may be a value
        except KeyError:
            pass
        return self.remember(key, make())

    def remember(self, key: K, value: V) -> V:
        """Keep a value; gives it back."""
        if len(self) >= self._most:
            self.clear()
        self[key] = value
        return value
