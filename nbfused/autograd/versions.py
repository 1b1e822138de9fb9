"""Detection of in-place writes to saved arrays, by version counters.

Every array that a live node keeps is watched: a write through nbfused looks up, in an
index of addresses that forgets them together with the node, whose bytes between the
first and the last element it overlaps, and marks them.  A library with counters of its
own (PyTorch) is told of each write, and its counter says what it has written itself.
Writes by other means, NumPy's among them, are seen under ``NBFUSED_DEBUG=1`` only, by a
checksum.
"""

from __future__ import annotations

import os
import threading
import weakref
import zlib
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ..arrays import ByteRange, byte_range, describe, library_of, to_numpy
from ..arrays.detect import TORCH_DEVICES, device_of, is_lazy
from ..arrays.traced import Traced
from ..arrays.watched import RangeIndex
from ..config import config
from ..errors import InplaceModificationError, KernelTypeError

__all__ = ["HandedOver", "Saved", "checksum", "is_saved", "note_write",
           "note_writes_of", "watched"]

#: Arrays saved since the last write, which leave by themselves.  What is done to the
#: set is done in one step, so that saving takes no lock, nor an address: most graphs
#: are gone before anything is written.
_NEW: set[weakref.ref[Saved | HandedOver]] = set()
#: Arrays that were there at a write, by their addresses.
_INDEX: RangeIndex[Saved | _Mark] = RangeIndex()
#: Written arrays that are yet to be looked up; more than one only where a collector of
#: garbage writes in the midst of it.
_WRITTEN: deque[Any] = deque()
#: Held while writes are looked up.
_LOCK = threading.RLock()
_looking_up = False


def _unlock() -> None:
    """Make a new lock in a forked child: its holder may not exist there."""
    global _LOCK, _looking_up
    _LOCK, _looking_up = threading.RLock(), False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)

#: How to tell the library of arrays of a type of writes, and how to ask it for the
#: count; None where it counts none.
_COUNTERS: dict[type, Callable[[Sequence[Any]], None] | None] = {
    np.ndarray: None, type(None): None}
_VERSIONS: dict[type, Callable[[Any], int | None] | None] = {np.ndarray: None}


#: Numbers of arguments, negative for a result; the names of all, and the operation.
_Several = tuple[Sequence[int], Sequence[str], str]


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
                 "data", "guarded")

    def __init__(self, data: Any, what: str | tuple[int, Sequence[str], str]) -> None:
        """Save an array.

        `what` describes it in messages: a text, or the number of an argument, negative
        for a result, the names of all, and the operation.
        """
        self.data: Any = data
        self._what = what
        #: Found out at the first write.
        self._range: ByteRange | None = None
        self._changed = False
        self._version: int | None = None
        self._checksum: int | None = None
        #: Whether `load` has anything to check.
        self.guarded: bool = False
        if type(data) is not np.ndarray:
            ask = _VERSIONS.get(type(data), _version)
            if ask is not None:
                try:  # most often a function written in C, which is no call of Python's
                    self._version = ask(data)
                except RuntimeError:  # tensors of inference mode have no counter
                    self._version = None
                self.guarded = self._version is not None
            if not self.guarded and is_lazy(data):  # changed by giving it a new graph
                self.data = data.copy()
                return
        if isinstance(data, Traced):
            self.data = data.plain()  # as it is now
        elif config.debug:
            self._checksum, self.guarded = checksum(data), True
        _NEW.add(weakref.ref(self, _NEW.discard))

    @property
    def label(self) -> str:
        """The description for messages."""
        return self._what if isinstance(self._what, str) else _label(*self._what)

    @property
    def place(self) -> ByteRange:
        """The range of bytes from the first to the last element."""
        found = self._range
        if found is None:
            found = self._range = byte_range(describe(self.data, self.label))
        return found

    def watches(self) -> list[tuple[ByteRange, Saved]]:
        """The range of bytes that it watches, and itself."""
        return [(self.place, self)]

    def note(self) -> None:
        """Note that it was written to."""
        self._changed = self.guarded = True

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
        if self._version is not None and not self._changed and \
                self._checksum is None and \
                _VERSIONS[type(self.data)](self.data) == self._version:  # type: ignore[misc]
            return self.data
        if self._changed or self._checksum is not None or self._version is not None:
            self.check(self._checksum is not None and
                       self._checksum != checksum(self.data))
        return self.data

    def check(self, changed: bool = False) -> None:
        """Raise `InplaceModificationError` if it was written to, or `changed`."""
        if self._version is not None and self.data is not None:
            changed |= not self.is_current()
        if self._changed or changed:
            raise _error(self.label)


class HandedOver:
    """Arrays that a node has handed to a library that counts its own writes: PyTorch.

    They are watched for writes of ours.  Nothing of them is kept but their addresses:
    a result that its own node holds would never be freed.

    Attributes
    ----------
    changed
        Numbers of those that were written to.
    checksums
        Of their elements; None unless ``NBFUSED_DEBUG=1``.
    """

    __slots__ = ("__weakref__", "_marks", "_places", "_what", "changed", "checksums")

    def __init__(self, arrays: Sequence[Any], what: _Several) -> None:
        """Watch tensors, which `what` names."""
        self._what = what
        #: Devices, first bytes, and those after the last.
        self._places: list[tuple[str, int, int]] = []
        for x in arrays:  # a call for each would be a third of it
            device = TORCH_DEVICES.get(x.device) or device_of(x)  # most are known
            if x.is_contiguous():
                low = x.data_ptr()
                self._places.append((device, low, low + x.nbytes))
            else:
                place = byte_range(describe(x))
                self._places.append((device, place.low, place.high))
        self._marks: list[_Mark] = []
        self.changed: list[int] = []
        self.checksums = [*map(checksum, arrays)] if config.debug else None
        _NEW.add(weakref.ref(self, _NEW.discard))

    def watches(self) -> list[tuple[ByteRange, _Mark]]:
        """The ranges of bytes that are watched, and a mark for each."""
        self._marks = [_Mark(self.changed, k) for k in range(len(self._places))]
        return [(ByteRange(*place), mark)
                for place, mark in zip(self._places, self._marks, strict=True)]

    def check(self, arrays: Sequence[Any] = ()) -> None:
        """Raise `InplaceModificationError` if one was written to.

        `arrays` are they, as far as they are known; only ``NBFUSED_DEBUG=1`` looks at
        them.
        """
        if self.checksums:
            self.changed += [k for k, (x, known) in enumerate(zip(
                arrays, self.checksums, strict=False)) if checksum(x) != known]
        if self.changed:
            numbers, names, op = self._what
            raise _error(_label(numbers[min(self.changed)], names, op))


