"""Arrays that are no arguments, as they are when a traced function reads them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....arrays import dtype_of
from ....errors import KernelTypeError
from ....specs.fusion.graph import Value
from .host_arrays import HostArray
from .memories import Memories

__all__ = ["Snapshots"]


class Snapshots:
    """The arrays that a function has read so far, each as it was then.

    Attributes
    ----------
    memories
        Of the arrays that the function makes.
    """

    def __init__(self) -> None:
        self.memories = Memories()
        self._taken: dict[Any, tuple[Value, Any, Any]] = {}
        self._read: list[tuple[Any, int]] = []

    def take(self, x: Any, known: bool = False) -> tuple[Value, Any, bool]:
        """The value of an array, what to keep of it, and whether it is known.

        One that was read before and has not changed is the same value.
        """
        known = known or self.memories.knows(x)
        copy = np.array(x) if type(x) in (np.ndarray, HostArray) else self._kept(
            x, known)
        key = id(x), getattr(x, "_version", None)
        value, kept, _ = self._taken.get(key, (None, None, None))
        if value is None or not _same(kept, copy):
            value, kept = Value(tuple(x.shape), dtype_of(x), "constant"), copy
            self._taken[key] = value, kept, x  # whose number must not be another's
        return value, kept, known

    def _kept(self, x: Any, known: bool) -> Any:
        """A tensor that may be changed is copied, or has to be as it is now."""
        version = getattr(x, "_version", None)
        if version is None:
            return x
        if known:
            return x.detach().clone()
        self._read.append((x, version))
        return x

    def check(self) -> None:
        """Refuse what was changed after it was read.

        Raises
        ------
        KernelTypeError
            A tensor was.
        """
        for x, version in self._read:
            if x._version != version:
                raise KernelTypeError(
                    f"a tensor of shape {tuple(x.shape)} is read, and then changed in "
                    "place, and is no argument of the fused function; pass it as one")


def _same(kept: Any, x: Any) -> bool:
    """Whether a host array has the same bytes; other arrays say when they change."""
    return not isinstance(x, np.ndarray) or (
        kept.dtype == x.dtype and kept.shape == x.shape
        and kept.tobytes() == x.tobytes())
