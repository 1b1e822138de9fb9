"""Operands of a kernel's text: arrays, numbers, and the layout of its arguments."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from ...backend import Call
from ...scalar.printing.numba import cast, decode, literal, stored
from ...scalar.typing.types import compute_dtype
from ...support.dtypes import short
from ...support.records import record
from ..runtime.native import Arguments, Fill

__all__ = ["INT64", "SECOND", "Frame", "Inside", "Operand", "Scalar", "Window",
           "offset", "sides", "stretch", "with_seconds"]

#: The code of an input of which every second element is one, that a kernel copies.
SECOND = "2"

INT64, _U64 = np.dtype(np.int64), np.dtype(np.uint64)
_F64, _C128 = np.dtype(np.float64), np.dtype(np.complex128)
_BOOL = np.dtype(np.bool_)


@record(frozen=True)
class Operand:
    """An array argument of a generated kernel.

    Attributes
    ----------
    name
        Pointer to where the inner loop begins; ``<name>_at`` is the array's address.
    dtype
        Of the elements in memory.
    code
        Stride in the inner loop: ``"1"`` unit, ``"0"`` repeated (an input is then
        loaded before the loop), ``"s"`` any, ``"r"`` raw, indexed by the function;
        ``"p"`` unit, where an iteration has a row whose elements lie `apart`.
    rank
        Number of strides ``<name>_t0``, ….
    output
        Whether the kernel writes it.
    inner
        Which of the strides is the inner loop's.
    box
        The number of the box of a window; None of what is everywhere.
    around
        Where a window that wraps turns in a row: names of the sides of its box and of
        the extent.
    row, at
        Where an iteration of the inner loop has a row of elements: how many there are
        from one row to the next, or in the row that all read, and which of them it is;
        0 where it has one element.
    """

    name: str
    dtype: np.dtype
    code: str
    rank: int
    output: bool = False
    inner: int = -1
    box: int | None = None
    around: tuple[str, str, str] | None = None
    row: int = 0
    at: int = 0

    @property
    def strides(self) -> tuple[str, ...]:
        """Names of the stride variables."""
        return tuple(f"{self.name}_t{d}" for d in range(self.rank))

    @property
    def names(self) -> tuple[str, ...]:
        """Names that the body of an inner loop reads."""
        if self.box is not None:
            own = replace(self, box=None).names
            return (*own, *(self.around or stretch(self.box)))
        if self.code == "0" and not self.output:
            return (self._repeated,)
        if self.code == "r":
            return (self.name, *self.strides)
        if self.code in ("s", "p"):
            return (self.name, self.step if self.code == "s" else self.apart)
        return (self.name,)

    @property
    def apart(self) -> str:
        """Name of the distance of a row's elements, each in a plane of its own."""
        return f"{self.name}_apart"

    @property
    def _repeated(self) -> str:
        """Name of the value that all iterations read."""
        return f"{self.name}_v{self.at if self.row else ''}"

    @property
    def step(self) -> str:
        """Name of the inner loop's stride, which the compiler knows nothing of.

        Of a plain argument LLVM assumes that it is 1, and vectorises for that only.
        """
        return f"{self.name}_s"

    def bind(self, offset: str = "0") -> list[str]:
        """Lines that define `names`, `offset` elements from the array's address."""
        address = f"{self.name}_at"
        if offset != "0":
            address += f" + {self.dtype.itemsize}*({offset})"
        lines = [f"{self.name} = {short(self.dtype)}_pointer({address})"]
        if self.code == "0" and not self.output:
            for at in range(self.row or 1):
                name = replace(self, at=at)._repeated
                value = f"{name} = {decode(self.dtype, f'{self.name}[{at}]')}"
                lines += [value] if self.box is None or self.around else [
                    f"{name} = {self.zero}",
                    f"if low{self.box} < high{self.box}:", f"    {value}"]
        return lines

    def copied(self, to: str, count: str) -> list[str]:
        """Lines that copy elements from where its pointer is."""
        step, size = self.strides[-1], self.dtype.itemsize
        return [f"if {step} == 2:", f"    copy_every_second(address({to}), "
                f"address({self.name}), {count}, {size})", "else:", "    at = 0",
                f"    for l in range({count}):", f"        {to}[l] = {self.name}[at]",
                f"        at += {step}"]

    @property
    def zero(self) -> str:
        """Text of the value of a window outside of its box."""
        return literal(compute_dtype(self.dtype), 0)

    def _element(self, j: str) -> str:
        if self.code == "s":
            return f"{self.name}[{j}*{self.step}]"
        if self.code == "p":
            return f"{self.name}[{j} + {self.at}*{self.apart}]"
        if self.row:
            return f"{self.name}[{self.row}*{j} + {self.at}]"
        return f"{self.name}[{'0' if self.code == '0' else j}]"

    def load(self, j: str) -> str:
        """Text that loads element `j` of the inner loop in its computing dtype."""
        if self.box is not None and self.around:
            j = turned(j, *self.around)
        value = self._repeated if self.code == "0" else decode(
            self.dtype, self._element(j))
        if self.box is None or self.around:
            return value
        return f"{value} if {inside(self.box, j)} else {self.zero}"

    def store(self, j: str, dtype: np.dtype, value: str) -> str:
        """A line that stores `value`, which has the computing dtype of `dtype`."""
        return (f"{self._element(j)} = "
                f"{stored(compute_dtype(dtype), self.dtype, value)}")


