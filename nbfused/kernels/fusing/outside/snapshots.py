"""Arrays that are no arguments, as they are when a traced function reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ....arrays import dtype_of, is_array
from ....arrays.creation import array_like
from ....errors import KernelTypeError
from ....specs.fusion.graph import Value
from ..program import data_of
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
        self._taken: dict[Any, tuple[Value, Any, Any, Any]] = {}
        self._read: list[tuple[Any, int]] = []

    def take(self, x: Any, known: bool, given: Mapping[Value, Any],
             ) -> tuple[Value, Any, bool]:
        """The value of an array, what to keep of it, and whether it is known.

        One that was read before and has not changed is the same value.

        Parameters
        ----------
        x
            The array.
        known
            Whether it is one that the function has made of numbers.
        given
            What the function is called with.
        """
        known = known or self.memories.knows(x)
        copy = np.array(x) if type(x) in (np.ndarray, HostArray) else self._kept(
            x, known)
        key = id(x), getattr(x, "_version", None)
        value, kept, shown, _ = self._taken.get(key, (None, None, None, None))
        if value is None or not _same(kept, copy):
            value, kept = Value(tuple(x.shape), dtype_of(x), "constant"), copy
            shown = _beside(given.values(), copy) if known else copy
            # With the array, whose number must not be another's.
            self._taken[key] = value, kept, shown, x
        return value, shown, known

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


def _beside(given: Iterable[Any], made: Any) -> Any:
    """An array of numbers, in the library of the arguments if none of them is NumPy's.

    NumPy's functions of tensors give tensors, and so do those that make arrays.
    """
    arrays = [x for x in map(data_of, given) if is_array(x) and
              not isinstance(x, np.generic)]
    if type(made) is not np.ndarray or not arrays or any(
            isinstance(x, np.ndarray) for x in arrays):
        return made
    return array_like(made, arrays[0])


def _same(kept: Any, x: Any) -> bool:
    """Whether a host array has the same bytes; other arrays say when they change."""
    return not isinstance(x, np.ndarray) or (
        kept.dtype == x.dtype and kept.shape == x.shape
        and kept.tobytes() == x.tobytes())
