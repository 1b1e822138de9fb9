"""Direct calls by machine code: from arrays on the host to a launch without Python.

In Python an addition of 100 elements took 3.2 µs, of which the kernel is 0.05: to read
two arrays and compare their layouts with the last ones 1.3, to write arguments and
start the kernel 1.1.  Here both are machine code, and so is the result's allocation:
benchmarks/notes/host.md#what-a-launch-costs.

A function has a list of *entries*, one for each layout of arguments that it was called
with.  It compares headers with those of each, fills in the words of the kernels as
`sequence` does, and starts them.  Where no entry fits, or anything is unusual (threads
that share a launch sleep), it calls the function in Python, which does the same.

Of a tensor of PyTorch the header is what DLPack's C exchange API tells, and PyTorch is
asked what it does not tell: whether its tape, or anything else, has to see the call.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from ...arrays.detect import exact_library
from ...arrays.libraries.dlpack import header_function, header_of
from ...backend import DirectCall, NumberOf
from ...support.stamp import STAMP
from .direct_code import ENTRY, HEAD, POINTERS, WORDS, text
from .functions import builtin_function, interpreter, possible
from .headers import header_reader
from .native import Native, native_of, shared_of
from .objects import address_of

__all__ = ["DirectCalls", "direct_calls"]

#: Most entries of a function; comparing one takes some 10 ns.
LIMIT = 64
#: Most bytes of temporary memory of an entry.
_ROOM = 1 << 16

#: Types of numbers: how `struct` writes their values in launches, and how machine code
#: reads them.  All but an int have their value in the word after the type.
_NUMBERS: dict[type, tuple[str, int]] = {
    float: ("d", 1), np.float64: ("d", 1), np.float32: ("d", 4),
    np.int64: ("q", 1), np.int32: ("q", 5), int: ("q", 2)}


class DirectCalls:
    """A direct call as a built-in function, and its entries.

    Attributes
    ----------
    function
        Calls by machine code, or `otherwise`.
    """

    def __init__(self, otherwise: Callable[..., Any],
                 unset: tuple[ContextVar[Any], ContextVar[Any]]) -> None:
        """`otherwise` is called if something is unusual, or one of `unset` is set."""
        known = interpreter()
        words = {**known, "stamp": _address(STAMP),
                 **{f"variable{k}": id(one) for k, one in enumerate(unset)}}
        head = struct.pack(f"={len(HEAD)}q", *[words[name] for name in HEAD])
        self._entries: list[tuple[Any, ...]] = []
        self.function = builtin_function(
            text(), (head, self._entries, otherwise, unset))

    def add(self, args: Sequence[Any], call: DirectCall, stamp: int) -> bool:
        """Add an entry for arguments like these; False if there is no native call."""
        made = _entry(args, call, stamp)
        if made is None:
            return False
        # A function may be in the midst of comparing entries in no other thread: it
        # holds the interpreter's lock then.
        if len(self._entries) >= LIMIT:
            del self._entries[0]
        self._entries.append(made)
        return True


def direct_calls(otherwise: Callable[..., Any],
                 unset: tuple[ContextVar[Any], ContextVar[Any]]) -> DirectCalls | None:
    """Direct calls by machine code; None where there are none."""
    if not possible() or header_reader(()) is None:
        return None
    return DirectCalls(otherwise, unset)


def _address(memory: bytearray) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _entry(args: Sequence[Any], call: DirectCall, stamp: int) -> tuple[Any, ...] | None:
    """The entry for arguments like `args`, with what has to live as long."""
    bind = getattr(call.call.launcher, "bind", None)
    start = bind(call.call.call) if bind else None
    native = native_of(start) or shared_of(start)
    layouts = _layouts(args, call)
    if native is None or layouts is None or native.room > _ROOM or \
            len(call.call.places) > POINTERS:
        return None
    body = _body(native, call)
    results = _results(call)
    if body is None or results is None:
        return None
    words, fills, parts, control = body
    tensors = [k for k, x in enumerate(args) if _describes(x)]
    library: Any = exact_library(type(args[tensors[0]])) if tensors else None
    asked, each, quiet = library.questions() if library else ((), (), (None, None))
    pairs = [int(word) for pair in call.pairs for word in pair]
    ranges = [word for one in call.ranges for word in one]
    sections = [layouts, words, fills, parts, pairs, ranges, results, tensors,
                *([id(x) for question in some for x in question]
                  for some in (asked, each))]
    starts, at = [], len(ENTRY)
    for section in sections:
        starts.append(at)
        at += len(section)
    memory = control + 64*(native.slots + 1) if native.room or native.slots else 0
    head = (stamp, len(args), starts[0], len(words), starts[1], len(fills) // 4,
            starts[2], len(parts) // 4, starts[3], len(call.pairs), starts[4],
            len(call.ranges), starts[5], len(call.results), starts[6], memory, control,
            8*(native.slots + 1) if memory else 0, len(tensors), starts[7],
            len(asked), starts[8], len(each), starts[9], *map(id, quiet))
    record = struct.pack(f"={at}q", *head, *[w for s in sections for w in s])
    return (record, native, start, tuple([one and one[2] for one in call.results]),
            call.makers, asked, each, quiet, tuple(map(type, args)))


def _layouts(args: Sequence[Any], call: DirectCall) -> list[int] | None:
    """The arguments: what each is, which pointer or number, and an array's layout."""
    found: list[int] = []
    for x, which in zip(args, call.arguments, strict=True):
        if type(x) is np.ndarray:
            read = header_reader((x.ndim,))
            header = read and read((x,))
            if not header:
                return None
            layout = struct.unpack(f"={len(header[0]) // 8}q", header[0])
            found += (-1, which, *layout)
        elif (function := _describes(x)) is not None:
            tensor = header_of(x, function)
            if tensor is None or not tensor.address:
                return None
            found += (3, which, id(type(x)), function, *tensor.words,
                      tensor.address & 15, *tensor.shape, *tensor.strides)
        elif type(x) in _NUMBERS:
            _, how = _NUMBERS[type(x)]
            found += (how, which, *([id(type(x))] if type(x) is not int else []))
        else:
            return None
    return found


