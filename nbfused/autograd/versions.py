"""Detection of in-place writes to saved arrays, by version counters.

Every array that a live node keeps is watched: the bytes between its first and last
element are in a registry that forgets them together with the node.  A write through
nbfused marks the watches that it overlaps.  A library with counters of its own
(PyTorch) is told of each write, and its counter says what it has written itself.
Writes by other means, NumPy's among them, are seen under ``NBFUSED_DEBUG=1`` only, by a
checksum.
"""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arrays import ByteRange, byte_range, describe, library_of, to_numpy
from ..config import config
from ..dispatch.traced import Traced
from ..errors import InplaceModificationError, KernelTypeError

__all__ = ["Saved", "note_write"]

#: Weak references, which leave by themselves.  What is done to the set is done in one
#: step, so that it needs no lock, and takes a third of what a `weakref.WeakSet` does.
_WATCHED: set[weakref.ref[Saved]] = set()

#: How to tell the library of arrays of a type of a write, and how to ask it for the
#: count; None where it counts none.
_COUNTERS: dict[type, Callable[[Any], None] | None] = {
    np.ndarray: None, type(None): None}
_VERSIONS: dict[type, Callable[[Any], int | None] | None] = {np.ndarray: None}


class Saved:
    """An array that a node saves for its pullback, watched for writes.

    Attributes
    ----------
    data
        The array.
    label
        What it is, for the message: ``"x of swish"``.
    """

    __slots__ = ("__weakref__", "_changed", "_checksum", "_range", "_version", "_what",
                 "data")

    def __init__(self, data: Any, what: str | tuple[int, Sequence[str], str]) -> None:
        """Save an array; `what` describes it in messages."""
        self.data: Any = data
        self._what = what
        self._range: ByteRange | None = None  # found out at the first write
        self._changed = False
        self._version = None if type(data) is np.ndarray else _version(data)
        self._checksum = _checksum(data) if config.debug and not isinstance(
            data, Traced) else None
        _WATCHED.add(weakref.ref(self, _WATCHED.discard))

    @property
    def label(self) -> str:
        """The description for messages."""
        if isinstance(self._what, str):
            return self._what
        number, names, op = self._what
        return f"argument {names[number]!r} of {op}" if number < len(names) else \
            f"input {number} of {op}"

    @property
    def place(self) -> ByteRange:
        """The range of bytes from the first to the last element."""
        if self._range is None:
            self._range = byte_range(describe(self.data, self.label))
        return self._range

    def hand_over(self) -> Any:
        """Release the array to another owner, and keep watching it."""
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

    def is_current(self) -> bool:
        """Whether its library's version counter is unchanged."""
        return self._version is not None and self.data is not None and \
            self._version == _version(self.data)

    def renew(self) -> None:
        """Accept all writes so far: read the version counter again."""
        self._version = _version(self.data)

    def load(self) -> Any:
        """Return the array, after checking that it was not written to.

        Raises
        ------
        InplaceModificationError
            If it was changed in place.
        """
        self.check(self._checksum is not None and
                   self._checksum != _checksum(self.data))
        return self.data

    def check(self, changed: bool = False) -> None:
        """Raise `InplaceModificationError` if it was written to, or `changed`."""
        if self._version is not None and self.data is not None:
            changed |= not self.is_current()
        if self._changed or changed:
            raise InplaceModificationError(
                f"{self.label} was changed in place after the tape had saved it; its "
                "gradient would be wrong. Expected it unchanged until backward(): "
                "write to a copy, or change it after backward()")


def note_write(arrays: Sequence[Any]) -> None:
    """Mark saved arrays that overlap `arrays` as written to (None is skipped)."""
    counted = [(count, a) for a in arrays
               if (count := _COUNTERS.get(type(a), _note_first)) is not None]
    if not _WATCHED:
        for count, a in counted:
            count(a)
        return
    # In one step; `tuple` may collect garbage midway.
    watched = [saved for reference in _WATCHED.copy()
               if (saved := reference()) is not None]
    if counted:  # all views of a tensor have one counter; bytes tell them apart
        current = [saved for saved in watched if saved.is_current()]
        for count, a in counted:
            count(a)
        for saved in current:
            saved.renew()
    written = [byte_range(describe(a, "out")) for a in arrays if a is not None]
    for saved in watched:
        for place in written:
            saved.note(place)


def _note_first(array: Any) -> None:
    """Choose how writes to arrays of this type are reported, and report one."""
    count = _COUNTERS[type(array)] = getattr(library_of(array), "wrote", None)
    if count is not None:
        count(array)


def _version(array: Any) -> int | None:
    """The library's version counter of an array; None if it has none."""
    kind = type(array)
    if kind not in _VERSIONS:
        _VERSIONS[kind] = None if issubclass(kind, Traced) else getattr(
            library_of(array), "version", None)
    ask = _VERSIONS[kind]
    return None if ask is None else ask(array)


def _checksum(data: Any) -> int:
    if hasattr(data, "detach"):  # PyTorch may record what is done to a saved tensor
        data = data.detach()
    return zlib.crc32(np.ascontiguousarray(to_numpy(data)).tobytes())
