"""Launches that are noted instead of being made: what a call would start."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from ...backend import Extents
from ...support.records import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .launch import Program

__all__ = ["NOTES", "Address", "Launched", "Memory", "Notes", "noted"]


@record(frozen=True)
class Launched:
    """A launch that was noted and not made.

    Attributes
    ----------
    values
        One for each parameter; `NumberOf` for what the call will say.
    """

    program: Program
    grid: Extents
    block: Extents
    values: tuple[Any, ...]
    shared: int

    @property
    def pointers(self) -> int:
        """Number of the values that are pointers."""
        return sum(p.startswith("*") for p in self.program.kernel.parameters)


class Address(int):
    """An address of a call: bytes from one that is given.

    Attributes
    ----------
    index
        Which one; None for memory that stays where it is.
    offset
        Bytes from there.
    """

    index: int | None
    offset: int

    def __new__(cls, value: int, index: int | None, offset: int = 0) -> Address:
        """The address `value`."""
        made = super().__new__(cls, value)
        made.index, made.offset = index, offset
        return made

    def __add__(self, more: int) -> int:
        """An address so many bytes on; the sum with another address is none."""
        if isinstance(more, Address) or not isinstance(more, int):
            return super().__add__(more)
        return Address(int(self) + more, self.index, self.offset + more)

    __radd__ = __add__


class Memory(Protocol):
    """Memory for launches that are noted."""

    def workspace(self, size: int) -> Address:
        """So many bytes."""

    def counters(self, size: int) -> tuple[Address, Address]:
        """Counters that are 0 between launches, and so many bytes."""


class Notes(list[Launched]):
    """The launches noted in a context.

    Attributes
    ----------
    memory
        Where their workspaces come from; None: from where they come otherwise.
    """

    def __init__(self, memory: Memory | None = None) -> None:
        super().__init__()
        self.memory = memory


#: Where launches are noted, instead of being made, in this context.
NOTES: ContextVar[Notes | None] = ContextVar("nbfused_cuda_notes", default=None)


@contextmanager
def noted(memory: Memory | None = None) -> Iterator[Notes]:
    """Note the launches in a ``with`` block instead of making them."""
    notes = Notes(memory)
    token = NOTES.set(notes)
    try:
        yield notes
    finally:
        NOTES.reset(token)
