"""Sums over rows in Row's kernel: each block keeps its own, `total` adds them.

A lane owns its columns whatever row its group works on, so nothing is atomic and the
order of the additions is fixed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ...gpu.row_layout import sum_of
from ...scalar.printing.numba import cast
from ...scalar.typing.promotion import compute_dtype
from ..text.source import Source
from ..text.states import States, storage_name
from .plan import RowPlan
from .text import RowText

__all__ = ["RowSums", "own_columns"]

#: Groups of a block whose sums one thread adds.
GROUPS = 32


@contextmanager
def own_columns(out: Source, plan: RowPlan, width: int) -> Iterator[None]:
    """A loop over the columns ``j`` before ``end`` that this lane owns.

    Each stands for `width` neighbours.
    """
    out(f"j = lane*{width}" if width > 1 else "j = lane")
    with out.block("while j < end:"):
        yield
        out(f"j += {plan.lanes*width}")


class RowSums:
    """Writes what concerns the sums over rows.

    Parameters
    ----------
    out
        The kernel's text.
    text, plan
        What the kernel is for.
    """

    def __init__(self, out: Source, text: RowText, plan: RowPlan) -> None:
        self.out, self.plan = out, plan
        self.width = text.width if plan.vector else 1
        outs = text.typed.outs
        self.columns = {k: text.accumulators[k] for k in text.columns}
        self.scalars: dict[int, States] = {}
        for k in text.sums:
            if outs[k].kind == "scalar":
                total = sum_of(text.accumulators[k])
                self.scalars[k] = States(total.merge, total.identity, total.state,
                                         f"total{k}_")
        self.accumulators = text.accumulators
        self.place = {k: f"sum{k}" if plan.sums == "shared" else f"w{k}"
                      for k in self.columns}

    def _place_groups(self) -> None:
        """Name where each group's sums lie in shared memory."""
        out = self.out
        sizes = [f"((columns*{d.itemsize} + 15) & -16)" for d in self.columns.values()]
        out(f"room = {' + '.join(sizes)}", "place = i64(0)")
        for (k, dtype), size in zip(self.columns.items(), sizes, strict=True):
            out(f"sum{k}_at = place",
                f"sum{k} = shared_{dtype.name}(group*room + sum{k}_at)",
                f"place += {size}")

    def _zero(self, k: int) -> str:
        return f"{storage_name(self.accumulators[k])}(0)"

    def _registers(self, k: int, access: int) -> list[str]:
        """The sums of output `k` at the columns of one of the lane's accesses."""
        return [f"sum{k}_{access}_{e}" for e in range(self.width)]

    def start(self) -> None:
        """Set the sums to zero."""
        out = self.out
        if self.plan.sums == "shared":
            self._place_groups()
        for states in self.scalars.values():
            states.start(out)
        if self.plan.sums == "registers":
            for k in self.columns:
                for access in range(self.plan.kept):
                    out(*(f"{n} = {self._zero(k)}" for n in self._registers(k, access)))
        elif self.columns:
            first = "i64(0)" if self.plan.sums == "shared" else "block*columns"
            out(f"sums = {first}", "end = columns")
            with own_columns(out, self.plan, self.width):
                for k in self.columns:
                    out(*(f"{self.place[k]}[sums + j + {e}] = {self._zero(k)}"
                          for e in range(self.width)))

    def add(self, k: int, access: int, columns: Sequence[str],
            values: Sequence[tuple[np.dtype, str]]) -> None:
        """Add values at some columns to output `k`."""
        out, dtype = self.out, self.accumulators[k]
        parts = [cast(compute_dtype(d), dtype, n) for d, n in values]
        if k in self.scalars:
            (total,) = self.scalars[k].names()
            out(f"{total} += {' + '.join(parts)}")
        elif self.plan.sums == "registers":
            out(*(f"{n} += {p}" for n, p in zip(self._registers(k, access), parts,
                                               strict=True)))
        elif self.plan.vector:
            before = [f"t{k}_{e}" for e in range(self.width)]
            after = ", ".join(f"{b} + {p}" for b, p in zip(before, parts, strict=True))
            out(f"{', '.join(before)}, = load{self.width}({self.place[k]}, sums + j)",
                f"store{self.width}({self.place[k]}, sums + j, ({after},))")
        else:
            out(*(f"{self.place[k]}[sums + {c}] += {p}"
                  for c, p in zip(columns, parts, strict=True)))

    def finish(self, accesses: Sequence[str], last: str) -> None:
        """One partial sum for each block, or for each cluster.

        Parameters
        ----------
        accesses
            Texts of the columns where the lane's accesses begin.
        last
            Whether the last of them is inside; empty if it always is.
        """
        out = self.out
        for k, states in self.scalars.items():
            names = states.names()
            states.across_block(out, names, self.plan.threads, again=False)
            with out.block("if thread == 0:"):
                out(f"w{k}[block] = {names[0]}")
        if not self.columns or self.plan.sums == "global":
            return
        if self.plan.sums == "registers":
            self._from_registers(accesses, last)
        else:
            out("cuda.syncthreads()")
            for k, dtype in self.columns.items():
                self._over_groups(
                    k, f"shared_{dtype.name}({{}}*room + sum{k}_at)[{{}}]")

    def _from_registers(self, accesses: Sequence[str], last: str) -> None:
        out, plan = self.out, self.plan
        out(f"part = divide(block, i64({plan.cluster}))*columns")
        for k, dtype in self.columns.items():
            target, first = f"w{k}", "part"
            if plan.groups > 1:
                target, first = f"groups{k}", "group*columns"
                out("cuda.syncthreads()", f"{target} = shared_{dtype.name}(i64(0))")
            for access, column in enumerate(accesses):
                values = ", ".join(self._registers(k, access))
                guarded = last and access == len(accesses) - 1
                with out.block(f"if {last}:" if guarded else "if True:"):
                    out(f"store{self.width}({target}, {first} + {column}, ({values},))")
            if plan.groups > 1:
                out("cuda.syncthreads()")
                self._over_groups(k, f"{target}[{{}}*columns + {{}}]")

    def _over_groups(self, k: int, sums: str) -> None:
        """The sums that the groups of a block have, added in a fixed order.

        Parameters
        ----------
        k
            The output.
        sums
            Text of a group's sum at a column.
        """
        out, groups = self.out, self.plan.groups
        while groups > GROUPS:  # all at once, where few columns leave most threads idle
            groups //= 2
            with out.block(f"if group < {groups}:"):
                out("at = lane")
                with out.block("while at < columns:"):
                    out(f"{sums.format('group', 'at')} += "
                        f"{sums.format(f'(group + {groups})', 'at')}",
                        f"at += {self.plan.lanes}")
            out("cuda.syncthreads()")
        out("at = thread")
        with out.block("while at < columns:"):
            out(f"part{k} = {sums.format(0, 'at')}")
            out(*(f"part{k} += {sums.format(g, 'at')}" for g in range(1, groups)),
                f"w{k}[block*columns + at] = part{k}", f"at += {self.plan.threads}")