def _describes(x: Any) -> int | None:
    """The C function that describes an array, if there is one: `header_function`."""
    kind: Any = type(x)
    return header_function(kind)


def _results(call: DirectCall) -> list[int] | None:
    """The words of results: pointer, dtype, dimensions, order, extents of an array.

    The order is 1 of Fortran's, and 2 more where the array is filled with zeros.  Of a
    tensor pointer, what makes it, -1, and the function that tells its address.
    """
    found: list[int] = []
    for k, (one, make) in enumerate(zip(call.results, call.makers, strict=True)):
        if one is None:
            found += (-1, 0, 0, 0)
        elif make is None:
            pointer, shape, dtype, fortran = one
            found += (pointer, id(dtype), len(shape),
                      int(fortran) | 2*(k in call.zeros), *shape)
        else:
            function = _describes(make())
            if function is None:
                return None
            found += (one[0], id(make), -1, function)
    return found


def _body(native: Native, call: DirectCall,
          ) -> tuple[list[int], list[int], list[int], int] | None:
    """Words of all parts, what fills them, the parts, where control words begin."""
    words: list[int] = []
    fills: list[int] = []
    parts: list[int] = []
    counted, control = 0, -(-native.room // 64) * 64
    for part in native.parts:
        at = len(words)
        own = bytearray(part.arguments.words)
        for fill in part.arguments.fills:
            word = at + fill.word
            if fill.kind == "pointer":
                k, more = call.call.places[fill.which]
                fills += (word, 0, k, more + fill.add)
            elif fill.kind == "lead":
                fills += (word, 3, call.call.places[fill.which][0], fill.add)
            elif fill.kind == "number":
                number = call.call.numbers[fill.which]
                if isinstance(number, NumberOf):
                    code, _ = _NUMBERS.get(call.kinds[number.position], ("", 0))
                    if fill.code != code:
                        return None
                    fills += (word, 1, number.position, 0)
                else:
                    struct.pack_into(f"={fill.code}", own, 8*fill.word, number)
            elif fill.kind == "count":
                struct.pack_into("=q", own, 8*fill.word, counted)
            else:
                fills += (word, 2, 0, fill.add + (
                    control if fill.kind == "control" else 0))
        words += struct.unpack(f"={len(own) // 8}q", own)
        parts += (address_of(part.entry), at, part.units, int(part.offered))
        counted += part.counts
    return (words, fills, parts, control) if len(words) <= WORDS else None
