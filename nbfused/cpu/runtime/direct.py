"""Direct calls by machine code: from NumPy's arrays to a launch without Python.

In Python an addition of 100 elements took 3.2 µs, of which the kernel is 0.05: to read
two arrays and compare their layouts with the last ones 1.3, to write arguments and
start the kernel 1.1.  Here both are machine code, and so is the result's allocation:
benchmarks/notes/host.md#what-a-launch-costs.

A function has a list of *entries*, one for each layout of arguments that it was called
with.  It compares headers with those of each, fills in the words of the kernels as
`sequence` does, and starts them.  Where no entry fits, or anything is unusual, it calls
the function in Python instead, which does the same.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from ...backend import DirectCall, NumberOf
from ...support.stamp import STAMP
from .functions import INTERPRETER, builtin_function, interpreter, possible
from .headers import FLAGS, header_reader
from .native import Native, native_of
from .objects import address_of

__all__ = ["DirectCalls", "direct_calls"]

#: Most entries of a function; comparing one takes some 10 ns.
LIMIT = 64
#: Most words, pointers, numbers and bytes of temporary memory of an entry.
_WORDS, _POINTERS, _ROOM = 512, 32, 1 << 16

#: How `struct` writes numbers.  All but an int have their value in the word after the
#: type.
_CODES = {float: "d", int: "q", np.float64: "d", np.int64: "q"}

#: The function's own words: first those of `interpreter`, then these.
_HEAD = (*INTERPRETER, "empty", "none", "array_type", "int_type", "stamp", "variable0",
         "variable1")
#: An entry's words: how many there are of what, and where it begins.
_ENTRY = ("stamp", "arguments", "layouts", "words", "words_at", "fills", "fills_at",
          "parts", "parts_at", "pairs", "pairs_at", "results", "results_at", "room",
          "control", "control_words")
_H = {name: f"head[{k}]" for k, name in enumerate(_HEAD)}
_E = {name: f"r[{k}]" for k, name in enumerate(_ENTRY)}

#: A tuple's items begin at word 3, a bytes object's bytes at word 4; a list has its
#: length in word 2 and the address of its items in word 3.
_TEXT = """\
# Direct call
def kernel(a, begin, end):
    head = i64_pointer(a[3] + 32)
    entries = i64_pointer(a[4])
    items = i64_pointer(entries[3])
    args = i64_pointer(begin)
    v = i64_local(8)
    p = i64_local({pointers})
    n = i64_local({pointers})
    w = i64_local({words})
    made = i64_local({pointers})
    usual = True
    for k in range(2):
        v[0] = 0
        called({h[variable]}, head[{first_variable} + k], 0, address(v), 0)
        usual = usual and v[0] == {h[none]}
        called({h[decrement]}, v[0], 0, 0, 0)
    count = entries[2] if usual else 0
    stamp = i64_pointer({h[stamp]})[0]
    e = 0
    fits = False
    while e < count and not fits:
        r = i64_pointer(i64_pointer(items[e])[3] + 32)
        fits = {e[stamp]} == stamp and {e[arguments]} == end
        q = {e[layouts]}
        k = 0
        while k < end and fits:
            x = i64_pointer(args[k])
            if r[q] < 0:
                fits = x[1] == {h[array_type]}
                if fits:
                    rank = r[q + 2] & 0xff
                    word = (x[3] & 0xffffffff) | (x[2] & 15) << 8
                    word |= (x[8] & {flags}) << 16
                    fits = word == r[q + 2] and \\
                        i64_pointer(x[7] + 24)[0] == r[q + 3]
                    if fits:
                        extents = i64_pointer(x[4])
                        strides = i64_pointer(x[5])
                        for d in range(rank):
                            fits = fits and extents[d] == r[q + 4 + d] and \\
                                strides[d] == r[q + 4 + rank + d]
                    p[r[q + 1]] = x[2]
                    q += 4 + 2*rank
            elif r[q] == 1:
                fits = x[1] == r[q + 2]
                if fits:
                    n[r[q + 1]] = x[2]
                q += 3
            else:
                fits = x[1] == {h[int_type]}
                if fits:
                    v[1] = 0
                    n[r[q + 1]] = called({h[integer]}, args[k], address(v) + 8, 0, 0)
                    fits = (v[1] & 0xffffffff) == 0
                q += 2
            k += 1
        e += 1
    if not fits:
        return called({h[vectorcall]}, a[5], begin, end, 0)
    entry = items[e - 1]
    called({h[increment]}, entry, 0, 0, 0)  # allocation may run code that drops it
    r = i64_pointer(i64_pointer(entry)[3] + 32)
    q = {e[pairs_at]}
    for k in range({e[pairs]}):
        distance = p[r[q + 1]] - p[r[q]]
        if r[q + 2] < distance and distance < r[q + 3] and \\
                not (r[q + 4] != 0 and distance == 0):
            fits = False
        q += 5
    q = {e[results_at]}
    done = 0
    for k in range({e[results]}):
        made[k] = 0
        if r[q] >= 0 and fits:
            called({h[increment]}, r[q + 1], 0, 0, 0)
            made[k] = called({h[empty]}, r[q + 2], address(r) + 8*(q + 4), r[q + 1],
                             r[q + 3])
            if made[k] == 0:
                called({h[clear]}, 0, 0, 0, 0)
                fits = False
            else:
                p[r[q]] = i64_pointer(made[k])[2]
                fits = p[r[q]] & 15 == 0
        q += 4 + r[q + 2]
        done = k + 1
    given = 0
    memory = 0
    room = {e[room]}
    if fits:
        given = called({h[tuple]}, {e[results]}, 0, 0, 0)
        if given == 0:
            called({h[clear]}, 0, 0, 0, 0)
            fits = False
    if fits and room > 0:
        memory = called({h[allocate]}, room + 64, 0, 0, 0)
        if memory == 0:
            called({h[decrement]}, given, 0, 0, 0)
            fits = False
    if not fits:
        for k in range(done):
            if made[k] != 0:
                called({h[decrement]}, made[k], 0, 0, 0)
        called({h[decrement]}, entry, 0, 0, 0)
        return called({h[vectorcall]}, a[5], begin, end, 0)
    results = i64_pointer(given + 24)
    for k in range(done):
        if made[k] == 0:
            made[k] = {h[none]}
            called({h[increment]}, {h[none]}, 0, 0, 0)
        results[k] = made[k]
    q = {e[words_at]}
    for k in range({e[words]}):
        w[k] = r[q + k]
    base = memory + 63 & -64
    if memory != 0:
        control = i64_pointer(base + {e[control]})
        for k in range({e[control_words]}):
            control[k] = 0
    q = {e[fills_at]}
    for k in range({e[fills]}):
        if r[q + 1] == 0:
            w[r[q]] = p[r[q + 2]] + r[q + 3]
        elif r[q + 1] == 1:
            w[r[q]] = n[r[q + 2]]
        else:
            w[r[q]] = base + r[q + 3]
        q += 4
    state = called({h[release]}, 0, 0, 0, 0)
    q = {e[parts_at]}
    for k in range({e[parts]}):
        called(r[q], address(w) + 8*r[q + 1], 0, r[q + 2], 0)
        q += 3
    called({h[acquire]}, state, 0, 0, 0)
    if memory != 0:
        called({h[free]}, memory, 0, 0, 0)
    called({h[decrement]}, entry, 0, 0, 0)
    return given
