"""An index of watched objects by the ranges of addresses that they watch.

Ranges of up to ``2**n`` bytes are kept in buckets of ``2**n`` bytes, a dictionary for
each n: a range lies in at most two buckets, and whoever asks for what overlaps another
one looks at a few for each n, however many ranges there are.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

from .overlap import ByteRange

__all__ = ["RangeIndex"]

T = TypeVar("T")


class _Watch(weakref.ref[T]):
    """A weak reference with the range that its object watches."""

    __slots__ = ("place",)

    place: ByteRange


#: Watches of each range in a bucket: many objects watch one array.
_Bucket = dict[ByteRange, set[_Watch[T]]]


class RangeIndex(Generic[T]):
    """Weak references to objects, found by the bytes that they watch.

    Who uses it from several threads holds a lock.  Objects may be collected at any
    moment, in any thread: their references leave with the next call.
    """

    def __init__(self) -> None:
        #: By device and the logarithm of a bucket's size, then by its number.
        self._levels: dict[tuple[str, int], dict[int, _Bucket[T]]] = {}
        #: Of objects that are gone; to append takes one step.
        self._gone: deque[weakref.ref[T]] = deque()

    def __bool__(self) -> bool:
        return bool(self._levels)

    def __len__(self) -> int:
        """The number of references in buckets, after those that are gone have left."""
        self._forget()
        return sum(len(watches) for level in self._levels.values()
                   for bucket in level.values() for watches in bucket.values())

    def add(self, place: ByteRange, item: T) -> None:
        """Add an object that watches `place`; none is found by an empty range."""
        if place.low >= place.high:
            return
        watch: _Watch[T] = _Watch(item, self._gone.append)
        watch.place = place
        level = self._levels.setdefault(_level(place), {})
        for number in _numbers(place):
            level.setdefault(number, {}).setdefault(place, set()).add(watch)

    def overlapping(self, place: ByteRange) -> list[T]:
        """The objects that watch a byte of `place`, some of them twice."""
        self._forget()
        return [item for watches in self._found(place) for watch in watches
                if (item := watch()) is not None]

    def take(self, place: ByteRange) -> list[T]:
        """Remove and return the objects that watch a byte of `place`."""
        self._forget()
        found = [watch for watches in self._found(place) for watch in watches]
        for watch in found:
            self._remove(watch)
        return [item for watch in found if (item := watch()) is not None]

    def _found(self, place: ByteRange) -> Iterator[set[_Watch[T]]]:
        for (device, bits), level in self._levels.items():
            first, last = place.low >> bits, (place.high - 1) >> bits
            if device != place.device or last < first:
                continue
            numbers = range(first, last + 1)
            few = numbers if len(numbers) <= len(level) else \
                [number for number in level if number in numbers]
            for number in few:
                for own, watches in level.get(number, {}).items():
                    if own.overlaps(place):
                        yield watches

    def _forget(self) -> None:
        """Remove the references to objects that are gone."""
        while self._gone:
            watch = self._gone.popleft()
            assert isinstance(watch, _Watch)
            self._remove(watch)

    def _remove(self, watch: _Watch[T]) -> None:
        place = watch.place
        level = self._levels.get(key := _level(place), {})
        for number in _numbers(place):
            bucket = level.get(number, {})
            watches = bucket.get(place, set())
            watches.discard(watch)
            if not watches:
                bucket.pop(place, None)
            if not bucket:
                level.pop(number, None)
        if not level:
            self._levels.pop(key, None)


def _level(place: ByteRange) -> tuple[str, int]:
    """The device, and the logarithm of the size of a bucket for such a range."""
    return place.device, (place.high - place.low - 1).bit_length()


def _numbers(place: ByteRange) -> range:
    """Numbers of the buckets that a range lies in."""
    bits = _level(place)[1]
    return range(place.low >> bits, ((place.high - 1) >> bits) + 1)
