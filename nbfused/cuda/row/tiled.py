"""Rows of few elements, many of them: a block's rows pass through shared memory.

Each thread has a row.  In memory the rows of a block are one stretch, so that threads
side by side load and store neighbours wherever rows begin; a thread by itself would
touch a line of its own at every access.  A stretch that lies in shared memory as it
does outside, from the same place in an access on, is copied by whole accesses.
"""

from __future__ import annotations

from dataclasses import replace

from ...backend import Call
from ...gpu.operands import ACCESS, Operand
from ...support.dtypes import storage
from ..text.states import storage_name
from .elements import Reloaded
from .plan import RowPlan
from .scope import RowScope
from .text import RowText

__all__ = ["Tiled", "crowded", "in_tiles", "tile_bytes", "tiles"]

#: Threads of a block, and loads of a thread that are on their way together.
TILE, TOGETHER = 128, 8
#: Bytes that a block should bring at once, rows of a thread for that at most, and
#: blocks that a multiprocessor should get:
#: benchmarks/notes/rows.md#rows-of-few-elements.
IN_FLIGHT, MOST, BLOCKS = 8192, 8, 4
#: Shared memory of a block, so that some have room at once: an estimate.
ROOM = 72 << 10


def in_tiles(text: RowText, call: Call) -> tuple[int, ...]:
    """The operands of which a block's rows are one stretch.

    Others have to be the same along a row or a column, which a thread reads by itself.
    Empty where some are neither, a result is not a stretch, or a block has no room.
    """
    if text.loops > 1 or text.sums:
        return ()
    dense = [o for o in (*text.elements, *text.written)
             if call.strides[o.at] == (call.shape[-1], 1)]
    fits = all(o in dense for o in text.written) and all(
        o in dense or 0 in call.strides[o.at] for o in text.elements)
    plan = RowPlan(1, block=TILE, tiled=tuple(o.at for o in dense))
    room = fits and tile_bytes(text, call.shape[-1], plan) <= ROOM
    return plan.tiled if room else ()


def tiles(text: RowText, call: Call, processors: int) -> RowPlan:
    """A plan with so many rows of a thread that enough bytes are on their way."""
    plan = RowPlan(1, block=TILE, tiled=in_tiles(text, call))
    while plan.each < MOST and tile_bytes(text, call.shape[-1], plan) < IN_FLIGHT \
            and call.shape[0] >= 2*plan.groups*BLOCKS*processors:
        plan = replace(plan, each=2*plan.each)
    return plan


