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

from ...scalar.autodiff.activity import refuse
from ...scalar.autodiff.differentiate import vjp
from ...scalar.autodiff.rules import has_rule
from ...scalar.ir.build import Builder, inline
from ...scalar.ir.clean import clean
from ...scalar.ir.nodes import (
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
from ...specs import Raw
from ...specs.raw import WRITES
from ...support.records import record

__all__ = ["Reversed", "reversed_kernel", "thread_number", "with_recalls"]

_FIRST = literal(0)
#: The parameter for the numbers of rows.
_COUNT = "rows.count"
#: The attribute of a recall of what the array held before the launch.
INITIAL = "initial"


@record(frozen=True)
class Reversed:
    """The reverse of a kernel, and what it needs to be run before.

    Attributes
    ----------
    spec
        ``bwd``: parameters of the kernel, cotangents, then the tapes.
    tapes
        The arrays that have a tape.
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
    copied: tuple[str, ...] = ()
    recorder: Raw | None = None
    counter: Raw | None = None
    rows: int = 0


@lru_cache(maxsize=1024)
def reversed_kernel(spec: Raw, wanted: tuple[bool, ...]) -> Reversed:
    """The reverse of a kernel with respect to some of its arrays.

    Raises
    ------
    NotDifferentiableError
        An operation has no derivative, or other threads change what it reads.
    """
    raw = tuple(p for p, k in zip(spec.function.params, spec.kinds, strict=True)
                if k == "array")
    wrt = {p for p, w in zip(spec.function.params, wanted, strict=True) if w}
    function, end = with_recalls(spec.function, wrt)
    found = vjp(function, wanted, (), False, raw)
    tapes = tuple(sorted({str(s.args[0]) for s in walk(found.body)
                          if isinstance(s, Let) and s.op == "recall"
                          and s.attr != INITIAL}))
    arrays = sum(wanted) + len(tapes)
    reverse = Raw(_read_tapes(found, tapes), (*spec.kinds, *("array",) * arrays))
    if not tapes:
        return Reversed(reverse)
    kinds = (*spec.kinds, *("array",) * len(tapes))
    recorder = Raw(_recorder(function, tapes), kinds)
    copied = recorder.written - set(map(tape_of, tapes))
    counter = None if isinstance(end, Literal) else Raw(
        _recorder(function, (), end), (*spec.kinds, "array"))
    rows = int(end.text) if isinstance(end, Literal) else 0
    return Reversed(reverse, tapes, tuple(sorted(copied)), recorder, counter, rows)


def with_recalls(function: Function, wanted: set[str]) -> tuple[Function, Value]:
    """`function` with recalls of what it may have changed, and the number of rows."""
    function = inline(function, has_rule)
    changed = {str(s.args[0]) for s in walk(inline(function).body)
               if isinstance(s, Let) and s.op in WRITES}
    loads = [s for s in walk(function.body) if isinstance(s, Let) and s.op == "load"
             and s.args[0] in changed & raw_params(function) and s.attr != "once"]
    arrays = {str(s.args[0]) for s in loads}
    if not arrays:
        return function, _FIRST
    _check_barriers(function, loads, wanted)
    recalls = _Recalls(function, arrays)
    end = recalls.value(recalls.write(function.body.statements, _Row(_FIRST)))
    body = Block(tuple(recalls.statements), function.body.yields)
    return replace(function, body=body), end


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

    def __init__(self, function: Function, arrays: set[str]) -> None:
        super().__init__(defined(function.body) | set(function.params))
        self.function, self.arrays = function, arrays
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
        """A load takes a row, if the array may have been changed."""
        self.line = s.line or self.line
        if s.op != "load" or s.args[0] not in self.arrays or s.attr == "once":
            if s.op in WRITES:
                self.stored.add(str(s.args[0]))
            self.statements.append(s)
            return at
        changed = s.args[0] in self.stored
        row = self.value(at) if changed else _FIRST
        self.statements.append(replace(
            s, op="recall", args=(s.args[0], row, *s.args[1:]),
            attr=None if changed else INITIAL))
        return replace(at, offset=at.offset + changed)

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
        tested = self.block(s.condition, trial)[1] if isinstance(s, While) else trial
        if tested.base != trial.base:
            raise refuse(self.function, self.line, "the condition of a while loop has "
                         "a loop of its own, which reads an array that the kernel also "
                         "writes; compute it in the body, while True: … break")
        body, after = self.block(s.body, trial)
        if after == tested == trial:
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


def _read_tapes(function: Function, tapes: Sequence[str]) -> Function:
    """`function`, whose recalls read tapes."""
    b = Builder(defined(function.body) | set(function.params))
    thread = thread_number(b)

    def change(s: Let) -> list[Statement]:
        if s.op != "recall":
            return [s]
        array, row, *index = s.args
        at = (array, *index) if s.attr == INITIAL else \
            (tape_of(str(array)), row, thread)
        return [replace(s, op="load", args=at, attr=None)]

    return _finished(function, b, change, map(tape_of, tapes))


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
        if s.op != "recall":
            return [s]
        array, row, *index = s.args
        found: list[Statement] = [replace(s, op="load", args=(array, *index),
                                          attr=None)]
        if s.attr != INITIAL and array in tapes:
            found.append(Let((), "store", (tape_of(str(array)), row, thread,
                                           s.results[0]), None, s.line))
        return found

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
