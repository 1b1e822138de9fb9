"""Elements of a row: read from memory by each stage, or kept by the lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...gpu.operands import Operand
from ...gpu.row_layout import read_names
from ...scalar.typing.types import Typed
from ...support.dtypes import storage
from ..text.source import decoded
from .scope import RowScope
from .sums import own_columns

__all__ = ["LARGE", "Apart", "Body", "Bulk", "Elements", "Kept", "Reloaded", "Staged"]

#: What is printed for a few columns: which of the lane's accesses it is if that is
#: known, the columns, and the inputs at each.
Body = Callable[[int, list[str], list[dict[str, str]]], None]
#: Elements that a lane takes at once where they are not neighbours.
SCATTERED = 4
#: Registers for columns' values that are loaded together, before results are stored,
#: in blocks of so many threads: each would wait for the store before it, and such a
#: block has few others beside it that could use the time.  Where these would be all of
#: a row's, lanes have so few accesses that registers are better spent on more blocks.
#: The values of one input stay in the first cache, those of more do not fit there.
#: Measured: benchmarks/notes/rows.md#values-of-columns.
TOGETHER, LARGE = 16, 512


class Elements:
    """Access of the lanes to the elements of a row.

    Attributes
    ----------
    starts
        The columns where the lane's accesses begin, where their number is known.
    last
        Whether the last of these is inside; empty if it always is.
    """

    starts: Sequence[str] = ()
    last = ""

    def __init__(self, scope: RowScope) -> None:
        self.scope, self.out = scope, scope.out
        self.text, self.plan = scope.text, scope.plan
        self.width = self.text.width if self.plan.vector else 1

    def prepare(self) -> None:
        """Write what precedes the first row."""

    def fetch(self, row: str) -> None:
        """Begin to load the rows from `row` on."""

    def begin(self) -> None:
        """Write what precedes a loop over rows."""
        self.fetch("base")

    def load(self) -> None:
        """Write what precedes a row's first stage."""

    def flush(self) -> None:
        """Write what follows a row's results."""

    def each(self, functions: Sequence[Typed], body: Body) -> None:
        """Call `body` for every few elements of this lane."""
        raise NotImplementedError

    def pointer(self, o: Operand) -> str:
        """The name of where an operand's elements are."""
        return o.pointer

    def place(self, o: Operand, column: str) -> str:
        """The offset of an element."""
        if o.code == "0":
            return self.scope.base[o.at]
        along = column if o.code == "1" else f"{column}*{o.stride(self.text.loops)}"
        return f"{self.scope.base[o.at]} + {along}"

    def at(self, names: Sequence[str],
           columns: Sequence[str]) -> list[dict[str, str]]:
        """The inputs' values at some columns, loaded one by one."""
        out, found = self.out, []
        for k, column in enumerate(columns):
            values = {}
            for name in names:
                o = self.text.inputs[name]
                out(f"x{o.at}_{k} = {self.pointer(o)}[{self.place(o, column)}]")
                values[name] = decoded(o.dtype, f"x{o.at}_{k}")
            found.append(values)
        return found

    def names(self, functions: Sequence[Typed]) -> list[str]:
        """Inputs that the functions read and that differ from column to column."""
        return sorted({n for f in functions for n in read_names(f)} & {
            n for n in self.text.inputs if self.text.kinds[n] != "row"})

    def _vectors(self, names: Sequence[str], column: str) -> list[dict[str, str]]:
        """The inputs' values at each of an access's elements."""
        found = [dict[str, str]() for _ in range(self.width)]
        for name in names:
            o = self.text.inputs[name]
            for values, part in zip(found, self._vector(o, column), strict=True):
                values[name] = self._decoded(o, part)
        return found

    def _decoded(self, o: Operand, part: str) -> str:
        """The value of a loaded element."""
        return decoded(o.dtype, part)

    def _vector(self, o: Operand, column: str) -> list[str]:
        """Names of an access's elements, loaded."""
        parts = [f"x{o.at}_{k}" for k in range(self.width)]
        if o.code == "0":
            self.out(f"x{o.at}_0 = {o.pointer}[{self.scope.base[o.at]}]")
            return [parts[0]]*self.width
        self.out(f"{', '.join(parts)}, = load{self.width}({o.pointer}, "
                 f"{self.scope.base[o.at]} + {column})")
        return parts


class Reloaded(Elements):
    """Each stage reads the elements from memory."""

    def each(self, functions: Sequence[Typed], body: Body) -> None:
        """Call `body` for every few elements of this lane."""
        names = self.names(functions)
        if self.plan.vector:
            with own_columns(self.out, self.plan, self.width):
                loads = self._vectors(names, "j")
                body(0, ["j", *(f"(j + {k})" for k in range(1, self.width))], loads)
            return
        lanes = self.plan.lanes
        self.out("j = lane")
        for count in (SCATTERED, 1):
            last = (count - 1)*lanes
            with self.out.block(f"while j + {last} < end:"):
                columns = [f"(j + {k*lanes})" if k else "j" for k in range(count)]
                body(0, columns, self.at(names, columns))
                self.out(f"j += {count*lanes}")