def tile_bytes(text: RowText, columns: int, plan: RowPlan) -> int:
    """Bytes of shared memory of a block."""
    return sum(-(-(plan.groups*(columns + 1)*o.dtype.itemsize + ACCESS) // ACCESS)
               * ACCESS for o in _places(text, plan.tiled))


def crowded(text: RowText, tiled: tuple[int, ...]) -> int:
    """4 or 8: rows of a multiple of so many elements are padded, see `Tiled`."""
    used = [*(o for o in text.elements if o.at in tiled), *text.written]
    return 8 if all(o.dtype.itemsize <= 2 for o in used) else 4


def _places(text: RowText, tiled: tuple[int, ...]) -> list[Operand]:
    """The operands that need a place: a result takes that of an input of its size.

    Results of a column are stored when all that is read of it is in registers.
    """
    places = [o for o in text.elements if o.at in tiled]
    free = [o.dtype.itemsize for o in places]
    for o in text.written:
        if o.dtype.itemsize in free:
            free.remove(o.dtype.itemsize)
        else:
            places.append(o)
    return places


class Tiled(Reloaded):
    """Elements in shared memory: some rows are an element further apart there.

    Those of a multiple of four, or of eight 16-bit elements: threads side by side would
    meet in a few banks; at other numbers two at most do.
    """

    def __init__(self, scope: RowScope) -> None:
        super().__init__(scope)
        self._rows = self.plan.groups
        self._read = [o for o in self.text.elements if o.at in self.plan.tiled]
        #: Whose place in shared memory an operand has, by its number.
        self._owners: dict[int, Operand] = {}

    def prepare(self) -> None:
        """Name the places in shared memory."""
        out, at = self.out, "i64(0)"
        mask = crowded(self.text, self.plan.tiled) - 1
        out(f"pitch = columns if columns & {mask} else columns + 1")
        starts: dict[int, str] = {}
        for o in _places(self.text, self.plan.tiled):
            starts[o.at], self._owners[o.at] = at, o
            out(f"tile{o.at} = shared_{storage(o.dtype)}({at})",
                f"end{o.at} = {at} + ({self._rows*o.dtype.itemsize}*pitch"
                f" + {2*ACCESS - 1}) // {ACCESS}*{ACCESS}")
            at = f"end{o.at}"
        free = list(self._read)
        for o in self.text.written:
            if o.at in starts:
                continue
            same = next(x for x in free if x.dtype.itemsize == o.dtype.itemsize)
            free.remove(same)
            self._owners[o.at] = same
            out(f"tile{o.at} = shared_{storage(o.dtype)}({starts[same.at]})")

    def load(self) -> None:
        """Bring the rows of the block."""
        out, later = self.out, self.text.later
        out(f"count = min(i64({self._rows}), rows - base)",
            "begin = rows - base - count" if later else "begin = base",
            "last = count - 1", "count *= columns", "begin *= columns")
        for o in dict.fromkeys(self._owners.values()):
            width = _width(o)
            out(f"shift{o.at} = -until_aligned{width}({o.pointer}, begin) & {width - 1}"
                " if pitch == columns else i64(0)" if width > 1 else
                f"shift{o.at} = i64(0)")
        if self._read:
            self._each(self._read, load=True)
            out("copy_wait()", "cuda.syncthreads()")

    def flush(self) -> None:
        """Store the results of the block."""
        if self.text.written:
            self.out("cuda.syncthreads()")
            self._each(self.text.written, load=False)

    def _each(self, operands: list[Operand], *, load: bool) -> None:
        """Copy a stretch; what lies between rows in shared memory takes arithmetic."""
        out = self.out
        with out.block("if pitch == columns:"):
            for o in operands:
                self._stretch(o, load)
        with out.block("else:"):
            out("e = thread", "r = divide(thread, columns)", "c = thread - r*columns",
                f"down = divide(i64({TILE}), columns)",
                f"right = {TILE} - down*columns")
            self._apart(operands, load)

    def _stretch(self, o: Operand, load: bool) -> None:
        """Copy a stretch as it lies, by whole accesses where both sides allow it."""
        out, width = self.out, _width(o)
        if width == 1:
            self._singly(o, "i64(0)", "count", load)
            return
        out(f"head = min(until_aligned{width}({o.pointer}, begin), count)")
        if not load:  # the place may be an input's
            out(f"head = head if {self._shift(o)} + head & {width - 1} == 0 else count")
        out(f"tail = head + (count - head)//{width}*{width}",
            f"e = head + thread*{width}")
        near, far = f"{self._shift(o)} + e", "begin + e"
        names = "".join(f"v{k}, " for k in range(width))
        with out.block("while e < tail:"):
            out(*[f"copy_async{width}(tile{o.at}, {near}, {o.pointer}, {far})"] if load
                else (f"{names}= near{width}(tile{o.at}, {near})",
                      f"store{width}({o.pointer}, {far}, ({names}))"),
                f"e += {TILE*width}")
        self._singly(o, "i64(0)", "head", load)
        self._singly(o, "tail", "count", load)

    def _singly(self, o: Operand, first: str, end: str, load: bool) -> None:
        """Copy elements one by one."""
        near, far = f"tile{o.at}[{self._shift(o)} + e]", f"{o.pointer}[begin + e]"
        self.out(f"e = {first} + thread")
        with self.out.block(f"while e < {end}:"):
            self.out(f"{near} = {far}" if load else f"{far} = {near}", f"e += {TILE}")

    def _shift(self, o: Operand) -> str:
        """The name of where in an access the operand's place begins."""
        return f"shift{self._owners[o.at].at}"

    def _apart(self, operands: list[Operand], load: bool) -> None:
        """Copy rows that lie further apart, several elements on their way together."""
        out = self.out
        with out.block("while e < count:"):
            for k in range(TOGETHER):  # each `down` rows on and `right` columns
                out(f"at{k} = r*pitch + c", "r += down", "c += right")
                with out.block("if c >= columns:"):
                    out("c -= columns", "r += 1")
                out(*(f"v{o.at}_{k} = {storage_name(o.dtype)}(0)" for o in operands))
                with out.block(f"if e + {k*TILE} < count:"):
                    out(*(f"v{o.at}_{k} = {o.pointer}[begin + e + {k*TILE}]" if load
                          else f"v{o.at}_{k} = tile{o.at}[at{k}]" for o in operands))
            for k in range(TOGETHER):
                with out.block(f"if e + {k*TILE} < count:"):
                    out(*(f"tile{o.at}[at{k}] = v{o.at}_{k}" if load else
                          f"{o.pointer}[begin + e + {k*TILE}] = v{o.at}_{k}"
                          for o in operands))
            out(f"e += {TILE*TOGETHER}")

    def pointer(self, o: Operand) -> str:
        """The name of where an operand's elements are."""
        return f"tile{o.at}" if o.at in self._owners else super().pointer(o)

    def place(self, o: Operand, column: str) -> str:
        """The offset of an element."""
        return f"{self._shift(o)} + mine*pitch + {column}" \
            if o.at in self._owners else super().place(o, column)


def _width(o: Operand) -> int:
    """Elements of a whole access; 1 where elements are copied one by one."""
    size = o.dtype.itemsize
    return ACCESS // size if size in (2, 4, 8) and o.dtype.kind != "c" else 1