@record(frozen=True)
class Window:
    """The number that a window's parameter is where that is known before.

    Attributes
    ----------
    text
        Of the value: a literal.
    """

    text: str
    dtype: np.dtype

    @property
    def name(self) -> str:
        """An empty name: a window has none."""
        return ""

    def value(self, dtype: np.dtype) -> str:
        """The value in the computing dtype `dtype`."""
        return cast(self.dtype, dtype, self.text)


@record(frozen=True)
class Inside:
    """The truth of an element's being in a box."""

    box: int
    dtype: np.dtype = _BOOL

    def value(self, dtype: np.dtype) -> str:
        """The truth, for element ``j``."""
        return cast(_BOOL, dtype, inside(self.box, "j"))


def with_seconds(codes: Sequence[str], strides: Sequence[Sequence[int]], inputs: int,
                 ) -> tuple[str, ...]:
    """Codes of arrays, `SECOND` for inputs of which every second element is read."""
    return tuple([SECOND if code == "s" and k < inputs and own[-1] == 2 else code
                  for k, (code, own) in enumerate(zip(codes, strides, strict=True))])


def stretch(box: int) -> tuple[str, str]:
    """Names of where a box begins and ends in a row."""
    return f"low{box}", f"high{box}"


def sides(box: int, loop: int) -> tuple[str, str]:
    """Names of the integers that are the sides of a box along a loop."""
    return f"box{box}_low{loop}", f"box{box}_high{loop}"


def inside(box: int, j: str) -> str:
    """Text that tells whether element `j` of the inner loop is in a box."""
    low, high = stretch(box)
    return f"({low} <= {j} < {high})"


def turned(i: str, low: str, high: str, extent: str) -> str:
    """Text of a coordinate in an array whose window wraps outside of low…high."""
    return f"({i} + ({extent} if {i} < {low} else (-{extent} if {i} >= {high} else 0)))"


@record(frozen=True)
class Scalar:
    """A call-time number of a generated kernel, computed in `dtype`."""

    name: str
    dtype: np.dtype

    @property
    def format(self) -> str:
        """The `struct` format of the number."""
        return {"f": "d", "c": "dd", "u": "Q"}.get(self.dtype.kind, "q")

    @property
    def carried(self) -> np.dtype:
        """The dtype of the number in the kernel; functions cast it to theirs."""
        wide = {"f": _F64, "c": _C128, "u": _U64, "b": _BOOL}
        return wide.get(self.dtype.kind, INT64)

    def read(self, word: int) -> str:
        """Text that reads the number from the argument words."""
        at = f"a[{word}]"
        match self.dtype.kind:
            case "f":
                return f"real_bits({at})"
            case "c":
                return f"complex(real_bits({at}), real_bits(a[{word + 1}]))"
            case "b":
                return f"({at} != 0)"
        return cast(INT64, self.carried, at)

    def value(self, dtype: np.dtype) -> str:
        """Text of the number in the computing dtype `dtype`."""
        return cast(self.carried, dtype, self.name)


#: Pointers and numbers of a call to the bytes of a kernel's arguments.
Pack = Callable[[Sequence[int], tuple[Any, ...]], bytes]
PartedPack = Callable[[Sequence[int], tuple[Any, ...], bytes], bytes]


