"""Reverse mode of kernels that read what they write: loaded values are recorded.

``bwd`` runs a thread again without its stores, so that an element which the thread has
changed in between is not in the array.  Each such load becomes the operation
``recall``: in ``bwd`` it reads a *tape*, an array with a column for each thread, and
its cotangent goes to the element that was loaded.  The *recorder*, the kernel itself on
copies of its arrays, fills the tapes; where nothing of them is needed it does not run.

Positions on a tape are numbers, sums of literals and multiples of loops' indices where
iterations take equally many; only loops of another kind carry one along.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from ....scalar.autodiff.activity import refuse
from ....scalar.autodiff.adjoints import FINAL, INITIAL, RECORDED
from ....scalar.autodiff.differentiate import jvp, vjp
from ....scalar.autodiff.rules import has_rule
from ....scalar.ir.build import Builder, inline
from ....scalar.ir.clean import clean
from ....scalar.ir.nodes import (
    Block,
    For,
    Function,
    If,
    Let,
    Literal,
    Statement,
    Value,
    While,
    defined,
    literal,
    raw_params,
    rewrite,
    walk,
)
from ....specs import Raw
from ....specs.raw import WRITES
from ....support.records import record

__all__ = ["Recorded", "derivative_kernel", "final_of", "tape_of", "thread_number"]

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
        The arrays that have a tape.
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
    """

    spec: Raw
    tapes: tuple[str, ...] = ()
    finals: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()
    recorder: Raw | None = None
    counter: Raw | None = None
    rows: int = 0


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
    found = vjp(function, wanted, (), False, raw) if mode == "bwd" else \
        jvp(function, wanted)
    tapes, finals = _recalled(found, None), _recalled(found, FINAL)
    more = (*map(tape_of, tapes), *map(final_of, finals))
    derived = Raw(_read_tapes(found, more), (
        *spec.kinds, *("array",) * (sum(wanted) + len(more))))
    if not tapes:
        return Recorded(derived)
    kinds = (*spec.kinds, *("array",) * len(tapes))
    recorder = Raw(_recorder(function, tapes), kinds)
    copied = recorder.written - set(map(tape_of, tapes))
    counter = None if isinstance(end, Literal) else Raw(
        _recorder(function, (), end), (*spec.kinds, "array"))
    rows = int(end.text) if isinstance(end, Literal) else 0
    return Recorded(derived, tapes, finals, tuple(sorted(copied)), recorder, counter,
                    rows)


def _recalled(function: Function, attr: str | None) -> tuple[str, ...]:
    """The arrays of the recalls of some kind."""
    return tuple(sorted({str(s.args[0]) for s in walk(function.body) if isinstance(
        s, Let) and s.op == "recall" and s.attr == attr}))


def with_recalls(function: Function, wanted: set[str],
                 loads: bool) -> tuple[Function, Value]:
    """`function` with accesses that a derivative records, and the number of rows.

    Where `loads`, those of what the kernel may have changed; and values that an atomic
    ``min`` or ``max`` compares with elements of `wanted` arrays.
    """
    function = inline(function, has_rule)
    extremes = _extremes(function) & wanted
    changed = {str(s.args[0]) for s in walk(inline(function).body)
               if isinstance(s, Let) and s.op in WRITES}
    found = [s for s in walk(function.body) if isinstance(s, Let) and s.op == "load"
             and s.args[0] in changed & raw_params(function) and s.attr != "once"
             and loads]
    if not found and not extremes:
        return function, _FIRST
    _check_barriers(function, found, wanted)
    recalls = _Recalls(function, {str(s.args[0]) for s in found}, extremes)
    end = recalls.value(recalls.write(function.body.statements, _Row(_FIRST)))
    body = Block(tuple(recalls.statements), function.body.yields)
    return replace(function, body=body), end


def _extremes(function: Function) -> set[str]:
    """The parameters that are accessed by one of atomic ``min`` and ``max`` alone."""
    accesses: dict[str, set[str]] = {}
    for s in walk(inline(function).body):
        if isinstance(s, Let) and s.op in WRITES | {"load"}:
            accesses.setdefault(str(s.args[0]), set()).add(str(s.attr or s.op))
    return {a for a, found in accesses.items() if found in ({"min"}, {"max"})}


def _check_barriers(function: Function, loads: Sequence[Let], wanted: set[str]) -> None:
    """Refuse what may pass from one thread to another, which flows back unordered."""
    barrier = next((s for s in walk(function.body)
                    if isinstance(s, Let) and s.op == "barrier"), None)
    for s in loads:
        if barrier is not None and s.args[0] in wanted:
            raise refuse(function, s.line, f"{s.args[0]!r} is both read and written by "
                         f"a kernel with a barrier (line {barrier.line}), so that one "
                         "thread may read what another wrote, which has no derivative; "
                         "make two kernels of it, or give the kernel a rule")


