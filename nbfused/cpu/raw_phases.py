"""A block whose threads wait for one another, as loops over its threads.

The kernel is cut at its barriers.  What a thread knows across a cut is kept in an array
with an element for each thread.  A branch or a loop around a cut is taken by all
threads at once; where they disagree, those that do not take part are masked.  Values
that are the same for all threads of a block are computed once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..scalar.ir import (
    Block,
    For,
    If,
    Let,
    Literal,
    Statement,
    Value,
    While,
    defined,
    names,
)
from ..scalar.print_numba import Raw
from ..specs.raw import TypedRaw, waits
from .raw_phase_text import BOOL, PhaseText
from .raw_uniform import is_uniform, uniform_names

__all__ = ["Phases"]

_INT64 = np.dtype(np.int64)


class Phases(PhaseText):
    """Writes what one block does; parameters are those of `PhaseText`."""

    def __init__(self, typed: TypedRaw, arrays: Mapping[str, Raw],
                 values: Mapping[str, str], varying: set[str],
                 needs: Mapping[str, tuple[str, ...]]) -> None:
        super().__init__(typed, arrays, values, needs)
        self.body = typed.function.function.body
        self.uniform = uniform_names(self.body, set(values) - varying)
        self.emit(self.body, None, None, True)

    # Statements --------------------------------------------------------------------

    def run(self, found: list[Statement], rest: set[str], mask: str | None) -> None:
        """A run of statements without a cut; `rest` is what is read elsewhere."""
        if not found:
            return
        kept = sorted(defined(Block(tuple(found), ())) & rest)
        self.phase(found, [(self.home(n), n) for n in kept], mask)
        found.clear()

    def emit(self, block: Block, mask: str | None, alive: str | None,
             last: bool) -> None:
        """A block: `alive` are the threads that a barrier waits for.

        `last` says that nothing follows, so that a branch which does nothing is a
        return.
        """
        pending: list[Statement] = []
        for k, s in enumerate(block.statements):
            if is_uniform(s, self.uniform) and not waits(s):
                self.compute(s)
            elif waits(s):
                self.run(pending, self.read_besides(pending), mask)
                end = last and k == len(block.statements) - 1
                self.cut(s, mask, alive, end)
            else:
                pending.append(s)
        self.run(pending, self.read_besides(pending), mask)

    def read_besides(self, run: Sequence[Statement]) -> set[str]:
        """Names that are read outside of `run`, which is part of the kernel."""
        return _read_outside(self.body, {id(s) for s in run})

    def cut(self, s: Statement, mask: str | None, alive: str | None,
            last: bool) -> None:
        """A barrier, a shuffle, or what holds one."""
        match s:
            case Let(_, "barrier"):
                if s.attr != "warp" and mask is not None and mask != alive:
                    self.check(s, mask, alive)
            case Let():
                self.shuffle(s, mask)
            case If():
                if self.is_uniform(s.condition):
                    self.branch(s, mask, alive, last)
                else:
                    self.diverge(s, mask, alive, last)
            case For() | While():
                ends = (s.count,) if isinstance(s, For) else s.condition.yields
                if all(map(self.is_uniform, ends)):
                    self.together(s, mask, alive)
                else:
                    self.apart(s, mask, alive)

    def is_uniform(self, v: Value) -> bool:
        """Whether all threads of the block have the same value."""
        return isinstance(v, Literal) or v in self.uniform

    def check(self, s: Let, mask: str, alive: str | None) -> None:
        """Threads that are alive and not here will never come."""
        condition = f"{mask}[t] == 0"
        given = [mask, "status"]
        if alive is not None:
            condition, given = f"({condition}) & ({alive}[t] != 0)", [alive, *given]
        self.all_threads([f"if {condition}:", f"    status[0] = {max(s.line, 1)}"],
                         given, None)

    def shuffle(self, s: Let, mask: str | None) -> None:
        """Keep what each lane offers, then fetch from the lanes that have threads."""
        (name,), (value, lane) = s.results, s.args
        offered, wanted = self.slot(self.dtype(value)), self.slot(_INT64)
        self.phase((), [(offered, value)], mask)
        integer = f"lane_{wanted}"
        self.dtypes[integer] = _INT64
        self.phase((Let((integer,), "cast", (lane,), "int64"),), [(wanted, integer)],
                   mask)
        home = self.home(name)
        self.all_threads([
            "lane = t % 32", _LANES[str(s.attr)].format(wanted=f"{wanted}[t]"),
            "other = t if (lane_ < 0) | (lane_ > 31) else t - lane + lane_",
            "other = other if other < threads else t",
            f"{home}[t] = {offered}[other]"], [offered, wanted, home, "threads"], mask)

    # Branches and loops that all threads take alike -----------------------------------

    def move(self, targets: Sequence[str], values: Sequence[Value],
             mask: str | None) -> None:
        """Assign values of a region to names outside, all at once."""
        pairs = list(zip(targets, values, strict=True))
        own = [(t, v) for t, v in pairs if t not in self.uniform]
        self.phase((), [(self.home(t), v) for t, v in own], mask)
        shared = [(self.values[t], self.text(v)) for t, v in pairs if t in self.uniform]
        if shared:
            left, right = (", ".join(side) for side in zip(*shared, strict=True))
            self.line(f"{left} = {right}")

    def declare(self, found: Sequence[str]) -> None:
        """Make variables of the uniform names."""
        for n in found:
            if n in self.uniform:
                self.variable(n)

    def branch(self, s: If, mask: str | None, alive: str | None, last: bool) -> None:
        """A branch that all threads take."""
        self.declare(s.results)
        for head, block in ((f"if {self.text(s.condition)}:", s.then),
                            ("else:", s.orelse)):
            with self.inside(head):
                self.emit(block, mask, alive, last)
                self.move(s.results, block.yields, mask)

    def together(self, s: For | While, mask: str | None, alive: str | None) -> None:
        """A loop that all threads leave at once."""
        self.declare(s.params)
        self.move(s.params, s.inits, mask)
        if isinstance(s, For):
            head = f"for {self.variable(s.index)} in range({self.text(s.count)}):"
        else:
            head = "while True:"
        with self.inside(head):
            if isinstance(s, While):
                self.emit(s.condition, mask, alive, False)
                self.line(f"if not {self.text(s.condition.yields[0])}:", "    break")
            self.emit(s.body, mask, alive, False)
            self.move(s.params, s.body.yields, mask)
        self.rename(s)

    def rename(self, s: For | While) -> None:
        """The results of a loop are what it carried."""
        for r, p in zip(s.results, s.params, strict=True):
            if p in self.uniform:
                self.values[r] = self.values[p]
            else:
                self.homes[r] = self.home(p)

    # Where threads disagree ----------------------------------------------------------

    def diverge(self, s: If, mask: str | None, alive: str | None, last: bool) -> None:
        """Both branches, each with the threads that take it."""
        condition = self.slot(BOOL)
        self.phase((), [(condition, s.condition)], mask)
        returns = last and not any(map(waits, s.then.statements))
        self.declare(s.results)
        for test, block in (("!=", s.then), ("==", s.orelse)):
            own = self.masked(f"{condition}[t] {test} 0", [condition], mask)
            waited = own if returns and block is s.orelse else alive
            with self.anyone(own):
                self.emit(block, own, waited, last)
                self.move(s.results, block.yields, own)

    def apart(self, s: For | While, mask: str | None, alive: str | None) -> None:
        """A loop that goes on until its last thread leaves."""
        self.move(s.params, s.inits, mask)
        going = self.masked("True", (), mask)
        if isinstance(s, For):
            most, i = self.slot(_INT64), self.variable(s.index)
            self.phase((), [(most, s.count)], mask)
            self.line(f"{i} = -1")
        with self.inside("while True:"):
            if isinstance(s, For):
                self.line(f"{i} += 1")
                condition, given = f"{i} < {most}[t]", [i, most]
            else:
                self.emit(s.condition, going, alive, False)
                home = self.slot(BOOL)
                self.phase((), [(home, s.condition.yields[0])], going)
                condition, given = f"{home}[t] != 0", [home]
            self.all_threads([f"{going}[t] = u8({condition})"], [*given, going], going)
            with self.anyone(going, "break"):
                self.emit(s.body, going, alive, False)
                self.move(s.params, s.body.yields, going)
        self.rename(s)


#: The lane that a shuffle reads; out of the warp: its own.
_LANES = {
    "idx": "lane_ = {wanted} % 32", "up": "lane_ = lane - {wanted}",
    "down": "lane_ = lane + {wanted}", "xor": "lane_ = lane ^ {wanted}",
}


def _read_outside(block: Block, skipped: set[int]) -> set[str]:
    """Names that are read in `block` but for some of its statements."""
    found = names(block.yields)
    for s in block.statements:
        if id(s) in skipped:
            continue
        match s:
            case If():
                found |= names((s.condition,))
                found |= _read_outside(s.then, skipped)
                found |= _read_outside(s.orelse, skipped)
            case For():
                found |= names((s.count, *s.inits)) | _read_outside(s.body, skipped)
            case While():
                found |= names(s.inits) | _read_outside(s.body, skipped)
                found |= _read_outside(s.condition, skipped)
            case _:
                found |= names(s.args)
    return found
