"""Arrays that a traced function makes the same in each call, told by their memory."""

from __future__ import annotations

import sys
from bisect import bisect_right, insort
from collections.abc import Callable
from types import CodeType, EllipsisType, NoneType
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from ....support.records import record
from .lines import user_frame

__all__ = ["Memories", "Site", "site_of"]

#: Where an array is made: the code of a function of the user, and a place in it.
Site = tuple[CodeType, int]

#: What says all of itself.
_PLAIN = (bool, int, float, complex, str, range, type, np.generic, np.dtype, NoneType,
          EllipsisType)
#: The same of PyTorch's, by name.
_PLAIN_OF_TORCH = frozenset({"device", "dtype", "layout", "memory_format"})


def site_of() -> Site | None:
    """The place that the user's code is at."""
    frame = user_frame(sys._getframe(1), behind_ours=True)
    return None if frame is None else (frame.f_code, frame.f_lasti)


def _bounds_of_tensor(x: Any) -> tuple[int, int]:
    storage = x.untyped_storage()
    low = storage.data_ptr()
    return low, low + storage.nbytes()


def _bounds(x: Any) -> Callable[[Any], tuple[int, int]] | None:
    """The function that gives the memory of an array; None if it is none."""
    if isinstance(x, np.ndarray):
        return byte_bounds
    torch = sys.modules.get("torch")
    return None if torch is None or not isinstance(
        x, torch.Tensor) or x.layout is not torch.strided else _bounds_of_tensor


@record
class _Memory:
    """The memory of an array and its views.

    Attributes
    ----------
    known
        Whether each call puts the same elements into it.
    """

    array: Any
    site: Site | None
    bounds: tuple[int, int]
    known: bool = True


def _low(memory: _Memory) -> int:
    return memory.bounds[0]


class Memories:
    """The memory of the arrays that a function has made so far, in its order."""

    def __init__(self) -> None:
        self._all: list[_Memory] = []

    def add(self, array: Any, site: Site | None) -> None:
        """Note an array that is known; it is kept, so that no other is in its place."""
        bounds = _bounds(array)
        if bounds is not None:
            insort(self._all, _Memory(array, site, bounds(array)), key=_low)

    def find(self, x: Any) -> _Memory | None:
        """The memory that an array is in; None if the function has not made it."""
        bounds = _bounds(x)
        if bounds is None:
            return None
        low, high = bounds(x)
        place = bisect_right(self._all, low, key=_low)
        found = self._all[place - 1] if place else None
        return found if found is not None and high <= found.bounds[1] else None

    def forget(self, x: Any) -> None:
        """Let an array be unknown: something that is unknown may be stored in it."""
        found = self.find(x)
        if found is not None:
            found.known = False

    def knows(self, x: Any) -> bool:
        """Whether a value is the same in each call, as far as can be told."""
        if isinstance(x, slice):
            return all(isinstance(part, _PLAIN) for part in (x.start, x.stop, x.step))
        if isinstance(x, _PLAIN):
            return True
        if type(x).__module__ == "torch" and type(x).__name__ in _PLAIN_OF_TORCH:
            return True
        found = self.find(x)
        return found is not None and found.known
