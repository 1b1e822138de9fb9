"""Which saved arrays were written to since: the tape's version counters.

Every array that a live node keeps is watched: the bytes between its first and last
element are in a registry that forgets them together with the node.  A write through
nbfused marks the watches that it overlaps.  Writes by other means are seen under
``NBFUSED_DEBUG=1`` only, by a checksum.  A library with counters of its own
(PyTorch) is told of each write.
"""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arrays import ByteRange, byte_range, describe, library_of, to_numpy
from ..config import config
from ..errors import InplaceModificationError, KernelTypeError

__all__ = ["Saved", "note_write"]

#: Weak references, which leave by themselves.  What is done to the set is done in one
#: step, so that it needs no lock, and takes a third of what a `weakref.WeakSet` does.
_WATCHED: set[weakref.ref[Saved]] = set()

#: How to tell the library of arrays of a type; None where it counts no writes.
_COUNTERS: dict[type, Callable[[Any], None] | None] = {
    np.ndarray: None, type(None): None}


class Saved:
    """An array that a node keeps for its pullback.

    Attributes
    ----------
    data
        The array.
    label
        What it is, for the message: ``"x of swish"``.
    """

    __slots__ = ("__weakref__", "_changed", "_checksum", "_range", "_what", "data")

    def __init__(self, data: Any, what: str | tuple[int, Sequence[str], str]) -> None:
        """`what` is the label, or number, names and op of an argument."""
        self.data = data
        self._what = what
        self._range: ByteRange | None = None  # found out at the first write
        self._changed = False
        self._checksum = _checksum(data) if config.debug else None
        _WATCHED.add(weakref.ref(self, _WATCHED.discard))

    @property
    def label(self) -> str:
        """See the class."""
        if isinstance(self._what, str):
            return self._what
        number, names, op = self._what
        return f"argument {names[number]!r} of {op}" if number < len(names) else \
            f"input {number} of {op}"

    @property
    def place(self) -> ByteRange:
        """The bytes between its first and its last element."""
        if self._range is None:
            self._range = byte_range(describe(self.data, self.label))
        return self._range

    def hand_over(self) -> Any:
        """Give the array to somebody who keeps it; it stays watched."""
        self._range = self.place
        data, self.data = self.data, None
        return data

    def note(self, written: ByteRange) -> None:
        """Mark the array as changed if `written` overlaps it."""
        try:
            place = self.place
        except KernelTypeError:  # it has no memory any more: JAX's were deleted
            return
        if place.overlaps(written):
            self._changed = True

    def load(self) -> Any:
        """The array, if it is what was saved.

        Raises
        ------
        InplaceModificationError
            If it was changed in place.
        """
        self.check(self._checksum is not None and
                   self._checksum != _checksum(self.data))
        return self.data

    def check(self, changed: bool = False) -> None:
        """`InplaceModificationError` where nbfused has written to it, or `changed`."""
        if self._changed or changed:
            raise InplaceModificationError(
                f"{self.label} was changed in place after the tape had saved it; its "
                "gradient would be wrong. Expected it unchanged until backward(): "
                "write to a copy, or change it after backward()")


def note_write(arrays: Sequence[Any]) -> None:
    """Record that nbfused has written to `arrays` (None entries are skipped)."""
    for a in arrays:
        count = _COUNTERS.get(type(a), _first)
        if count is not None:
            count(a)
    if not _WATCHED:
        return
    written = [byte_range(describe(a, "out")) for a in arrays if a is not None]
    for reference in _WATCHED.copy():  # in one step; `tuple` may collect garbage midway
        saved = reference()
        if saved is not None:
            for place in written:
                saved.note(place)


def _first(array: Any) -> None:
    """Find out whom to tell of writes to arrays of this type, and do so."""
    count = _COUNTERS[type(array)] = getattr(library_of(array), "wrote", None)
    if count is not None:
        count(array)


def _checksum(data: Any) -> int:
    if hasattr(data, "detach"):  # PyTorch may record what is done to a saved tensor
        data = data.detach()
    return zlib.crc32(np.ascontiguousarray(to_numpy(data)).tobytes())