class Frame:
    """The layout of a kernel's arguments as words: `pack` writes, `unpack` reads them.

    Parameters
    ----------
    operands
        In the order of `Call.pointers`.
    rank
        Number of extents ``n0``, ``n1``, …
    scalars
        In the order of `Call.scalars`.
    extras
        Names of integers that the launcher adds to a call.
    """

    def __init__(self, operands: Sequence[Operand], rank: int,
                 scalars: Sequence[Scalar] = (), extras: Sequence[str] = ()) -> None:
        self.operands = tuple(operands)
        self.rank = rank
        self.scalars = tuple(scalars)
        self.extras = tuple(extras)
        self._complex = any(s.dtype.kind == "c" for s in scalars)
        words = sum(o.rank for o in operands) + rank + len(extras)
        self._pointers = struct.Struct(f"={len(self.operands)}q").pack
        self._words = struct.Struct(f"={words}q").pack
        self._numbers = struct.Struct("=" + "".join(s.format for s in scalars)).pack

    @property
    def size(self) -> int:
        """Number of words of all arguments."""
        return self.extent(self.rank) + len(self.extras) + sum(
            len(s.format) for s in self.scalars)

    def extent(self, loop: int) -> int:
        """The word that holds a loop's extent; -1 is the last loop."""
        strides = sum(o.rank for o in self.operands)
        return len(self.operands) + strides + (loop + self.rank if loop < 0 else loop)

    def unpack(self) -> list[str]:
        """Lines that read every argument into a variable."""
        integers = [f"{o.name}_at" for o in self.operands]
        integers += chain.from_iterable(o.strides for o in self.operands)
        integers += (f"n{d}" for d in range(self.rank))
        integers += self.extras
        lines = [f"{name} = a[{word}]" for word, name in enumerate(integers)]
        word = len(integers)
        for scalar in self.scalars:
            lines.append(f"{scalar.name} = {scalar.read(word)}")
            word += len(scalar.format)
        steps = [o for o in self.operands if o.code in ("s", "t")]
        lines += ["zero = unknown_zero()"]*bool(steps)
        return lines + [f"{o.step} = {o.strides[o.inner]} + zero" for o in steps]

    def pack(self, call: Call, *extras: int) -> bytes:
        """Pack the arguments of one launch."""
        return self.packer(call, *extras)(call.pointers, call.scalars)

    def packer(self, call: Call, *extras: int) -> Pack:
        """A packer for calls that differ from `call` in pointers and numbers only."""
        words = self._words(*chain.from_iterable(call.strides), *call.shape, *extras)
        pointers_of, numbers_of = self._pointers, self._numbers
        if not self.scalars:
            return lambda pointers, scalars: pointers_of(*pointers) + words
        if self._complex:
            return lambda pointers, scalars: b"".join((
                pointers_of(*pointers), words, numbers_of(*self._parts(scalars))))
        return lambda pointers, scalars: \
            pointers_of(*pointers) + words + numbers_of(*scalars)

    def packer_with_extras(self, call: Call, *extras: int) -> PartedPack:
        """A packer as of `packer`, with the last extras given to each call as bytes."""
        known = (*chain.from_iterable(call.strides), *call.shape, *extras)
        words = struct.pack(f"={len(known)}q", *known)
        pointers_of, numbers_of = self._pointers, self._numbers

        def pack(pointers: Sequence[int], scalars: tuple[Any, ...],
                 last: bytes) -> bytes:
            numbers = self._parts(scalars) if self._complex else scalars
            return b"".join((pointers_of(*pointers), words, last, numbers_of(*numbers)))

        return pack

    def arguments(self, call: Call, *extras: int,
                  rooms: Sequence[int] = ()) -> Arguments | None:
        """The arguments of calls like `call`, to be filled; None of complex numbers.

        The last extras are addresses, `rooms` bytes from the temporary memory.
        """
        if self._complex:
            return None
        known = (*chain.from_iterable(call.strides), *call.shape, *extras)
        words = struct.pack(f"={len(known)}q", *known)
        count = len(self.operands)
        at = count + len(known) + len(rooms)
        fills = [Fill(k, "pointer", k) for k in range(count)]
        fills += [Fill(count + len(known) + k, "room", add=offset)
                  for k, offset in enumerate(rooms)]
        fills += [Fill(at + k, "number", k, code=scalar.format)
                  for k, scalar in enumerate(self.scalars)]
        return Arguments(bytes(8*count) + words + bytes(8*(len(rooms) + len(
            self.scalars))), tuple(fills))

    def _parts(self, scalars: tuple[Any, ...]) -> Iterable[Any]:
        """Numbers, complex ones split into real and imaginary part."""
        return chain.from_iterable(
            (x.real, x.imag) if s.dtype.kind == "c" else (x,)
            for s, x in zip(self.scalars, scalars, strict=True))


def offset(operand: Operand, indices: Sequence[str]) -> str:
    """Text of an element's offset; dimensions without an index count as 0."""
    if operand.box is not None and operand.around:
        indices = [turned(i, *sides(operand.box, d), f"n{d}")
                   for d, i in enumerate(indices)]
    return " + ".join(f"{i}*{t}" for i, t in zip(indices, operand.strides, strict=False)
                      if i != "0") or "0"
