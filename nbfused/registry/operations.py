"""The table of operations, filled when first read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["NAMESPACES", "NUMPY", "OPS", "Table"]


class Table(dict[str, Any]):
    """Operations by name; looking up a missing one defines all of them first.

    Attributes
    ----------
    load
        Imports the modules that define entries.
    """

    load: Callable[[], object] | None = None

    def fill(self) -> None:
        """Define all operations, or wait for another thread that does."""
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
        """Look up an operation, or return `default`."""
        try:
            return self[name]
        except KeyError:
            return default


#: Public name of an operation -> the callable object that is it.
OPS = Table()

#: NumPy's function, as ``numpy.linalg.inv`` -> the same with NumPy's parameters.
NUMPY = Table()

#: ``"array_api"`` -> the module that arrays say is their namespace; ``"ops"`` -> ours,
#: ``"nbfused"`` -> the package, whose kernels are imported when first used;
#: ``"numpy"`` -> a function that finds NumPy's by name, for arrays of every library.
NAMESPACES = Table()