@record(frozen=True)
class _Row:
    """A position on the tapes: so many rows after `base`."""

    base: Value
    offset: int = 0


class _Recalls(Builder):
    """Writes a function again, with recalls in place of loads of `arrays`."""

    def __init__(self, function: Function, arrays: set[str],
                 extremes: set[str]) -> None:
        super().__init__(defined(function.body) | set(function.params))
        self.function, self.arrays, self.extremes = function, arrays, extremes
        #: What a store may have changed before the statement at hand.
        self.stored: set[str] = set()

    def value(self, row: _Row) -> Value:
        """A position as a number."""
        return self.sum(row.base, literal(row.offset))

    def write(self, statements: Sequence[Statement], at: _Row) -> _Row:
        """Write `statements`, the first row of which is `at`; the row after them."""
        for s in statements:
            match s:
                case Let():
                    at = self.access(s, at)
                case If():
                    at = self.branches(s, at)
                case For() | While():
                    at = self.loop(s, at)
                case _:
                    self.statements.append(s)
        return at

    def access(self, s: Let, at: _Row) -> _Row:
        """An access takes a row, if its value is recorded."""
        self.line = s.line or self.line
        array, *rest = s.args or ("",)
        if s.op in WRITES:
            self.stored.add(str(array))
        if s.op == "atomic" and array in self.extremes:
            s, taken = replace(s, args=(array, self.value(at), *rest),
                               attr=f"{s.attr}.{RECORDED}"), 1
        elif s.op == "load" and array in self.arrays and s.attr != "once":
            taken = int(array in self.stored)
            s = replace(s, op="recall", attr=None if taken else INITIAL, args=(
                array, self.value(at) if taken else _FIRST, *rest))
        else:
            taken = 0
        self.statements.append(s)
        return replace(at, offset=at.offset + taken)

    def block(self, block: Block, at: _Row) -> tuple[Block, _Row]:
        """A block, and the row after it."""
        with self.region() as body:
            after = self.write(block.statements, at)
        return Block(tuple(body), block.yields), after

    def branches(self, s: If, at: _Row) -> _Row:
        """Both begin at one row; the longer one says where it goes on."""
        before = set(self.stored)
        then, first = self.block(s.then, at)
        after, self.stored = self.stored, before
        orelse, second = self.block(s.orelse, at)
        self.stored |= after
        if first.base == second.base:
            self.statements.append(replace(s, then=then, orelse=orelse))
            return _Row(first.base, max(first.offset, second.offset))
        row = self.fresh("row")
        self.statements.append(replace(
            s, results=(*s.results, row), then=self.ending(then, first),
            orelse=self.ending(orelse, second)))
        return _Row(row)

    def ending(self, block: Block, row: _Row) -> Block:
        """`block`, which yields the row as well."""
        with self.region() as more:
            end = self.value(row)
        return Block((*block.statements, *more), (*block.yields, end))

    def loop(self, s: For | While, at: _Row) -> _Row:
        """A loop, whose body may read what an iteration before has stored."""
        self.stored |= {str(t.args[0]) for t in walk(s.body)
                        if isinstance(t, Let) and t.op in WRITES}
        trial = _Row(self.fresh("row"))
        tested = trial
        if isinstance(s, While):
            condition, tested = self.block(s.condition, trial)
        if tested.base != trial.base:
            raise refuse(self.function, self.line, "the condition of a while loop has "
                         "a loop of its own, which reads an array that the kernel also "
                         "writes; compute it in the body, while True: … break")
        body, after = self.block(s.body, trial)
        if after == tested == trial:
            if isinstance(s, While):
                s = replace(s, condition=condition)
            self.statements.append(replace(s, body=body))
            return at
        if after.base != trial.base:
            return self.carried(s, at, tested.offset)
        start = self.value(at)
        if isinstance(s, While):
            return self.repeated(s, start, tested.offset, after.offset)
        with self.region() as inside:
            first = self.sum(start, self.times(s.index, after.offset))
            self.write(s.body.statements, _Row(first))
        self.statements.append(replace(s, body=Block(tuple(inside), s.body.yields)))
        return _Row(self.sum(start, self.times(s.count, after.offset)))

    def repeated(self, s: While, start: Value, tested: int, size: int) -> _Row:
        """A loop that counts its iterations; `tested` rows are its condition's."""
        step, steps = self.fresh("step"), self.fresh("steps")

        def inside(block: Block, offset: int) -> Block:
            with self.region() as body:
                first = self.sum(start, self.times(step, tested + size))
                self.write(block.statements, _Row(first, offset))
            return Block(tuple(body), block.yields)

        condition, body = inside(s.condition, 0), inside(s.body, tested)
        with self.region() as more:
            ahead = self.let("add", step, literal(1), stem="step")
        body = Block((*body.statements, *more), (*body.yields, ahead))
        self.statements.append(replace(
            s, results=(*s.results, steps), params=(*s.params, step),
            inits=(*s.inits, _FIRST), condition=condition, body=body))
        return _Row(self.sum(start, self.times(steps, tested + size)), tested)

    def carried(self, s: For | While, at: _Row, tested: int) -> _Row:
        """A loop that carries the row along; `tested` are those of its condition."""
        init, row, result = self.value(at), self.fresh("row"), self.fresh("row")
        if isinstance(s, While):
            s = replace(s, condition=self.block(s.condition, _Row(row))[0])
        body, end = self.block(s.body, _Row(row, tested))
        self.statements.append(replace(
            s, results=(*s.results, result), params=(*s.params, row),
            inits=(*s.inits, init), body=self.ending(body, end)))
        return _Row(result, tested)

    def sum(self, a: Value, b: Value) -> Value:
        """``a + b``, a number where both are."""
        if isinstance(a, Literal) and isinstance(b, Literal):
            return literal(int(a.text) + int(b.text))
        return self.add(a, b, "row")

    def times(self, a: Value, size: int) -> Value:
        """``a * size``, of an integer beside which nothing is promoted."""
        if isinstance(a, Literal):
            return literal(int(a.text) * size)
        return self.mul(self.let("index", a, stem="row"), literal(size), "row")


