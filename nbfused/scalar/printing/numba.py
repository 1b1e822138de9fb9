"""Typed scalar functions as Python statements for Numba, on the CPU and on CUDA.

The text is a sequence of assignments with no call to another compiled function, so
that a kernel is one function.  Names are the source's own where it has any.
"""

from __future__ import annotations

import keyword
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from ...support.dtypes import short
from ..ir.nodes import Block, For, Let, Literal, While, walk
from ..typing.literals import number
from ..typing.promotion import dtype_named
from ..typing.types import Typed
from .formulas import expand
from .numba_operations import (
    CUDA_CALLS,
    IN_VECTORS,
    NAMES,
    Calls,
    bits,
    cast,
    decode,
    encode,
    expression,
    literal,
    power,
    repeats,
    stored,
)
from .printer import Printer, Raw, bare

__all__ = [
    "CUDA_CALLS", "NAMES", "Raw", "cast", "decode", "encode", "literal", "statements",
    "stored",
]

#: Constants of these dtypes have a name where they are written so often.
_SHARED, _OFTEN = frozenset({"float32", "float64", "uint64"}), 4


def statements(typed: Typed, arguments: Mapping[str, str | Raw],
               results: Sequence[str], *, prefix: str = "",
               calls: Calls | None = None) -> list[str]:
    """Python statements that compute a function.

    Parameters
    ----------
    typed : Typed
        What `types.specialize` made of it.
    arguments : mapping
        For each parameter that is read, the text of a value in its computing dtype,
        or a `Raw` array.  ``atomic_add(pointer, offset, value)`` must be bound where
        the function adds to one, ``f32_local(count)`` and its like where it has
        buffers.
    results : sequence of str
        Names to assign, values in the computing dtypes of ``typed.results``.
    prefix : str
        Begins every local name.
    calls : mapping, optional
        ``(operation, dtype name)`` to the name of a function to call for it.

    Returns
    -------
    list of str
        Lines without base indentation; nested blocks are indented by 4.
    """
    typed = expand(typed, calls or {})
    printer = _Printer(typed, arguments, results, prefix, calls or {})
    yields = printer.block(typed.function.body)
    printer.lines += [f"{name} = {bare(text)}"
                      for name, text in zip(results, yields, strict=True)]
    return printer.lines


class _Printer(Printer):
    """Assignments, and blocks by indentation."""

    def __init__(self, typed: Typed, arguments: Mapping[str, str | Raw],
                 results: Sequence[str], prefix: str, calls: Calls) -> None:
        self.calls = calls
        self.straight = not any(isinstance(s, For | While)
                                for s in walk(typed.function.body))
        super().__init__(typed, arguments, prefix, {*NAMES, *results})

    def local(self, name: str) -> str:
        """No keyword."""
        return f"{name}_" if keyword.iskeyword(name) else name

    literal = staticmethod(literal)
    decode = staticmethod(decode)
    encode = staticmethod(encode)
    repeats = staticmethod(repeats)

    def shared(self, block: Block) -> dict[Literal, str]:
        """Names of constants that are used often: each is a call for Numba."""
        return {v: self.constant(f"{short(np.dtype(v.kind))}_{k}",
                                 literal(np.dtype(v.kind), number(v)))
                for k, (v, count) in enumerate(_constants(block).items())
                if count >= _OFTEN and v.kind in _SHARED}

    def expression(self, s: Let) -> str:
        """An operation; of powers, the squares first."""
        args = [self.value(v) for v in s.args]
        dtype = self.dtype(s.args[-1])
        if s.op == "cast":
            return cast(dtype, dtype_named(str(s.attr)), args[0])
        if s.op == "bits":
            return bits(dtype, dtype_named(str(s.attr)), args[0])
        if s.op == "powi":
            return self.power(s, args)
        vector = self.calls.get((IN_VECTORS + s.op, dtype.name))
        if vector and self.straight and not isinstance(s.args[-1], Literal):
            return self.call(vector, *(bare(a) for a in args))
        return expression(s.op, dtype, args, s.args, self.calls)

    def power(self, s: Let, args: list[str]) -> str:
        """A power by a known exponent."""
        dtype, exponent = self.dtype(s.args[0]), s.args[1]
        if (s.op, dtype.name) in self.calls:
            return expression(s.op, dtype, args, s.args, self.calls)
        assert isinstance(exponent, Literal)
        lines, text = power(dtype, args[0], int(exponent.text), self.name)
        for line in lines:
            self.line(line)
        return text

    def constant(self, name: str, text: str) -> str:
        """An assignment."""
        local = self.name(name)
        self.line(f"{local} = {text}")
        return local

    def variable(self, name: str, text: str | None = None) -> str:
        """An assignment, if there is something to assign."""
        return self.name(name) if text is None else self.constant(name, text)

    def move(self, targets: Sequence[str], values: Sequence[str]) -> None:
        """A tuple is assigned."""
        self.line(f"{', '.join(targets)} = {', '.join(values)}")

    def run(self, text: str) -> None:
        """A line."""
        self.line(text)

    def open_if(self, condition: str) -> None:
        """``if``."""
        self.line(f"if {condition}:")

    def open_else(self) -> None:
        """``else``."""
        self.line("else:")

    def open_for(self, index: str, count: str) -> None:
        """``for``."""
        self.line(f"for {index} in range({count}):")

    def open_while(self, condition: str) -> None:
        """``while``."""
        self.line(f"while {condition or 'True'}:")

    def leave_unless(self, condition: str) -> None:
        """``break``."""
        self.line(f"if not {condition}:")
        self.line("    break")

    def close(self, empty: bool) -> None:
        """A block is not empty."""
        if empty:
            self.line("    pass")

    def call(self, function: str, *args: str) -> str:
        """By its name, which the backend binds."""
        return f"{function}({', '.join(args)})"

    def place(self, raw: Raw, offset: str) -> str:
        """Two arguments."""
        return f"{raw.pointer}, {offset}"

    def atomic_add(self, s: Let) -> None:
        """Through `calls`, where the backend has several ways."""
        raw = self.raw[str(s.args[0])]
        *indices, value = (self.value(v) for v in s.args[1:])
        function = self.calls.get(("atomic_add", raw.dtype.name), "atomic_add")
        self.line(self.call(function, self.place(raw, raw.offset(indices)), value))

    def formatted(self, text: str, args: Sequence[str],
                  dtypes: Sequence[np.dtype]) -> str:
        """An intrinsic of the backend's."""
        return self.call("printf", repr(text), *args)

    def barrier(self, s: Let) -> None:
        """Wait for the block or the warp."""
        self.line("cuda.syncwarp()" if s.attr == "warp" else "cuda.syncthreads()")

    def reserve(self, name: str, dtype: np.dtype, count: int) -> str:
        """An intrinsic of the backend's."""
        return self.constant(name, f"{short(dtype)}_local({count})")


def _constants(block: Block) -> Counter[Literal]:
    """The number of uses of each constant, in `block` and inside it."""
    return Counter(v for s in walk(block) if isinstance(s, Let)
                   for v in s.args if isinstance(v, Literal))
