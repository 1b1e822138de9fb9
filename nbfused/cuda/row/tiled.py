"""Rows of few elements, many of them: a block's rows pass through shared memory.

Each thread has a row.  In memory the rows of a block are one stretch, so that threads
side by side load and store neighbours wherever rows begin; a thread by itself would
touch a line of its own at every access.
"""

from __future__ import annotations

from ...backend import Call
from ...gpu.operands import Operand
from ...support.dtypes import storage
from ..text.states import storage_name
from .elements import Reloaded
from .scope import RowScope
from .text import RowText

__all__ = ["TILE", "Tiled", "could_tile", "tile_bytes"]

#: Rows of a block, and loads of a thread that are on their way together.
TILE, TOGETHER = 128, 8


def could_tile(text: RowText, call: Call) -> bool:
    """Whether a block's rows are one stretch of every operand with elements."""
    dense = (call.shape[-1], 1)
    return text.loops == 1 and not text.sums and bool(text.elements) and all(
        call.strides[o.at] == dense for o in (*text.elements, *text.written))


def tile_bytes(text: RowText, columns: int) -> int:
    """Bytes of shared memory of a block."""
    return sum(_bytes(o, columns) for o in _places(text))


def _bytes(o: Operand, columns: int) -> int:
    return -(-TILE*(columns | 1)*o.dtype.itemsize // 16)*16


def _places(text: RowText) -> list[Operand]:
    """The operands that need a place: a result takes that of an input of its size.

    Results of a column are stored when all that is read of it is in registers.
    """
    places, free = list(text.elements), [o.dtype.itemsize for o in text.elements]
    for o in text.written:
        if o.dtype.itemsize in free:
            free.remove(o.dtype.itemsize)
        else:
            places.append(o)
    return places


class Tiled(Reloaded):
    """Elements in shared memory: rows of a multiple of four are one more apart there.

    Threads side by side would meet in a few banks; at other numbers two at most do.
    """

    def __init__(self, scope: RowScope) -> None:
        super().__init__(scope)
        self._near = {o.at for o in (*self.text.elements, *self.text.written)}

    def prepare(self) -> None:
        """Name the places in shared memory."""
        out, at = self.out, "i64(0)"
        out("pitch = columns if columns & 3 else columns + 1")
        named: list[Operand] = []
        for o in _places(self.text):
            out(f"near{o.at} = shared_{storage(o.dtype)}({at})",
                f"end{o.at} = {at} + ({TILE*o.dtype.itemsize}*pitch + 15) // 16*16")
            at = f"end{o.at}"
            named.append(o)
        free = [o for o in named if o in self.text.elements]
        for o in self.text.written:
            if o in named:
                continue
            same = next(x for x in free if x.dtype.itemsize == o.dtype.itemsize)
            free.remove(same)
            start = named.index(same)
            begin = f"end{named[start - 1].at}" if start else "i64(0)"
            out(f"near{o.at} = shared_{storage(o.dtype)}({begin})")

    def load(self) -> None:
        """Bring the rows of the block."""
        out, later = self.out, self.text.later
        out(f"count = min(i64({TILE}), rows - base)",
            "begin = rows - base - count" if later else "begin = base",
            "mine = count - 1 - group if inside else i64(0)" if later else
            "mine = group if inside else i64(0)",
            "count *= columns", "begin *= columns")
        self._each(self.text.elements, load=True)
        out("cuda.syncthreads()")

    def flush(self) -> None:
        """Store the results of the block."""
        if self.text.written:
            self.out("cuda.syncthreads()")
            self._each(self.text.written, load=False)

    def _each(self, operands: list[Operand], *, load: bool) -> None:
        """Copy a stretch; what lies between rows in shared memory takes arithmetic."""
        out = self.out
        with out.block("if pitch == columns:"):
            out("e = thread")
            self._copied(operands, [f"(e + {k*TILE})" for k in range(TOGETHER)], load)
        with out.block("else:"):
            out("e = thread", "r = divide(thread, columns)", "c = thread - r*columns",
                f"down = divide(i64({TILE}), columns)",
                f"right = {TILE} - down*columns")
            self._copied(operands, [f"at{k}" for k in range(TOGETHER)], load)

    def _copied(self, operands: list[Operand], near: list[str], load: bool) -> None:
        """A loop over elements `TILE` apart, several on their way together."""
        out = self.out
        with out.block("while e < count:"):
            for k, at in enumerate(near):
                if at.startswith("at"):  # `down` rows on and `right` columns
                    out(f"at{k} = r*pitch + c", "r += down", "c += right")
                    with out.block("if c >= columns:"):
                        out("c -= columns", "r += 1")
                out(*(f"v{o.at}_{k} = {storage_name(o.dtype)}(0)" for o in operands))
                with out.block(f"if e + {k*TILE} < count:"):
                    out(*(f"v{o.at}_{k} = {o.pointer}[begin + e + {k*TILE}]" if load
                          else f"v{o.at}_{k} = near{o.at}[{at}]" for o in operands))
            for k, at in enumerate(near):
                with out.block(f"if e + {k*TILE} < count:"):
                    out(*(f"near{o.at}[{at}] = v{o.at}_{k}" if load else
                          f"{o.pointer}[begin + e + {k*TILE}] = v{o.at}_{k}"
                          for o in operands))
            out(f"e += {TILE*TOGETHER}")

    def pointer(self, o: Operand) -> str:
        """The name of where an operand's elements are."""
        return f"near{o.at}" if o.at in self._near else super().pointer(o)

    def place(self, o: Operand, column: str) -> str:
        """The offset of an element."""
        return f"mine*pitch + {column}" if o.at in self._near else \
            super().place(o, column)
