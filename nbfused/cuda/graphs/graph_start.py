"""The launch of a graph with its arguments, by machine code.

Python needs some 1.5 µs for each node whose numbers or addresses are others than the
last time, besides the driver.  Here a table says where in the memory of the nodes'
parameters each address and number of a run belongs: what differs is written, the driver
is shown the nodes that have changed, and the graph is launched, all in one call:
benchmarks/notes/host.md#plans-of-fused-functions.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

from ...support.records import record
from ..runtime.machine_code import is_possible, loaded, machine_code

__all__ = ["ELSEWHERE", "Fill", "GraphStart", "Shown"]


@record(frozen=True)
class Fill:
    """A word of a node's parameters: its address, and what a run writes there.

    Attributes
    ----------
    kind
        ``"*"``: the address `source` of the run, and `more` bytes; ``"float32"``,
        ``"float64"``: its number `source`.
    """

    place: int
    kind: str
    source: int
    more: int = 0


@record(frozen=True)
class Shown:
    """A node: the driver's handle, where its parameters lie, and what runs write."""

    handle: int
    params: int
    fills: tuple[Fill, ...]


_KINDS = {"*": 0, "float64": 1, "float32": 2}

#: What it gives where another context is current than the graph's.
ELSEWHERE = -1

#: ``start(run, table)``; `run` are addresses and float64 numbers, 8 bytes each; `table`
#: the functions that show a node, launch and tell the context, the instance, the
#: stream, the context, the number of nodes, and for each handle, parameters, number of
#: fills; of a fill the place, the source, what is added, the kind.  What the driver
#: says, or `ELSEWHERE`.
_TEXT = """\
define i32 @start(ptr %run, ptr %table) nounwind {
entry:
  %now = alloca ptr
  store ptr null, ptr %now
  %show = load ptr, ptr %table
  %t1 = getelementptr i64, ptr %table, i64 1
  %launch = load ptr, ptr %t1
  %t2 = getelementptr i64, ptr %table, i64 2
  %tell_context = load ptr, ptr %t2
  %t3 = getelementptr i64, ptr %table, i64 3
  %instance = load ptr, ptr %t3
  %t4 = getelementptr i64, ptr %table, i64 4
  %stream = load ptr, ptr %t4
  %t5 = getelementptr i64, ptr %table, i64 5
  %own = load ptr, ptr %t5
  %t6 = getelementptr i64, ptr %table, i64 6
  %nodes = load i64, ptr %t6
  %first = getelementptr i64, ptr %table, i64 7
  %told = call i32 %tell_context(ptr %now)
  %current = load ptr, ptr %now
  %here = icmp eq ptr %current, %own
  br i1 %here, label %node, label %elsewhere
elsewhere:
  ret i32 -1
node:
  %n = phi i64 [0, %entry], [%n1, %next]
  %at = phi ptr [%first, %entry], [%fill, %next]
  %more = icmp ult i64 %n, %nodes
  br i1 %more, label %begin, label %end
begin:
  %handle = load ptr, ptr %at
  %a1 = getelementptr i64, ptr %at, i64 1
  %params = load ptr, ptr %a1
  %a2 = getelementptr i64, ptr %at, i64 2
  %count = load i64, ptr %a2
  %fills = getelementptr i64, ptr %at, i64 3
  br label %each
each:
  %k = phi i64 [0, %begin], [%k1, %filled]
  %fill = phi ptr [%fills, %begin], [%fill1, %filled]
  %changed = phi i1 [false, %begin], [%changed1, %filled]
  %inside = icmp ult i64 %k, %count
  br i1 %inside, label %one, label %whole
one:
  %place = load ptr, ptr %fill
  %f1 = getelementptr i64, ptr %fill, i64 1
  %source = load i64, ptr %f1
  %f2 = getelementptr i64, ptr %fill, i64 2
  %added = load i64, ptr %f2
  %f3 = getelementptr i64, ptr %fill, i64 3
  %kind = load i64, ptr %f3
  %given_at = getelementptr i64, ptr %run, i64 %source
  %given = load i64, ptr %given_at, align 1
  %single = icmp eq i64 %kind, 2
  br i1 %single, label %narrow, label %wide
wide:
  %word = add i64 %given, %added
  %old = load i64, ptr %place, align 1
  %other = icmp ne i64 %word, %old
  br i1 %other, label %store_wide, label %filled
store_wide:
  store i64 %word, ptr %place, align 1
  br label %filled
narrow:
  %double = bitcast i64 %given to double
  %float = fptrunc double %double to float
  %bits = bitcast float %float to i32
  %old_bits = load i32, ptr %place, align 1
  %other_bits = icmp ne i32 %bits, %old_bits
  br i1 %other_bits, label %store_narrow, label %filled
store_narrow:
  store i32 %bits, ptr %place, align 1
  br label %filled
filled:
  %same = phi i1 [%changed, %wide], [true, %store_wide], [%changed, %narrow],
    [true, %store_narrow]
  %changed1 = or i1 %changed, %same
  %k1 = add i64 %k, 1
  %fill1 = getelementptr i64, ptr %fill, i64 4
  br label %each
whole:
  br i1 %changed, label %tell, label %next
tell:
  %code = call i32 %show(ptr %instance, ptr %handle, ptr %params)
  %refused = icmp ne i32 %code, 0
  br i1 %refused, label %fail, label %next
next:
  %n1 = add i64 %n, 1
  br label %node
fail:
  ret i32 %code
end:
  %said = call i32 %launch(ptr %instance, ptr %stream)
  ret i32 %said
}
"""


