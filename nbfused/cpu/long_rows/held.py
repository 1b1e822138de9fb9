"""Values and copies of rows too long for the stack, in temporary memory of a launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...backend import Signature
from ...specs import TypedRow
from ...support.dtypes import short
from ...support.records import record
from ..row_text import RowText
from ..text.operands import Frame, Operand

__all__ = ["HeldRowText", "Room", "copy_of", "with_rooms"]


@record(frozen=True)
class Room:
    """An array in temporary memory, of one number for each chunk, column or element.

    Its address is ``<name>_at``.
    """

    name: str
    dtype: np.dtype
    per: str

    @property
    def pointer(self) -> str:
        """Text of the pointer to its first number."""
        return f"{short(self.dtype)}_pointer({self.name}_at)"

    def pointer_at(self, place: str) -> str:
        """Text of the pointer to one of its numbers."""
        at = f"{self.name}_at + {self.dtype.itemsize}*({place})"
        return f"{short(self.dtype)}_pointer({at})"


def copy_of(o: Operand) -> Room:
    """The room of an input's copy."""
    return Room(f"{o.name}_copy", o.dtype, "element")


def with_rooms(frame: Frame, launched: Sequence[str], rooms: Sequence[Room]) -> Frame:
    """A frame with the addresses of rooms after what the launcher adds."""
    return Frame(frame.operands, frame.rank, frame.scalars,
                 (*launched, *(f"{room.name}_at" for room in rooms)))


class HeldRowText(RowText):
    """Writer of a kernel whose units have room of their own for a row.

    Attributes
    ----------
    rooms_apart
        What there is in temporary memory; its addresses are the last arguments.
    """

    on_stack: ClassVar[bool] = True

    def __init__(self, typed: TypedRow, signature: Signature,
                 inner_codes: Sequence[str] = ()) -> None:
        super().__init__(typed, signature, inner_codes)
        self.rooms_apart: list[Room] = []
        self._text = super().lines()

    def lines(self) -> list[str]:
        """The lines of the kernel."""
        return self._text

    @property
    def itemsize(self) -> int:
        """Bytes that are held of an element."""
        return sum(room.dtype.itemsize for room in self.rooms_apart)

    def _strided(self, wanted: str, reads: int) -> list[Operand]:
        """The inputs of which there are copies: rows, but no columns."""
        return super()._strided(wanted, reads) if wanted == "element" else []

    def reserved(self) -> list[str]:
        """No lines; what is held is known now."""
        self.rooms_apart = [
            *(Room(name, d, "element") for name, d in self.scratch.items()),
            *map(copy_of, self.copied_rows)]
        self.frame = with_rooms(self.frame, self.frame.extras, self.rooms_apart)
        return []

    def _rows(self, row: Sequence[str]) -> list[str]:
        """The loop over the rows of a unit, after lines that point to its room."""
        return [*(f"{room.name} = {room.pointer_at(f'u*{self.columns}')}"
                  for room in self.rooms_apart), *super()._rows(row)]
