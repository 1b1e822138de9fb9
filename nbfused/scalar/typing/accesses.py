"""Typing of accesses: raw arrays, shared arrays, buffers, where a thread is."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from ...support.dtypes import DTYPES
from ..ir.nodes import Function, Let, Literal, Value
from ..language.formats import printed_dtypes
from .promotion import Type, Weak, promote
from .values import INT64, Values

__all__ = ["Accesses"]

#: How many operands of an access come after its indices.
_VALUES = {"load": 0, "extent": 0, "stride": 0, "store": 1, "atomic_add": 1,
           "atomic": 1}
#: Indices and extents are Python integers, beside which a float32 stays one.
_INTEGER = Weak("int")


class Accesses(Values):
    """Each method lowers one kind of access.

    `buffers` are the types that an earlier walk found for the buffers: of everything
    that is stored in each.  `stored` are those of this walk.
    """

    def __init__(self, function: Function, params: tuple[Type, ...],
                 buffers: Mapping[str, Type] = MappingProxyType({}),
                 wide: bool = False) -> None:
        super().__init__(function, params, wide)
        self.buffers = buffers
        self.stored: dict[str, Type] = {}

    def access(self, s: Let) -> None:
        """A raw array at integer indices; an atomic operation gives the old value."""
        raw = str(s.args[0])
        dtype = self.types[raw]
        values = 2 if s.attr == "cas" else _VALUES[s.op]
        end = len(s.args) - values
        args = [self.coerce(self.integer(v), INT64) for v in s.args[1:end]]
        args += [self.held(v, dtype, s.op == "store") for v in s.args[end:]]
        self.append(s, (raw, *args), _INTEGER if s.op in (
            "extent", "stride") else dtype)

    def held(self, v: Value, dtype: Type, rounded: bool) -> Value:
        """A value as an array of `dtype` holds it; `rounded`, with no more digits."""
        value = self.operand(v)
        if self.compute(value[1]).kind == "c" and self.compute(dtype).kind != "c":
            raise self.error(f"a complex number does not fit an array of {dtype}; "
                             "store its .real, or pass an array of complex128")
        computed = self.compute(dtype)
        if rounded and isinstance(dtype, np.dtype) and not isinstance(
                value[0], Literal) and computed not in (dtype, self.compute(value[1])):
            return self.emit("cast", value[:1], computed, attr=dtype.name)[0]
        return self.coerce(value, dtype)

    def append(self, s: Let, args: tuple[Value, ...], t: Type) -> None:
        """`s` with typed operands; `t` is the type of its result if it has one."""
        if s.results:
            self.emit(s.op, args, t, name=s.results[0], attr=s.attr)
        else:
            self.builder.statements.append(Let((), s.op, args, s.attr, self.line))

    def lower_index(self, s: Let, args: object) -> None:
        """An integer beside which nothing is promoted."""
        value = self.coerce(self.integer(s.args[0]), INT64)
        self.bind(s.results[0], (value, _INTEGER))

    def lower_barrier(self, s: Let, args: object) -> None:
        """Lower a barrier, which has no types."""
        self.append(s, (), _INTEGER)

    def lower_print(self, s: Let, args: object) -> None:
        """Lower a text with numbers of the dtypes that its format takes."""
        dtypes = printed_dtypes(s)
        self.append(s, tuple(self.coerce(self.operand(v), d)
                             for v, d in zip(s.args, dtypes, strict=True)), _INTEGER)

    def lower_thread(self, s: Let, args: object) -> None:
        """An integer."""
        self.append(s, (), _INTEGER)

    def lower_shared(self, s: Let, args: object) -> None:
        """An array, typed as it is stored."""
        name, dtype = s.results[0], DTYPES[str(s.attr)]
        self.append(s, s.args, dtype)
        self.dtypes[name] = dtype

    def lower_shuffle(self, s: Let, args: object) -> None:
        """The value of another thread, in its computing dtype."""
        value, t = self.operand(s.args[0])
        lane = self.coerce(self.integer(s.args[1]), INT64)
        self.append(s, (self.coerce((value, t), t), lane), t)

    # Buffers -----------------------------------------------------------------------

    def lower_buffer(self, s: Let, args: object) -> None:
        """Lower a buffer, whose dtype is known with everything that is stored in it."""
        name = s.results[0]
        self.append(s, s.args, self.buffer_type(name))

    def buffer_type(self, name: str) -> Type:
        """The type of a buffer, from an earlier walk or from this one up to here."""
        found = [t for t in (self.buffers.get(name), self.stored.get(name)) if t]
        return promote(*found) if found else Weak("bool")

    def lower_buffer_load(self, s: Let, args: object) -> None:
        """An element as it was stored."""
        name, index = str(s.args[0]), self.coerce(self.integer(s.args[1]), INT64)
        self.append(s, (name, index), self.buffer_type(name))

    def lower_buffer_store(self, s: Let, args: object) -> None:
        """Widens the buffer to hold the value."""
        name, index = str(s.args[0]), self.coerce(self.integer(s.args[1]), INT64)
        value, t = self.operand(s.args[2])
        self.stored[name] = promote(t, self.stored.get(name, t))
        held = self.buffer_type(name)
        self.append(s, (name, index, self.coerce((value, t), held)), held)

    lower_buffer_add = lower_buffer_store

    def found(self) -> dict[str, Type]:
        """The types of the buffers after this walk."""
        return {n: promote(t, self.buffers.get(n, t)) for n, t in self.stored.items()}

    def settled(self) -> bool:
        """Whether what was assumed at the start of the walk holds at its end."""
        # The names first: numpy.dtype("float64") == None holds.
        return self.rounded <= self.wide and \
            self.stored.keys() <= self.buffers.keys() and all(
                t == self.buffers[n] for n, t in self.found().items())