# Kernels ------------------------------------------------------------------------------


def tape_of(array: str) -> str:
    """The parameter that is the tape of an array."""
    return f"{array}.tape"


def final_of(array: str) -> str:
    """The parameter that is an array as the kernel leaves it."""
    return f"{array}.final"


def _read_tapes(function: Function, more: Sequence[str]) -> Function:
    """`function`, whose recalls read tapes and finals, its further parameters."""
    b = Builder(defined(function.body) | set(function.params))
    thread = thread_number(b)

    def change(s: Let) -> list[Statement]:
        if s.op != "recall":
            return [_plain(s)[0]]
        array, row, *index = s.args
        at = (tape_of(str(array)), row, thread) if s.attr is None else \
            (array if s.attr == INITIAL else final_of(str(array)), *index)
        return [replace(s, op="load", args=at, attr=None)]

    return _finished(function, b, change, more)


def _plain(s: Let) -> tuple[Let, Value | None, Value]:
    """An access as the user wrote it; the row and the value that are recorded."""
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


def _recorder(function: Function, tapes: Sequence[str],
              rows: Value | None = None) -> Function:
    """The kernel, which stores what it loads to tapes as well, or how many `rows`.

    Stores into arrays that it does not load are left out.
    """
    b = Builder(defined(function.body) | set(function.params))
    thread = thread_number(b)
    kept = {_COUNT, *(str(s.args[0]) for s in walk(function.body)
                      if isinstance(s, Let) and s.op in ("load", "recall"))}

    def change(s: Let) -> list[Statement]:
        if s.op in WRITES and not s.results and s.args[0] not in kept:
            return []
        s, row, value = _plain(s)
        if row is None or s.args[0] not in tapes:
            return [s]
        tape = tape_of(str(s.args[0]))
        return [s, Let((), "store", (tape, row, thread, value), None, s.line)]

    if rows is None:
        return _finished(function, b, change, map(tape_of, tapes))
    count = Let((), "store", (_COUNT, thread, rows))
    body = Block((*function.body.statements, count), function.body.yields)
    return _finished(replace(function, body=body), b, change, (_COUNT,))


def _finished(function: Function, b: Builder,
              change: Callable[[Let], Iterable[Statement]],
              more: Iterable[str]) -> Function:
    """`function` with changed operations, after the statements of `b`."""
    body = rewrite(function.body, change)
    return clean(replace(function, params=(*function.params, *more), body=Block(
        (*b.statements, *body.statements), body.yields)))


def thread_number(b: Builder) -> Value:
    """Write the number of a thread among all of its launch."""
    found: Value = _FIRST
    for where, extent in (("blockIdx", "gridDim"), ("threadIdx", "blockDim")):
        for axis in "zyx":
            size = b.let("thread", attr=f"{extent}.{axis}", stem="size")
            place = b.let("thread", attr=f"{where}.{axis}", stem="place")
            found = b.add(b.mul(found, size), place, "thread")
    return found
