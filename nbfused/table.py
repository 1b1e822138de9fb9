"""The table of operations: filled where ops are defined, read by everything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["OPS", "Table"]


class Table(dict[str, Any]):
    """Entries by name; the first one that is missed has all of them defined.

    Attributes
    ----------
    load
        Imports the modules that define entries.
    """

    load: Callable[[], None] | None = None

    def fill(self) -> None:
        """Define all entries, or wait for another thread that does."""
        load = self.load
        if load is not None:
            load()
            self.load = None

    def __missing__(self, name: str) -> Any:
        if self.load is None:
            raise KeyError(name)
        self.fill()
        return self[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The entry, or `default`."""
        try:
            return self[name]
        except KeyError:
            return default


#: Public name of an operation -> the callable object that is it.
OPS = Table()
