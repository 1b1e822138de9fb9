"""Calls that are always started in the same order, as one CUDA graph.

A launcher's decisions are noted as for `binding`, for calls of several kernels too.
The graph's nodes wait only for those whose memory they read or write, so that small
kernels run side by side; those that the same nodes wait for are one (`beside`).  A run
writes the addresses and numbers that are not those of the last one; a call whose
kernels do not say how they depend on them (tensor maps) is noted anew.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from ...backend import NumberOf, SequencedCall, SequencedExchange
from ...config import logger
from ...errors import AllocationError
from ..runtime.compile import DESCRIPTOR
from ..runtime.driver import Device, DriverError, check, device
from ..runtime.notes import Address, Launched, noted
from .beside import beside, is_small
from .captured import Captured, CapturedNode
from .graph import Graph, Node, is_captured
from .graph_start import ELSEWHERE
from .waits import all_before, waits_of
from .workspaces import KEPT_ARENAS, UNKNOWN, MisfitError, Workspaces

__all__ = ["GraphSequence", "make_sequence"]

_log = logger("compile")
#: Calls from which one launch of a graph takes less than their launches:
#: benchmarks/notes/host.md#plans-of-fused-functions.
LEAST = 2
#: Bytes of an arena up to which each instance keeps one: runs of an instance follow one
#: another.  To allocate it takes 2 to 4 µs of a run
#: (benchmarks/notes/host.md#plans-of-fused-functions); more is left to other programs.
KEPT = 1 << 19
#: Instances of a graph, one for each stream, and the handles that mean the default one,
#: which is never captured.
_STREAMS, _DEFAULT = 4, (0, 1)


_Call = SequencedCall | SequencedExchange


class _NoGraphError(Exception):
    """Raised where the calls cannot be a graph."""


class _Part:
    """The nodes of one call, and what they depend on.

    Parameters
    ----------
    number
        Of the call.
    before
        The calls that have finished when it starts.
    run
        Addresses, of which the last is that of lent workspaces, and numbers.

    Attributes
    ----------
    moves, reads
        The addresses and numbers of a run that it depends on.
    opaque
        Whether its kernels do not say how they depend on addresses.
    """

    def __init__(self, number: int, call: SequencedCall, before: AbstractSet[int],
                 where: Device, memory: Workspaces,
                 run: tuple[Sequence[int], Sequence[Any]]) -> None:
        self._number, self._call, self._before = number, call, before
        self._where, self._memory, self.nodes = where, memory, list[Node]()
        self.reads = {n.position for n in call.numbers if type(n) is NumberOf}
        self._computes = False
        try:
            self.launches = self._noted(run[0], call.numbers)
        except TypeError:  # it computes with numbers
            self._computes = True
            self.launches = self._noted(run[0], self._numbers(run[1]))
        self.opaque = self._computes or not all(map(_is_explained, self.launches))
        self.moves = {index for index, _ in call.places}
        if memory.borrows(number):
            self.moves.add(len(run[0]) - 1)

    def _numbers(self, numbers: Sequence[Any]) -> tuple[Any, ...]:
        return tuple([numbers[n.position] if type(n) is NumberOf else n
                      for n in self._call.numbers])

    def _noted(self, addresses: Sequence[int], numbers: tuple[Any, ...],
               ) -> list[Launched]:
        self._memory.begin(self._number, self._before, addresses[-1])
        pointers = tuple([Address(addresses[k] + more, k, more)
                          for k, more in self._call.places])
        with noted(self._memory) as notes:
            self._call.launcher(replace(self._call.call, pointers=pointers,
                                        scalars=numbers))
        return notes

    def update(self, addresses: Sequence[int], numbers: Sequence[Any],
               moved: bool = True) -> None:
        """Take the addresses, if they have `moved`, and the numbers of a run.

        Raises
        ------
        _NoGraphError
            Other kernels run for them.
        """
        if self._computes or (self.opaque and moved):
            launches = self._noted(addresses, self._numbers(numbers)
                                   if self._computes else self._call.numbers)
            if [one.program for one in launches] != [n.program for n in self.nodes]:
                raise _NoGraphError
            for node, one in zip(self.nodes, launches, strict=True):
                node.note(one, self._where)
        for node in self.nodes:
            node.write(addresses, numbers)


class _Exchange:
    """The node of a call between processes, which no run changes."""

    opaque, moves, reads = False, frozenset[int](), frozenset[int]()

    def __init__(self, captured: Captured) -> None:
        self.launches, self.nodes = [captured], list[CapturedNode]()

    def update(self, addresses: Sequence[int], numbers: Sequence[Any],
               moved: bool = True) -> None:
        """Take nothing of a run."""


def _is_explained(launched: Launched) -> bool:
    """Whether all that depends on addresses or numbers says on which."""
    parameters = launched.program.kernel.parameters
    return DESCRIPTOR not in parameters and all(
        p[0] != "*" or v == 0 or isinstance(v, Address)
        for p, v in zip(parameters, launched.values, strict=True))


class _Instance:
    """The graph for one stream, as it was launched last.

    Parameters
    ----------
    arena
        Bytes of the arena, whose address follows those of a run; 0: none.
    """

    def __init__(self, calls: Sequence[_Call], arena: int,
                 captured: Mapping[int, Captured], where: Device, stream: int,
                 addresses: Sequence[int], numbers: Sequence[Any]) -> None:
        waits = list(waits_of(calls))
        memory = Workspaces(where, stream, len(addresses) + bool(arena))
        self._has_arena = bool(arena)
        self._arena = memory.arena(arena) if arena else None
        addresses = (*addresses, *self._after(UNKNOWN))
        self._parts = [
            _Exchange(captured[k]) if isinstance(call, SequencedExchange) else
            _Part(k, call, before, where, memory, (addresses, numbers))
            for k, (call, before) in enumerate(zip(calls, all_before(waits),
                                                   strict=True))]
        if not all(part.launches for part in self._parts):
            raise _NoGraphError
        nodes = self._nodes(where, waits)
        for node in nodes:
            node.write(addresses, numbers)
        self._graph = Graph(nodes)
        self._memory = memory  # given back after the graph
        self._where, self._addresses, self._numbers = where, addresses, tuple(numbers)
        self._start = None if any(part.opaque for part in self._parts) else \
            self._graph.start(stream, where.address, len(addresses))
        self._more = None if memory.lent else self._after(UNKNOWN)

    def _after(self, base: int) -> tuple[int, ...]:
        """The addresses after those of a run, where what is lent begins at `base`."""
        if not self._has_arena:
            return (base,)
        return (base if self._arena is None else self._arena, base)

    def _nodes(self, where: Device,
               waits: Sequence[list[int]]) -> list[Node | CapturedNode]:
        """The kernels, each after those that it waits for."""
        nodes: list[Node | CapturedNode] = []
        last: dict[int, int] = {}  # node of each call
        for calls, joined in _joined(self._parts, waits, where):
            after = sorted({last[j] for k in calls for j in waits[k]})
            for launched in joined:
                node: Any = CapturedNode(launched, after) if isinstance(
                    launched, Captured) else Node(launched, where, after)
                after = [len(nodes)]
                nodes.append(node)
                for k in calls:
                    self._parts[k].nodes.append(node)
            last |= dict.fromkeys(calls, after[0])
        return nodes

    def starts(self, addresses: Sequence[int], numbers: Sequence[Any]) -> bool:
        """Launch by machine code alone, as most times; False if that does not do.

        Raises
        ------
        DriverError
            The driver refuses.
        """
        if self._start is None or self._more is None:
            return False
        addresses = (*addresses, *self._more)
        code = self._start(addresses, numbers)
        return code != ELSEWHERE and self._has_started(code, addresses, numbers)

    def launch(self, addresses: Sequence[int], numbers: Sequence[Any],
               stream: int) -> None:
        """Launch with these addresses and numbers, the context being current."""
        if self._more is not None:
            self._launch((*addresses, *self._more), numbers, stream)
            return
        with self._where.workspace(self._memory.lent, stream) as base:
            self._launch((*addresses, *self._after(base)), numbers, stream)

    def _launch(self, addresses: tuple[int, ...], numbers: Sequence[Any],
                stream: int) -> None:
        if self._start is not None and self._has_started(
                self._start(addresses, numbers), addresses, numbers):
            return
        moved = {k for k, (a, b) in enumerate(zip(addresses, self._addresses,
                                                  strict=True)) if a != b}
        other = {k for k, (a, b) in enumerate(zip(numbers, self._numbers, strict=True))
                 if not _is_same(a, b)}
        if moved or other:
            for part in self._parts:
                own = not part.moves.isdisjoint(moved)
                if own or not part.reads.isdisjoint(other):
                    part.update(addresses, numbers, own)
            self._addresses, self._numbers = addresses, tuple(numbers)
        self._graph.launch(stream)

    def _has_started(self, code: int | None, addresses: Sequence[int],
                     numbers: Sequence[Any]) -> bool:
        """Whether machine code has launched; if not, Python does so from now on.

        After an error too: what was written for a node need not have been shown, and
        machine code shows what it writes.

        Raises
        ------
        DriverError
            The driver refuses.
        """
        if code == 0:
            return True
        self._start = None
        for part in self._parts:
            part.update(addresses, numbers)
        self._addresses, self._numbers = tuple(addresses), tuple(numbers)
        check((0 if code in (None, ELSEWHERE) else code,))
        return False


def _joined(parts: Sequence[_Part | _Exchange], waits: Sequence[list[int]],
            where: Device,
            ) -> Iterator[tuple[list[int], Sequence[Launched | Captured]]]:
    """Calls and their launches, small ones that the same calls wait for as one.

    None of these waits for another: what it waits for would wait for itself.
    """
    behind: list[list[int]] = [[] for _ in parts]
    for k, before in enumerate(waits):
        for j in before:
            behind[j].append(k)
    groups: dict[Any, list[int]] = {}
    small: dict[int, Launched] = {}
    for k, part in enumerate(parts):
        if isinstance(part, _Part) and not part.opaque and len(
                part.launches) == 1 and is_small(part.launches[0], where.processors):
            small[k] = part.launches[0]
            groups.setdefault((small[k].block, *behind[k]), []).append(k)
    made = {calls[-1]: (calls, beside([small[k] for k in calls]))
            for calls in groups.values() if len(calls) > 1}
    inside = {k for calls, one in made.values() if one is not None for k in calls}
    for k, part in enumerate(parts):
        calls, one = made.get(k, ([k], None))
        if one is not None:
            yield calls, [one]
        elif k not in inside:
            yield [k], part.launches


def _is_same(a: Any, b: Any) -> bool:
    """Whether two numbers have the same bits: 0.0 and -0.0 have not."""
    return a is b or (type(a) in (int, float) and a == b and a != 0)


class GraphSequence:
    """A `backend.SequenceStart` for calls on one device.

    Parameters
    ----------
    calls
        At least `LEAST`.
    """

    def __init__(self, calls: Sequence[_Call]) -> None:
        first = next(c for c in calls if isinstance(c, SequencedCall))
        self._calls, self._where = calls, device(first.call.device)
        self._arena = 0
        self._instances: dict[int, _Instance] = {}
        self._lock = threading.Lock()
        self._possible = True
        self._captured: dict[int, Captured] = {}
        exchanges = {k: c for k, c in enumerate(calls)
                     if isinstance(c, SequencedExchange)}
        with self._where.current() if exchanges else nullcontext():
            for k, call in exchanges.items():
                self._captured[k] = Captured(self._where.ordinal, call.enqueue)
                call.captures.add(self)

    def __call__(self, addresses: Sequence[int], numbers: Sequence[Any],
                 stream: int) -> bool:
        """Start all calls on a stream; False if they have to be started one by one.

        They have where the stream is captured: that graph is another one.  Calls
        between processes use memory of their own, on the first stream only.
        """
        if not self._possible or (stream not in _DEFAULT and is_captured(stream)):
            return False
        if self._captured and self._instances and stream not in self._instances:
            return False
        with self._lock:
            if not self._possible:  # since another thread has found out, or `release`
                return False
            known = self._instances.get(stream)
            if known is not None and known.starts(addresses, numbers):
                return True
            with self._where.current():
                try:
                    instance = self._find(addresses, numbers, stream)
                    instance.launch(addresses, numbers, stream)
                except AllocationError:  # a library may have room, for each launch
                    self._instances.pop(stream, None)
                    return False
                except (_NoGraphError, MisfitError):
                    self._possible = False
                    self._instances.clear()
            return self._possible

    def keep_arena(self, size: int) -> bool:
        """Give each instance an arena, if it is small: see `backend.SequenceStart`.

        None, either, where all graphs together keep as much as they may; an instance
        that comes later is lent its arena for each run then.
        """
        keeps = size <= KEPT and KEPT_ARENAS.has_room(size, self._where)
        if keeps:
            self._arena = size
        return keeps

    def release(self) -> None:
        """Give back the graphs; from now on calls have to be started one by one."""
        with self._lock:
            self._possible = False
            self._instances.clear()
            self._captured.clear()

    def _find(self, addresses: Sequence[int], numbers: Sequence[Any],
              stream: int) -> _Instance:
        found = self._instances.get(stream)
        if found is None:
            while len(self._instances) >= _STREAMS:
                del self._instances[next(iter(self._instances))]
            try:
                found = _Instance(self._calls, self._arena, self._captured,
                                  self._where, stream, addresses, numbers)
            except DriverError as error:
                raise _NoGraphError from error
            self._instances[stream] = found
        return found


def make_sequence(calls: Sequence[_Call]) -> GraphSequence | None:
    """The sequence of calls on one device; None if they are too few, or no graph."""
    if len(calls) < LEAST:
        return None
    try:
        return GraphSequence(calls)
    except Exception as error:  # of a library whose calls are captured
        if not any(isinstance(call, SequencedExchange) for call in calls):
            raise
        _log.warning("calls between processes are not part of a CUDA graph: %s", error)
        return None
