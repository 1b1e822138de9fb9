"""Facts that all kernels of one Row share, and the plans that suit it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from ...backend import Signature
from ...gpu.row_layout import RowLayout, read_names
from ...scalar.ir.nodes import walk
from ...specs import TypedRow
from ...specs.fusion.row_forms import online, points
from ...support.records import record
from .cluster import ClusterSlots, slot_bytes
from .plan import RowPlan, kept_plans, plans_apart, suffice

__all__ = ["Pass", "RowText"]

#: Accesses of fewer bytes are not kept in registers, nor copied asynchronously.
LEAST = 4
#: Bytes for the barrier that a row comes to: a line of shared memory, at which the row
#: itself must begin (benchmarks/notes/rows.md#bulk-copies).
BARRIER = 128
#: Statements that are worth the time to compile them.
LONGEST = 4000


@record
class Pass:
    """Stages of single columns, then stages that go over the elements together."""

    points: list[int] = field(default_factory=list)
    stages: list[int] = field(default_factory=list)


class RowText(RowLayout):
    """Facts that all kernels of one Row share.

    Parameters
    ----------
    name
        Of the row function.
    typed, signature
        What to compute, on which dtypes and loops.
    """

    def __init__(self, name: str, typed: TypedRow, signature: Signature) -> None:
        super().__init__(name, typed, signature)
        #: Another kernel has given each row a number, as to a derivative: the last rows
        #: that it read or wrote may still be in the cache, so these come first.
        self.later = any(self.kinds[n] == "row" and o.dtype.kind not in "iub"
                         for n, o in self.inputs.items())
        #: Stages of which one column's element counts, and that column's number.
        self.points = points(typed)
        self.kept = [o for n, o in self.inputs.items() if o in self.elements
                     and o.code == "1" and n in self._reads()]
        #: Columns' values that whole accesses bring.
        self.along = [o for n, o in self.inputs.items() if self.kinds[n] == "column"
                      and o.code == "1" and o.dtype.kind != "c"
                      and o.dtype.itemsize*self.width >= LEAST]
        #: The same where elements are loaded one by one, wherever they lie.
        self.apart = [o for n, o in self.inputs.items() if o in self.elements
                      and o.code != "0" and n in self._reads()]
        self.could_keep = self.could_vector and all(
            o.dtype.itemsize*self.width >= LEAST and o.dtype.kind != "c"
            for o in self.kept)
        #: Sums that can go with a maximum, by the stage of that.
        self.online = {o.top: o for o in online(typed)}
        #: Rows that begin anywhere: only what is read must be aligned.
        self.could_rag = self.could_keep and self.unit == self.kept and len(
            self.unit) == 1 and self.once()
        self.could_share = all(
            d.kind in "iuf" and d.itemsize in (4, 8)
            for s in typed.stages for d in s.state) and len(self.columns) == len(
                self.sums)

    def _reads(self) -> set[str]:
        """Names that outputs or stages read in all columns."""
        functions = [*(s.element for k, s in enumerate(self.typed.stages)
                       if k not in self.points),
                     *(o.function for o in self.typed.outs)]
        return {n for f in functions for n in read_names(f)}

    def passes(self, *, together: bool) -> list[Pass]:
        """The stages in the order in which they can be computed.

        `together`: a sum relative to a maximum goes over the elements with it.
        """
        tops = {o.total: o.top for o in self.online.values()} if together else {}
        made: dict[str, int] = {}  # the pass that makes a name
        ready: dict[str, int] = {}  # the first whose elements may read it
        found: list[Pass] = []
        for k, s in enumerate(self.typed.stages):
            point = k in self.points
            elements = [ready[n] for n in read_names(s.element) if n in ready]
            posts = [(ready if point else made)[n]
                     for n in read_names(s.post) if n in made]
            own = max((0, *elements, *posts))
            if k in tops:
                (top,) = self.typed.stages[tops[k]].names
                others = [ready[n] for n in read_names(s.element)
                          if n in ready and n != top]
                if max((0, *others, *posts)) <= made[top]:
                    own = made[top]
            found += [Pass() for _ in range(own + 1 - len(found))]
            (found[own].points if point else found[own].stages).append(k)
            made |= dict.fromkeys(s.names, own)
            ready |= dict.fromkeys(s.names, own if point else own + 1)
        return found

    def levels(self, *, together: bool = False) -> list[list[int]]:
        """The stages of each pass over the elements."""
        return [p.stages for p in self.passes(together=together) if p.stages]

    def once(self) -> bool:
        """Whether every element is needed only once, if not for sums over rows."""
        return not self.sums and not self.written and len(
            self.levels(together=True)) <= 1

    def registers(self) -> int:
        """Registers that a lane keeps of each of its accesses."""
        elements = sum(o.dtype.itemsize for o in self.kept)
        sums = sum(self.accumulators[k].itemsize for k in self.columns)
        return max(1, self.width*(elements + sums)//4)

    def registers_apart(self) -> int:
        """The same of each element that is loaded by itself."""
        return sum(max(4, o.dtype.itemsize)//4 for o in self.apart)

    def brought(self, plan: RowPlan) -> bool:
        """Whether the copy engine may bring rows: see `elements.Bulk`."""
        whole = all(o.dtype.itemsize*self.width % 16 == 0 for o in self.kept)
        each = self.registers() + self._along()
        return (whole and bool(self.along) and plan.groups == plan.cluster == 1
                and not plan.resident and suffice(plan, each))

    def _along(self) -> int:
        """Registers for columns' values of each access of a lane."""
        return self.width*sum(o.dtype.itemsize for o in self.along)//4

    def plans(self, accesses: int, clusters: bool, block: int) -> Iterator[RowPlan]:
        """Kernels that read rows of so many accesses once, best first."""
        if not self.could_keep:
            return
        summed = self.width*sum(self.accumulators[k].itemsize for k in self.columns)//4
        for found in kept_plans(
                accesses, self.registers(), clusters and self.could_share,
                "registers" if self.sums else "", block,
                not self.typed.stages and not self.sums,
                summed if len(self.levels()) == 1 and not self.points else None,
                len(self.kept), self._along(), self.width):
            if found.kept*self.width*self._length() <= LONGEST:
                yield found

    def plans_apart(self, columns: int, block: int,
                    clusters: bool) -> Iterator[RowPlan]:
        """Kernels that read rows once, element by element, best first."""
        if self.sums or self.once() or any(o.dtype.kind == "c" for o in self.apart):
            return
        for found in plans_apart(columns, self.registers_apart(), block,
                                 clusters and self.could_share):
            if found.kept*self._length() <= LONGEST:
                yield found

    def _length(self) -> int:
        """Statements that are printed for each element."""
        functions = [*(s.element for s in self.typed.stages),
                     *(o.function for o in self.typed.outs if o.kind != "row")]
        return sum(1 for f in functions for _ in walk(f.function.body))

    def ahead(self, most: int) -> int:
        """Accesses of a lane that are worth compiling at once where none is kept."""
        while most > 1 and most*self.width*self._length() > LONGEST:
            most //= 2
        return most

    def shared_bytes(self, columns: int, plan: RowPlan) -> int:
        """Bytes of dynamic shared memory of a block."""
        if plan.kept:
            ahead = [plan.places*plan.kept*plan.threads*self.width*o.dtype.itemsize
                     for o in self.kept] if plan.resident or plan.bulk else []
            groups = [plan.groups*columns*self.accumulators[k].itemsize
                      for k in self.columns] if plan.groups > 1 else []
            return self.slots(plan) + max(sum(ahead), *groups, 0, 0)
        sizes = [self.accumulators[k].itemsize
                 for k in self.columns] if plan.sums == "shared" else []
        return plan.groups*sum(-(-columns*size // 16)*16 for size in sizes)

    def slots(self, plan: RowPlan) -> int:
        """Bytes of shared memory for barriers and what a cluster exchanges."""
        if plan.cluster == 1:
            return BARRIER if plan.bulk else 0
        return ClusterSlots.barriers(len(self.levels()), plan.turns) + sum(
            slot_bytes(d, plan.threads, plan.cluster, plan.turns)
            for s in self.typed.stages for d in s.state)


