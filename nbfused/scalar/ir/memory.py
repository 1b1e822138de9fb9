"""Memory of scalar functions on NumPy: raw arrays, and buffers with lanes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...support.dtypes import DTYPES
from .nodes import Let, Literal, Value

__all__ = ["Memory"]

#: What an atomic operation leaves: of the old value and its operands.
_ATOMICS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "min": min, "max": max, "and": operator.and_,
    "or": operator.or_, "xor": operator.xor, "exch": lambda old, new: new,
    "cas": lambda old, compare, new: new if old == compare else old,
}


class Memory:
    """Accesses of the elements that `mask` marks; a method for each operation.

    `lanes` is the shape of the elements that are evaluated at once: a buffer is an
    array of that shape for each of its entries.
    """

    values: dict[str, Any]
    mask: Any
    lanes: tuple[int, ...] = ()

    def value(self, v: Value) -> Any:
        """The number or array of a value."""
        raise NotImplementedError

    def indices(self, values: Sequence[Value]) -> tuple[Any, ...]:
        """The indices of an access; 0 for the elements that take no part."""
        return tuple(np.where(self.mask, np.asarray(self.value(i)), 0) for i in values)

    def load(self, s: Let) -> Any:
        """An element of a raw array for each element."""
        raw = self.values[str(s.args[0])]
        at = self.indices(s.args[1:])
        return raw[at] if raw.size else np.zeros(np.broadcast(*at).shape, raw.dtype)

    def placed(self, s: Let, at: Sequence[Value]) -> tuple[Any, tuple[Any, ...]]:
        """The value of a write, and where it goes, of the elements that take part."""
        value = np.asarray(self.value(s.args[-1]))
        mask, value, *found = np.broadcast_arrays(self.mask, value, *self.indices(at))
        return value[mask], tuple(i[mask] for i in found)

    def atomic_add(self, s: Let) -> None:
        """Add to elements of a raw array, repeated ones included."""
        raw = self.values[str(s.args[0])]
        value, at = self.placed(s, s.args[1:-1])
        np.add.at(raw, at, value.astype(raw.dtype))

    def store(self, s: Let) -> None:
        """Write elements of a raw array."""
        raw = self.values[str(s.args[0])]
        value, at = self.placed(s, s.args[1:-1])
        raw[at] = value.astype(raw.dtype)

    def atomic(self, s: Let) -> Any:
        """Update elements of a raw array, one after the other; what they were."""
        raw = self.values[str(s.args[0])]
        rank = raw.ndim
        mask, *columns = np.broadcast_arrays(
            self.mask, *self.indices(s.args[1:1 + rank]),
            *(self.value(v) for v in s.args[1 + rank:]))
        old = np.zeros(mask.shape, raw.dtype)
        for lane in map(tuple, np.argwhere(mask)):
            at = tuple(int(c[lane]) for c in columns[:rank])
            old[lane] = raw[at]
            raw[at] = _ATOMICS[str(s.attr)](raw[at], *(c[lane] for c in columns[rank:]))
        return old

    def extent(self, s: Let) -> Any:
        """The size of an axis of a raw array."""
        return np.int64(self.values[str(s.args[0])].shape[int(s.attr or 0)])

    def index(self, s: Let) -> Any:
        """An integer."""
        return np.asarray(self.value(s.args[0])).astype(np.int64)

    # Buffers -----------------------------------------------------------------------

    def buffer(self, s: Let) -> Any:
        """Zeros of no type yet: it grows wider with what is stored."""
        (size,) = s.args
        assert isinstance(size, Literal)
        return np.zeros((int(size.text), *self.lanes), DTYPES["bool"])

    def entries(self, index: Value) -> tuple[Any, ...]:
        """The position of an entry for each lane."""
        (at,) = self.indices((index,))
        return (np.broadcast_to(at, self.lanes), *np.indices(self.lanes, sparse=True))

    def buffer_load(self, s: Let) -> Any:
        """An entry for each lane."""
        return self.values[str(s.args[0])][self.entries(s.args[1])]

    def buffer_store(self, s: Let) -> None:
        """Write an entry of each lane that takes part."""
        self.write(s, lambda old, new: new)

    def buffer_add(self, s: Let) -> None:
        """Add to an entry of each lane that takes part."""
        self.write(s, lambda old, new: old + new)

    def write(self, s: Let, update: Any) -> None:
        """Update entries, in a dtype that holds both."""
        name, value = str(s.args[0]), np.asarray(self.value(s.args[2]))
        buffer, at = self.values[name], self.entries(s.args[1])
        buffer = buffer.astype(np.result_type(buffer, value), copy=False)
        old = buffer[at]
        buffer[at] = np.where(self.mask, update(old, value.astype(buffer.dtype)), old)
        self.values[name] = buffer