class _Mark:
    """Watches one of several arrays."""

    __slots__ = ("__weakref__", "_changed", "_number")

    def __init__(self, changed: list[int], number: int) -> None:
        self._changed, self._number = changed, number

    def note(self) -> None:
        """Note that it was written to."""
        self._changed.append(self._number)

    def is_current(self) -> bool:
        """Say no: its library counts versions by itself."""
        return False

    def renew(self) -> None:
        """Do nothing: it has no version."""


def _label(number: int, names: Sequence[str], op: str) -> str:
    """Describe an array for messages."""
    if number < 0:
        return f"the result of {op}"
    return f"argument {names[number]!r} of {op}" if number < len(names) else \
        f"input {number} of {op}"


def _error(label: str) -> InplaceModificationError:
    return InplaceModificationError(
        f"{label} was changed in place after the tape had saved it; its "
        "gradient would be wrong. Expected it unchanged until backward(): "
        "write to a copy, or change it after backward()")


def watched() -> int:
    """Count the saved arrays; one in two buckets of the index counts twice."""
    with _LOCK:
        return len(_NEW) + len(_INDEX)


def is_saved(array: Any) -> bool:
    """Whether an array was saved, or shares memory with one that was."""
    if not _NEW and not _INDEX:
        return False
    with _LOCK:
        _index_new()
        return any(True for _ in _INDEX.overlapping(byte_range(describe(array))))


def note_writes_of(kinds: Collection[type]) -> Callable[[Sequence[Any]], None]:
    """The `note_write` for arrays of types that are known, which is faster for one."""
    if len(kinds) != 1:
        return note_write
    (kind,) = kinds

    def note(arrays: Sequence[Any]) -> None:
        if _NEW or _INDEX or kind not in _COUNTERS:
            note_write(arrays)
        elif (tell := _COUNTERS[kind]) is not None:
            tell(arrays)

    return note


def note_write(arrays: Sequence[Any]) -> None:
    """Mark saved arrays that overlap `arrays` as written to (None is skipped)."""
    global _looking_up
    if not _NEW and not _INDEX:
        kinds = {*map(type, arrays)}
        for kind in kinds:
            tell = _COUNTERS[kind] if kind in _COUNTERS else _counter(
                next(a for a in arrays if type(a) is kind))
            if tell is not None:
                tell(arrays if len(kinds) == 1 else
                     [a for a in arrays if type(a) is kind])
        return
    with _LOCK:
        _WRITTEN.extend(a for a in arrays if a is not None)
        if _looking_up:
            return
        _looking_up = True
        try:
            while _WRITTEN:
                _mark(_WRITTEN.popleft())
        finally:
            _looking_up = False


def _mark(written: Any) -> None:
    """Tell the library of a write, and mark the saved arrays that it overlaps."""
    _index_new()
    place = byte_range(describe(written, "out"))
    tell = _COUNTERS[type(written)] if type(written) in _COUNTERS else _counter(written)
    if tell is not None:  # all views of a tensor have one counter: bytes tell which
        low, high = library_of(written).counted(written)  # type: ignore[attr-defined]
        current = [saved for saved in _INDEX.overlapping(
            ByteRange(place.device, low, high)) if saved.is_current()]
        tell((written,))
        for saved in current:
            saved.renew()
    if place.low < place.high:
        for saved in _INDEX.take(place):
            saved.note()


def _index_new() -> None:
    """Give the arrays that were saved since the last write their place in the index."""
    new = _NEW.copy()  # in one step; `tuple` may collect garbage midway
    for reference in new:
        saved = reference()
        if saved is None:
            continue
        try:
            for place, item in saved.watches():
                _INDEX.add(place, item)
        except KernelTypeError:  # it has no memory any more: JAX's were deleted
            continue
    _NEW.difference_update(new)


def _counter(array: Any) -> Callable[[Sequence[Any]], None] | None:
    """Find how writes to arrays of this type are reported; None: not at all."""
    found = _COUNTERS[type(array)] = getattr(library_of(array), "wrote", None)
    return found


def _version(array: Any) -> int | None:
    """The library's version counter of an array; None if it has none."""
    kind = type(array)
    if kind not in _VERSIONS:
        _VERSIONS[kind] = None if issubclass(kind, Traced) else getattr(
            library_of(array), "version", None)
    ask = _VERSIONS[kind]
    try:
        return None if ask is None else ask(array)
    except RuntimeError:  # as in `Saved`
        return None


def checksum(data: Any) -> int:
    """A checksum of an array's elements, in order."""
    if hasattr(data, "detach"):  # PyTorch may record what is done to a saved tensor
        data = data.detach()
    return zlib.crc32(np.ascontiguousarray(to_numpy(data)).tobytes())
