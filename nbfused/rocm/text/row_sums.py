"""Sums over rows in Row's kernel: each block keeps its own, a second kernel adds them.

A lane owns its columns whatever row its group works on, so nothing is atomic and the
order of the additions is fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...gpu.row_layout import sum_of
from ...scalar.printing.hip import cast
from ...scalar.typing.promotion import compute_dtype
from .row_plan import RowPlan
from .source import Source
from .states import declare_state

if TYPE_CHECKING:
    from .row import RowText

__all__ = ["RowSums"]


class RowSums:
    """Writes what concerns the sums over rows, and the shared memory of a group.

    Parameters
    ----------
    out
        The kernel's text; a pointer to each sum's parts is declared.
    text, plan
        What the kernel is for.
    kept
        What else each group keeps in shared memory: names and C++ types.
    """

    def __init__(self, out: Source, text: RowText, plan: RowPlan,
                 kept: Sequence[tuple[str, str]]) -> None:
        self.out, self.accumulators = out, text.accumulators
        self.columns = text.columns
        self.scalars = [k for k in text.sums if k not in text.columns]
        self.shared = plan.sums == "shared"
        self.words = {k: out.pointer(d) for k, d in self.accumulators.items()}
        self._kept = list(kept)
        if self.shared:
            self._kept += [(f"s{k}", f"Sum{k}::State") for k in self.columns]

    def declare(self) -> None:
        """Write how each sum is made, and what a thread knows of them."""
        out = self.out
        for k, dtype in self.accumulators.items():
            total = sum_of(dtype)
            with out.block(f"struct Sum{k}", "};"):
                declare_state(out, total.merge, total.identity, total.state)
        with out.block("struct Sums", "};"):
            out(*(f"Sum{k}::State *s{k};" for k in self.columns),
                *(f"Sum{k}::State s{k};" for k in self.scalars))

    def place(self, name: str, room: str) -> str:
        """The address of something in the shared memory of a group, at `room`."""
        terms, found = [room], ""
        for kept, kind in self._kept:
            if kept == name:
                found = kind
                break
            terms.append(f"nbf::padded<{kind}>(columns)")
        return f"reinterpret_cast<{found} *>({' + '.join(terms)})"

    def write(self) -> None:
        """Write the functions ``room``, ``start``, ``clear`` and ``total``."""
        out = self.out
        sizes = [f"nbf::padded<{kind}>(columns)" for _, kind in self._kept]
        out("NBF_DEVICE int64_t room(int64_t columns) "
            f"{{ return {' + '.join(sizes) or '0'}; }}")
        with out.block("template <class W> NBF_DEVICE Sums start(const W &w, "
                       "unsigned char *room, int64_t columns)"):
            out("Sums sums;", *(f"sums.s{k} = {self._own(k)};" for k in self.columns),
                *(f"sums.s{k} = Sum{k}::identity();" for k in self.scalars),
                "return sums;")
        with out.block("template <int N> NBF_DEVICE void clear(const Sums &sums, "
                       "int64_t place)"):
            out(*(f"nbf::clear<Sum{k}, N>(sums.s{k}, place);" for k in self.columns))
        with out.block("template <int THREADS, int GROUPS, class W> NBF_DEVICE void "
                       "total(const W &w, const Sums &sums, int64_t columns)"):
            out(*(f"nbf::total<Sum{k}, THREADS>(sums.s{k}, {self._parts(k)});"
                  for k in self.scalars))
            out(*(f"nbf::total<Sum{k}, THREADS, GROUPS>("
                  f"{self.place(f's{k}', 'nbf::shared()')}, room(columns), columns, "
                  f"{self._parts(k)});" for k in self.columns if self.shared))

    def _own(self, k: int) -> str:
        return self.place(f"s{k}", "room") if self.shared \
            else f"{self._parts(k)} + blockIdx.x * columns"

    def _parts(self, k: int) -> str:
        return f"w.template pointer<Sum{k}::State>({self.words[k]})"

    def value(self, k: int, dtype: np.dtype, name: str) -> str:
        """A result of logical dtype `dtype` as what is added to sum `k`."""
        text = cast(compute_dtype(dtype), self.accumulators[k], name)
        return f"Sum{k}::State{{{text}}}"

    def add(self, k: int) -> str:
        """The statement that adds to sum `k` what is at `place`."""
        place = ", place" if k in self.columns else ""
        return f"nbf::add<Sum{k}, N>(sums.s{k}{place}, y.y{k});"
