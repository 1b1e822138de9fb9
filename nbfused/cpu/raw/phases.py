"""Blocks with barriers, rewritten as loops over the block's threads.

The kernel is cut at its barriers.  What a thread knows across a cut is kept in an array
with an element for each thread.  A branch or a loop around a cut is taken by all
threads at once; where they disagree, those that do not take part are masked.  Values
that are the same for all threads of a block are computed once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...scalar.ir.nodes import (
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
    regions,
)
from ...scalar.ir.uniform import is_uniform, uniform_names
from ...scalar.printing.numba import Raw
from ...specs.raw import TypedRaw, waits
from .own_arrays import THREAD, in_rows, own_arrays
from .phase_text import BOOL, PhaseText

__all__ = ["Phases"]

_INT64 = np.dtype(np.int64)


class Phases(PhaseText):
    """Writer of a block with barriers; parameters are those of `PhaseText`."""

    def __init__(self, typed: TypedRaw, arrays: Mapping[str, Raw],
                 values: Mapping[str, str], varying: set[str],
                 needs: Mapping[str, tuple[str, ...]]) -> None:
        super().__init__(typed, arrays, values, needs)
        self.body = self.kept(typed.function.function.body)
        self.uniform = _computed_once(self.body, set(values) - varying)
        self.emit(self.body, None, None, True)

    def kept(self, body: Block) -> Block:
        """`body`, whose threads have their local arrays in the block's memory."""
        sizes = dict(own_arrays(body))
        for name, size in sizes.items():
            dtype = self.dtypes[name]
            slot = self.slot(dtype, size)
            self.arrays[name] = Raw(slot, (str(size), "1"), dtype)
            self.needs[name] = (slot,)
        self.values[THREAD], self.needs[THREAD] = "t", ()
        self.dtypes[THREAD] = _INT64
        return in_rows(body, sizes, self.dtypes)

    # Statements --------------------------------------------------------------------

    def run(self, found: list[Statement], rest: set[str], mask: str | None) -> None:
        """Write statements without a barrier; `rest` are names read elsewhere."""
        if not found:
            return
        kept = sorted(defined(Block(tuple(found), ())) & rest)
        self.phase(found, [(self.home(n), n) for n in kept], mask)
        found.clear()

    def emit(self, block: Block, mask: str | None, alive: str | None,
             last: bool) -> None:
        """Write a block of statements; `alive` masks the threads a barrier awaits.

        `last` says that nothing follows, so that a branch which does nothing is a
        return.
        """
        pending: list[Statement] = []
        for k, s in enumerate(block.statements):
            if is_uniform(s, self.uniform) and not waits(s):
                self.compute(s)
            elif waits(s):
                self.run(pending, self.names_read_outside(pending), mask)
                end = last and k == len(block.statements) - 1
                self.synchronizing(s, mask, alive, end)
            else:
                pending.append(s)
        self.run(pending, self.names_read_outside(pending), mask)

    def names_read_outside(self, run: Sequence[Statement]) -> set[str]:
        """Names that the kernel reads outside of the statements `run`."""
        return _read_outside(self.body, {id(s) for s in run})

    def synchronizing(self, s: Statement, mask: str | None, alive: str | None,
                      last: bool) -> None:
        """Write a barrier, a shuffle, or a statement that contains one."""
        match s:
            case Let(_, "barrier"):
                if s.attr != "warp" and mask is not None and mask != alive:
                    self.barrier_check(s, mask, alive)
            case Let():
                self.shuffle(s, mask)
            case If():
                if self.is_uniform(s.condition):
                    self.uniform_branch(s, mask, alive, last)
                else:
                    self.divergent_branch(s, mask, alive, last)
            case For() | While():
                ends = (s.count,) if isinstance(s, For) else s.condition.yields
                if all(map(self.is_uniform, ends)):
                    self.uniform_loop(s, mask, alive)
                else:
                    self.divergent_loop(s, mask, alive)

    def is_uniform(self, v: Value) -> bool:
        """Whether all threads of the block have the same value."""
        return isinstance(v, Literal) or v in self.uniform

    def barrier_check(self, s: Let, mask: str, alive: str | None) -> None:
        """Write the report of a barrier that some live threads skip."""
        condition = f"{mask}[t] == 0"
        given = [mask, "status"]
        if alive is not None:
            condition, given = f"({condition}) & ({alive}[t] != 0)", [alive, *given]
        self.all_threads([f"if {condition}:", f"    status[0] = {max(s.line, 1)}"],
                         given, None)

    def shuffle(self, s: Let, mask: str | None) -> None:
        """Write a shuffle: all lanes store their values, then read others'."""
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
        """Assign values of a region to outer names, all at once."""
        pairs = list(zip(targets, values, strict=True))
        own = [(t, v) for t, v in pairs if t not in self.uniform]
        self.phase((), [(self.home(t), v) for t, v in own], mask)
        shared = [(self.values[t], self.text(v)) for t, v in pairs if t in self.uniform]
        if shared:
            left, right = (", ".join(side) for side in zip(*shared, strict=True))
            self.line(f"{left} = {right}")

    def declare(self, found: Sequence[str]) -> None:
        """Declare block variables for the uniform names."""
        for n in found:
            if n in self.uniform:
                self.variable(n)

    def uniform_branch(self, s: If, mask: str | None, alive: str | None,
                       last: bool) -> None:
        """Write a branch on a uniform condition."""
        self.declare(s.results)
        for head, block in ((f"if {self.text(s.condition)}:", s.then),
                            ("else:", s.orelse)):
            with self.inside(head):
                self.emit(block, mask, alive, last)
                self.move(s.results, block.yields, mask)

    def uniform_loop(self, s: For | While, mask: str | None, alive: str | None) -> None:
        """Write a loop that all threads leave at once."""
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
        """Let the results of a loop share the storage of its carried values."""
        for r, p in zip(s.results, s.params, strict=True):
            if p in self.uniform:
                self.values[r] = self.values[p]
            else:
                self.homes[r] = self.home(p)

    # Where threads disagree ----------------------------------------------------------

    def divergent_branch(self, s: If, mask: str | None, alive: str | None,
                         last: bool) -> None:
        """Write both branches of a divergent `if`, each with its own mask."""
        condition = self.slot(BOOL)
        self.phase((), [(condition, s.condition)], mask)
        returns = last and not any(map(waits, s.then.statements))
        self.declare(s.results)
        for test, block in (("!=", s.then), ("==", s.orelse)):
            own = self.add_mask(f"{condition}[t] {test} 0", [condition], mask)
            waited = own if returns and block is s.orelse else alive
            with self.if_any(own):
                self.emit(block, own, waited, last)
                self.move(s.results, block.yields, own)

    def divergent_loop(self, s: For | While, mask: str | None,
                       alive: str | None) -> None:
        """Write a divergent loop, which runs until its last thread leaves."""
        self.move(s.params, s.inits, mask)
        going = self.add_mask("True", (), mask)
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
            with self.if_any(going, "break"):
                self.emit(s.body, going, alive, False)
                self.move(s.params, s.body.yields, going)
        self.rename(s)


#: The lane that a shuffle reads; out of the warp: its own.
_LANES = {
    "idx": "lane_ = {wanted} & 31", "up": "lane_ = lane - ({wanted} & 31)",
    "down": "lane_ = lane + ({wanted} & 31)", "xor": "lane_ = lane ^ ({wanted} & 31)",
}


def _computed_once(body: Block, known: set[str]) -> set[str]:
    """The names that a block computes once: none of what its threads compute."""
    apart: set[str] = set()
    while True:
        found = uniform_names(body, known, apart)
        more = _of_threads(body, found) & found
        if not more:
            return found
        apart |= more


def _of_threads(block: Block, uniform: set[str]) -> set[str]:
    """Names in `block` of which threads compute a value each."""
    found: set[str] = set()
    for s in block.statements:
        if not waits(s):
            found |= set() if is_uniform(s, uniform) else defined(Block((s,), ()))
        else:
            for region in regions(s):
                found |= _of_threads(region, uniform)
    return found


def _read_outside(block: Block, skipped: set[int]) -> set[str]:
    """Names that `block` reads outside of the skipped statements."""
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
