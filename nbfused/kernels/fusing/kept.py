"""The programs that a fused function keeps, and counts of calls that found one."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from ...support.forks import free_in_child
from .arguments import Arguments, shape_class
from .program import Program

__all__ = ["CacheInfo", "KeptPrograms"]

_LIMIT = 256  # programs of one function


class CacheInfo(NamedTuple):
    """Calls that found a program, calls that traced one, how many are kept."""

    hits: int
    misses: int
    maxsize: int
    currsize: int


class KeptPrograms:
    """Programs by types, constants and shapes; several threads may ask."""

    def __init__(self) -> None:
        self._programs: dict[Any, Program] = {}
        self._exact: set[Any] = set()  # keys whose programs are for one shape
        self._lock = free_in_child(threading.Lock())
        self._hits = self._misses = 0

    def __len__(self) -> int:
        return len(self._programs)

    def find(self, key: Any, given: Arguments) -> Program | None:
        """The program for arguments of these shapes, which is counted."""
        shapes = given.shapes()
        with self._lock:
            found = self._programs.get(
                (key, shapes if key in self._exact else shape_class(shapes)))
            self._hits += found is not None
            self._misses += found is None
        return found

    def keep(self, program: Program, key: Any, given: Arguments, exact: bool) -> None:
        """Keep a program; `exact`: it is for these shapes alone."""
        shapes = given.shapes()
        with self._lock:
            if exact:
                self._exact.add(key)
            while len(self._programs) >= _LIMIT:
                del self._programs[next(iter(self._programs))]
            self._programs[key, shapes if exact else shape_class(shapes)] = program

    def count_hit(self) -> None:
        """Count a call that a plan served."""
        with self._lock:
            self._hits += 1

    def values(self) -> list[Program]:
        """All programs."""
        with self._lock:
            return list(self._programs.values())

    def info(self) -> CacheInfo:
        """The counts."""
        with self._lock:
            return CacheInfo(self._hits, self._misses, _LIMIT, len(self._programs))

    def clear(self) -> None:
        """Forget all programs and counts."""
        with self._lock:
            self._programs.clear()
            self._exact.clear()
            self._hits = self._misses = 0
