"""Row's loop over rows where the blocks of a cluster do not wait for one another.

A turn of the loop copies one row, sums this lane's part of the row before that and
sends it to the other blocks, and finishes the row before that one, whose sums have come
meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .row_elements import Staged

if TYPE_CHECKING:
    from .row_writer import RowWriter

__all__ = ["write_pipeline"]


def write_pipeline(writer: RowWriter) -> None:
    """The loop, for a row with one level of stages; its first row is being copied."""
    out, cluster, elements = writer.out, writer.cluster, writer.elements
    assert isinstance(elements, Staged)
    (level,) = writer.levels
    inputs = writer.row_inputs
    out("before = i64(-1)", "inside = True", "got = i64(0)",
        *(f"held_{n} = ahead_{n}" for n in inputs))
    with out.block("while (base < rows) | (before >= 0):"):
        out(*(f"next_{n} = ahead_{n}" for n in inputs))
        with out.block("if base < rows:"):
            writer.place("base")
            writer.take_values("next")
            elements.load()
            found = writer.sum_level(level)
            reduced = [(r.states, r.state) for r in found]
            cluster.send(out, reduced)
            out(f"turn = (turn + 1) & {cluster.turns - 1}")
        with out.block("if before >= 0:"):
            writer.place("before")
            writer.take_values("held")
            elements.slot = "held"
            cluster.receive(out, reduced, "got")
            writer.posts(level, found)
            writer.finish()
            out(f"got = (got + 1) & {cluster.turns - 1}",
                "phase = phase ^ (i64(1) if got == 0 else i64(0))")
        out(*(f"held_{n} = next_{n}" for n in inputs),
            "before = base if base < rows else i64(-1)", "base += step",
            "held, near, fill = near, fill, held")
