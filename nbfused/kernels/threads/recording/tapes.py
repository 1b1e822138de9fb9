"""Reverse mode of kernels that read what they write: loaded values are recorded.

``bwd`` runs a thread again without its stores, so that an element which the thread has
changed in between is not in the array.  Each such load becomes the operation
``recall``: in ``bwd`` it reads a *tape*, an array with a column for each thread, and
its cotangent goes to the element that was loaded.  The *recorder*, the kernel itself on
copies of its arrays, fills the tapes; where nothing of them is needed it does not run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from ....scalar.autodiff.adjoints import FINAL, GIVEN, INITIAL, RECORDED
from ....scalar.autodiff.differentiate import jvp, vjp
from ....scalar.ir.build import Builder
from ....scalar.ir.clean import clean
from ....scalar.ir.nodes import (
    Block,
    Function,
    Let,
    Literal,
    Statement,
    Value,
    defined,
    literal,
    rewrite,
    walk,
)
from ....scalar.ir.positions import launch_thread
from ....specs import Raw
from ....specs.raw import WRITES
from ....support.dtypes import DTYPES
from ....support.records import record
from .barriers import barriers_outside
from .recalls import with_recalls

__all__ = ["Recorded", "derivative_kernel", "final_of", "finished", "recorder",
           "shared_dtypes", "tape_of"]

_FIRST = literal(0)
#: The parameter for the numbers of rows.
_COUNT = "rows.count"


@record(frozen=True)
class Recorded:
    """A derivative of a kernel, and what is recorded before it runs.

    Attributes
    ----------
    spec
        ``bwd`` or ``fwd``: parameters of the kernel, derivatives, tapes, finals.
    tapes
        The arrays that have a tape, of parameters and of what blocks share.
    finals
        The arrays that it needs as the kernel leaves them.
    copied
        The arrays that the recorder writes to.
    recorder
        The kernel, which takes the tapes too.
    counter
        The kernel, which stores the number of rows into one more array, a number for
        each thread; None where `rows` says it.
    rows
        Of the tapes.
    counted
        The counters of threads of which it needs what they gave: another run may count
        otherwise, see `places`.
    """

    spec: Raw
    tapes: tuple[str, ...] = ()
    finals: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()
    recorder: Raw | None = None
    counter: Raw | None = None
    rows: int = 0
    counted: tuple[str, ...] = ()


@lru_cache(maxsize=1024)
def derivative_kernel(spec: Raw, wanted: tuple[bool, ...], mode: str) -> Recorded:
    """The derivative of a kernel with respect to some of its arrays.

    Parameters
    ----------
    mode
        ``"bwd"`` or ``"fwd"``.

    Raises
    ------
    NotDifferentiableError
        An operation has no derivative, or other threads change what it reads.
    """
    raw = tuple(p for p, k in zip(spec.function.params, spec.kinds, strict=True)
                if k == "array")
    wrt = {p for p, w in zip(spec.function.params, wanted, strict=True) if w}
    function, end = with_recalls(spec.function, wrt, mode == "bwd")
    found = jvp(function, wanted) if mode == "fwd" else vjp(
        barriers_outside(function), wanted, (), False, raw)
    counted, finals = _recalled(found, GIVEN), _recalled(found, FINAL)
    tapes = tuple(sorted({*_recalled(found, None), *counted}))
    more = (*map(tape_of, tapes), *map(final_of, finals))
    derived = Raw(_read_tapes(found, more), (
        *spec.kinds, *("array",) * (sum(wanted) + len(more))))
    if not tapes:
        return Recorded(derived)
    kinds = (*spec.kinds, *("array",) * len(tapes))
    run = Raw(recorder(function, tapes), kinds)
    copied = run.written - set(map(tape_of, tapes))
    counter = None if isinstance(end, Literal) else Raw(
        recorder(function, (), end), (*spec.kinds, "array"))
    rows = int(end.text) if isinstance(end, Literal) else 0
    return Recorded(derived, tapes, finals, tuple(sorted(copied)), run, counter, rows,
                    counted)


def _recalled(function: Function, attr: str | None) -> tuple[str, ...]:
    """The arrays of the recalls of some kind."""
    return tuple(sorted({str(s.args[0]) for s in walk(function.body) if isinstance(
        s, Let) and s.op == "recall" and s.attr == attr}))


def shared_dtypes(function: Function) -> dict[str, np.dtype]:
    """The dtypes of arrays that the blocks of a kernel share."""
    return {s.results[0]: DTYPES[str(s.attr)] for s in walk(function.body)
            if isinstance(s, Let) and s.op == "shared"}


def tape_of(array: str) -> str:
    """The parameter that is the tape of an array."""
    return f"{array}.tape"


def final_of(array: str) -> str:
    """The parameter that is an array as the kernel leaves it."""
    return f"{array}.final"


def _read_tapes(function: Function, more: Sequence[str]) -> Function:
    """`function`, whose recalls read tapes and finals, its further parameters."""
    b = Builder(defined(function.body) | set(function.params))
    thread = launch_thread(b)

    def change(s: Let) -> list[Statement]:
        if s.op != "recall":
            return [_plain(s)[0]]
        array, row, *index = s.args
        at = (tape_of(str(array)), row, thread) if s.attr in (None, GIVEN) else \
            (array if s.attr == INITIAL else final_of(str(array)), *index)
        return [replace(s, op="load", args=at, attr=None)]

    return finished(function, b, change, more)


def _plain(s: Let) -> tuple[Let, Value | None, Value]:
    """An access as the user wrote it; the row and the value that are recorded."""
    if s.op == "recall" and s.attr == GIVEN:
        _, row, given = s.args
        return replace(s, op="id", args=(given,), attr=None), row, given
    if s.op == "recall":
        array, row, *index = s.args
        taken = None if s.attr == INITIAL else row
        return replace(s, op="load", args=(array, *index), attr=None), taken, \
            s.results[0]
    if s.op == "atomic" and s.attr and s.attr.endswith(RECORDED):
        array, row, *rest = s.args
        return replace(s, args=(array, *rest), attr=s.attr.partition(".")[0]), row, \
            rest[-1]
    return s, None, _FIRST


def recorder(function: Function, tapes: Sequence[str],
             rows: Value | None = None) -> Function:
    """The kernel, which stores what it loads to tapes as well; and how many `rows`.

    Stores into arrays that it does not load are left out.  Where it tells the rows,
    tapes may have fewer.
    """
    b = Builder(defined(function.body) | set(function.params))
    thread = launch_thread(b)
    kept = {_COUNT, *(str(s.args[0]) for s in walk(function.body)
                      if isinstance(s, Let) and s.op in ("load", "recall"))}

    def change(s: Let) -> list[Statement]:
        if s.op in WRITES and not s.results and s.args[0] not in kept:
            return []
        array = s.args[0] if s.args else ""
        s, row, value = _plain(s)
        if row is None or array not in tapes:
            return [s]
        tape = tape_of(str(array))
        stored = Let((), "store", (tape, row, thread, value), None, s.line)
        if rows is None:
            return [s, stored]
        with b.region() as found:
            b.branch(b.let("lt", row, b.let("extent", tape, attr="0")),
                     Block((stored,), ()), Block((), ()), ())
        return [s, *found]

    names = tuple(map(tape_of, tapes))
    if rows is None:
        return finished(function, b, change, names)
    count = Let((), "store", (_COUNT, thread, rows))
    body = Block((*function.body.statements, count), function.body.yields)
    return finished(replace(function, body=body), b, change, (*names, _COUNT))


def finished(function: Function, b: Builder,
             change: Callable[[Let], Iterable[Statement]],
             more: Iterable[str]) -> Function:
    """`function` with changed operations, after the statements of `b`."""
    body = rewrite(function.body, change)
    return clean(replace(function, params=(*function.params, *more), body=Block(
        (*b.statements, *body.statements), body.yields)))