class Kept(Elements):
    """A lane's elements are loaded together, before the first stage, into registers.

    Where a block goes through many rows, the next one is copied to shared memory
    meanwhile; a lane reads there only what it copied itself.
    """

    def __init__(self, scope: RowScope) -> None:
        super().__init__(scope)
        step = self.plan.lanes*self.plan.cluster*self.width
        self.starts = [f"(j + {k*step})" if k else "j" for k in range(self.plan.kept)]
        self.last = "" if self.plan.even else "last"
        #: Columns' values, which are loaded for several accesses together, or once.
        self.along = self.text.along
        #: Where the lane's elements begin in shared memory, by name.
        self.slot = self.fetched = "slot"

    def prepare(self) -> None:
        """Name where the lane's accesses begin, in the row and in shared memory."""
        out, lane = self.out, "lane"
        if self.plan.cluster > 1:
            lane = f"(rank*{self.plan.lanes} + lane)"
        out(f"j = {lane}*{self.width}")
        if self.last:
            out(f"last = {self.starts[-1]} < columns")
        if not (self.plan.looped or self.plan.bulk):
            return
        at, threads = self.text.slots(self.plan), self.plan.threads
        for o in self.text.kept:
            out(f"ahead{o.at} = shared_{storage(o.dtype)}(i64({at}))")
            at += self.plan.places*self.plan.kept*threads*self.width*o.dtype.itemsize
        out(f"{self.slot} = thread*{self.width}")

    def fetch(self, row: str) -> None:
        """Begin to load the rows from `row` on."""
        out = self.out
        with out.block(f"if {row} + group < rows:"):
            out(f"next = {row} + group")
            at = self.scope.places("next", "f")
            self.scope.fetch_values(at)
            for k, column in enumerate(self.starts):
                slot = self._slot(self.fetched, k)
                with out.block(f"if {self._wanted(k)}:"):
                    out(*(f"copy_async{self.width}(ahead{o.at}, {slot}, "
                          f"{o.pointer}, {at[o.at]} + {column})"
                          for o in self.text.kept))

    def begin(self) -> None:
        """Write what precedes a loop over rows."""
        if self.plan.held:
            for access in range(self.plan.kept):
                self._load_along(self.along, access)
        super().begin()

    def load(self) -> None:
        """Write what precedes a row's first stage."""
        out = self.out
        if not self.plan.looped:
            stream = "stream_last" if self.plan.lasting else "stream"
            for k, column in enumerate(self.starts):
                out(*(f"{', '.join(self._kept(o, k))}, = {stream}{self.width}("
                      f"{o.pointer}, {self.scope.base[o.at]} + {column}, "
                      f"{self._wanted(k)})" for o in self.text.kept))
            return
        out("copy_wait()")
        self._near()
        self.fetch("base + step")

    def _near(self) -> None:
        """Load the lane's elements from shared memory."""
        for k in range(self.plan.kept):
            self.out(*(f"{', '.join(self._kept(o, k))}, = "
                       f"near{self.width}(ahead{o.at}, {self._slot(self.slot, k)})"
                       for o in self.text.kept))

    def each(self, functions: Sequence[Typed], body: Body) -> None:
        """Call `body` for every few elements of this lane."""
        names = self.names(functions)
        along = [o for n, o in self.text.inputs.items()
                 if n in names and o in self.along and not self.plan.held]
        floats = sum(max(4, o.dtype.itemsize) for o in along)*self.width//4
        together = 1
        if along and self.plan.threads >= LARGE:
            several = TOGETHER // floats
            together = several if 1 < several < self.plan.kept else 1
        stream = "stream_near" if together > 1 and len(along) == 1 else "stream"
        for first in range(0, self.plan.kept, together):
            accesses = range(first, min(first + together, self.plan.kept))
            for k in accesses:
                self._load_along(along, k, stream)
            for k in accesses:
                self._one(k, names, body)

    def _one(self, access: int, names: Sequence[str], body: Body) -> None:
        """One access of each lane."""
        self.access, column = access, self.starts[access]
        with self.out.block(f"if {self._wanted(access)}:"):
            loads = self._vectors(names, column)
            columns = [column, *(f"({column} + {e})" for e in range(1, self.width))]
            body(access, columns, loads)

    def _load_along(self, along: Sequence[Operand], access: int,
                    stream: str = "stream") -> None:
        """Load columns' values, in this order."""
        self.out(*(f"{', '.join(self._kept(o, access))}, = {stream}{self.width}("
                   f"{o.pointer}, {self.starts[access]}, {self._wanted(access)})"
                   for o in along))

    def parts(self, o: Operand) -> list[str]:
        """Names of a kept input's elements, as they are stored."""
        return self._kept(o, self.access)

    def _vector(self, o: Operand, column: str) -> list[str]:
        return self.parts(o) if o in self.text.kept or o in self.along else \
            super()._vector(o, column)

    def _decoded(self, o: Operand, part: str) -> str:
        text = super()._decoded(o, part)
        kept = o in self.text.kept or o in self.along
        return text.replace("16_to_f32", "16_again") if kept else text

    def _kept(self, o: Operand, access: int) -> list[str]:
        return [f"x{o.at}_{access}_{e}" for e in range(self.width)]

    def _wanted(self, access: int) -> str:
        """Whether an access is inside the row."""
        return self.last if self.last and access == self.plan.kept - 1 else "True"

    def _slot(self, first: str, access: int) -> str:
        return f"{first} + {access*self.plan.threads*self.width}"


