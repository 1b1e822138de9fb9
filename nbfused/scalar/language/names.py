"""The vocabulary as Python names, for use in scalar functions.

Each is callable on numbers too: ``nf.sigmoid(0.5)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .vocabulary import OPS, Op


class Access:
    """An access to a raw array, as its `__doc__` says."""

    def __init__(self, name: str, doc: str) -> None:
        self.__name__ = name
        self.__nbfused_op_name__: str = name
        self.__doc__ = doc

    def __call__(self, array: Any, *args: Any) -> Any:
        """On a NumPy array, as plain Python; on a symbol, defer to it."""
        if hasattr(array, "__nbfused_op__"):
            return array.__nbfused_op__(self.__name__, (array, *args))
        if self.__name__ == "load":
            return array[args]
        array[args[:-1]] += args[-1]
        return None

    def __repr__(self) -> str:
        return f"<nbfused {self.__name__}>"


load: Access = Access("load", "The element ``load(a, i, j)`` of an array: ``a[i, j]``.")
atomic_add: Access = Access("atomic_add", """Add to an element of an array.

``atomic_add(a, i, j, value)``: no other thread comes between; it gives nothing back,
and has a derivative.
""")

_PUBLIC = {name: op for name, op in OPS.items() if op.python == f"nf.{name}"}
globals().update(_PUBLIC)

__all__ = ["atomic_add", "load", *_PUBLIC]

if TYPE_CHECKING:
    def __getattr__(name: str) -> Op: ...
