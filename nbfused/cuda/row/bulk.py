"""Rows that the copy engine brings to shared memory (compute capability 9.0 and newer).

One thread asks for the whole row.  Meanwhile the others load what the columns have, as
weights, so that nobody waits for that between the last reduction and the results.
Without such values that is no faster than loads to registers.
"""

from __future__ import annotations

from .elements import Kept

__all__ = ["Bulk"]


class Bulk(Kept):
    """A block's row comes to shared memory at once, and from there to registers."""

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