class Staged(Kept):
    """A lane's elements are read from shared memory, where the next rows come too.

    There are three places: the row that is finished, the one whose stage is under way,
    and the one that is being copied, see `skeleton.write_pipeline`.
    """

    def __init__(self, scope: RowScope) -> None:
        super().__init__(scope)
        self.slot = self.fetched = "near"
        self.along = []  # registers are short

    def prepare(self) -> None:
        """Write what precedes the first row."""
        super().prepare()
        size = self.plan.kept*self.plan.threads*self.width
        self.out(f"fill = near + {size}", f"held = near + {2*size}")

    def load(self) -> None:
        """Write what precedes a row's first stage."""
        self.fetched = "fill"
        self.out("copy_wait()")
        self.fetch("base + step")

    def _vector(self, o: Operand, column: str) -> list[str]:
        if o not in self.text.kept:
            return super()._vector(o, column)
        parts = self._kept(o, self.access)
        self.out(f"{', '.join(parts)}, = near{self.width}(ahead{o.at}, "
                 f"{self._slot(self.slot, self.access)})")
        return parts

    def _decoded(self, o: Operand, part: str) -> str:
        return decoded(o.dtype, part)


class Bulk(Kept):
    """A block's row comes to shared memory at once, and from there to registers.

    One thread asks for the whole row (compute capability 9.0 and newer).  Meanwhile the
    others load what the columns have, as weights, so that nobody waits for that between
    the last reduction and the results.  Without such values that is no faster than
    loads to registers.
    """

    def load(self) -> None:
        """Have the row brought, and load it from shared memory."""
        out, hint = self.out, "_last" if self.plan.lasting else ""
        sizes = {o: f"columns*{o.dtype.itemsize}" for o in self.text.kept}
        out("arrived = shared_uint64(i64(0))", "whole_lines()")
        with out.block("if thread == 0:"):
            out("barrier_start(arrived, i64(0))",
                f"barrier_bytes(arrived, i64(0), {' + '.join(sizes.values())})",
                *(f"copy_bulk{hint}(ahead{o.at}, {o.pointer}, "
                  f"{self.scope.base[o.at]}, {size}, arrived)"
                  for o, size in sizes.items()))
        for access in range(self.plan.kept):
            self._load_along(self.along, access)
        out("cuda.syncthreads()", "barrier_until(arrived, i64(0), i64(0))")
        self._near()


class Apart(Kept):
    """A lane's elements are loaded one by one, before the first stage, into registers.

    For rows that begin anywhere, or whose elements are no neighbours in memory.
    """

    def __init__(self, scope: RowScope) -> None:
        super().__init__(scope)
        self.along = []  # their loads begin at whole accesses

    def load(self) -> None:
        """Load the lane's elements; one that is outside takes the row's first."""
        if self.last:
            self.out(f"most = {self.starts[-1]} if last else i64(0)")
        for access, column in enumerate(self.starts):
            inside = self._wanted(access) == "True"
            self.out(*(f"x{o.at}_{access}_0 = {o.pointer}["
                       f"{self.place(o, column if inside else 'most')}]"
                       for o in self.text.apart))

    def _one(self, access: int, names: Sequence[str], body: Body) -> None:
        """One element of each lane."""
        self.access, column = access, self.starts[access]
        here = {n: o for n, o in self.text.inputs.items() if o in self.text.apart}
        with self.out.block(f"if {self._wanted(access)}:"):
            (values,) = self.at([n for n in names if n not in here], [column])
            values |= {n: self._decoded(o, *self.parts(o))
                       for n, o in here.items() if n in names}
            body(access, [column], [values])