"""


def _text() -> str:
    return _TEXT.format(h=_H, e=_E, pointers=_POINTERS, words=_WORDS, flags=FLAGS,
                        first_variable=_HEAD.index("variable0"))


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
        head = struct.pack(f"={len(_HEAD)}q", *[words[name] for name in _HEAD])
        self._entries: list[tuple[Any, ...]] = []
        self.function = builtin_function(
            _text(), (head, self._entries, otherwise, unset))

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
    native = native_of(start)
    layouts = _layouts(args, call)
    if native is None or layouts is None or native.room > _ROOM or \
            len(call.call.places) > _POINTERS:
        return None
    body = _body(native, call)
    if body is None:
        return None
    words, fills, parts, control = body
    results = [word for one in call.results for word in _result(one)]
    pairs = [int(word) for pair in call.pairs for word in pair]
    sections = [layouts, words, fills, parts, pairs, results]
    starts, at = [], len(_ENTRY)
    for section in sections:
        starts.append(at)
        at += len(section)
    memory = control + 64*(native.slots + 1) if native.room or native.slots else 0
    head = (stamp, len(args), starts[0], len(words), starts[1], len(fills) // 4,
            starts[2], len(parts) // 3, starts[3], len(call.pairs), starts[4],
            len(call.results), starts[5], memory, control,
            8*(native.slots + 1) if memory else 0)
    record = struct.pack(f"={at}q", *head, *[w for s in sections for w in s])
    return record, native, start, tuple([one and one[2] for one in call.results])


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
        elif type(x) is int:
            found += (2, which)
        elif type(x) in _CODES:
            found += (1, which, id(type(x)))
        else:
            return None
    return found


def _result(one: tuple[int, tuple[int, ...], np.dtype, bool] | None) -> list[int]:
    """The words of a result: pointer, dtype, dimensions, order, extents."""
    if one is None:
        return [-1, 0, 0, 0]
    pointer, shape, dtype, fortran = one
    return [pointer, id(dtype), len(shape), int(fortran), *shape]


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
            elif fill.kind == "number":
                number = call.call.numbers[fill.which]
                if isinstance(number, NumberOf):
                    if fill.code != _CODES.get(call.kinds[number.position]):
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
        parts += (address_of(part.entry), at, part.units)
        counted += part.counts
    return (words, fills, parts, control) if len(words) <= _WORDS else None