class GraphStart:
    """Launches one instance of a graph on one stream.

    Parameters
    ----------
    functions
        The addresses of the driver's functions that show a node, that launch, and that
        tell the context of a thread.
    instance, stream, context
        The driver's handles.
    nodes
        Those that depend on the run.
    addresses
        How many a run has.
    """

    def __init__(self, functions: tuple[int, int, int], instance: int, stream: int,
                 context: int, nodes: Sequence[Shown], addresses: int) -> None:
        self._numbers = sorted({f.source for n in nodes for f in n.fills
                                if f.kind != "*"})
        places = {k: addresses + i for i, k in enumerate(self._numbers)}
        words = [*functions, instance, stream, context, len(nodes)]
        for node in nodes:
            words += node.handle, node.params, len(node.fills)
            for f in node.fills:
                source = f.source if f.kind == "*" else places[f.source]
                words += f.place, source, f.more, _KINDS[f.kind]
        self._table = struct.pack(f"={len(words)}Q", *[w & _WORD for w in words])
        self._pack = struct.Struct(f"={addresses}Q{len(self._numbers)}d").pack
        self._start = _code()

    @property
    def possible(self) -> bool:
        """Whether there is machine code."""
        return self._start is not None

    def __call__(self, addresses: Sequence[int], numbers: Sequence[Any]) -> int | None:
        """Launch; what the driver says.

        `ELSEWHERE`: nothing was done, as another context is current.  None: a number is
        none that it can write.
        """
        try:
            run = self._pack(*addresses, *[numbers[k] for k in self._numbers])
        except (struct.error, TypeError, OverflowError):
            return None
        assert self._start is not None
        return self._start[0](run, self._table)


_WORD = 2**64 - 1
_LOCK = threading.Lock()
_CODE: list[tuple[Callable[[bytes, bytes], int], mmap.mmap]] = []


def _code() -> tuple[Callable[[bytes, bytes], int], mmap.mmap] | None:
    """The machine code, called without the interpreter's lock."""
    with _LOCK:
        if not _CODE and is_possible():
            code = machine_code("graph_start", _TEXT)
            found = code and loaded(code)
            if found:
                prototype = ctypes.CFUNCTYPE(
                    ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p)
                _CODE.append((prototype(found[0]), found[1]))
        return _CODE[0] if _CODE else None
