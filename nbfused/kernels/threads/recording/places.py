"""Places that threads count, ``k = nf.atomic.add(count, 0, 1)``, played back.

What an atomic operation gives depends on the order in which threads came, so that a
derivative cannot run the kernel once more.  A launch that is recorded notes it first,
on copies, and is then the kernel *played back*, which reads it from tapes; so are its
derivatives, which run as often as they like.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod

from ....arrays import to_numpy
from ....scalar.autodiff.adjoints import GIVEN
from ....scalar.ir.build import Builder
from ....scalar.ir.nodes import Function, Let, Literal, Statement, defined
from ....scalar.ir.positions import launch_thread
from ....specs import Raw
from ....support.records import record
from ..arguments import FlatArguments
from ..launching import Options, Places
from .recalls import with_places
from .recorder import INT64, blank, run_on_copies
from .tapes import derivative_kernel, finished, recorder, tape_of

__all__ = ["Counted", "counted_kernel", "needed_before", "played_back",
           "record_places"]


@record(frozen=True)
class Counted:
    """A kernel whose derivative depends on what atomic operations give.

    Attributes
    ----------
    counters
        The arrays of these operations.
    recorder
        The kernel without what does not matter to them; it stores what they give to
        tapes, and of unknown `rows` how many there are.
    replay
        The kernel, which reads the tapes, its last parameters.
    rows
        Of the tapes, or None where only a run can tell.
    """

    counters: tuple[str, ...]
    recorder: Raw
    replay: Raw
    rows: int | None


@lru_cache(maxsize=1024)
def counted_kernel(spec: Raw, wanted: tuple[bool, ...]) -> Counted | None:
    """The kernels that record and play back; None if no derivative needs that.

    Parameters
    ----------
    wanted
        For each argument, whether it has a derivative.
    """
    counters = derivative_kernel(spec, wanted, "bwd").counted
    if not counters:
        return None
    function, end = with_places(spec.function, set(counters))
    rows = int(end.text) if isinstance(end, Literal) else None
    kinds = (*spec.kinds, *("array",) * len(counters))
    run = Raw(recorder(function, counters), kinds) if rows is not None else \
        Raw(recorder(function, counters, end), (*kinds, "array"))
    return Counted(counters, run, Raw(_replay(function, counters), kinds), rows)


def _replay(function: Function, counters: tuple[str, ...]) -> Function:
    b = Builder(defined(function.body) | set(function.params))
    thread = launch_thread(b)

    def change(s: Let) -> list[Statement]:
        if s.op != "recall" or s.attr != GIVEN:
            return [s]
        at = tape_of(str(s.args[0])), s.args[1], thread
        return [replace(s, op="load", attr=None, args=at)]

    return finished(function, b, change, map(tape_of, counters))


def record_places(counted: Counted, flat: FlatArguments, options: Options) -> Places:
    """The places that threads count, by a run on copies."""
    leaves = dict(zip(counted.recorder.function.params, flat.leaves, strict=False))
    threads, rows = prod(options.grid) * prod(options.block), counted.rows or 1
    copied = sorted(counted.recorder.written & leaves.keys())
    while True:
        found = [leaves[a] for a in counted.counters]
        tapes = [blank(tape_of(x.name), (rows, threads), x.value.dtype, x)
                 for x in found]
        counts = [] if counted.rows is not None else [
            blank("rows", (threads,), INT64, found[0])]
        run_on_copies(counted.recorder, leaves, copied, [*tapes, *counts], options)
        most = max((int(to_numpy(c.owner).max()) for c in counts), default=rows)
        if most <= rows:
            return Places(counted.replay, tuple(tapes))
        rows = 2 * most  # another run may take more in one thread


def played_back(spec: Raw, flat: FlatArguments,
                options: Options) -> tuple[Raw, FlatArguments]:
    """The kernel to launch or differentiate, and its arguments, tapes at the end."""
    places = options.places
    if places is None:
        return spec, flat
    return places.replay, FlatArguments([*flat.leaves, *places.tapes], flat.shapes)


def needed_before(spec: Raw, wanted: tuple[bool, ...]) -> frozenset[str]:
    """The arrays that a kernel reads and writes and whose old values ``bwd`` reads."""
    counted = counted_kernel(spec, wanted)
    if counted is not None:
        spec, wanted = counted.replay, (*wanted, *(False,) * len(counted.counters))
    derived = derivative_kernel(spec, wanted, "bwd")
    return spec.revised if derived.tapes else spec.revised & derived.spec.read
